"""`poison` and `check_poison` as Triton kernels."""

from __future__ import annotations

from typing import Final

import torch
import triton.language as tl

from cudalens.kernels.launch import Kernel, num_programs
from cudalens.kernels.values import Reading, reading_of, table_of

BLOCK: Final = 1024
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
    programs = num_programs(bits.numel(), BLOCK, bits.device)
    FILL.launch(programs, bits, bits.numel(), pattern, BLOCK=BLOCK, num_warps=4)


def search(bits: torch.Tensor, values: torch.Tensor, tensor: torch.Tensor, pattern: int) -> tuple[int, int, int | None]:
    """Counts of elements that are the pattern and that are NaN, and the number of the first that is either."""
    reading = reading_of(tensor.dtype)
    assert reading is not None
    programs = num_programs(tensor.numel(), BLOCK, tensor.device)
    out = torch.empty((programs, 3), dtype=torch.int64, device=tensor.device)
    table = table_of(tensor.dtype, tensor.device) if reading is Reading.TABLE else out
    constants = {"PARTS": 2 if tensor.dtype.is_complex else 1, "READING": int(reading), "BLOCK": BLOCK, "num_warps": 4}
    SEARCH.launch(programs, bits, values, table, out, tensor.numel(), pattern, **constants)
    rows = out.cpu().numpy()
    first = int(rows[:, 2].min())
    return int(rows[:, 0].sum()), int(rows[:, 1].sum()), None if first == _NONE else first
