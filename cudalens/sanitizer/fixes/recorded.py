"""A recorded run with the positions of all races, on which fixes are checked."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

from cudalens.sanitizer.engine import (
    HOST,
    Access,
    BlockRecordedOnStream,
    Detector,
    DeviceSynchronized,
    EventFoundDone,
    EventRecorded,
    EventSynchronized,
    EventWaited,
    HostAccessed,
    MemoryAllocated,
    MemoryFreed,
    OperatorCaptured,
    OperatorLaunched,
    Race,
    Record,
    StreamFoundDone,
    StreamId,
    StreamSynchronized,
    TensorBytes,
)
from cudalens.sanitizer.engine.races import Findings, stream_name
from cudalens.sanitizer.fixes.source import Located, Sources

#: `Race.key`.
Key: TypeAlias = tuple[object, ...]

#: Number of entries of `between`; the middle of longer lists is left out.
MAX_BETWEEN: Final = 64


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One occurrence of a race.

    Attributes:
        first: Position of the earlier access's record.
        second: Position of the later one's.
        race: The race, with the accesses of this occurrence.
    """

    first: int
    second: int
    race: Race


@dataclass(frozen=True, slots=True)
class Insertion:
    """A record that a fix inserts into the run.

    Attributes:
        position: Number of the record before which it is inserted.
        record: The record.
    """

    position: int
    record: Record


class Run:
    """A recorded program and its races.

    Args:
        records: The records in order. Accesses of memory without an allocation are ignored.
        is_capture: Whether it is the capture of a CUDA graph. There, a stream waits only for streams that the capture
            has reached before, by an event that was recorded in it.

    Attributes:
        records: The records.
        occurrences: All occurrences of each race, by `Race.key`.
    """

    def __init__(self, records: Iterable[Record], *, is_capture: bool = False) -> None:
        self.records: Final = list(records)
        self.is_capture: Final = is_capture
        self.occurrences: Final = judge(self.records)

    @property
    def devices(self) -> set[int]:
        """Indices of the devices with work."""
        return {record.stream.device for record in self.records if isinstance(record, OperatorLaunched)}

    def runs_any(self, places: Set[object]) -> bool:
        """Return whether an operation at one of some places was launched."""
        return any(isinstance(record, OperatorLaunched) and record.place in places for record in self.records)

    def is_fixed_by(self, key: Key, insertions: Sequence[Insertion]) -> Set[Key] | None:
        """The races that these insertions remove; None unless `key` is one and no race occurs that did not before."""
        changed = inserted(self.records, insertions)
        if self.is_capture and not _can_be_captured(changed):
            return None
        left = judge(changed)
        if key in left or any(len(seen) > len(self.occurrences.get(other, ())) for other, seen in left.items()):
            return None
        return self.occurrences.keys() - left.keys()


def _can_be_captured(records: Sequence[Record]) -> bool:
    """Return whether each event of a capture is recorded on a stream that the capture has reached."""
    reached: set[StreamId] = set()
    recorded: set[object] = set()
    for record in records:
        match record:
            case OperatorLaunched() if not reached:
                reached.add(record.stream)
            case EventRecorded():
                if reached and record.stream not in reached:
                    return False
                reached.add(record.stream)
                recorded.add(record.event)
            case EventWaited() if record.event in recorded:
                reached.add(record.stream)
            case StreamSynchronized() | EventSynchronized() | DeviceSynchronized():
                return False
    return True


class _At:
    """A place with the position of its record, compared by identity, so that each access is a finding of its own."""

    __slots__ = ("place", "position")

    def __init__(self, position: int, place: object) -> None:
        self.position, self.place = position, place


class _Occurrences(Findings):
    """Returns each occurrence as it is, also of a finding that it had before."""

    def add(self, race: Race) -> Race:
        """Return the race, which is not kept."""
        return race


def judge(records: Sequence[Record]) -> dict[Key, list[Occurrence]]:
    """Return all occurrences of the races of a program, by `Race.key`."""
    detector, found = Detector(_Occurrences()), dict[Key, list[Occurrence]]()
    for position, record in enumerate(records):
        known: Record = record
        if isinstance(record, (OperatorLaunched, HostAccessed)):
            known = replace(record, place=_At(position, record.place))
        try:
            races = detector.add(known)
        except ValueError:  # memory that was allocated before the first record
            continue
        for race in races:
            occurrence = _occurrence(race)
            found.setdefault(occurrence.race.key, []).append(occurrence)
    return found


def _occurrence(race: Race) -> Occurrence:
    first: Any = race.first.place
    second: Any = race.second.place
    plain = Race(replace(race.first, place=first.place), replace(race.second, place=second.place))
    return Occurrence(first.position, second.position, plain)


