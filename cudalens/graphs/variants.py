"""Choose the variant of a call, and keep what its warm-up observed."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import torch

from cudalens.device.graph_backend import TensorPlace
from cudalens.device.stacks import Place
from cudalens.device.tensors import PLAIN_TYPES
from cudalens.errors import GraphError
from cudalens.graphs import arguments
from cudalens.graphs.changes import change_of_value
from cudalens.graphs.freed_history import freed_results, history_of, is_freed_in_part
from cudalens.graphs.functions import Function, Variant
from cudalens.graphs.inputs import overlaps_itself
from cudalens.graphs.links import is_new_leaf
from cudalens.graphs.liveness import span, storage_id
from cudalens.graphs.observer import is_wrapper
from cudalens.graphs.programs import Backward, Inference, Training
from cudalens.graphs.reasons import Finding, Reason
from cudalens.graphs.structure import classes_in

if TYPE_CHECKING:
    from cudalens.device.graph_backend import GraphBackend
    from cudalens.graphs.node import GraphNode
    from cudalens.graphs.observer import Observer


def name_of(function: Callable[..., Any]) -> str:
    """What reports call a function or a module."""
    return str(getattr(function, "__qualname__", None) or type(function).__name__).replace("<locals>.", "")


def place_of(function: Callable[..., Any]) -> Place | None:
    """Where a function is defined; None for what has no Python code."""
    target = function.forward if isinstance(function, torch.nn.Module) else getattr(function, "__wrapped__", function)
    code = getattr(getattr(target, "__func__", target), "__code__", None)
    return Place(code, 0) if code is not None else None


def new_variant(
    number: int,
    function: Function,
    key: Any,
    given: arguments.Arguments,
    labels: Sequence[str],
    args: tuple[Any, ...],
    device: int,
) -> Variant:
    """The variant for a first call of its kind, with what the arguments alone forbid."""
    program = Inference(function.call, given.spec, function.name)
    variant = Variant(number, function, "inference", program, given.spec, key, labels)
    variant.text = ", ".join(
        f"{label}: {arguments.describe(part)}"
        for label, part in zip(labels, given.key[len(given.key) - len(labels) :], strict=True)
    )
    buffers = {id(tensor) for module in function.modules or () for tensor in module.buffers(recurse=False)}
    variant.static = frozenset(arguments.static_leaves(function.call, function.static, args, labels)) | {
        n for n, leaf in enumerate(given.leaves) if isinstance(leaf, torch.nn.Parameter) or id(leaf) in buffers
    }
    variant.objects = [
        (label, leaf)
        for label, leaf in zip(labels, given.leaves, strict=True)
        if not isinstance(leaf, torch.Tensor) and type(leaf) not in (int, float, bool, str, type(None))
    ]
    variant.objects += [(kind.__name__, kind) for kind in dict.fromkeys(classes_in(given.spec))]
    variant.plain = arguments.PlainArguments.of(given)
    variant.skip = _refusal(function, given.leaves, labels, device)
    return variant


def _refusal(function: Function, leaves: Sequence[Any], labels: Sequence[str], device: int) -> Finding | None:
    for leaf, label in zip(leaves, labels, strict=True):
        if not isinstance(leaf, torch.Tensor):
            continue
        what = f"'{label}'"
        if (oddity := _oddity(leaf)) is not None:
            return Finding(Reason.ODD_TENSOR, f"{what} ({oddity})", function.place)
        if not leaf.is_cuda and (leaf.device.type != "cpu" or leaf.requires_grad):
            return Finding(Reason.CPU_INPUT if leaf.dim() else Reason.CPU_SCALAR, what, function.place)
        if leaf.is_cuda and leaf.get_device() != device:
            return Finding(Reason.SEVERAL_DEVICES, f"{what} is on {leaf.device}", function.place)
    return None


def _oddity(leaf: torch.Tensor) -> str | None:
    """Why a copy of an argument would not stand for it, in words; None if it would."""
    if type(leaf) not in PLAIN_TYPES:
        return type(leaf).__name__
    if leaf.layout is not torch.strided:
        return str(leaf.layout)
    if leaf.__dict__:
        return f"with attributes: {', '.join(leaf.__dict__)}"
    if leaf.is_conj() or leaf.is_neg():
        return "conjugated or negated only when it is read"
    if arguments.is_left_by_inference(leaf):
        return "made in inference mode"
    return "elements share memory" if overlaps_itself(leaf) else None


def why_new(function: Function, key: Any, labels: Sequence[str]) -> Finding:
    """Why a call needs a variant of its own: how it differs from the latest one."""
    (training, parts), (old_training, old_parts) = key, next(reversed(function.variants))
    if training != old_training:
        words = "train()" if any(training) else "eval()"
        return Finding(Reason.NEW_MODE, f"{words} of its modules", function.place)
    kind, what = arguments.differences(old_parts, parts, labels)
    reason = {"mode": Reason.NEW_MODE, "value": Reason.NEW_VALUE, "shape": Reason.NEW_SHAPE}[kind]
    return Finding(reason, what, function.place)


def other_values(variant: Variant) -> Finding:
    """Why a variant does not serve a call: a Python value that it reads is another."""
    made = next((one for one in variant.stored if not one.is_as_before()), None)
    if made is not None and made.owner is None:
        return Finding(Reason.NEW_VALUE, f"{made.label}: another tensor", variant.function.place)
    if made is not None:
        before, now = made.was_missing, not made.was_missing
        return Finding(Reason.NEW_VALUE, f"{made.label} is None: {before} → {now}", variant.function.place)
    what = variant.guards.difference() if variant.guards is not None else None
    change = change_of_value(what or "")
    return Finding(Reason.NEW_VALUE, what or "a value that it reads", variant.function.place, change)


def reads_differ(variant: Variant, finding: Finding) -> Finding:
    """Why a variant runs without graphs whose host reads other values in most calls; `finding` has the latest one."""
    counts = variant.host_reads
    what = f"a value that it reads was new in {counts.misses} of {counts.misses + counts.hits} calls"
    return Finding(Reason.SYNCHRONISES, what, finding.place, finding.change)


def learn(
    variant: Variant, leaves: Sequence[Any], outputs: Sequence[Any], observer: Observer, backend: GraphBackend
) -> None:
    """Store what a recording needs from the warm-up, and whether there can be one."""
    variant.written = {_leaf_of(leaves, n): found for n, found in observer.written.items()}
    variant.generators = list(observer.generators)
    variant.uploads, variant.has_hidden_copies = observer.uploads.found, observer.has_hidden_copies
    variant.first_read = observer.first_read
    variant.num_kernels = observer.num_kernels
    note_outside(variant, observer)
    variant.is_warm = True
    opaque = variant.program.opaque
    if variant.mode == "backward":
        sparse = (f"a gradient, {one.layout}" for one in outputs if _is_tensor(one) and one.layout is not torch.strided)
        odd = next((Finding(Reason.ODD_TENSOR, what, variant.function.place) for what in sparse), None)
        variant.skip = observer.findings[0] if observer.findings else odd
        return
    results = [output for output in outputs if isinstance(output, torch.Tensor)]
    variant.has_freed_history = bool(freed_results(outputs))
    if any(map(_is_differentiable, results)) and not variant.has_freed_history:
        variant.mode = "forward"

        def alias(tensor: torch.Tensor) -> torch.Tensor:
            return backend.tensor_at(TensorPlace.of(tensor), tensor.untyped_storage())

        variant.program = Training(variant.function.call, variant.spec, variant.function.name, alias)
        variant.program.opaque = opaque
    variant.skip = _why_not(variant, leaves, results, observer)


def note_host_reads(observer: Observer, reads: Sequence[tuple[torch.Tensor, str, Place]]) -> None:
    """Note calls that read the memory of CPU tensors without an operator.

    Args:
        observer: What was seen of the operators.
        reads: The tensors, each with the method and the line that called it.
    """
    for tensor, method, place in reads:
        observer.note_host_call(tensor, method, place)


def unnamed_input(variant: Variant, observer: Observer, names: Container[int]) -> Finding | None:
    """A tensor from outside without a name: another one in its place would not be noticed.

    Args:
        variant: What ran.
        observer: What was seen of it.
        names: The storages of the tensors that have names.
    """
    saved = variant.program.saved_storages() if isinstance(variant.program, Backward) else ()
    on_host = next((one for key, one in observer.read_on_host.items() if key not in names), None)
    if on_host is not None:
        return Finding(Reason.CPU_SCALAR, f"{describe_tensor(on_host.tensor)} from outside", on_host.place)
    unnamed = (one for key, one in observer.externals.items() if key not in names and key not in saved)
    first = next(unnamed, None)
    return None if first is None else Finding(Reason.UNNAMED_INPUT, describe_tensor(first.tensor), first.place)


def uneven_gradient(node: GraphNode, leaves: Sequence[Any]) -> Finding | None:
    """An input of a recorded forward that the backward of some results must not reach (`Derivative.uneven_input`).

    Args:
        node: The recording.
        leaves: Arguments of the call.
    """
    uneven = None if node.derivative is None else node.derivative.uneven_input(leaves)
    if uneven is None:
        return None
    kind = "a parameter with hooks" if uneven.is_leaf else "a tensor that the program computed"
    return Finding(Reason.UNEVEN_GRADIENT, f"{describe_tensor(uneven)}, {kind}", node.variant.function.place)


def describe_tensor(tensor: torch.Tensor) -> str:
    """Dtype and size: ``float32[8, 16]``."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _is_differentiable(output: torch.Tensor) -> bool:
    """Whether an output has a gradient that the function's own work gives it: not so a parameter's view in no_grad."""
    return output.requires_grad and (torch.is_grad_enabled() or output.grad_fn is not None)


