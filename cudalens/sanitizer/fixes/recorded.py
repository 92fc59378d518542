"""A recorded run with the positions of all races, on which fixes are checked."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from cudalens.sanitizer.engine import (
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
    OperatorLaunched,
    Race,
    Record,
    StreamFoundDone,
    StreamId,
    StreamSynchronized,
    TensorBytes,
)
from cudalens.sanitizer.engine.races import Findings
from cudalens.sanitizer.text import stream_name

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
        """Whether an operation at one of some places was launched."""
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
    """Whether each event of a capture is recorded on a stream that the capture has reached."""
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
    """All occurrences of the races of a program, by `Race.key`."""
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
                return {"act": type(record).__name__.lower(), "tensor": record.tensor, "place": _place(record.place)}
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
    def _act(act: str, stream: StreamId, **fields: Any) -> dict[str, Any]:
        return {"act": act, "stream": stream_name(stream)} | {k: v for k, v in fields.items() if v is not None}


def _place(place: object) -> str | None:
    return None if place is None else str(place)


def accesses_of(record: OperatorLaunched | HostAccessed) -> tuple[TensorBytes, ...]:
    """All accesses of a record."""
    return (record.access,) if isinstance(record, HostAccessed) else record.reads + record.writes
