"""Reading memory and nothing else, for measuring how fast a device reads."""

from __future__ import annotations

from typing import Final

import torch
import triton.language as tl

from cudalens.kernels.launch import Kernel, num_programs

BLOCK: Final = 1024


def _read(values, out, n, BLOCK: tl.constexpr):
    """Each program adds up what it read, so that no load can be left out, and writes one number."""
    pid = tl.program_id(0).to(tl.int64)
    step = tl.num_programs(0).to(tl.int64) * BLOCK
    total = tl.zeros([BLOCK], tl.int64)
    for start in range(pid * BLOCK, n, step):
        i = start + tl.arange(0, BLOCK).to(tl.int64)
        total += tl.load(values + i, mask=i < n, other=0)
    tl.store(out + pid, tl.sum(total))


READ: Final = Kernel(_read)


def run(values: torch.Tensor) -> torch.Tensor:
    """The sums of the parts of `values` (int64, contiguous) that the programs read: int64, shape (programs,)."""
    programs = num_programs(values.numel(), BLOCK, values.device)
    out = torch.empty(programs, dtype=torch.int64, device=values.device)
    READ.launch(programs, values, out, values.numel(), BLOCK=BLOCK, num_warps=4)
    return out
