"""Calls of torch's operators with sample arguments of its own OpInfo database, on the host and on virtual devices."""

from __future__ import annotations

import functools
import importlib.util
import sys
import types
import unittest
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

import cudalens.virtual
from cudalens.errors import VirtualDeviceError

#: How an operator is called.
FORMS = ("function", "method", "in place", "out", "backward", "non-contiguous")

#: Operators whose results are uninitialised memory.
BLANK = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})

#: Operators that compute vectors with their values under any dispatch mode, which LAPACK rounds in another way.
ROUNDED = ("linalg.eigvalsh", "linalg.svdvals", "linalg.cond", "linalg.norm", "linalg.matrix_norm", "norm.nuc")

#: Operators that write their new results in place, which torch does not count below a dispatch mode.
OTHER_VERSIONS = frozenset(
    {
        "linalg.matrix_rank",
        "linalg.norm.subgradients_at_zero",
        "nn.functional.linear",
        "nn.functional.linear_cross_entropy",
    }
)

#: Operators whose backward formula writes out of place under any dispatch mode, so that its results have other strides.
OTHER_GRADIENT_STRIDES = frozenset({"ormqr"})

#: Operators whose results have the strides of CUDA on a virtual device, which the CPU's have not (`cuda_layouts`).
CUDA_STRIDES = frozenset(
    {
        "linalg.eig",
        "linalg.svd",
        "svd",
        "svd_lowrank",
        "pca_lowrank",
        "nonzero_static",
        "nn.functional.channel_shuffle",
        "nn.functional.max_unpool2d",
        "nn.functional.max_unpool3d",
        "nn.functional.pixel_shuffle",
        "nn.functional.pixel_unshuffle",
        "nn.functional.group_norm",
        "nn.functional.pad",
        "nn.functional.rms_norm",
        "nn.functional.logsigmoid",
        "nn.functional.scaled_dot_product_attention",
        *(f"fft.{inverse}{kind}fft{dims}" for inverse in ("", "i") for kind in ("", "r", "h") for dims in ("2", "n")),
    }
)

#: Operators that leave ``out=`` unwritten, by a fault of torch on the CPU.
UNWRITTEN_OUT = frozenset({"fft.ihfft2", "fft.ihfftn"})

#: Operators that restride ``out=``, which torch's shape functions do not: seen in dimensions of one element.
RESTRIDED_OUT = frozenset({"triangular_solve", "linalg.solve_triangular"})

#: Samples with more elements only take time.
MOST_ELEMENTS = 200_000


@dataclass(frozen=True)
class Call:
    """One call: the operator's full name (with its variant), the sample's number, a form, a dtype and a seed."""

    name: str
    sample: int
    form: str = "function"
    dtype: torch.dtype = torch.float32
    seed: int = 0

    def __str__(self) -> str:
        return f"Call({self.name!r}, {self.sample}, {self.form!r}, {self.dtype}, seed={self.seed})"


@dataclass(frozen=True)
class Seen:
    """What a program can see of a tensor."""

    device: str
    facts: dict[str, Any]
    values: Tensor | None


@dataclass(frozen=True)
class Outcome:
    """What a call made: its results and its written arguments, or an error.

    Attributes:
        tensors: Results, arguments after the call, and gradients, by name.
        others: Results that are not tensors.
        error: The exception that it raised, or None.
        is_rounded: Whether values are compared within the rounding of their dtype.
        cost: Memory statistics and the time at which the device was idle again, if it ran on one.
    """

    tensors: dict[str, Seen]
    others: list[str]
    error: Exception | None = None
    cost: dict[str, int] | None = None
    is_rounded: bool = False


@functools.cache
def operators() -> dict[str, Any]:
    """The operators of torch's database by their full names, without leaving a trace of its import."""
    if importlib.util.find_spec("expecttest") is None:  # torch's tests need it, its database does not
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    # The import forbids programs to set flags of torch.backends.
    torch.backends.disable_global_flags.__globals__["__allow_nonbracketed_mutation_flag"] = True
    return {full_name(op): op for op in op_db}


def full_name(op: Any) -> str:
    """The name of an operator and its variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


@functools.lru_cache(maxsize=8)
def samples_of(name: str, dtype: torch.dtype, seed: int = 0, *, differentiates: bool = False) -> list[Any]:
    """The sample arguments of an operator on the host."""
    op = operators()[name]
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(op.sample_inputs("cpu", dtype, requires_grad=differentiates))
    return [sample for sample in found if _num_elements(sample) <= MOST_ELEMENTS]


def _num_elements(sample: Any) -> int:
    return sum(one.numel() for one in tree_leaves((sample.input, sample.args, sample.kwargs)) if _is_tensor(one))


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


def function_of(op: Any, form: str) -> Callable[..., Any] | None:
    """What to call for a form; None if the operator does not have it."""
    if form == "method":
        return op.method_variant  # type: ignore[no-any-return]
    if form == "in place":
        return op.inplace_variant  # type: ignore[no-any-return]
    if form == "out" and (not op.supports_out or op.name in UNWRITTEN_OUT):
        return None
    if form == "backward" and not op.supports_autograd:
        return None
    return op.op  # type: ignore[no-any-return]


def moved(value: Any, place: str, seen: dict[int, Tensor]) -> Any:
    """A tensor's copy on a device: same sizes, strides, offset and flags, in a storage of its own."""
    if not isinstance(value, Tensor):
        return value
    if id(value) not in seen:
        seen[id(value)] = _copy_to(value, place)
    return seen[id(value)]


