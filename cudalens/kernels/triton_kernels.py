"""The Triton kernels of this package: comparing tensors, fingerprints, poison, holding a stream, reading memory."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
import triton.language as tl
from triton.language.extra import libdevice  # noqa: F401 - makes `extra` complete before `cuda` is looked up
from triton.language.extra.cuda import globaltimer

from cudalens.kernels.launch import Kernel, is_interpreted, num_programs
from cudalens.kernels.values import (
    FIRST,
    PLACE,
    SECOND,
    SEED,
    THIRD,
    Found,
    Reading,
    layout_table,
    loaded,
    reading_of,
    table_of,
)

_NO_POSITION: Final = (1 << 63) - 1
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
        None if first == _NO_POSITION else first,
        int(largest) if is_integer else float(largest),
        float(rows[:, 4].copy().view(np.float64).max()),
        int(rows[:, 2].sum()),
    )


# `fingerprint` as a Triton kernel: 64-bit sums, to which any number of programs add in any order.

FINGERPRINT_BLOCK: Final = 1024


def _fingerprint(
    words,
    tail,
    out,
    n,
    num_tail,
    PLACE: tl.constexpr,
    SEED: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    THIRD: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add the two sums over `n` words and the word made of `num_tail` bytes to `out` (int64, shape (2,))."""
    pid = tl.program_id(0).to(tl.int64)
    step = tl.num_programs(0).to(tl.int64) * BLOCK
    sum_first = tl.zeros([BLOCK], tl.int64)
    sum_second = tl.zeros([BLOCK], tl.int64)
    for start in range(pid * BLOCK, n, step):
        i = start + tl.arange(0, BLOCK).to(tl.int64)
        mask = i < n
        first = (tl.load(words + i, mask=mask, other=0) ^ (i * PLACE + SEED)) * FIRST
        first = (first ^ ((first >> 32) & 0xFFFFFFFF)) * SECOND
        second = (first ^ ((first >> 29) & 0x7FFFFFFFF)) * THIRD
        sum_first += tl.where(mask, first, 0)
        sum_second += tl.where(mask, second, 0)
    total_first = tl.sum(sum_first)
    total_second = tl.sum(sum_second)
    if (pid == 0) & (num_tail > 0):
        k = tl.arange(0, 8)
        byte = tl.load(tail + k, mask=k < num_tail, other=0).to(tl.int64)
        word = tl.sum(byte << (k * 8).to(tl.int64))
        first = (word ^ ((pid + n) * PLACE + SEED)) * FIRST
        first = (first ^ ((first >> 32) & 0xFFFFFFFF)) * SECOND
        second = (first ^ ((first >> 29) & 0x7FFFFFFFF)) * THIRD
        total_first += first
        total_second += second
    tl.atomic_add(out, total_first)
    tl.atomic_add(out + 1, total_second)


FINGERPRINT: Final = Kernel(_fingerprint)


def run_fingerprint(words: torch.Tensor, tail: torch.Tensor) -> torch.Tensor:
    """Return the two sums over `words` (int64, shape (n,)) and the bytes after them (uint8, shape (0 to 7,)).

    Returns:
        int64, shape (2,), on the device of `words`; the kernel may still be running.
    """
    out = torch.zeros(2, dtype=torch.int64, device=words.device)
    programs = num_programs(words.numel(), FINGERPRINT_BLOCK, words.device)
    constants = {
        "PLACE": PLACE,
        "SEED": SEED,
        "FIRST": FIRST,
        "SECOND": SECOND,
        "THIRD": THIRD,
    }
    size = {"BLOCK": FINGERPRINT_BLOCK, "num_warps": 4}
    FINGERPRINT.launch(programs, words, tail, out, words.numel(), tail.numel(), **constants, **size)
    return out


# `hold` as a Triton kernel: polls a flag until it is set or the time limit is reached.


def _hold(flag, waited, limit, HAS_TIMER: tl.constexpr):
    """Poll `flag` (int32) until it is not 0 or `limit` is reached; write the elapsed time to `waited` (int64).

    The limit is in nanoseconds of the device's global timer; without one (other vendors' GPUs, the interpreter) it
    counts polls.
    """
    now = tl.zeros([], tl.int64)
    begin = tl.zeros([], tl.int64)
    if HAS_TIMER:
        begin = globaltimer().to(tl.int64)
    while (now < limit) & (tl.load(flag, volatile=True) == 0):
        if HAS_TIMER:
            now = globaltimer().to(tl.int64) - begin
        else:
            now += 1
    tl.store(waited, now)


HOLD: Final = Kernel(_hold)

#: Approximate time of one poll of host memory over PCIe, for devices without a timer.
_POLL_NS: Final = 500