def note_outside(variant: Variant, observer: Observer) -> None:
    """Store the addresses of the tensors from outside that it overwrites."""
    variant.written_outside.update(
        (external.tensor.untyped_storage().data_ptr(), external.place)
        for external in observer.externals.values()
        if external.is_written
    )


def overwritten(variant: Variant, leaves: Sequence[Any], on_path: set[int]) -> Finding | None:
    """An argument that the function overwrites, and that no recording may overwrite in its place.

    Args:
        variant: Of the function.
        leaves: The arguments.
        on_path: Addresses of the live storages on the path, which are used in place.
    """
    fixed = {
        n
        for n, leaf in enumerate(leaves)
        if isinstance(leaf, torch.Tensor) and (n in variant.static or _address(leaf) in on_path)
    }
    is_copied_back = variant.function.mutations == "copy" and variant.mode != "backward"
    for position, (operator, place) in variant.written.items():
        what = f"'{variant.labels[position]}' ({operator})"
        if position not in fixed and not is_copied_back:
            return Finding(Reason.MUTATED_INPUT, what, place)
        for n, leaf in enumerate(leaves):
            is_other = isinstance(leaf, torch.Tensor) and n != position and not {n, position} <= fixed
            if is_other and _overlap(leaf, leaves[position]):
                other = f"{what}, whose memory is also that of '{variant.labels[n]}'"
                return Finding(Reason.MUTATED_INPUT, other, place)
    for n, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor) and n not in fixed and _address(leaf) in variant.written_outside:
            what = f"'{variant.labels[n]}', which it also reaches from outside"
            return Finding(Reason.MUTATED_INPUT, what, variant.written_outside[_address(leaf)])
    return None


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    (start, end), (first, last) = span(a), span(b)
    return start < last and first < end