def _copy_to(tensor: Tensor, place: str) -> Tensor:
    plain = tensor.detach()
    if type(tensor) is not Tensor and not isinstance(tensor, torch.nn.Parameter):
        return tensor.to(place)
    if tensor.layout is not torch.strided or tensor.is_quantized:
        return plain.clone().to(place).requires_grad_(tensor.requires_grad)
    is_conj, is_neg = plain.is_conj(), plain.is_neg()
    plain = plain.conj() if is_conj else plain
    plain = torch._neg_view(plain) if is_neg else plain
    itemsize = tensor.element_size()
    whole = torch.empty(0, dtype=tensor.dtype).set_(
        plain.untyped_storage(), 0, (len(plain.untyped_storage()) // itemsize,)
    )
    made = whole.clone().to(place).as_strided(plain.shape, plain.stride(), plain.storage_offset())
    made = torch._neg_view(made) if is_neg else made
    made = made.conj() if is_conj else made
    return made.detach().requires_grad_(tensor.requires_grad)


class Runner:
    """Runs a call in one place after another with the same arguments.

    Args:
        call: The call.

    Attributes:
        is_possible: Whether the operator has the form and the sample.
    """

    def __init__(self, call: Call) -> None:
        self._op, self._call = operators()[call.name], call
        self._function = function_of(self._op, call.form)
        samples: list[Any] = []
        can_run = call.form != "backward" or call.dtype.is_floating_point or call.dtype.is_complex
        if can_run and self._function is not None and call.dtype in self._op.dtypes:
            samples = samples_of(call.name, call.dtype, call.seed, differentiates=call.form == "backward")
        self.is_possible = bool(samples)
        if samples:
            self._sample = samples[call.sample % len(samples)]
        if samples and call.form == "non-contiguous":
            tensors = [one for one in tree_leaves((self._sample.input, self._sample.args)) if isinstance(one, Tensor)]
            self.is_possible = all(one.layout is torch.strided for one in tensors)
            self._sample = self._sample.noncontiguous() if self.is_possible else None

    def run(self, place: str, *, reads: bool = True) -> Outcome:
        """Make the call on ``"cpu"`` or, inside a virtual device, on ``"cuda"``.

        Args:
            place: The device.
            reads: Whether to read the values.
        """
        seen: dict[int, Tensor] = {}
        sample = self._sample
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                given = tree_map(lambda one: moved(one, place, seen), (sample.input, tuple(sample.args), sample.kwargs))
                named = {f"argument {i}": one for i, one in enumerate(tree_leaves(given)) if isinstance(one, Tensor)}
                torch.manual_seed(self._call.seed)
                result = self._run_form(*tree_map(lambda value: _on_device(value, place), given))
                grads = self._gradients(result, named) if self._call.form == "backward" else {}
        except Exception as error:
            return Outcome({}, [], error)
        cost = _cost() if place == "cuda" else None
        results = {f"result {i}": one for i, one in enumerate(tree_leaves(result)) if isinstance(one, Tensor)}
        reads = reads and self._op.name not in BLANK
        tensors = {name: self._see(name, one, reads=reads) for name, one in {**results, **named, **grads}.items()}
        others = [repr(one) for one in tree_leaves(result) if isinstance(one, int | float | complex | torch.dtype)]
        return Outcome(tensors, others, None, cost, self._call.name.startswith(ROUNDED))

    def _run_form(self, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        assert self._function is not None
        result = self._function(first, *args, **kwargs)
        if self._call.form != "out":
            return result
        outs = tree_map(lambda one: torch.empty_like(one) if isinstance(one, Tensor) else one, result)
        return self._function(first, *args, **kwargs, out=outs)

    def _see(self, name: str, tensor: Tensor, *, reads: bool) -> Seen:
        """What can be seen of a tensor, without what differs under any dispatch mode of torch."""
        seen = _see(tensor, reads=reads)
        if self._call.form == "out" and self._op.name in RESTRIDED_OUT:
            sizes = tensor.shape
            seen.facts["stride"] = [step for step, size in zip(tensor.stride(), sizes, strict=True) if size > 1]
        is_gradient = name.startswith("gradient")
        if is_gradient or {self._op.name, self._call.name} & OTHER_VERSIONS:
            del seen.facts["version"]
        if self._op.name in CUDA_STRIDES or (is_gradient and self._op.name in OTHER_GRADIENT_STRIDES):
            seen.facts.pop("stride", None)
        return seen

    def _gradients(self, result: Any, named: dict[str, Tensor]) -> dict[str, Tensor]:
        outs = self._sample.output_process_fn_grad(result)
        outs = [one for one in tree_leaves(outs) if isinstance(one, Tensor) and one.requires_grad]
        inputs = {name: one for name, one in named.items() if one.requires_grad and one.is_leaf}
        if not outs or not inputs:
            return {}
        ones = [torch.ones_like(one) for one in outs]
        grads = torch.autograd.grad(outs, list(inputs.values()), ones, allow_unused=True)
        found = zip(inputs, grads, strict=True)
        return {f"gradient of {name}": grad for name, grad in found if grad is not None}


def _on_device(value: Any, place: str) -> Any:
    """A device argument of a sample."""
    is_device = isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu")
    return torch.device(place) if is_device else value


def _cost() -> dict[str, int]:
    """The memory and the virtual time that a call took on the device."""
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    names = ("allocated_bytes.all.peak", "allocated_bytes.all.current", "allocation.all.allocated", "segment.all.peak")
    virtual = cudalens.virtual.active()
    assert virtual is not None
    assert virtual.gpus is not None
    return {**{name: stats[name] for name in names}, "time_ns": virtual.gpus.machine.now_ns}


def _see(tensor: Tensor, *, reads: bool) -> Seen:
    facts: dict[str, Any] = {"shape": tuple(tensor.shape), "dtype": tensor.dtype, "layout": tensor.layout}
    facts |= {"requires_grad": tensor.requires_grad, "is_leaf": tensor.is_leaf, "version": tensor._version}
    if tensor.layout is torch.strided:
        facts |= {"stride": tensor.stride(), "offset": tensor.storage_offset()}
        facts |= {"is_conj": tensor.is_conj(), "is_neg": tensor.is_neg()}
    values = None
    if reads:
        values = tensor.detach().cpu()
        values = (
            values.to_dense() if values.layout is not torch.strided else values.resolve_conj().resolve_neg().clone()
        )
    return Seen(str(tensor.device), facts, values)


def run_on_host(call: Runner) -> Outcome:
    """Run a call on the CPU."""
    return call.run("cpu")


def run_on_device(call: Runner, *, values: bool = True) -> Outcome:
    """Run a call on a virtual H100."""
    with cudalens.virtual.device("h100", values=values):
        return call.run("cuda", reads=values)


def difference(expected: Outcome, found: Outcome, *, device: str) -> str | None:
    """What differs between two outcomes, or None; a refusal is no difference.

    Args:
        expected: The reference.
        found: The other one.
        device: Where its tensors must be.
    """
    if expected.error is not None or found.error is not None:
        return _error_difference(expected.error, found.error)
    if expected.tensors.keys() != found.tensors.keys():
        return f"tensors: {sorted(found.tensors)} instead of {sorted(expected.tensors)}"
    if expected.others != found.others:
        return f"values: {found.others} instead of {expected.others}"
    for name, reference in expected.tensors.items():
        seen = found.tensors[name]
        if seen.device != device:
            return f"device of {name.split()[0]}: {seen.device}"
        for fact, value in reference.facts.items():
            if seen.facts[fact] != value:
                return f"{fact} of {name.split()[0]}: {seen.facts[fact]} instead of {value}"
        if reference.values is None or seen.values is None or _is_equal(reference.values, seen.values):
            continue
        if not expected.is_rounded or not torch.allclose(reference.values, seen.values, equal_nan=True):
            return f"values of {name.split()[0]}"
    if expected.cost is not None and expected.cost != found.cost:
        return f"cost: {found.cost} instead of {expected.cost}"
    return None


def _error_difference(expected: Exception | None, found: Exception | None) -> str | None:
    if isinstance(found, VirtualDeviceError):
        return None
    if expected is None or found is None:
        raised, error = ("raised", found) if expected is None else ("not raised", expected)
        return f"{raised}: {type(error).__name__}: {str(error)[:300]}"
    return (
        None
        if type(found) is type(expected)
        else f"{type(found).__name__} instead of {type(expected).__name__}: {found}"
    )


def _is_equal(expected: Tensor, found: Tensor) -> bool:
    """Whether two tensors are equal bit by bit, apart from the sign of zeros and the bits of NaN."""
    if expected.dtype.is_complex:
        expected, found = torch.view_as_real(expected), torch.view_as_real(found)
    if not expected.dtype.is_floating_point:
        return torch.equal(expected, found)
    return bool(((expected == found) | (expected.isnan() & found.isnan())).all())
