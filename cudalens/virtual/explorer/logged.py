"""Logged operations that can be run again, the locations of their tensors, and the memory of reruns."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import torch

from cudalens.device.stacks import NOWHERE
from cudalens.device.stacks import Place as Site


@dataclass(frozen=True, slots=True)
class Draw:
    """Replaces a random generator: its state when the host issued the operator.

    This matches a GPU, whose kernels receive the seed and the offset as arguments.
    """

    state: torch.Tensor


@dataclass(slots=True)
class LoggedOp:
    """A task: an operator on a stream, or an access of the host.

    Attributes:
        name: The operator (``aten::add``), or a description (``host read``).
        func: The function to call; None if the results are stored instead (`contents`).
        args: The arguments, with `Place` for tensors in tracked memory and `Draw` for generators.
        kwargs: The keyword arguments, in the same form.
        makes: Results in new memory: the path in the result, and the place.
        moves: Arguments that were moved to other memory: the place before and after.
        contents: If it cannot be called again, the spans that it writes and their bytes.
        writes: The places of the arguments that it writes.
        reads: The places of the other arguments.
        site: The location in the user's program.
        is_observed: Whether the host reads its result.
        lane: The number of its lane.
    """

    name: str
    func: Any
    args: Any = ()
    kwargs: Any = field(default_factory=dict)
    makes: list[tuple[tuple[int, ...], Place]] = field(default_factory=list)
    moves: list[tuple[Place, Place]] = field(default_factory=list)
    contents: list[tuple[Span, torch.Tensor]] = field(default_factory=list)
    writes: list[Place] = field(default_factory=list)
    reads: list[Place] = field(default_factory=list)
    site: Site = NOWHERE
    is_observed: bool = False
    lane: int = 0

    def written(self) -> list[Span]:
        """Return the bytes that it may write."""
        spans = [place.span for place in self.writes]
        spans += [place.span for _, place in self.makes] + [after.span for _, after in self.moves]
        return spans + [span for span, _ in self.contents]

    def touched(self) -> list[Span]:
        """Return the bytes of all storages that it accesses."""
        places = [*self.writes, *self.reads, *(place for _, place in self.makes), *(after for _, after in self.moves)]
        return [place.storage for place in places] + [span for span, _ in self.contents]


# Locations of tensors in a logged program: an address on a device, or a piece of host memory.

#: The space of device addresses, shared by all devices (their addresses differ). Each host storage has its own space,
#: numbered from 1.
DEVICE: Final = 0


class Span(NamedTuple):
    """Bytes from `start` up to `end` of a space."""

    space: int
    start: int
    end: int

    def overlaps(self, other: Span) -> bool:
        """Return whether they share a byte."""
        return self.space == other.space and max(self.start, other.start) < min(self.end, other.end)


class Place:
    """The layout of a tensor without its memory: the span of its storage, and its view of it.

    Attributes:
        storage: The bytes of its storage.
        dtype: Its dtype.
        size: Its shape.
        stride: Its strides, in elements.
        offset: The offset of its first element in the storage, in elements.
        is_conj: Whether its conjugate bit is set.
        is_neg: Whether its negative bit is set.
    """

    __slots__ = ("dtype", "is_conj", "is_neg", "offset", "size", "storage", "stride")

    def __init__(
        self,
        storage: Span,
        dtype: torch.dtype,
        size: tuple[int, ...],
        stride: tuple[int, ...],
        offset: int,
        flags: tuple[bool, bool] = (False, False),
    ) -> None:
        self.storage, self.dtype, self.size, self.stride, self.offset = storage, dtype, size, stride, offset
        self.is_conj, self.is_neg = flags

    @classmethod
    def of(cls, tensor: torch.Tensor, storage: Span) -> Place:
        """Return the place of a tensor whose storage is at a span."""
        flags = (tensor.is_conj(), tensor.is_neg())
        return cls(storage, tensor.dtype, tuple(tensor.size()), tensor.stride(), int(tensor.storage_offset()), flags)

    @property
    def span(self) -> Span:
        """From its first byte to its last; empty without elements."""
        item, first = self.dtype.itemsize, self.storage.start + self.offset * self.dtype.itemsize
        if 0 in self.size:
            return Span(self.storage.space, first, first)
        last = sum((length - 1) * step for length, step in zip(self.size, self.stride, strict=True))
        return Span(self.storage.space, first, first + (last + 1) * item)

    def within(self, memory: torch.UntypedStorage, start: int) -> torch.Tensor:
        """Return the tensor in a buffer whose first byte is at `start` of the space."""
        tensor = torch.empty(0, dtype=self.dtype)
        first = (self.storage.start - start) // self.dtype.itemsize + self.offset
        tensor.set_(memory, first, self.size, self.stride)
        if self.is_conj:
            torch._C._set_conj(tensor, True)
        if self.is_neg:
            torch._C._set_neg(tensor, True)
        return tensor


def places_in(value: Any) -> Iterator[Place]:
    """Yield the places in an operator's logged arguments."""
    if isinstance(value, Place):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from places_in(item)
    elif isinstance(value, dict):
        yield from places_in(list(value.values()))


# Memory for reruns of a program's tasks.

#: The value of every unwritten byte.
UNWRITTEN: Final = 0x3F

#: Extents start at multiples of it, as blocks of the caching allocator do, so that elements are aligned.
_GRANULE: Final = 512


class Image:
    """Memory for one schedule at a time.

    A block that was allocated twice has the same bytes twice, as on a GPU, so that a use after free is visible.
    Unwritten bytes hold a pattern, the same in every schedule. It is an ordinary number in every dtype (0.747 as
    float32, 1.81 as float16), because NaN would propagate through later operations and hide differences.

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
