"""`compare` as a Triton kernel: one pass over both inputs, whatever their strides."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
import triton.language as tl

from cudalens.kernels.compare import Found
from cudalens.kernels.launch import Kernel, num_programs
from cudalens.kernels.layout import layout_table
from cudalens.kernels.values import Reading, loaded, reading_of, table_of

BLOCK: Final = 1024
_NONE: Final = (1 << 63) - 1


def _compare(
    a,
    b,
    table,
    layout,
    out,
    n,
    NDIM: tl.constexpr,
    READING: tl.constexpr,
    COMPLEX: tl.constexpr,
    DOUBLE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Each program takes every num_programs-th block and writes one row of `out`.

    Takes pointers to both inputs, to the values of 8-bit floats, to sizes and strides (int64, innermost dimension
    first: sizes, strides of a, strides of b; NDIM 0 where both are contiguous), to the results (int64, five for each
    program), and the number of elements.
    """
    pid = tl.program_id(0).to(tl.int64)
    step = tl.num_programs(0).to(tl.int64) * BLOCK
    count = tl.zeros([BLOCK], tl.int64)
    nans = tl.zeros([BLOCK], tl.int64)
    first = tl.full([BLOCK], 9223372036854775807, tl.int64)
    largest_int = tl.zeros([BLOCK], tl.uint64)
    largest = tl.zeros([BLOCK], tl.float64 if DOUBLE else tl.float32)
    relative = tl.zeros([BLOCK], tl.float64 if DOUBLE else tl.float32)
    for start in range(pid * BLOCK, n, step):
        i = start + tl.arange(0, BLOCK).to(tl.int64)
        mask = i < n
        if NDIM == 0:
            at_a = i
            at_b = i
        else:
            rest = i
            at_a = tl.zeros([BLOCK], tl.int64)
            at_b = tl.zeros([BLOCK], tl.int64)
            for d in tl.static_range(NDIM):
                size = tl.load(layout + d)
                place = rest % size
                rest = rest // size
                at_a += place * tl.load(layout + NDIM + d)
                at_b += place * tl.load(layout + 2 * NDIM + d)
        if COMPLEX:
            at_a = at_a * 2
            at_b = at_b * 2
        x = tl.load(a + at_a, mask=mask, other=0)
        y = tl.load(b + at_b, mask=mask, other=0)
        if READING == 3:
            differs = (x != y) & mask
            low = tl.minimum(x, y).to(tl.uint64)
            high = tl.maximum(x, y).to(tl.uint64)
            diff = tl.where(differs, high - low, 0)
            largest_int = tl.maximum(largest_int, diff)
            scale = tl.maximum(tl.abs(x.to(tl.float64)), tl.abs(y.to(tl.float64)))
            relative = tl.maximum(relative, tl.where(differs, diff.to(tl.float64) / tl.where(differs, scale, 1.0), 0.0))
        else:
            if READING == 1:
                x = (x.to(tl.int32) << 16).to(tl.float32, bitcast=True)
                y = (y.to(tl.int32) << 16).to(tl.float32, bitcast=True)
            elif READING == 2:
                x = tl.load(table + x.to(tl.int32))
                y = tl.load(table + y.to(tl.int32))
            elif not DOUBLE:
                x = x.to(tl.float32)
                y = y.to(tl.float32)
            nan_x = x != x
            nan_y = y != y
            unequal = x != y
            size_x = tl.abs(x)
            size_y = tl.abs(y)
            diff = tl.abs(x - y)
            if COMPLEX:
                u = tl.load(a + at_a + 1, mask=mask, other=0)
                v = tl.load(b + at_b + 1, mask=mask, other=0)
                nan_x = nan_x | (u != u)
                nan_y = nan_y | (v != v)
                unequal = unequal | (u != v)
                # |z| = m sqrt(1 + (l / m)^2) with m the larger and l the smaller part: no overflow in between.
                m = tl.maximum(size_x, tl.abs(u))
                r = tl.minimum(size_x, tl.abs(u)) / tl.where((m == 0.0) | (m == float("inf")), 1.0, m)
                size_x = tl.where(m == float("inf"), m, m * tl.sqrt(1.0 + r * r))
                m = tl.maximum(size_y, tl.abs(v))
                r = tl.minimum(size_y, tl.abs(v)) / tl.where((m == 0.0) | (m == float("inf")), 1.0, m)
                size_y = tl.where(m == float("inf"), m, m * tl.sqrt(1.0 + r * r))
                # Equal parts differ by 0 also where both are infinite.
                p = tl.where(x == y, 0.0, diff)
                q = tl.where(u == v, 0.0, tl.abs(u - v))
                m = tl.maximum(p, q)
                r = tl.minimum(p, q) / tl.where((m == 0.0) | (m == float("inf")), 1.0, m)
                diff = tl.where(m == float("inf"), m, m * tl.sqrt(1.0 + r * r))
            differs = unequal & ~(nan_x & nan_y) & mask
            counts = differs & ~(nan_x | nan_y)
            diff = tl.where(counts, diff, 0.0)
            largest = tl.maximum(largest, diff)
            scale = tl.maximum(size_x, size_y)
            ratio = tl.minimum(diff / tl.where(counts, scale, 1.0), 2.0)
            ratio = tl.where(scale == float("inf"), 1.0, ratio)
            relative = tl.maximum(relative, tl.where(counts, ratio, 0.0))
            nans += (differs & (nan_x | nan_y)).to(tl.int64)
        count += differs.to(tl.int64)
        first = tl.minimum(first, tl.where(differs, i, 9223372036854775807))
    row = out + pid * 5
    tl.store(row, tl.sum(count))
    tl.store(row + 1, tl.min(first))
    tl.store(row + 2, tl.sum(nans))
    if READING == 3:
        tl.store(row + 3, tl.max(largest_int).to(tl.int64, bitcast=True))
    else:
        tl.store(row + 3, tl.max(largest).to(tl.float64).to(tl.int64, bitcast=True))
    tl.store(row + 4, tl.max(relative).to(tl.float64).to(tl.int64, bitcast=True))


COMPARE: Final = Kernel(_compare)


def begin(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Queue a pass over both; the inputs are checked, and not empty.

    Returns:
        A row for each program, for `finish`: int64, shape (programs, 5), on their device. Column 1 holds the number of
        the first element that differs, or what no number is.
    """
    reading = reading_of(a.dtype)
    assert reading is not None
    programs = num_programs(a.numel(), BLOCK, a.device)
    out = torch.empty((programs, 5), dtype=torch.int64, device=a.device)
    layout, num_dims = layout_table(a, b)
    table = table_of(a.dtype, a.device) if reading is Reading.TABLE else out
    is_double = reading is Reading.INTEGER or a.dtype in (torch.float64, torch.complex128)
    constants: dict[str, Any] = {"NDIM": num_dims, "READING": int(reading), "COMPLEX": a.dtype.is_complex}
    constants |= {"DOUBLE": is_double, "BLOCK": BLOCK, "num_warps": 4}
    COMPARE.launch(programs, loaded(a), loaded(b), table, layout, out, a.numel(), **constants)
    return out


def finish(out: torch.Tensor, dtype: torch.dtype) -> Found:
    """The rows of all programs put together; waits for the device."""
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
