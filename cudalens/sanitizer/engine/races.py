"""A race: two accesses to the same bytes, at least one a write, that nothing orders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from cudalens.sanitizer.engine.records import HOST, Place, StreamId
from cudalens.sanitizer.engine.regions import Region


class RaceKind(Enum):
    """What can go wrong."""

    #: The block was freed and handed out again while a stream that the allocator was not told of still used it.
    READ_AFTER_WRITE = "read after write"
    WRITE_AFTER_READ = "write after read"
    WRITE_AFTER_WRITE = "write after write"
    USE_AFTER_FREE = "use after free"
    #: The host reads what a copy has not brought yet, or writes what a copy has not taken yet.
    HOST = "host access"


@dataclass(frozen=True, slots=True)
class Memory:
    """The block that an access belonged to, as it was then.

    Attributes:
        name: As the collector names it.
        start: Its address.
        num_bytes: Its size.
        stream: Stream whose pool it came from; HOST for host memory; None where it was there before.
        place: Where it was allocated; None where that was not seen.
        freed_place: Where its last reference went; None while it allocations, or where that was not seen.
        freed_stack: The call stack there, as the collector took it.
        stack: The call stack of the allocation, as the collector took it.
    """

    name: str
    start: int
    num_bytes: int
    stream: StreamId | None
    place: Place = None
    freed_place: Place = None
    freed_stack: object = None
    stack: object = None


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
        argument: Name of the operation's argument; empty where it has none.
        shape: The tensor's; None where the collector does not know.
        stride: In elements; None where the tensor is contiguous, or unknown.
        dtype: As the collector writes it ("float32"); empty where it does not know.
        stack: The call stack, as the collector took it; None where it took none.
        memory: The block.
    """

    stream: StreamId
    clock: int
    is_write: bool
    tensor: str
    region: Region
    op: str
    place: Place
    generation: int
    argument: str = ""
    shape: tuple[int, ...] | None = None
    stride: tuple[int, ...] | None = None
    dtype: str = ""
    stack: object = field(default=None, compare=False)
    memory: Memory | None = field(default=None, compare=False)


@dataclass(slots=True)
class Race:
    """Two unordered accesses, `first` issued before `second`.

    Attributes:
        first: The earlier one, in the order in which the host issued them.
        second: The later one.
        count: How often this finding was seen so far.
        position: Number of the record that made it first, counted from the collector's start.
        seen_ns: When it was first seen, ns on the events' clock; None where nobody looked at the clock.
    """

    first: Touch
    second: Touch
    count: int = field(default=1, compare=False)
    position: int = field(default=0, compare=False)
    seen_ns: int | None = field(default=None, compare=False)

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
        """Equal for races that are one finding.

        That is one kind between the same two places of the source, whatever streams they ran on; where the places are
        not known, between the same operations on the same tensors and streams.
        """
        return (self.kind, _where(self.first), _where(self.second))


def _where(touch: Touch) -> object:
    return touch.place if touch.place is not None else (touch.op, touch.tensor, touch.stream)


class Findings:
    """The races of a program, one per finding.

    Args:
        accepts: Which races are to be kept; by default all.

    Attributes:
        races: One per finding, in order of discovery.
        counts: How often each (`Race.key`) was seen.
        num_hidden: How many races were not accepted.
    """

    def __init__(self, accepts: Callable[[Race], bool] | None = None) -> None:
        self._accepts = accepts
        self._by_key: dict[tuple[object, ...], Race] = {}
        self.races: list[Race] = []
        self.counts: dict[tuple[object, ...], int] = {}
        self.num_hidden = 0

    def add(self, race: Race) -> Race | None:
        """Note a race; returns the finding that it belongs to, or None where it is not accepted."""
        if self._accepts is not None and not self._accepts(race):
            self.num_hidden += 1
            return None
        key = race.key
        self.counts[key] = self.counts.get(key, 0) + 1
        found = self._by_key.get(key)
        if found is not None:
            found.count += 1
            return found
        self._by_key[key] = race
        self.races.append(race)
        return race

    def clear(self) -> None:
        """Forget all; what was seen before will be found anew."""
        self.races, self.counts, self._by_key, self.num_hidden = [], {}, {}, 0
