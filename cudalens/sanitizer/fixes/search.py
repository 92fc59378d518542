"""What to do about a race: edits that were tried on the recorded run before they are offered.

A fix is a set of records that the run did not have (an event recorded here, waited for there). With them inserted, the
engine judges the run again: the race must be gone, and no other may come up. Of those that pass, the one is offered
that makes the fewest wait: ``record_stream`` blocks nobody, a wait of a stream blocks that stream, a synchronisation
blocks the host. Where the source is at hand, each is a unified diff of the user's own lines as well.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from cudalens.sanitizer.engine import (
    HOST,
    EventRecord,
    EventSync,
    EventWait,
    Launch,
    Race,
    RaceKind,
    Record,
    RecordStream,
    Region,
    StreamId,
    StreamSync,
    Touch,
)
from cudalens.sanitizer.fixes.collectives import is_collective
from cudalens.sanitizer.fixes.recorded import Insertion, Key, Occurrence, Run, between
from cudalens.sanitizer.fixes.source import Edit, Source, Sources
from cudalens.sanitizer.races_frame import Finding
from cudalens.sanitizer.text import stream_name


class FixKind(Enum):
    """What a fix does."""

    RECORD_STREAM = "record_stream"
    WAIT_STREAM = "wait_stream"
    WAIT_EVENT = "wait_event"
    WAIT_WORK = "work.wait"
    SYNC_STREAM = "stream.synchronize"
    SYNC_EVENT = "event.synchronize"
    BLOCKING_COPY = "blocking copy"


_RANK: Final = {FixKind.RECORD_STREAM: 0, FixKind.WAIT_STREAM: 1, FixKind.WAIT_EVENT: 1, FixKind.WAIT_WORK: 1}
"""Who is made to wait: nobody, a stream; what is not here, the host."""

_HOST_RANK: Final = 2


@dataclass(frozen=True)
class Fix:
    """A suggestion that removes a race from the recorded run, and adds none.

    Attributes:
        kind: What it does.
        words: It in one sentence.
        insertions: It as records among those of the run.
        diff: It as a unified diff of the user's source; empty where it cannot be written as one for certain.
        removes: The races that it removes (`Race.key`), at least the one that it is for.
    """

    kind: FixKind
    words: str
    insertions: tuple[Insertion, ...]
    diff: str = ""
    removes: frozenset[Key] = frozenset()

    @property
    def rank(self) -> tuple[int, bool]:
        """Who waits; and whether it is no more than words."""
        return _RANK.get(self.kind, _HOST_RANK), not self.diff


@dataclass(frozen=True)
class Candidate:
    """A fix that has not been tried yet.

    Attributes:
        kind: What it does.
        words: It in one sentence.
        insertions: It as records.
        edits: It as edits of one source; none where it is in words alone.
        source: That source.
        label: Its name.
        num_needless: Launches that are waited for, or held up, without need.
    """

    kind: FixKind
    words: str
    insertions: tuple[Insertion, ...]
    edits: tuple[Edit, ...] = ()
    source: Source | None = None
    label: str = ""
    num_needless: int = 0
    diff: str = field(init=False, default="")

    def __post_init__(self) -> None:
        if self.source is not None and self.edits:
            object.__setattr__(self, "diff", self.source.diff(list(self.edits), self.label))

    @property
    def rank(self) -> tuple[int, bool]:
        """Who waits; and whether it is no more than words."""
        return _RANK.get(self.kind, _HOST_RANK), not self.diff


def suggest(run: Run | Iterable[Record], race: Race, sources: Sources | None = None) -> Fix | None:
    """The best fix of a race that passes on the recorded run.

    Args:
        run: The program that shows the race, as records or judged already.
        race: The race; what counts is its `Race.key`.
        sources: Where the user's source is found; by default `linecache`.

    Returns:
        None where the run does not show the race (its first access is too long ago), or nothing removes it.
    """
    run = run if isinstance(run, Run) else Run(run)
    occurrences = run.occurrences.get(race.key)
    if not occurrences:
        return None
    from cudalens.sanitizer.fixes.writing import written_candidates

    candidates = [
        *written_candidates(run, occurrences, race, sources or Sources()),
        *plain_candidates(run, occurrences, race),
    ]
    for rank in sorted({candidate.rank for candidate in candidates}):
        passed = list(_passed(run, race.key, [c for c in candidates if c.rank == rank]))
        if passed:
            return min(passed, key=lambda pair: pair[0])[1]
    return None


def _passed(run: Run, key: Key, candidates: Sequence[Candidate]) -> Iterator[tuple[tuple[int, int, int, int], Fix]]:
    """Those that work, each with its cost: removes few races, waits for too much, is long, comes late in the list."""
    for number, c in enumerate(candidates):
        removed = run.is_fixed_by(key, c.insertions)
        if removed is not None:
            fix = Fix(c.kind, c.words, c.insertions, c.diff, frozenset(removed))
            yield (-len(removed), c.num_needless, len(c.edits), number), fix


def findings_of(
    records: Iterable[Record], races: Iterable[Race], sources: Sources | None = None, *, budget_s: float = 3.0
) -> list[Finding]:
    """Races with all that the recorded run tells of them.

    Args:
        records: The run.
        races: Its races, found live or by replaying it. Races that one fix removes share it.
        sources: Where the user's source is found; by default `linecache`.
        budget_s: Seconds after which no more fixes are tried: trying one means to judge the run again.
    """
    run, sources, races = Run(records), sources or Sources(), list(races)
    fixes: list[Fix | None] = []
    end = time.monotonic() + budget_s
    for race in races:
        known = any(fix is not None and race.key in fix.removes and fix.rank <= _best_rank(race) for fix in fixes)
        fixes.append(suggest(run, race, sources) if not known and time.monotonic() < end else None)
    return [
        Finding(race, _shared(race.key, fix, fixes), between(run, race.key), seen_ns=race.seen_ns)
        for race, fix in zip(races, fixes, strict=True)
    ]


def _best_rank(race: Race) -> tuple[int, bool]:
    """The rank that a fix of the race could have."""
    if race.kind is RaceKind.HOST:
        return _HOST_RANK, False
    return int(race.kind is not RaceKind.USE_AFTER_FREE or not needs_record_stream(race.first)), False


def _shared(key: Key, own: Fix | None, fixes: Sequence[Fix | None]) -> Fix | None:
    """The fix that removes the most races, of those that remove this one and are no worse than its own."""
    able = [f for f in fixes if f is not None and key in f.removes and (own is None or f.rank <= own.rank)]
    return max(able, key=lambda fix: len(fix.removes), default=None)


def plain_candidates(run: Run, occurrences: Sequence[Occurrence], race: Race) -> Iterator[Candidate]:
    """Fixes as records alone, at the very accesses that race, told in words."""
    if race.kind is RaceKind.HOST:
        yield from _host_candidates(run, occurrences, race)
        return
    if race.kind is RaceKind.USE_AFTER_FREE and all(needs_record_stream(seen.race.first) for seen in occurrences):
        yield Candidate(
            FixKind.RECORD_STREAM,
            f"call record_stream on {race.first.tensor} with {stream_name(race.first.stream)}, before it is freed: "
            f"{told(race.first)} may still run when its memory is handed out again",
            record_stream_insertions(occurrences),
        )
    if is_collective(race.first):
        yield Candidate(
            FixKind.WAIT_WORK,
            f"before {told(race.second)}, call wait() on the work that {told(race.first)} returned",
            _event_insertions(occurrences, is_host=False),
        )
        return
    who, whom = stream_name(race.second.stream), stream_name(race.first.stream)
    yield Candidate(
        FixKind.WAIT_STREAM,
        f"before {told(race.second)}, let {who} wait for {whom} (wait_stream)",
        tuple(i for seen in occurrences for i in wait(seen.second, seen.race.first.stream, seen.race.second.stream)),
        num_needless=num_needless(run, occurrences),
    )
    yield Candidate(
        FixKind.WAIT_EVENT,
        f"record an event on {whom} after {told(race.first)}, and let {who} wait for it before {told(race.second)}",
        _event_insertions(occurrences, is_host=False),
    )


def _host_candidates(run: Run, occurrences: Sequence[Occurrence], race: Race) -> Iterator[Candidate]:
    if any(seen.race.first.stream == HOST for seen in occurrences):
        return
    stream = stream_name(race.first.stream)
    yield Candidate(
        FixKind.SYNC_STREAM,
        f"synchronize {stream} before {told(race.second)}",
        tuple(Insertion(seen.second, StreamSync(seen.race.first.stream)) for seen in occurrences),
        num_needless=num_needless(run, occurrences),
    )
    yield Candidate(
        FixKind.SYNC_EVENT,
        f"record an event on {stream} after {told(race.first)}, and synchronize it before {told(race.second)}",
        _event_insertions(occurrences, is_host=True),
    )


def told(touch: Touch) -> str:
    """An access in words, for the middle of a sentence."""
    what = f"{touch.op or 'the access'} of {touch.tensor}"
    return what if touch.place is None else f"{what} at {touch.place}"


def needs_record_stream(touch: Touch) -> bool:
    """Whether ``record_stream`` would mean anything: the stream is not the one whose pool the memory came from."""
    return touch.memory is not None and touch.memory.stream not in (None, HOST, touch.stream)


def record_stream_insertions(occurrences: Sequence[Occurrence]) -> tuple[Insertion, ...]:
    """The earlier tensors, recorded on the streams of the earlier accesses."""
    memories = [(seen, seen.race.first.memory) for seen in occurrences]
    return tuple(
        Insertion(seen.first, RecordStream(Region(memory.start, max(memory.num_bytes, 1)), seen.race.first.stream))
        for seen, memory in memories
        if memory is not None
    )


def wait(position: int, whom: StreamId, who: StreamId) -> tuple[Insertion, ...]:
    """``who.wait_stream(whom)`` in front of a record."""
    event = ("fix", position, whom, who)
    return Insertion(position, EventRecord(event, whom)), Insertion(position, EventWait(event, who))


def _event_insertions(occurrences: Sequence[Occurrence], *, is_host: bool) -> tuple[Insertion, ...]:
    found: list[Insertion] = []
    for seen in occurrences:
        event = ("fix", seen.first)
        waiting = EventSync(event) if is_host else EventWait(event, seen.race.second.stream)
        found += [
            Insertion(seen.first + 1, EventRecord(event, seen.race.first.stream)),
            Insertion(seen.second, waiting),
        ]
    return tuple(found)


def num_needless(run: Run, occurrences: Sequence[Occurrence], waits: Iterable[int] | None = None) -> int:
    """Launches that a wait of the later access's stream for all of the earlier one's concerns without need.

    That is work of the earlier stream that it covers beside the access, and work of the later one that it holds up.

    Args:
        run: The run.
        occurrences: Of the race.
        waits: Positions in front of which there is a wait; by default right in front of the later accesses.
    """
    found, positions = 0, None if waits is None else sorted(waits)
    for seen in occurrences:
        here = [p for p in positions if seen.first < p <= seen.second] if positions is not None else []
        at = here[0] if here else seen.second
        first, second = seen.race.first.stream, seen.race.second.stream
        found += sum(isinstance(r, Launch) and r.stream == first for r in run.records[seen.first + 1 : at])
        found += sum(isinstance(r, Launch) and r.stream == second for r in run.records[at : seen.second])
    return found
