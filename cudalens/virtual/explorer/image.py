"""Memory for reruns of a program's tasks: its bytes at their addresses, shared where they were shared.

A block that was allocated twice has the same bytes twice, as on a GPU, so that a use after free is visible. Unwritten
bytes hold a pattern, the same in every schedule. It is an ordinary number in every dtype (0.747 as float32, 1.81 as
float16), because NaN would propagate through later operations and hide differences.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import torch

from cudalens.virtual.explorer.places import Place, Span

#: The value of every unwritten byte.
UNWRITTEN: Final = 0x3F

#: Extents start at multiples of it, as blocks of the caching allocator do, so that elements are aligned.
_GRANULE: Final = 512


class Image:
    """Memory for one schedule at a time.

    Args:
        touched: The bytes that tasks access.
        initial: The contents of memory before the first task.

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
        """Return the size of an image of these, in bytes."""
        extents = merged([*touched, *(span for span, _ in initial)])
        return sum(extent.end - extent.start for extent in extents)

    def reset(self, unwritten: int = UNWRITTEN) -> None:
        """Restore the contents before the first task.

        Args:
            unwritten: The value of every unwritten byte.
        """
        for buffers in self._buffers.values():
            for buffer in buffers:
                buffer.fill_(unwritten)
        for span, contents in self._initial:
            self.bytes_of(span).copy_(contents)

    def blank(self, spans: Iterable[Span], unwritten: int) -> None:
        """Mark bytes as unwritten; bytes that no task accesses are skipped."""
        for space, start, end in spans:
            for first, buffer in zip(self._starts[space], self._buffers[space], strict=True):
                buffer[max(start - first, 0) : max(end - first, 0)].fill_(unwritten)

    def view(self, place: Place) -> torch.Tensor:
        """Return a tensor at a place in the image."""
        if place.storage.start == place.storage.end:
            return torch.empty_strided(place.size, place.stride, dtype=place.dtype)
        buffer, start = self._at(place.storage)
        return place.within(buffer.untyped_storage(), start)

    def bytes_of(self, span: Span) -> torch.Tensor:
        """Return the bytes of a span as a flat tensor of uint8."""
        buffer, start = self._at(span)
        return buffer[span.start - start : span.end - start]

    def _at(self, span: Span) -> tuple[torch.Tensor, int]:
        starts = self._starts[span.space]
        index = bisect_right(starts, span.start) - 1
        return self._buffers[span.space][index], starts[index]


def merged(spans: Iterable[Span]) -> list[Span]:
    """The smallest extents that contain all spans: overlapping spans merged, starts rounded down to `_GRANULE`."""
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
