"""Races: two accesses to the same bytes, at least one a write, that nothing orders; and their text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum

from cudalens.sanitizer.engine.records import HOST, Place, Region, StreamId


class RaceKind(Enum):
    """The kind of a race."""

    READ_AFTER_WRITE = "read after write"
    WRITE_AFTER_READ = "write after read"
    WRITE_AFTER_WRITE = "write after write"
    #: The block was freed and allocated again while a stream still used it, without record_stream.
    USE_AFTER_FREE = "use after free"
    #: The host reads the target of a copy before it is done, or writes its source.
    HOST = "host access"


@dataclass(frozen=True, slots=True)
class Memory:
    """The block of an access, at the time of the access.

    Attributes:
        name: The collector's name for it.
        start: Its address.
        num_bytes: Its size.
        stream: Stream whose pool it came from; HOST for host memory; None if it was allocated earlier.
        place: Place of the allocation; None if it was not observed.
        freed_place: Place where its last reference was dropped; None if it is allocated, or if that was not observed.
        freed_stack: The call stack there, as the collector recorded it.
        stack: The call stack of the allocation, as the collector recorded it.
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
class Access:
    """One recorded access.

    Attributes:
        stream: Its stream; HOST for the host itself.
        clock: Its epoch on that stream.
        is_write: Whether it wrote.
        tensor: Name of the tensor.
        region: The accessed bytes.
        op: Name of the operation.
        place: Place in the user's program; for an operation of a CUDA graph, of the replay.
        generation: Number of earlier allocations of the block.
        argument: Name of the operation's argument; empty if it has none.
        shape: Shape of the tensor; None if unknown.
        stride: Strides in elements; None if the tensor is contiguous, or if unknown.
        dtype: The type ("float32"); empty if unknown.
        stack: The call stack, as the collector recorded it; None if it recorded none.
        memory: The block.
        captured: For an operation of a CUDA graph, the place at which it was captured.
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
    captured: Place = None


@dataclass(slots=True)
class Race:
    """Two unordered accesses, `first` issued before `second`.

    Attributes:
        first: The access that the host issued first.
        second: The other one.
        count: Number of occurrences so far.
        position: Number of the record of its first occurrence, counted from the start of the collector.
        seen_ns: Time of its first occurrence, ns on the clock of the events; None if not measured.
    """

    first: Access
    second: Access
    count: int = field(default=1, compare=False)
    position: int = field(default=0, compare=False)
    seen_ns: int | None = field(default=None, compare=False)

    @property
    def kind(self) -> RaceKind:
        """The most specific kind."""
        if HOST in (self.first.stream, self.second.stream):
            return RaceKind.HOST
        if self.first.generation != self.second.generation:
            return RaceKind.USE_AFTER_FREE
        if self.first.is_write:
            return RaceKind.WRITE_AFTER_WRITE if self.second.is_write else RaceKind.READ_AFTER_WRITE
        return RaceKind.WRITE_AFTER_READ

    @property
    def tensors(self) -> frozenset[str]:
        """Names of the accessed tensors: two after a reuse of memory, otherwise one."""
        return frozenset((self.first.tensor, self.second.tensor))

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for races that are one finding: of one kind, between the same two places, on any streams.

        If the places are unknown: between the same operations on the same tensors and streams.
        """
        return (self.kind, _where(self.first), _where(self.second))


def _where(touch: Access) -> object:
    if touch.place is None:
        return touch.op, touch.tensor, touch.stream
    return touch.place if touch.captured is None else (touch.place, touch.captured)


class Findings:
    """The races of a program, one per finding.

    Args:
        accepts: Whether a race is kept; by default all are.

    Attributes:
        races: One per finding, in order of discovery.
        counts: Number of occurrences by `Race.key`.
        num_hidden: Number of occurrences that were not accepted.
    """

    def __init__(self, accepts: Callable[[Race], bool] | None = None) -> None:
        self._accepts = accepts
        self._by_key: dict[tuple[object, ...], Race] = {}
        self.races: list[Race] = []
        self.counts: dict[tuple[object, ...], int] = {}
        self.num_hidden = 0

    def add(self, race: Race) -> Race | None:
        """Add an occurrence; returns its finding, or None if it is not accepted."""
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
        """Remove all findings; later occurrences become new findings."""
        self.races, self.counts, self._by_key, self.num_hidden = [], {}, {}, 0


# Describe races as text, for warnings, errors and plain output.

_WORDS = {True: "writes", False: "reads"}


def summarize(num_findings: int, num_seen: int) -> str:
    """One line: the number of findings and of their occurrences."""
    if not num_findings:
        return "no race"
    races = counted(num_findings, "race")
    return f"{races}, seen once" if num_seen == 1 else f"{races}, seen {num_seen:,} times"


def counted(number: int, word: str) -> str:
    """``1 race``, ``2,000 races``."""
    return f"1 {word}" if number == 1 else f"{number:,} {word}s"


def describe(race: Race) -> str:
    """Return a race in one sentence."""
    first, second = race.first, race.second
    return (
        f"{race.kind.value}: {_act(second)} and nothing orders that after {_act(first)}. "
        f"Both touch {_bytes(race)} of {_memory(race)}."
    )


_names: ContextVar[Mapping[StreamId, str]] = ContextVar("cudalens_stream_names", default={})  # noqa: B039


@contextmanager
def naming(names: Mapping[StreamId, str]) -> Iterator[None]:
    """Inside the block, reports use these names of streams."""
    before = _names.set(names)
    try:
        yield
    finally:
        _names.reset(before)


def stream_name(stream: StreamId) -> str:
    """Return a stream as reports show it: its name within `naming`, otherwise its pointer."""
    if stream == HOST:
        return "the host"
    if (named := _names.get().get(stream)) is not None:
        return f"stream {named}"
    if stream.stream == 0:
        name = "the default stream"
    else:
        name = f"stream {stream.stream:#x}" if isinstance(stream.stream, int) else f"stream {stream.stream}"
    return f"{name} of device {stream.device}" if stream.device else name


def _act(touch: Access) -> str:
    argument = f" ({touch.argument})" if touch.argument else ""
    place = f" at {touch.place}" if touch.place is not None else ""
    if touch.captured is not None:
        place += f" (captured at {touch.captured})"
    where = "on the host" if touch.stream == HOST else f"on {stream_name(touch.stream)}"
    return f"{touch.op}{argument} {_WORDS[touch.is_write]} {touch.tensor} {where}{place}"


def _bytes(race: Race) -> str:
    low = max(race.first.region.start, race.second.region.start)
    high = min(race.first.region.end, race.second.region.end)
    base = race.second.memory.start if race.second.memory is not None else race.second.region.start
    return f"bytes {low - base} to {high - base}"


def _memory(race: Race) -> str:
    memory = race.second.memory
    if memory is None:
        return race.second.tensor
    made = f" allocated at {memory.place}" if memory.place is not None else ""
    return f"the {memory.num_bytes:,} bytes{made}"