def run_hold(flag: torch.Tensor, nanoseconds: int) -> torch.Tensor:
    """Queue the kernel on the current stream.

    Args:
        flag: int32, shape (1,), in memory that host and device can access.
        nanoseconds: The time limit.

    Returns:
        The elapsed time once the kernel has ended: int64, shape (1,), ns, or polls on a device without a timer.
    """
    has_timer = not is_interpreted() and torch.version.hip is None
    waited = torch.zeros(1, dtype=torch.int64, device="cpu" if is_interpreted() else "cuda")
    limit = nanoseconds if has_timer else max(1, nanoseconds // _POLL_NS)
    HOLD.launch(1, flag, waited, limit, HAS_TIMER=has_timer, num_warps=1)
    return waited


# `poison` and `check_poison` as Triton kernels.

POISON_BLOCK: Final = 1024
_NONE: Final = (1 << 63) - 1


def _fill(out, n, pattern, BLOCK: tl.constexpr):
    """Write `pattern` to all `n` integers of `out`."""
    pid = tl.program_id(0).to(tl.int64)
    step = tl.num_programs(0).to(tl.int64) * BLOCK
    for start in range(pid * BLOCK, n, step):
        i = start + tl.arange(0, BLOCK).to(tl.int64)
        value = tl.zeros([BLOCK], tl.int64) + pattern
        tl.store(out + i, value.to(out.dtype.element_ty), mask=i < n)


def _search(bits, values, table, out, n, pattern, PARTS: tl.constexpr, READING: tl.constexpr, BLOCK: tl.constexpr):
    """Each program writes one row of `out`: counts of the pattern and of NaN, and the first element that is either."""
    pid = tl.program_id(0).to(tl.int64)
    step = tl.num_programs(0).to(tl.int64) * BLOCK
    poisoned = tl.zeros([BLOCK], tl.int64)
    nans = tl.zeros([BLOCK], tl.int64)
    first = tl.full([BLOCK], 9223372036854775807, tl.int64)
    for start in range(pid * BLOCK, n, step):
        i = start + tl.arange(0, BLOCK).to(tl.int64)
        mask = i < n
        is_pattern = i < 0
        is_nan = i < 0
        for part in tl.static_range(PARTS):
            at = i * PARTS + part
            is_pattern = is_pattern | (tl.load(bits + at, mask=mask, other=0).to(tl.int64) == pattern)
            if READING != 3:
                x = tl.load(values + at, mask=mask, other=0)
                if READING == 1:
                    x = (x.to(tl.int32) << 16).to(tl.float32, bitcast=True)
                elif READING == 2:
                    x = tl.load(table + x.to(tl.int32))
                is_nan = is_nan | (x != x)
        is_pattern = is_pattern & mask
        is_nan = is_nan & mask
        poisoned += is_pattern.to(tl.int64)
        nans += is_nan.to(tl.int64)
        first = tl.minimum(first, tl.where(is_pattern | is_nan, i, 9223372036854775807))
    row = out + pid * 3
    tl.store(row, tl.sum(poisoned))
    tl.store(row + 1, tl.sum(nans))
    tl.store(row + 2, tl.min(first))


FILL: Final = Kernel(_fill)
SEARCH: Final = Kernel(_search)


def fill(bits: torch.Tensor, pattern: int) -> None:
    """Write `pattern` to all elements of `bits`, which is contiguous and not empty."""
    programs = num_programs(bits.numel(), POISON_BLOCK, bits.device)
    FILL.launch(programs, bits, bits.numel(), pattern, BLOCK=POISON_BLOCK, num_warps=4)


def search(bits: torch.Tensor, values: torch.Tensor, tensor: torch.Tensor, pattern: int) -> tuple[int, int, int | None]:
    """Counts of elements that are the pattern and that are NaN, and the number of the first that is either."""
    reading = reading_of(tensor.dtype)
    assert reading is not None
    programs = num_programs(tensor.numel(), POISON_BLOCK, tensor.device)
    out = torch.empty((programs, 3), dtype=torch.int64, device=tensor.device)
    table = table_of(tensor.dtype, tensor.device) if reading is Reading.TABLE else out
    constants = {
        "PARTS": 2 if tensor.dtype.is_complex else 1,
        "READING": int(reading),
        "BLOCK": POISON_BLOCK,
    }
    SEARCH.launch(programs, bits, values, table, out, tensor.numel(), pattern, **constants, num_warps=4)
    rows = out.cpu().numpy()
    first = int(rows[:, 2].min())
    return int(rows[:, 0].sum()), int(rows[:, 1].sum()), None if first == _NONE else first


# A Triton kernel that only reads memory, to measure the read bandwidth of a device.

READ_BLOCK: Final = 1024


def _read(values, out, n, BLOCK: tl.constexpr):
    """Each program writes the sum of what it read, so that the compiler cannot remove the loads."""
    pid = tl.program_id(0).to(tl.int64)
    step = tl.num_programs(0).to(tl.int64) * BLOCK
    total = tl.zeros([BLOCK], tl.int64)
    for start in range(pid * BLOCK, n, step):
        i = start + tl.arange(0, BLOCK).to(tl.int64)
        total += tl.load(values + i, mask=i < n, other=0)
    tl.store(out + pid, tl.sum(total))


READ: Final = Kernel(_read)


def run_read(values: torch.Tensor) -> torch.Tensor:
    """Return each program's sum of its part of `values` (int64, contiguous): int64, shape (programs,)."""
    programs = num_programs(values.numel(), READ_BLOCK, values.device)
    out = torch.empty(programs, dtype=torch.int64, device=values.device)
    READ.launch(programs, values, out, values.numel(), BLOCK=READ_BLOCK, num_warps=4)
    return out
