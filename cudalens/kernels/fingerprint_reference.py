"""`fingerprint` in plain torch, for CPU and virtual-device tensors; the reference implementation of the kernel."""

from __future__ import annotations

from typing import Final

import torch

from cudalens.kernels.mixing import FIRST, PLACE, SECOND, SEED, THIRD

#: Words at a time.
_CHUNK: Final = 1 << 21


def run(words: torch.Tensor, tail: torch.Tensor) -> torch.Tensor:
    """Return the two sums over `words` (int64, shape (n,)) and the bytes after them (uint8, shape (0 to 7,)).

    Returns:
        int64, shape (2,).
    """
    if tail.numel():
        rest = torch.zeros(8, dtype=torch.uint8, device=tail.device)
        rest[: tail.numel()] = tail
        words = torch.cat([words, rest.view(torch.int64)])
    total = torch.zeros(2, dtype=torch.int64, device=words.device)
    for start in range(0, words.numel(), _CHUNK):
        part = words[start : start + _CHUNK]
        total += _sums(part, torch.arange(start, start + part.numel(), device=words.device))
    return total


def _sums(words: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    first = (words ^ (places * PLACE + SEED)) * FIRST
    first = (first ^ _shifted(first, 32)) * SECOND
    second = (first ^ _shifted(first, 29)) * THIRD
    return torch.stack([first.sum(), second.sum()])


def _shifted(values: torch.Tensor, by: int) -> torch.Tensor:
    """Return a logical shift to the right; torch's is arithmetic."""
    return (values >> by) & ((1 << (64 - by)) - 1)
