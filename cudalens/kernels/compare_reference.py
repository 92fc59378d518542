"""`compare` in plain torch, for CPU and virtual-device tensors; the reference implementation of the kernel."""

from __future__ import annotations

from typing import Final

import torch

from cudalens.kernels.compare import Found
from cudalens.kernels.values import Reading, reading_of

#: Elements at a time, so that intermediate results need little memory compared with large tensors.
_CHUNK: Final = 1 << 22

_SIGN: Final = -(1 << 63)
_UNSIGNED: Final = (1 << 64) - 1
_NONE: Final = (1 << 63) - 1


def begin(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Compare both tensors; the inputs have been checked and are not empty.

    Returns:
        A row for each piece of the tensors, for `finish`: int64, shape (pieces, 5), on their device. Column 1 holds the
        number of the first element that differs, or a larger number than any element has.
    """
    look = _integers if reading_of(a.dtype) is Reading.INTEGER else _floats
    x, y = a.reshape(-1), b.reshape(-1)
    starts = range(0, x.numel(), _CHUNK)
    return torch.stack([look(x[start : start + _CHUNK], y[start : start + _CHUNK], start) for start in starts])


def finish(out: torch.Tensor, dtype: torch.dtype) -> Found:
    """Combine the rows of all pieces; waits for the device."""
    rows = out.cpu()
    is_integer = reading_of(dtype) is Reading.INTEGER
    first = int(rows[:, 1].min())
    largest = rows[:, 3].contiguous()
    return Found(
        int(rows[:, 0].sum()),
        None if first == _NONE else first,
        (int(largest.max()) ^ _SIGN) & _UNSIGNED if is_integer else float(largest.view(torch.float64).max()),
        float(rows[:, 4].contiguous().view(torch.float64).max()),
        int(rows[:, 2].sum()),
    )


def _row(
    differs: torch.Tensor, nan: torch.Tensor, largest: torch.Tensor, relative: torch.Tensor, start: int
) -> torch.Tensor:
    """Count, first, NaN mismatches, largest absolute and relative difference (bits) of a piece: int64, shape (5,)."""
    count = differs.sum()
    first = torch.where(count > 0, differs.to(torch.uint8).argmax() + start, _NONE)
    ratio = relative.max().to(torch.float64).view(torch.int64)
    return torch.stack([count, first, nan.sum(), largest, ratio])


def _floats(a: torch.Tensor, b: torch.Tensor, start: int) -> torch.Tensor:
    x, y = _wide(a), _wide(b)
    nan_x, nan_y = x.isnan(), y.isnan()
    differs = (x != y) & ~(nan_x & nan_y)
    equal = ~differs | nan_x | nan_y
    diff = _distance(x, y)
    zero = torch.zeros_like(diff)
    diff = torch.where(equal, zero, diff)
    scale = torch.maximum(x.abs(), y.abs())
    relative = torch.where(scale.isinf(), zero + 1, (diff / scale).clamp(max=2.0))
    largest = diff.max().to(torch.float64).view(torch.int64)
    return _row(differs, nan_x ^ nan_y, largest, torch.where(equal, zero, relative), start)


def _distance(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """|x - y|; the difference of equal parts of complex numbers is 0, also if they are infinite."""
    if not x.dtype.is_complex:
        return (x - y).abs()
    parts = ((x.real, y.real), (x.imag, y.imag))
    return torch.hypot(*(torch.where(p == q, torch.zeros_like(p), p - q) for p, q in parts))


def _wide(values: torch.Tensor) -> torch.Tensor:
    if values.dtype.is_complex or values.dtype is torch.float64:
        return values
    return values.to(torch.float32)


def _integers(a: torch.Tensor, b: torch.Tensor, start: int) -> torch.Tensor:
    x, y = _ordered(a), _ordered(b)
    differs = x != y
    low, high = torch.minimum(x, y), torch.maximum(x, y)
    diff = high - low  # wraps around into the unsigned 64-bit difference
    scale = torch.maximum(_float(x, a.dtype).abs(), _float(y, a.dtype).abs())
    unsigned = diff.to(torch.float64) + (diff < 0) * float(1 << 64)
    relative = torch.where(differs, unsigned / scale, torch.zeros_like(scale))
    # With the highest bit flipped, unsigned numbers have the order of signed ones.
    return _row(differs, torch.zeros_like(differs), (diff ^ _SIGN).max(), relative, start)


def _ordered(values: torch.Tensor) -> torch.Tensor:
    """As int64, in the same order and with the same differences."""
    return values.view(torch.int64) ^ _SIGN if values.dtype is torch.uint64 else values.to(torch.int64)


def _float(ordered: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    wide = ordered.to(torch.float64)
    return wide + float(1 << 63) if dtype is torch.uint64 else wide