def inserted(records: Sequence[Record], insertions: Sequence[Insertion]) -> list[Record]:
    """The records with insertions; several at one position keep their order."""
    by_position: dict[int, list[Record]] = {}
    for insertion in insertions:
        by_position.setdefault(insertion.position, []).append(insertion.record)
    result: list[Record] = []
    for position, record in enumerate(records):
        result += by_position.get(position, ())
        result.append(record)
    return result


def between(run: Run, key: Key) -> list[dict[str, Any]] | None:
    """The records from the first access of a race to the second, at its first occurrence.

    These are all synchronisations, and the launches on the streams of both accesses.

    Returns:
        One entry per record: ``act`` (``first``, ``second``, ``launch``, ``event_record``, ``event_wait``,
        ``event_sync``, ``stream_sync``, ``device_sync``, ``alloc``, ``free``, ``record_stream``, or ``left out`` with
        ``count``), and if applicable ``stream`` (its name in reports), ``event`` (a number, from 1), ``op``, ``place``,
        ``tensor``. None if the run does not contain the race.
    """
    if key not in run.occurrences:
        return None
    seen = run.occurrences[key][0]
    entries = list(_Between(seen).entries(run.records))
    if len(entries) > MAX_BETWEEN:
        half = MAX_BETWEEN // 2
        entries[half:-half] = [{"act": "left out", "count": len(entries) - 2 * half}]
    return entries


class _Between:
    def __init__(self, seen: Occurrence) -> None:
        self._seen = seen
        self._streams = {seen.race.first.stream, seen.race.second.stream}
        self._events: dict[Hashable, int] = {}

    def entries(self, records: Sequence[Record]) -> Iterator[dict[str, Any]]:
        seen = self._seen
        yield self._access("first", seen.race.first)
        for record in records[seen.first + 1 : seen.second]:
            entry = self._entry(record)
            if entry is not None:
                yield entry
        yield self._access("second", seen.race.second)

    def _entry(self, record: Any) -> dict[str, Any] | None:
        match record:
            case OperatorLaunched(stream=stream) if stream in self._streams:
                return self._act("launch", stream, op=record.name or None, place=_place(record.place))
            case EventRecorded():
                return self._act("event_record", record.stream, event=self._event(record.event))
            case EventWaited():
                return self._act("event_wait", record.stream, event=self._event(record.event))
            case EventSynchronized() | EventFoundDone():
                return {"act": "event_sync", "event": self._event(record.event)}
            case StreamSynchronized() | StreamFoundDone():
                return self._act("stream_sync", record.stream)
            case DeviceSynchronized():
                return {"act": "device_sync", "device": record.device}
            case BlockRecordedOnStream() if self._is_of_race(record.region.start):
                return self._act("record_stream", record.stream)
            case MemoryAllocated() | MemoryFreed() if self._is_of_race(record.region.start):
                act = "alloc" if isinstance(record, MemoryAllocated) else "free"
                return {"act": act, "tensor": record.tensor, "place": _place(record.place)}
        return None

    def _is_of_race(self, start: int) -> bool:
        return any(
            t.memory is not None and t.memory.start == start for t in (self._seen.race.first, self._seen.race.second)
        )

    def _event(self, event: Any) -> int:
        return self._events.setdefault(event, len(self._events) + 1)

    def _access(self, act: str, touch: Access) -> dict[str, Any]:
        return self._act(act, touch.stream, op=touch.op or None, place=_place(touch.place))

    @staticmethod
    def _act(
        act: str, stream: StreamId, *, op: str | None = None, place: str | None = None, event: int | None = None
    ) -> dict[str, Any]:
        fields = {"op": op, "place": place, "event": event}
        return {"act": act, "stream": stream_name(stream)} | {k: v for k, v in fields.items() if v is not None}


def _place(place: object) -> str | None:
    return None if place is None else str(place)


def accesses_of(record: OperatorLaunched | HostAccessed) -> tuple[TensorBytes, ...]:
    """Return all accesses of a record."""
    return (record.access,) if isinstance(record, HostAccessed) else record.reads + record.writes


class Segment(NamedTuple):
    """One execution of a statement or block.

    Attributes:
        start: Position of its first record.
        end: Position of its last record.
        stream: Stream of its first launch; HOST if it launched nothing. Of a ``with`` block, the stream of the
            launches directly in it, not in a block inside it.
        has_launch: Whether it launched anything.
        is_start: Whether it begins the execution: nothing was launched in a block inside this one before.
    """

    start: int
    end: int
    stream: StreamId
    has_launch: bool
    is_start: bool


