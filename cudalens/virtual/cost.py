"""What an operator costs on a modelled GPU: operations, bytes, the unit that computes, and the kernel's duration.

The front door of the cost model: what torch's operators do is counted in `flops` and `traffic`, the times come from
`durations`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import Tensor

from cudalens.virtual.durations import (
    BLOCK_THREADS,
    TILE,
    Family,
    copy_ns,
    grid_of,
    kernel_ns,
    matrix_room,
    memset_ns,
    room,
)
from cudalens.virtual.flops import formula_of, unit_of
from cudalens.virtual.kernel_names import name_of
from cudalens.virtual.machine import Work
from cudalens.virtual.traffic import Traffic, traffic

if TYPE_CHECKING:
    from cudalens.virtual.specs import DeviceSpec

__all__ = ["Cost", "copy_ns", "kernel_ns", "kernel_work", "memset_ns", "op_cost", "room"]

_BLOCK: Final = (BLOCK_THREADS, 1, 1)
_MATRIX_BLOCK: Final = (256, 1, 1)
_COMPLEX: Final = frozenset({torch.complex64, torch.complex128})


class Cost(NamedTuple):
    """What a call of an operator costs on any GPU.

    Attributes:
        flops: Floating-point operations, a multiply-add counted as two.
        num_bytes: Read and written, each once.
        dtype_key: The peak that the operations have, one of `cudalens.virtual.specs.PEAK_KEYS`.
    """

    flops: int
    num_bytes: int
    dtype_key: str


def op_cost(func: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> Cost:
    """Operations and bytes of a call, and the unit that computes.

    Args:
        func: An operator's overload, as a TorchDispatchMode sees it.
        args: As it was called.
        kwargs: As it was called.
        out: What it gave back.
    """
    moved = traffic(func, args, kwargs, out)
    flops, dtype_key, _ = _arithmetic(func, args, kwargs, out, moved)
    return Cost(flops, moved.num_bytes, dtype_key)


def kernel_work(
    spec: DeviceSpec, func: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any
) -> Work:
    """The kernel that stands for a call: one, though a GPU may run several for one operator.

    Args:
        spec: The GPU.
        func: An operator's overload, as a TorchDispatchMode sees it; not one that only makes a view.
        args: As it was called.
        kwargs: As it was called.
        out: What it gave back.
    """
    moved = traffic(func, args, kwargs, out)
    flops, dtype_key, family = _arithmetic(func, args, kwargs, out, moved)
    if family in ("matrix", "attention"):
        num_tiles = tiles_of(out[0] if isinstance(out, tuple | list) else out, family)
        filled, grid, block = matrix_room(spec, num_tiles), (num_tiles, 1, 1), _MATRIX_BLOCK
    else:
        filled, grid, block = room(spec, moved.num_elements), grid_of(moved.num_elements), _BLOCK
    return Work(
        "kernel",
        name_of(func, moved.dtype),
        kernel_ns(spec, flops, moved.num_bytes, dtype_key, family),
        filled,
        moved.num_bytes,
        flops,
        grid=grid,
        block=block,
        op=func._schema.name,
    )


def tiles_of(result: Any, family: Family) -> int:
    """Blocks of a matrix product: tiles of its result. A convolution's and attention's count as one long matrix."""
    if not isinstance(result, Tensor) or result.dim() == 0:
        return 1
    if family == "matrix" and result.dim() in (2, 3):
        rows, columns = result.shape[-2:]
        return max(1, prod(result.shape[:-2]) * -(-rows // TILE) * -(-columns // TILE))
    return max(1, -(-result.numel() // (TILE * TILE)))


def _arithmetic(
    func: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any, moved: Traffic
) -> tuple[int, str, Family]:
    """Operations, the unit that does them, and the kind of kernel."""
    formula = formula_of(func)
    if formula is None:
        family: Family = "other" if not moved.is_pointwise else "strided" if moved.is_strided else "dense"
        return moved.num_elements, unit_of(func, moved.dtype, is_matrix=False), family
    flops = formula(args, kwargs, out)
    if moved.dtype in _COMPLEX:
        flops *= 4  # a complex multiply-add is four real ones
    name = func._schema.name
    return flops, unit_of(func, moved.dtype, is_matrix=True), "attention" if "attention" in name else "matrix"
