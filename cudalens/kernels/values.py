"""How kernels and references read elements as numbers, see strides as tables, and hash words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Final

import torch


@dataclass(frozen=True, slots=True)
class Found:
    """The raw result of a pass over two tensors.

    Attributes:
        num_different: Elements that differ.
        first: Number of the first of them, in row-major order; None if there is none.
        max_abs_diff: Largest absolute difference; an exact integer for integer dtypes.
        max_rel_diff: Largest relative difference.
        num_nan_mismatches: Elements of which exactly one is NaN.
    """

    num_different: int
    first: int | None
    max_abs_diff: float | int
    max_rel_diff: float
    num_nan_mismatches: int


class Reading(IntEnum):
    """How a kernel converts a loaded element to a number."""

    #: float16, float32, float64, complex: without conversion.
    FLOAT = 0
    #: bfloat16: its bits as the upper half of a float32. Older GPUs have no conversion instruction.
    BFLOAT16 = 1
    #: 8-bit floats: looked up by their bits. Few GPUs have conversion instructions, each for different formats.
    TABLE = 2
    #: Integers and booleans: exactly, in 64 bits.
    INTEGER = 3


#: The integer dtype of as many bytes.
BITS: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_REAL: Final = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def reading_of(dtype: torch.dtype) -> Reading | None:
    """Return how elements of `dtype` are read; None if they are not numbers (quantized, packed, raw bits)."""
    if dtype in (torch.float16, torch.float32, torch.float64, *_REAL):
        return Reading.FLOAT
    if dtype is torch.bfloat16:
        return Reading.BFLOAT16
    if dtype.is_floating_point and dtype.itemsize == 1 and _values_of(dtype) is not None:
        return Reading.TABLE
    return Reading.INTEGER if dtype in _INTEGERS else None


_INTEGERS: Final = frozenset(
    {torch.bool, torch.int8, torch.int16, torch.int32, torch.int64}
    | {torch.uint8, torch.uint16, torch.uint32, torch.uint64}
)


def loaded(tensor: torch.Tensor) -> torch.Tensor:
    """A view of `tensor` in the dtype that a kernel loads: the same memory and, except for complex numbers, strides.

    Complex numbers become pairs of real numbers in an extra last dimension.
    """
    if tensor.dtype.is_complex:
        return torch.view_as_real(tensor)
    if reading_of(tensor.dtype) in (Reading.BFLOAT16, Reading.TABLE) or tensor.dtype is torch.bool:
        return tensor.view(BITS[tensor.dtype.itemsize])
    return tensor


@cache
def _values_of(dtype: torch.dtype) -> tuple[float, ...] | None:
    """The value of each of the 256 patterns of an 8-bit float; None if torch cannot convert it (packed formats)."""
    try:
        patterns = torch.arange(256, dtype=torch.int16, device="cpu").to(torch.uint8).view(dtype)
        return tuple(patterns.to(torch.float32).tolist())
    except (RuntimeError, TypeError):  # torch has no conversion for it
        return None


@cache
def table_of(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return the values of an 8-bit float's 256 patterns on `device`: float32, shape (256,)."""
    return torch.tensor(_values_of(dtype), dtype=torch.float32, device=device)


# Sizes and strides of tensors as a table for kernels.

#: Size of a dimension, then its stride in each tensor, in elements.
Dim = tuple[int, ...]


def layout_table(*tensors: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Return the layout of `tensors`, which have the same shape.

    Returns:
        Sizes, then the strides of each tensor in turn, innermost dimension first: int64, shape ((1 + t) * d,) on their
        device; and d, the number of dimensions after merging (see `merged_dims`). d is 0 if all tensors are
        contiguous; no table is needed then.
    """
    dims = merged_dims(*tensors)
    if all(dim[1:] == (1,) * len(tensors) for dim in dims) and len(dims) <= 1:
        return torch.empty(1, dtype=torch.int64, device=tensors[0].device), 0
    flat = [dim[part] for part in range(1 + len(tensors)) for dim in dims]
    return torch.tensor(flat, dtype=torch.int64, device=tensors[0].device), len(dims)


def merged_dims(*tensors: torch.Tensor) -> list[Dim]:
    """Return the dimensions, innermost first, without those of size 1; neighbours with matching strides are merged."""
    strides = zip(*(tensor.stride() for tensor in tensors), strict=True)
    dims = [(size, *steps) for size, steps in zip(tensors[0].shape, strides, strict=True) if size != 1]
    merged: list[Dim] = []
    for size, *steps in reversed(dims):
        if merged and all(step == merged[-1][0] * inner for step, inner in zip(steps, merged[-1][1:], strict=True)):
            merged[-1] = (merged[-1][0] * size, *merged[-1][1:])
        else:
            merged.append((size, *steps))
    return merged


# The hash of one word at its position, as used by `fingerprint`: constants for the kernels and the reference.
#
# With z = word ^ (i * PLACE + SEED), all in 64 bits that wrap around:
#
# .. code-block:: text
#
#     h = z * FIRST;   h ^= h >> 32;   h *= SECOND          (h: the word's part of the first sum)
#     g = (h ^ h >> 29) * THIRD                             (g: its part of the second)
#
# with logical shifts. Each step is invertible, so one changed word always changes both sums. Sums do not depend on the
# order, so any number of programs may share the work. The scheme is the multiply and xor-shift of SplitMix64 (Steele,
# Lea and Flood, "Fast splittable pseudorandom number generators", 2014), which is also the source of the odd constants.


def _signed(value: int) -> int:
    """`value` as a signed 64-bit number, as torch and Triton require."""
    return value - (1 << 64) if value >> 63 else value


PLACE: Final = _signed(0x9E3779B97F4A7C15)
FIRST: Final = _signed(0xBF58476D1CE4E5B9)
SECOND: Final = _signed(0x94D049BB133111EB)
THIRD: Final = _signed(0xD6E8FEB86659FD93)
#: The first 64 bits of the fractional part of pi.
SEED: Final = 0x243F6A8885A308D3
