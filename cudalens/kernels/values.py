"""How the elements of every dtype are read as numbers, in kernels and references alike."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import Final

import torch


class Reading(IntEnum):
    """How a kernel turns what it loads into a number to compare."""

    #: float16, float32, float64, complex: as they are.
    FLOAT = 0
    #: The upper half of a float32: its bits, shifted. Older GPUs have no instruction for them.
    BFLOAT16 = 1
    #: 8-bit floats: looked up by their bits. Few GPUs have instructions for them, and each for other formats.
    TABLE = 2
    #: Integers and booleans: exactly, in 64 bits.
    INTEGER = 3


_BITS: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_REAL: Final = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def reading_of(dtype: torch.dtype) -> Reading | None:
    """How elements of `dtype` are read; None where they are no numbers (quantised, packed, raw bits)."""
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
    """`tensor` in the dtype that a kernel loads: the same memory, and the same strides but for complex numbers.

    Complex numbers become pairs of real ones, in a last dimension of two.
    """
    if tensor.dtype.is_complex:
        return torch.view_as_real(tensor)
    if reading_of(tensor.dtype) in (Reading.BFLOAT16, Reading.TABLE) or tensor.dtype is torch.bool:
        return tensor.view(_BITS[tensor.dtype.itemsize])
    return tensor


@cache
def _values_of(dtype: torch.dtype) -> tuple[float, ...] | None:
    """The value of each of the 256 patterns of an 8-bit float; None where torch cannot tell (packed formats)."""
    try:
        patterns = torch.arange(256, dtype=torch.int16, device="cpu").to(torch.uint8).view(dtype)
        return tuple(patterns.to(torch.float32).tolist())
    except (RuntimeError, TypeError):  # torch has no conversion of it
        return None


@cache
def table_of(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """The values of an 8-bit float's 256 patterns on `device`: float32, shape (256,)."""
    return torch.tensor(_values_of(dtype), dtype=torch.float32, device=device)