def _why_not(
    variant: Variant, leaves: Sequence[Any], results: Sequence[torch.Tensor], observer: Observer
) -> Finding | None:
    for position, (operator, place) in observer.used_on_host.items():
        leaf = _leaf_of(leaves, position)
        reason = Reason.CPU_INPUT if leaves[leaf].dim() else Reason.CPU_SCALAR
        return Finding(reason, f"'{variant.labels[leaf]}' (in {operator})", place)
    if observer.findings:
        return observer.findings[0]
    if variant.mode == "forward" and any(map(is_freed_in_part, results)):
        what = "a result of whose history a backward has freed a part"
        return Finding(Reason.OPAQUE_RESULT, what, variant.function.place)
    if variant.mode == "forward" and (wrapped := _wrapped_leaf(results)) is not None:
        return Finding(Reason.ODD_TENSOR, wrapped, variant.function.place)
    if variant.program.opaque is not None:
        return Finding(Reason.OPAQUE_RESULT, f"an object of type {variant.program.opaque}", variant.function.place)
    kept = {id(tensor) for tensor in (*leaves, *(external.tensor for external in observer.externals.values()))}
    others = [result for result in results if id(result) not in kept]
    opaque = next(
        filter(None, (_opaque(result, is_made=storage_id(result) in observer.made) for result in others)), None
    )
    if opaque is not None or (opaque := _leaf_below(results) or _summed_otherwise(results)) is not None:
        return Finding(Reason.OPAQUE_RESULT, opaque, variant.function.place)
    if any(map(_is_reentrant, results)):
        return Finding(Reason.RECOMPUTED, "torch.utils.checkpoint with use_reentrant=True", variant.function.place)
    if not observer.uses_device:
        return Finding(Reason.NO_DEVICE_WORK, "", variant.function.place)
    if any(not result.is_cuda for result in results):
        return Finding(Reason.CPU_OUTPUT, "", observer.last_place)
    used = {external.tensor.device for external in observer.externals.values() if external.tensor.is_cuda}
    devices = used | {result.device for result in results}
    if len(devices) > 1:
        return Finding(Reason.SEVERAL_DEVICES, ", ".join(sorted(map(str, devices))), observer.last_place)
    return next(
        (
            Finding(Reason.MUTATED_INPUT, f"'{variant.labels[n]}', which requires a gradient", place)
            for n, (_, place) in variant.written.items()
            if leaves[n].requires_grad
        ),
        None,
    )


