"""Find unordered tasks that access the same bytes, of which one writes: pairs whose order can change a value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import torch

from cudalens.virtual.explorer.image import merged
from cudalens.virtual.explorer.logged import LoggedOp
from cudalens.virtual.explorer.orders import Program
from cudalens.virtual.explorer.places import Place, Span

#: Two tasks in the order in which the host issued them.
Pair = tuple[int, int]

#: Larger places count as overlapping if their extents overlap.
MAX_EXACT_BYTES: Final = 16 << 20


def unordered_conflicts(program: Program, ops: Sequence[LoggedOp], *, at_most: int) -> list[Pair]:
    """Pairs of unordered tasks that access the same byte, of which one writes it.

    Args:
        program: The order of the tasks.
        ops: The tasks.
        at_most: The maximum number of pairs.
    """
    found: set[Pair] = set()
    for numbers in _by_extent(ops):
        for position, second in enumerate(numbers):
            for first in numbers[:position]:
                if program.is_unordered(first, second) and conflict(ops[first], ops[second]):
                    found.add((first, second))
                    if len(found) >= at_most:
                        return sorted(found)
    return sorted(found)


def _by_extent(ops: Sequence[LoggedOp]) -> list[list[int]]:
    """Return the tasks that access each extent of memory."""
    spans = [sorted({*op.written(), *(place.span for place in op.reads)}) for op in ops]
    extents = merged(span for of_op in spans for span in of_op)
    owner: dict[Span, int] = {}
    position = 0
    for span in sorted({span for of_op in spans for span in of_op if span.start < span.end}):
        while not extents[position].overlaps(span):
            position += 1
        owner[span] = position
    found: dict[int, list[int]] = defaultdict(list)
    for number, of_op in enumerate(spans):
        for extent in sorted({owner[span] for span in of_op if span in owner}):
            found[extent].append(number)
    return list(found.values())


def conflict(one: LoggedOp, other: LoggedOp) -> bool:
    """Return whether two tasks access the same byte and one of them writes it."""
    mine, theirs = _written(one), _written(other)
    return _any_overlap(mine, theirs) or _any_overlap(mine, other.reads) or _any_overlap(one.reads, theirs)


def _written(op: LoggedOp) -> list[Place]:
    places = [*op.writes, *(place for _, place in op.makes), *(after for _, after in op.moves)]
    return places + [Place(span, torch.uint8, (span.end - span.start,), (1,), 0) for span, _ in op.contents]


def _any_overlap(places: Sequence[Place], others: Sequence[Place]) -> bool:
    return any(overlap(place, other) for place in places for other in others)


def overlap(one: Place, other: Place) -> bool:
    """Return whether two tensors share a byte; tensors with gaps are compared element by element."""
    mine, theirs = one.span, other.span
    if not mine.overlaps(theirs):
        return False
    start, end = min(mine.start, theirs.start), max(mine.end, theirs.end)
    if (_is_dense(one) and _is_dense(other)) or end - start > MAX_EXACT_BYTES:
        return True
    taken = torch.zeros(end - start, dtype=torch.bool)
    _bytes(taken, one, start).fill_(True)
    return bool(_bytes(taken, other, start).any())


def _is_dense(place: Place) -> bool:
    span, count = place.span, 1
    for length in place.size:
        count *= length
    return span.end - span.start == count * place.dtype.itemsize


def _bytes(memory: torch.Tensor, place: Place, start: int) -> torch.Tensor:
    """Return each byte of a tensor, in a buffer whose first byte is at `start`."""
    item = place.dtype.itemsize
    stride = (*(step * item for step in place.stride), 1)
    return memory.as_strided((*place.size, item), stride, place.span.start - start)
