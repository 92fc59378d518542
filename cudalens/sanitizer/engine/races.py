"""A race: two accesses to the same bytes, at least one a write, that nothing orders."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cudalens.sanitizer.engine.records import HOST, Place, StreamId
from cudalens.sanitizer.engine.regions import Region


class RaceKind(Enum):
    """What can go wrong."""

    READ_AFTER_WRITE = "read after write"
    WRITE_AFTER_READ = "write after read"
    WRITE_AFTER_WRITE = "write after write"
    USE_AFTER_FREE = "use after free"
    """The block was freed and handed out again while a stream that the allocator was not told of still used it."""
    HOST = "host access"
    """The host reads what a copy has not brought yet, or writes what a copy has not taken yet."""


@dataclass(frozen=True, slots=True)
class Touch:
    """One access, as it is remembered.

    Attributes:
        stream: Where it ran; HOST for the host itself.
        clock: Its epoch on that stream.
        is_write: Whether it wrote.
        tensor: Name of the tensor.
        region: Bytes that it touched.
        op: Name of the operation.
        place: Where in the user's program.
        generation: Which owner of the block it belonged to (counts up whenever the allocator hands the block out).
    """

    stream: StreamId
    clock: int
    is_write: bool
    tensor: str
    region: Region
    op: str
    place: Place
    generation: int


@dataclass(frozen=True, slots=True)
class Race:
    """Two unordered accesses, `first` issued before `second`."""

    first: Touch
    second: Touch

    @property
    def kind(self) -> RaceKind:
        """The most telling name for it."""
        if HOST in (self.first.stream, self.second.stream):
            return RaceKind.HOST
        if self.first.generation != self.second.generation:
            return RaceKind.USE_AFTER_FREE
        if self.first.is_write:
            return RaceKind.WRITE_AFTER_WRITE if self.second.is_write else RaceKind.READ_AFTER_WRITE
        return RaceKind.WRITE_AFTER_READ

    @property
    def tensors(self) -> frozenset[str]:
        """Names under which the bytes were touched: two after a reuse, else one."""
        return frozenset((self.first.tensor, self.second.tensor))

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for races that are one finding: the same kind between the same places (or operations) and streams."""
        return (self.kind, _where(self.first), _where(self.second), self.first.stream, self.second.stream)


def _where(touch: Touch) -> object:
    return touch.place if touch.place is not None else (touch.op, touch.tensor)
