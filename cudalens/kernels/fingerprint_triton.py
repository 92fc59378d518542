"""`fingerprint` as a Triton kernel: 64-bit sums, to which any number of programs add in any order."""

from __future__ import annotations

from typing import Final

import torch
import triton.language as tl

from cudalens.kernels.launch import Kernel, num_programs
from cudalens.kernels.mixing import FIRST, PLACE, SECOND, SEED, THIRD

BLOCK: Final = 1024


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


def run(words: torch.Tensor, tail: torch.Tensor) -> torch.Tensor:
    """Return the two sums over `words` (int64, shape (n,)) and the bytes after them (uint8, shape (0 to 7,)).

    Returns:
        int64, shape (2,), on the device of `words`; the kernel may still be running.
    """
    out = torch.zeros(2, dtype=torch.int64, device=words.device)
    programs = num_programs(words.numel(), BLOCK, words.device)
    constants = {"PLACE": PLACE, "SEED": SEED, "FIRST": FIRST, "SECOND": SECOND, "THIRD": THIRD, "BLOCK": BLOCK}
    FINGERPRINT.launch(programs, words, tail, out, words.numel(), tail.numel(), **constants, num_warps=4)
    return out
