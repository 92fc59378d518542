"""How the elements of each dtype are read as numbers, in kernels and references."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import Final

import torch


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


_BITS: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
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
        return tensor.view(_BITS[tensor.dtype.itemsize])
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
