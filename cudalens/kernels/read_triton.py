"""A Triton kernel that only reads memory, to measure the read bandwidth of a device."""

from __future__ import annotations

from typing import Final

import torch
import triton.language as tl

from cudalens.kernels.launch import Kernel, num_programs

BLOCK: Final = 1024


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


def run(values: torch.Tensor) -> torch.Tensor:
    """Return each program's sum of its part of `values` (int64, contiguous): int64, shape (programs,)."""
    programs = num_programs(values.numel(), BLOCK, values.device)
    out = torch.empty(programs, dtype=torch.int64, device=values.device)
    READ.launch(programs, values, out, values.numel(), BLOCK=BLOCK, num_warps=4)
    return out
