"""Find the largest batch that fits, by running the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

#: Larger batches are not tried.
MAX_BATCH: Final = 1 << 20

#: Batches to try above one that fits and whose next one does not.
_MOST_BEYOND: Final = 16

#: Factor between the batches of the first runs, which find where the search begins.
_GROWTH: Final = 8

#: Times that the guess is improved.
_REFINEMENTS: Final = 2


def guess_of(needs: Callable[[int], int], capacity_bytes: int, batch: int) -> int:
    """A batch whose memory is close to the capacity, between two batches that were measured.

    Args:
        needs: The memory of the program with a batch, bytes.
        capacity_bytes: The memory of the device.
        batch: The batch to measure first.
    """
    low, high = (batch, needs(batch)), (batch, needs(batch))
    while high[1] <= capacity_bytes and high[0] < MAX_BATCH:
        size = min(high[0] * _GROWTH, MAX_BATCH)
        low, high = high, (size, needs(size))
    while low[1] > capacity_bytes and low[0] > 1:
        size = max(low[0] // _GROWTH, 1)
        low, high = (size, needs(size)), low
    for _ in range(_REFINEMENTS):
        if high[0] - low[0] < 2 or not low[1] <= capacity_bytes < high[1]:
            break
        size = low[0] + int((capacity_bytes - low[1]) / (high[1] - low[1]) * (high[0] - low[0]))
        size = min(max(size, low[0] + 1), high[0] - 1)
        there = (size, needs(size))
        low, high = (there, high) if there[1] <= capacity_bytes else (low, there)
    return low[0]


def largest(fits: Callable[[int], bool], guess: int) -> int:
    """The largest batch that fits: it fits, and the next one does not; 0 if a batch of 1 does not fit.

    Args:
        fits: Runs the program with a batch.
        guess: The batch to try first; a close guess saves runs.
    """
    known: dict[int, bool] = {0: True}

    def check(batch: int) -> bool:
        if batch not in known:
            known[batch] = fits(batch)
        return known[batch]

    guess = min(max(guess, 1), MAX_BATCH)
    step = 1
    low = high = guess
    if check(guess):
        while check(high) and high < MAX_BATCH:
            low, high, step = high, min(high + step, MAX_BATCH), step * 2
        if check(high):
            return high
    else:
        while low > 0 and not check(low):
            low, high, step = max(low - step, 0), low, step * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if check(middle) else (low, middle)
    return low


def largest_beyond(fits: Callable[[int], bool], may_fit: Callable[[int], bool], found: int) -> int:
    """The largest batch that fits, where larger ones may fit again: of two batches, the larger may be less fragmented.

    Args:
        fits: Runs the program with a batch.
        may_fit: Whether the tensors of a batch are small enough; a batch for which it is False does not fit.
        found: A batch that fits, and whose next one does not.
    """
    while True:
        top = found
        while top - found < _MOST_BEYOND and may_fit(top + 1):
            top += 1
        better = next((size for size in range(top, found, -1) if fits(size)), found)
        if better == found:
            return found
        found = largest(fits, better)
