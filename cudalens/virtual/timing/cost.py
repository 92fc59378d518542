"""Cost of an operator on a modelled GPU: operations, bytes, compute unit, and the duration of its kernel.

The interface of the cost model: `flops` and `traffic` count the operations and bytes of torch's operators. The times
are those of `several_kernels` and `kernel_times`, else those of `fallback_durations`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import Tensor

from cudalens.virtual.timing import kernel_times
from cudalens.virtual.timing.fallback_durations import (
    BLOCK_THREADS,
    FALLBACK_FAMILIES,
    TILE,
    Family,
    copy_ns,
    grid_of,
    kernel_ns,
    matrix_room,
    memset_ns,
    room,
)
from cudalens.virtual.timing.families import learned_family
from cudalens.virtual.timing.flops import formula_of, unit_of
from cudalens.virtual.timing.interfaces import Work
from cudalens.virtual.timing.kernel_times import Timed, collective_ns
from cudalens.virtual.timing.several_kernels import name_of, rule_of
from cudalens.virtual.timing.traffic import RANDOM, Traffic, traffic

if TYPE_CHECKING:
    from cudalens.gpus.registry import DeviceSpec

__all__ = ["Cost", "copy_ns", "kernel_ns", "kernel_work", "kernel_works", "memset_ns", "op_cost"]

_BLOCK: Final = (BLOCK_THREADS, 1, 1)
_MATRIX_BLOCK: Final = (256, 1, 1)
_COMPLEX: Final = frozenset({torch.complex64, torch.complex128})


class Cost(NamedTuple):
    """The cost of an operator call, independent of the GPU.

    Attributes:
        flops: Floating-point operations, a multiply-add counted as two.
        num_bytes: Bytes read and written, each once.
        dtype_key: The peak for the operations, one of `cudalens.gpus.registry.PEAK_KEYS`.
    """

    flops: int
    num_bytes: int
    dtype_key: str


def op_cost(func: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> Cost:
    """Operations and bytes of a call, and the compute unit.

    Args:
        func: An operator overload, as passed to a TorchDispatchMode.
        args: The arguments of the call.
        kwargs: The keyword arguments of the call.
        out: The result of the call.
    """
    moved = traffic(func, args, kwargs, out)
    flops, dtype_key, _ = _arithmetic(_known(func), args, kwargs, out, moved)
    return Cost(flops, moved.num_bytes, dtype_key)


def kernel_works(
    spec: DeviceSpec, func: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any
) -> Iterable[Work]:
    """Return the modelled kernels of a call, in their order; the arguments as those of `kernel_work`."""
    whole = kernel_work(spec, func, args, kwargs, out)
    rule = _known(func).rule
    return (whole,) if rule is None else rule(spec, args, out, whole)


def kernel_work(
    spec: DeviceSpec, func: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any
) -> Work:
    """Return a call modelled as one kernel, although a GPU may run several for one operator (`kernel_works`).

    Args:
        spec: The GPU.
        func: An operator overload, as passed to a TorchDispatchMode; not a view operator.
        args: The arguments of the call.
        kwargs: The keyword arguments of the call.
        out: The result of the call.
    """
    known = _known(func)
    moved = traffic(func, args, kwargs, out)
    flops, dtype_key, family = _arithmetic(known, args, kwargs, out, moved)
    if known.formula is None:
        grid, block = grid_of(moved.num_elements), _BLOCK
        filled = room(spec, grid[0])
    else:
        num_tiles = tiles_of(out[0] if isinstance(out, tuple | list) else out, family)
        filled, grid, block = matrix_room(spec, num_tiles), (num_tiles, 1, 1), _MATRIX_BLOCK
    timed = _timed(spec, func, args, kwargs, out, moved, flops, dtype_key, family)
    return Work(
        "kernel",
        known.name(moved.dtype, dtype_key),
        timed.ns,
        filled,
        moved.num_bytes,
        flops,
        grid=grid,
        block=block,
        op=known.op,
        family=timed.family,
    )


def _timed(
    spec: DeviceSpec,
    func: torch._ops.OpOverload,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    out: Any,
    moved: Traffic,
    flops: int,
    dtype_key: str,
    family: Family,
) -> Timed:
    """Duration of a call's kernel: by the sizes of a product or of rows where known, else by operations and bytes."""
    timed = None
    if family in ("matrix", "attention"):
        timed = kernel_times.product_ns(spec, dtype_key, func, args, kwargs, out)
    elif family == "other":
        timed = kernel_times.row_ns(spec, func, args, moved.num_bytes) or collective_ns(spec, func, args, out)
    if timed is not None:
        return timed
    duration_ns = kernel_ns(spec, flops, moved.num_bytes, dtype_key, family)
    name = FALLBACK_FAMILIES[family]
    learned = learned_family(kernel_times.base_name(func))
    if learned is not None and (family == "other" or learned == "optimizer"):
        name = learned
    return Timed(duration_ns + kernel_times.column_sum_ns(func, args), name)


class _Known:
    """Cached properties of an operator overload."""

    __slots__ = ("family", "formula", "func", "names", "op", "product", "random", "rule")

    def __init__(self, func: torch._ops.OpOverload) -> None:
        self.func, self.op = func, func._schema.name
        self.formula = formula_of(func)
        product = "conv" if "conv" in self.op else "matmul"
        self.product = None if self.formula is None else product
        self.family: Family = "attention" if "attention" in self.op else "matrix"
        self.names: dict[tuple[torch.dtype | None, bool], str] = {}
        self.rule = rule_of(kernel_times.base_name(func))
        name = self.op.partition("::")[2]
        self.random: Family | None = "random" if name in RANDOM else None
        if name == "native_dropout":
            self.random = "dropout"

    def name(self, dtype: torch.dtype | None, dtype_key: str) -> str:
        """Return the kernel name for a dtype, cached; that of a float32 product with TF32 ends in ``<tf32>``."""
        key = dtype, dtype_key == "tf32"
        name = self.names.get(key)
        if name is None:
            name = self.names[key] = name_of(self.func, "tf32" if key[1] else dtype)
        return name


_operators: dict[torch._ops.OpOverload, _Known] = {}


def _known(func: torch._ops.OpOverload) -> _Known:
    known = _operators.get(func)
    if known is None:
        known = _operators[func] = _Known(func)
    return known


def tiles_of(result: Any, family: Family) -> int:
    """Blocks of a matrix product: tiles of its result. Other results count as one long matrix."""
    if not isinstance(result, Tensor) or result.dim() == 0:
        return 1
    if family == "matrix" and result.dim() in (2, 3):
        rows, columns = result.shape[-2:]
        return max(1, prod(result.shape[:-2]) * -(-rows // TILE) * -(-columns // TILE))
    return max(1, -(-result.numel() // (TILE * TILE)))


def _arithmetic(
    known: _Known, args: Sequence[Any], kwargs: dict[str, Any], out: Any, moved: Traffic
) -> tuple[int, str, Family]:
    """Operations, the compute unit, and the kind of kernel."""
    if known.formula is None:
        family: Family
        if not moved.is_pointwise:
            family = "other"
        elif known.random is not None:
            family = known.random
        elif not moved.is_strided:
            family = "dense"
        else:
            family = "permuted" if moved.is_permuted else "strided"
        return moved.num_elements, unit_of(moved.dtype), family
    flops = known.formula(args, kwargs, out)
    if moved.dtype in _COMPLEX:
        flops *= 4  # a complex multiply-add is four real ones
    return flops, unit_of(moved.dtype, known.product), known.family
