"""The memory that a program's tasks are done in again: its bytes at their addresses, shared where they were shared.

A block that was handed out twice is the same bytes twice, as on a GPU, so that what is used after it was freed shows.
Bytes that nobody has written hold a pattern, the same in every schedule. It is an ordinary number in every dtype (0.747
as float32, 1.81 as float16), since NaN would swallow what is computed with it and hide what differs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import torch

from cudalens.virtual.explorer.places import Place, Span

#: Every byte of memory that nobody has written.
UNWRITTEN: Final = 0x3F

#: Extents begin at multiples of it, as blocks of the caching allocator do, so that elements stay aligned.
_GRANULE: Final = 512


class Image:
    """Memory for schedules, one after the other.

    Args:
        touched: The bytes that tasks may need.
        initial: What lay somewhere before the first task.

    Attributes:
        num_bytes: Its size.
    """

    def __init__(self, touched: Iterable[Span], initial: Sequence[tuple[Span, torch.Tensor]]) -> None:
        self._initial = initial
        extents = merged([*touched, *(span for span, _ in initial)])
        self._starts: dict[int, list[int]] = defaultdict(list)
        self._buffers: dict[int, list[torch.Tensor]] = defaultdict(list)
        self.num_bytes = sum(extent.end - extent.start for extent in extents)
        for space, start, end in extents:
            self._starts[space].append(start)
            self._buffers[space].append(torch.empty(end - start, dtype=torch.uint8))

    @staticmethod
    def size_of(touched: Iterable[Span], initial: Sequence[tuple[Span, torch.Tensor]]) -> int:
        """Bytes that an image of these would take."""
        extents = merged([*touched, *(span for span, _ in initial)])
        return sum(extent.end - extent.start for extent in extents)

    def reset(self, unwritten: int = UNWRITTEN) -> None:
        """Let everything be as it was before the first task.

        Args:
            unwritten: Every byte of memory that nobody has written.
        """
        for buffers in self._buffers.values():
            for buffer in buffers:
                buffer.fill_(unwritten)
        for span, contents in self._initial:
            self.bytes_of(span).copy_(contents)

    def blank(self, spans: Iterable[Span], unwritten: int) -> None:
        """Let nobody have written these bytes; those that no task needs are not here at all."""
        for space, start, end in spans:
            for first, buffer in zip(self._starts[space], self._buffers[space], strict=True):
                buffer[max(start - first, 0) : max(end - first, 0)].fill_(unwritten)

    def view(self, place: Place) -> torch.Tensor:
        """A tensor over these bytes."""
        if place.storage.start == place.storage.end:
            return torch.empty_strided(place.size, place.stride, dtype=place.dtype)
        buffer, start = self._at(place.storage)
        return place.within(buffer.untyped_storage(), start)

    def bytes_of(self, span: Span) -> torch.Tensor:
        """Some of the bytes, as a flat tensor of uint8."""
        buffer, start = self._at(span)
        return buffer[span.start - start : span.end - start]

    def _at(self, span: Span) -> tuple[torch.Tensor, int]:
        starts = self._starts[span.space]
        index = bisect_right(starts, span.start) - 1
        return self._buffers[span.space][index], starts[index]


def merged(spans: Iterable[Span]) -> list[Span]:
    """The least extents that hold all spans, those that overlap as one, from multiples of `_GRANULE` on."""
    found: list[Span] = []
    for space, start, end in sorted(set(spans)):
        if start == end:
            continue
        start = start // _GRANULE * _GRANULE
        if found and found[-1].space == space and start < found[-1].end:
            found[-1] = Span(space, found[-1].start, max(end, found[-1].end))
        else:
            found.append(Span(space, start, end))
    return found