def _opaque(result: torch.Tensor, *, is_made: bool) -> str | None:
    """What a replay cannot give a result besides its values, in words; None if there is nothing."""
    if type(result) is not torch.Tensor and (is_made or type(result) is not torch.nn.Parameter):
        return f"a tensor of class {type(result).__name__}"
    if result.__dict__:
        return f"a tensor with attributes ({', '.join(result.__dict__)})"
    if result.retains_grad and not result.is_leaf:
        return "a tensor with retain_grad()"
    if result.is_inference() and not torch.is_inference_mode_enabled():
        return "a tensor made in inference mode"
    return None


def _leaf_below(results: Sequence[torch.Tensor]) -> str | None:
    """A result that other results are computed from, and that is a new leaf: the leaf of a replay is another one."""
    leaves = {id(result) for result in results if is_new_leaf(result)}
    below = (node for result in results if not result.is_leaf for node in history_of(result)) if leaves else ()
    found = any(id(getattr(node, "variable", None)) in leaves for node in below)
    return "a new leaf, and what is computed from it" if found else None


def _wrapped_leaf(results: Sequence[torch.Tensor]) -> str | None:
    """A leaf of a class that calls operators itself, whose gradient no recorded backward computes, in words."""
    nodes = (node for result in results for node in history_of(result))
    leaves = (getattr(node, "variable", None) for node in nodes)
    kind = next((type(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor) and is_wrapper(leaf)), None)
    return None if kind is None else f"{kind.__name__}, which needs a gradient after the call"


def _summed_otherwise(results: Sequence[torch.Tensor]) -> str | None:
    """A result whose gradient is a sum of three or more, which a recorded backward adds in another order.

    So where a result is returned with a view of it, and another result is computed from it.
    """
    bases = {id(view._base): view._base for view in results if view._is_view() and view.grad_fn is not None}
    for base in (result for result in results if id(result) in bases and result.grad_fn is not None):
        others = (one for one in results if one is not base and one._base is not base)
        if any(node is base.grad_fn for one in others for node in history_of(one)):
            return "a result, a view of it, and what is computed from it, all with a gradient"
    return None


def _is_reentrant(result: torch.Tensor) -> bool:
    """Whether a result's history has a checkpoint whose backward calls backward(), which a recording cannot."""
    return any(node.name() == "CheckpointFunctionBackward" for node in history_of(result))


def _is_tensor(value: Any) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor)


def _leaf_of(leaves: Sequence[Any], tensor: int) -> int:
    """Position among the leaves of the n-th tensor among them."""
    return [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)][tensor]


def device_index(device: int | str | torch.device | None) -> int:
    """Index of a CUDA device.

    Raises:
        GraphError: It is no CUDA device, or there is none of that index.
    """
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    try:
        if device is None:
            index = torch.cuda.current_device() if count else -1
        elif isinstance(device, int):
            index = device
        else:
            found = torch.device(device)
            index = -1
            if found.type == "cuda":
                index = torch.cuda.current_device() if found.index is None else found.index
    except (RuntimeError, AssertionError) as error:
        raise GraphError(f"{device!r} names no device: {error}") from None
    if not 0 <= index < count:
        there = f"cuda:0 to cuda:{count - 1}" if count else "no CUDA device (`%cudadevice virtual h100` models one)"
        raise GraphError(
            f"there is no device {device if device is not None else 'cuda'!s} for CUDA graphs; there is {there}."
        )
    return index
