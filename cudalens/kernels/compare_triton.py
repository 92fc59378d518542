"""`compare` as a Triton kernel: one pass over both inputs, with any strides."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
import triton.language as tl

from cudalens.kernels.compare import Found
from cudalens.kernels.launch import Kernel, num_programs
from cudalens.kernels.layout import layout_table
from cudalens.kernels.values import Reading, loaded, reading_of, table_of

_NONE: Final = (1 << 63) - 1
_NUM_WARPS: Final = 4
_MAX_INT32: Final = (1 << 31) - 1


def _compare(
    a,
    b,
    table,
    layout,
    out,
    begin,
    end,
    NDIM: tl.constexpr,
    READING: tl.constexpr,
    COMPLEX: tl.constexpr,
    WIDE: tl.constexpr,
    SHORT: tl.constexpr,
    EVEN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Each program takes every num_programs-th block of the elements from `begin` to `end` and writes a row of `out`.

    A block without a difference costs little more than its loads, so equal tensors are compared at memory bandwidth.
    Takes pointers to both inputs, to the values of 8-bit floats, to sizes and strides (int64, innermost dimension
    first: sizes, strides of a, strides of b; NDIM 0 where both are contiguous), to the results (int64, five for each
    program). WIDE: numbers of 64 bits; SHORT: all offsets fit in 32 bits; EVEN: the blocks are full.
    """
    pid = tl.program_id(0).to(tl.int64)
    programs = tl.num_programs(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    count = tl.zeros([], tl.int64)
    nans = tl.zeros([], tl.int64)
    first = tl.full([], 9223372036854775807, tl.int64)
    largest_int = tl.zeros([], tl.uint64 if WIDE else tl.uint32)
    largest = tl.zeros([], tl.float64 if WIDE else tl.float32)
    relative = tl.zeros([], tl.float64 if WIDE else tl.float32)
    for start in range(begin + pid * BLOCK, end, programs * BLOCK):
        i = start + lanes.to(tl.int64)
        mask = i < end
        if NDIM == 0:
            at_a = i
            at_b = i
        else:
            rest = i.to(tl.int32) if SHORT else i
            at_a = tl.zeros_like(rest)
            at_b = tl.zeros_like(rest)
            for d in tl.static_range(NDIM):
                size = tl.load(layout + d).to(rest.dtype)
                place = rest % size
                rest = rest // size
                at_a += place * tl.load(layout + NDIM + d).to(rest.dtype)
                at_b += place * tl.load(layout + 2 * NDIM + d).to(rest.dtype)
        if COMPLEX:
            at_a = at_a.to(tl.int64) * 2
            at_b = at_b.to(tl.int64) * 2
        if EVEN:
            x = tl.load(a + at_a)
            y = tl.load(b + at_b)
        else:
            x = tl.load(a + at_a, mask=mask, other=0)
            y = tl.load(b + at_b, mask=mask, other=0)
        unequal = x != y  # bfloat16 and 8-bit floats: equal bits are equal numbers, or both NaN
        if COMPLEX:
            if EVEN:
                u = tl.load(a + at_a + 1)
                v = tl.load(b + at_b + 1)
            else:
                u = tl.load(a + at_a + 1, mask=mask, other=0)
                v = tl.load(b + at_b + 1, mask=mask, other=0)
            unequal = unequal | (u != v)
        if tl.max(unequal.to(tl.int32), axis=0) != 0:
            if READING == 3:
                differs = unequal
                low = tl.minimum(x, y).to(tl.uint64 if WIDE else tl.uint32)
                high = tl.maximum(x, y).to(tl.uint64 if WIDE else tl.uint32)
                diff_int = high - low
                largest_int = tl.maximum(largest_int, tl.max(diff_int, axis=0))
                diff = diff_int.to(tl.float64 if WIDE else tl.float32)
                size_x = tl.abs(x.to(tl.float64 if WIDE else tl.float32))
                size_y = tl.abs(y.to(tl.float64 if WIDE else tl.float32))
                counts = differs
            else:
                if READING == 1:
                    f = (x.to(tl.int32) << 16).to(tl.float32, bitcast=True)
                    g = (y.to(tl.int32) << 16).to(tl.float32, bitcast=True)
                elif READING == 2:
                    f = tl.load(table + x.to(tl.int32))
                    g = tl.load(table + y.to(tl.int32))
                else:
                    f = x.to(tl.float64 if WIDE else tl.float32)
                    g = y.to(tl.float64 if WIDE else tl.float32)
                nan_x = f != f
                nan_y = g != g
                differs = f != g
                size_x = tl.abs(f)
                size_y = tl.abs(g)
                diff = tl.abs(f - g)
                if COMPLEX:
                    nan_x = nan_x | (u != u)
                    nan_y = nan_y | (v != v)
                    differs = differs | (u != v)
                    # |z| = m sqrt(1 + (l / m)^2) with m the larger and l the smaller part does not overflow.
                    m = tl.maximum(size_x, tl.abs(u))
                    r = tl.minimum(size_x, tl.abs(u)) / tl.where((m == 0.0) | (m == float("inf")), 1.0, m)
                    size_x = tl.where(m == float("inf"), m, m * tl.sqrt(1.0 + r * r))
                    m = tl.maximum(size_y, tl.abs(v))
                    r = tl.minimum(size_y, tl.abs(v)) / tl.where((m == 0.0) | (m == float("inf")), 1.0, m)
                    size_y = tl.where(m == float("inf"), m, m * tl.sqrt(1.0 + r * r))
                    # The difference of equal parts is 0, also if both are infinite.
                    p = tl.where(f == g, 0.0, diff)
                    q = tl.where(u == v, 0.0, tl.abs(u - v))
                    m = tl.maximum(p, q)
                    r = tl.minimum(p, q) / tl.where((m == 0.0) | (m == float("inf")), 1.0, m)
                    diff = tl.where(m == float("inf"), m, m * tl.sqrt(1.0 + r * r))
                differs = differs & ~(nan_x & nan_y)
                counts = differs & ~(nan_x | nan_y)
                nans += tl.sum((differs & (nan_x | nan_y)).to(tl.int32), axis=0)
                diff = tl.where(counts, diff, 0.0)
                largest = tl.maximum(largest, tl.max(diff, axis=0))
            scale = tl.maximum(size_x, size_y)
            ratio = tl.minimum(diff / tl.where(counts, scale, 1.0), 2.0)
            ratio = tl.where(scale == float("inf"), 1.0, ratio)
            relative = tl.maximum(relative, tl.max(tl.where(counts, ratio, 0.0), axis=0))
            count += tl.sum(differs.to(tl.int32), axis=0)
            at = tl.min(tl.where(differs, lanes, BLOCK), axis=0)
            first = tl.minimum(first, tl.where(at < BLOCK, at.to(tl.int64) + start, 9223372036854775807))
    row = out + pid * 5
    tl.store(row, count)
    tl.store(row + 1, first)
    tl.store(row + 2, nans)
    if READING == 3:
        tl.store(row + 3, largest_int.to(tl.uint64).to(tl.int64, bitcast=True))
    else:
        tl.store(row + 3, largest.to(tl.float64).to(tl.int64, bitcast=True))
    tl.store(row + 4, relative.to(tl.float64).to(tl.int64, bitcast=True))


COMPARE: Final = Kernel(_compare)


def begin(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Queue a comparison of both tensors; the inputs have been checked and are not empty.

    Returns:
        A row for each program, for `finish`: int64, shape (programs, 5), on their device. Column 1 holds the number of
        the first element that differs, or a larger number than any element has.
    """
    block = block_of(a.dtype)
    num_full = a.numel() // block * block
    programs = num_programs(num_full, block, a.device) if num_full else 0
    num_rows = programs + (num_full < a.numel())
    out = torch.empty((num_rows, 5), dtype=torch.int64, device=a.device)
    layout, num_dims = layout_table(a, b)
    given = (loaded(a), loaded(b), _table(a, out), layout)
    constants = _constants(a, b, num_dims) | {"BLOCK": block, "num_warps": _NUM_WARPS}
    if programs:
        COMPARE.launch(programs, *given, out, 0, num_full, EVEN=True, **constants)
    if num_full < a.numel():
        COMPARE.launch(1, *given, out[programs:], num_full, a.numel(), EVEN=False, **constants)
    return out


def block_of(dtype: torch.dtype) -> int:
    """Elements that a program takes at a time: 16 per thread for 1 and 2 bytes, 8 for larger elements."""
    return (16 if dtype.itemsize < 4 else 8) * 32 * _NUM_WARPS


def _constants(a: torch.Tensor, b: torch.Tensor, num_dims: int) -> dict[str, Any]:
    is_wide = a.dtype.itemsize == 16 or (a.dtype.itemsize == 8 and not a.dtype.is_complex)
    reach = max(sum((size - 1) * step for size, step in zip(t.shape, t.stride(), strict=True)) for t in (a, b))
    return {
        "NDIM": num_dims,
        "READING": int(reading_of(a.dtype) or 0),
        "COMPLEX": a.dtype.is_complex,
        "WIDE": is_wide,
        "SHORT": max(reach, a.numel()) <= _MAX_INT32,
    }


def _table(tensor: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Return the values of 8-bit floats; other dtypes do not read the table, so any pointer serves."""
    return table_of(tensor.dtype, tensor.device) if reading_of(tensor.dtype) is Reading.TABLE else out


def finish(out: torch.Tensor, dtype: torch.dtype) -> Found:
    """Combine the rows of all programs; waits for the device."""
    rows = out.cpu().numpy()
    is_integer = reading_of(dtype) is Reading.INTEGER
    first = int(rows[:, 1].min())
    largest = rows[:, 3].copy().view(np.uint64 if is_integer else np.float64).max()
    return Found(
        int(rows[:, 0].sum()),
        None if first == _NONE else first,
        int(largest) if is_integer else float(largest),
        float(rows[:, 4].copy().view(np.float64).max()),
        int(rows[:, 2].sum()),
    )