class Executions:
    """The statements of a race, and their executions in the run.

    Args:
        run: The run.
        occurrences: Occurrences of the race.
        race: The race.
        sources: Provides the source.
    """

    def __init__(self, run: Run, occurrences: Sequence[Occurrence], race: Race, sources: Sources) -> None:
        self._run, self._occurrences, self._sources = run, occurrences, sources
        self._race = race
        self._first = self._locate([seen.first for seen in occurrences])
        self._second = self._locate([seen.second for seen in occurrences])

    @cached_property
    def _is_one_device(self) -> bool:
        """Whether the program uses only the current device."""
        from cudalens.device.streams import current_device  # needs torch, as a program with source does

        return self._run.devices <= {current_device()}

    def _is_stream_of(self, located: Located, stream: StreamId) -> bool:
        """Return whether the block of an access switches to a stream.

        All launches directly in the block are on it. A block can switch the stream of another device than theirs, so
        with several devices the name of the stream must be known as well.
        """
        if self._streams_in(located.scope, located.stream_block) != {stream}:
            return False
        return self._is_one_device or stream_name(stream) == f"stream {located.stream}"

    def _streams_in(self, scope: ast.AST, block: ast.AST | None) -> set[StreamId]:
        """Streams of the launches of a function or module that are directly in one of its blocks, or in none."""
        found = set()
        for record in self._run.records:
            if isinstance(record, OperatorLaunched):
                located = self._sources.locate(record.place)
                if located is not None and located.scope is scope and located.stream_block is block:
                    found.add(record.stream)
        return found

    def _is_one_call(self, scope: ast.AST, segments: Sequence[Segment]) -> bool:
        """Whether all executions belong to one call of a function: nothing else ran between the first and the last."""
        if isinstance(scope, ast.Module) or len(segments) == 1:
            return True
        for record in self._run.records[segments[0].start : segments[-1].end + 1]:
            if isinstance(record, (OperatorLaunched, HostAccessed)):
                located = self._sources.locate(record.place)
                if located is None or located.scope is not scope:
                    return False
        return True

    def _locate(self, positions: Iterable[int]) -> Located | None:
        """The statement that made the accesses of some records; None if there are several, or if it is unknown."""
        records: list[Any] = [self._run.records[position] for position in positions]
        calls = {record.place for record in records}
        return self._sources.locate(calls.pop()) if len(calls) == 1 else None

    def _segments(self, node: ast.stmt) -> list[Segment]:
        """Executions of a statement, or of a block, in the run; none if a part of it was captured into a CUDA graph."""
        found: list[Segment] = []
        is_inside = False
        for position, record in enumerate(self._run.records):
            if not isinstance(record, (OperatorLaunched, HostAccessed, OperatorCaptured)):
                continue
            located = self._sources.locate(record.place)
            belongs = located is not None and _is_within(located, node)
            if isinstance(record, OperatorCaptured):
                if belongs:
                    return []  # what is inserted there would be captured too, which CUDA may not allow
                continue
            is_inner = _is_block(node) and located is not None and located.stream_block is not node
            stream = record.stream if isinstance(record, OperatorLaunched) and not is_inner else HOST
            is_launch = isinstance(record, OperatorLaunched)
            last = found[-1] if found and is_inside else None
            if belongs and last is not None and (stream in (last.stream, HOST) or not last.has_launch):
                stream = last.stream if stream == HOST else stream
                found[-1] = Segment(last.start, position, stream, last.has_launch or is_launch, last.is_start)
            elif belongs:
                found.append(Segment(position, position, stream, is_launch, last is None or last.stream != HOST))
            is_inside = belongs
        is_ambiguous = not _is_block(node) and len({s.stream.device for s in found if s.stream != HOST}) > 1
        return [] if is_ambiguous else found

    def _is_apart(self, located: Located, other: Access) -> bool:
        """Return whether the statement of this access cannot have called the other access."""
        place = self._first if other is self._race.first else self._second
        if place is not None and place.scope is located.scope:
            return True
        lines = range(located.statement.lineno, (located.statement.end_lineno or 0) + 1)
        entries = _stack(other)
        return bool(entries) and all(f != located.spot.filename or line not in lines for f, line in entries)


def _is_block(node: ast.stmt) -> bool:
    return isinstance(node, (ast.With, ast.AsyncWith))


def _is_within(located: Located, node: ast.stmt) -> bool:
    if located.statement is node:
        return True
    return _is_block(node) and any(block is node for block, _ in located.withs)


def _stack(touch: Access) -> list[tuple[str, int]]:
    """File and line of every stack frame of an access; empty if no stack was recorded."""
    if touch.stack is None:
        return []
    from cudalens.device.stacks import frames_of  # needs torch, as the recording of a stack does

    take: Callable[..., Any] = frames_of
    return [(entry.filename, entry.line) for entry in take(touch.stack)]
