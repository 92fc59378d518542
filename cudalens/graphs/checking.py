"""Compare a replay with a call without a graph: same arguments, same random numbers, every output.

Also checks that outputs of earlier recordings that are alive have the same bits after a replay as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from cudalens.graphs import arguments
from cudalens.graphs.node import Check, GraphNode
from cudalens.graphs.outputs import AliasOfOutput, Fresh
from cudalens.graphs.relations import Relations, first_difference, relations_of

if TYPE_CHECKING:
    from cudalens.graphs.liveness import OutputRef
    from cudalens.graphs.warmup import WarmupNode
    from cudalens.kernels import Comparison
    from cudalens.kernels.fingerprint import PendingFingerprint


@dataclass(slots=True)
class Expected:
    """What a call without a graph gave.

    Attributes:
        values: The outputs that a replay makes anew, by position; copies.
        written: Tensors that the function overwrites, and what it wrote.
        relations: How the outputs are related to the arguments and to each other.
    """

    values: dict[int, torch.Tensor]
    written: list[tuple[str, torch.Tensor, torch.Tensor]]
    relations: list[Relations | None]


def run_eagerly(node: GraphNode, leaves: Sequence[Any]) -> Expected:
    """Call the function without a graph, on the device's clock, and leave everything as it was."""
    touched = _written(node, leaves)
    before = [tensor.detach().clone() for _, tensor in touched]
    device = torch.cuda.current_device()
    state = torch.cuda.get_rng_state(device)
    outputs = _run(node, list(leaves))
    values = {
        n: outputs[n].detach().clone()
        for n, output in enumerate(node.outputs[: node.num_results])
        if isinstance(output, Fresh | AliasOfOutput)
    }
    written = [(label, tensor, tensor.detach().clone()) for label, tensor in touched]
    relations = relations_of(outputs, _others(node, leaves))
    del outputs
    node.eager_ns = _time(node, list(leaves))
    with torch.no_grad():
        for (_, tensor), value in zip(touched, before, strict=True):
            tensor.copy_(value)
    torch.cuda.set_rng_state(state, device)
    return Expected(values, written, relations)


def _others(node: GraphNode, leaves: Sequence[Any]) -> list[torch.Tensor]:
    """Tensors that outputs may share memory with: the arguments, then those from outside."""
    outside = [guard.tensor for guard in node.guards if guard.tensor is not None]
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)] + outside


def _time(node: GraphNode, leaves: list[Any]) -> int:
    """Device time of a call; an earlier call has allocated the memory that it needs."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.current_stream().synchronize()  # another thread may capture
    start.record()
    _run(node, leaves)
    end.record()
    end.synchronize()
    return round(float(start.elapsed_time(end)) * 1e6)


def _run(node: GraphNode, leaves: list[Any]) -> list[Any]:
    variant = node.variant
    if variant.mode == "backward":
        return variant.program.run(leaves)
    args, kwargs = arguments.unflatten(leaves, variant.spec)
    return torch.utils._pytree.tree_leaves(variant.function.call(*args, **kwargs), is_leaf=arguments.is_size)


def _written(node: GraphNode, leaves: Sequence[Any]) -> list[tuple[str, torch.Tensor]]:
    found = [(node.variant.labels[n], leaves[n].detach()) for n in node.variant.written]
    return found + [
        (guard.name.label if guard.name is not None else "a tensor from outside", guard.tensor.detach())
        for guard in node.guards
        if guard.is_written and guard.tensor is not None
    ]


@dataclass(slots=True)
class HeldOutput:
    """An output of an earlier recording that is alive, and that a replay must not overwrite.

    Attributes:
        label: Which.
        ref: It.
        before: Fingerprint of its memory before the replay.
    """

    label: str
    ref: OutputRef
    before: PendingFingerprint


def held_outputs(current: GraphNode | WarmupNode | None, node: GraphNode, leaves: Sequence[Any]) -> list[HeldOutput]:
    """What is held of the path that a replay goes on from, but for what the function itself overwrites."""
    if current is None:
        return []
    written = {tensor.untyped_storage().data_ptr() for _, tensor in _written(node, leaves)}
    found: dict[int, HeldOutput] = {}
    for ref, function, place in current.held():
        if ref.address not in written and ref.address not in found and (before := _fingerprint(ref)) is not None:
            at = f" at {place}" if place is not None and place.code else ""
            found[ref.address] = HeldOutput(f"an output of {function.name}, made{at}", ref, before)
    return list(found.values())


def _fingerprint(ref: OutputRef) -> PendingFingerprint | None:
    """Of all its memory; None where it has none any more. Holds nothing of it."""
    from cudalens.kernels import begin_fingerprint

    storage = ref.storage()
    if storage is None or not storage.nbytes():
        return None
    return begin_fingerprint(torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage))


def compare(
    node: GraphNode,
    expected: Expected,
    outputs: Sequence[Any],
    leaves: Sequence[Any],
    held: Sequence[HeldOutput] = (),
) -> None:
    """Compare a replay with what was expected: on the device, so that the host need not wait before it asks."""
    pairs = [(f"output {n}", value, outputs[n].detach()) for n, value in expected.values.items()]
    pairs += [(label, value, tensor) for label, tensor, value in expected.written]
    from cudalens.kernels import begin_compare, can_compare

    found = [
        (label, begin_compare(replayed, value))
        for label, value, replayed in pairs
        if value.numel() and can_compare(value)
    ]
    kept = [(one, after) for one in held if (after := _fingerprint(one.ref)) is not None]

    unrelated = first_difference(relations_of(outputs, _others(node, leaves)), expected.relations)

    def find_out() -> Check:
        lost = [one.label for one, after in kept if one.before.result() != after.result()]
        return _result([(label, pending.result()) for label, pending in found], lost, unrelated)

    node.set_check(find_out)


def _result(found: Sequence[tuple[str, Comparison]], lost: Sequence[str], unrelated: str | None) -> Check:
    """The result of all comparisons.

    Args:
        found: Of values.
        lost: Held outputs that were overwritten.
        unrelated: How an output's relation to other tensors differs.
    """
    bad = [(label, one) for label, one in found if not one.is_equal]
    nan = any(one.num_nan_mismatches for _, one in bad)
    diff = float("inf") if nan else max((float(one.max_abs_diff) for _, one in found), default=0.0)
    words = [_words(*bad[0])] if bad else []
    words += [f"{lost[0]}, which is still held: the replay has overwritten it"] if lost else []
    words += [unrelated] if unrelated else []
    return Check(not words, diff, "; ".join(words) or None)


def _words(label: str, found: Comparison) -> str:
    """The first element that differs, with both values."""
    assert found.first_different is not None
    assert found.first_values is not None
    place = ", ".join(map(str, found.first_different))
    replayed, eager = found.first_values
    return f"{label}[{place}]: {replayed!r} replayed, {eager!r} without a graph"
