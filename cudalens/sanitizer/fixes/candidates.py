"""Possible fixes of a race: what each would insert into the recorded run, and its cost."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from cudalens.sanitizer.engine import (
    HOST,
    Access,
    BlockRecordedOnStream,
    EventRecorded,
    EventSynchronized,
    EventWaited,
    OperatorLaunched,
    Race,
    RaceKind,
    Region,
    StreamId,
    StreamSynchronized,
)
from cudalens.sanitizer.engine.races import stream_name
from cudalens.sanitizer.fixes.recorded import Insertion, Key, Occurrence, Run
from cudalens.sanitizer.fixes.source import Edit, Located, Source

_NAMESPACES: Final = ("c10d::", "_c10d_functional::")


def is_collective(touch: Access) -> bool:
    """Return whether an access is by a collective."""
    return touch.op.startswith(_NAMESPACES)


def runs_aside(touch: Access, located: Located | None) -> bool:
    """Return whether an access is by a collective that may run on another stream than the current one.

    Args:
        touch: The access.
        located: Its statement; None if the source is not available.
    """
    if not is_collective(touch):
        return False
    call = _call(located)
    if call is None or any(keyword.arg is None for keyword in call.keywords):
        return True
    given = [keyword.value for keyword in call.keywords if keyword.arg == "async_op"]
    return bool(given) and not (isinstance(given[0], ast.Constant) and given[0].value is False)


def work_name(located: Located) -> str | None:
    """Return the variable of the ``Work`` object, as in ``work = dist.all_reduce(x, async_op=True)``.

    None if the statement has another form, or if the variable is assigned more than once.
    """
    statement: Any = located.statement
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return None
    is_whole = statement.value is not None and statement.value is _call(located)
    if not is_whole or not isinstance(target, ast.Name):
        return None
    bound = [n for n in ast.walk(located.scope) if isinstance(n, ast.Name) and n.id == target.id]
    return target.id if sum(isinstance(n.ctx, ast.Store) for n in bound) == 1 else None


def _call(located: Located | None) -> ast.Call | None:
    """Return the call that made the access: the located expression, or the only call of the statement."""
    if located is None:
        return None
    if isinstance(located.expression, ast.Call):
        return located.expression
    calls = [node for node in ast.walk(located.statement) if isinstance(node, ast.Call)]
    return calls[0] if len(calls) == 1 else None


class FixKind(Enum):
    """What a fix does."""

    RECORD_STREAM = "record_stream"
    WAIT_STREAM = "wait_stream"
    WAIT_EVENT = "wait_event"
    WAIT_WORK = "work.wait"
    SYNC_STREAM = "stream.synchronize"
    SYNC_EVENT = "event.synchronize"
    BLOCKING_COPY = "blocking copy"


#: Lower is cheaper: 0 blocks nothing, 1 blocks a stream. A kind that is not listed blocks the host.
_RANK: Final = {FixKind.RECORD_STREAM: 0, FixKind.WAIT_STREAM: 1, FixKind.WAIT_EVENT: 1, FixKind.WAIT_WORK: 1}

#: The rank of fixes that block the host.
HOST_RANK: Final = 2


@dataclass(frozen=True)
class Edited:
    """Changes of one source.

    Attributes:
        source: The source.
        label: Its name in reports.
        edits: The changes.
    """

    source: Source
    label: str
    edits: tuple[Edit, ...]

    @property
    def diff(self) -> str:
        """The changes as a unified diff; empty if the result does not compile."""
        return self.source.diff(self.edits, self.label)


@dataclass(frozen=True)
class Fix:
    """A fix of a race; a candidate until it is checked on the recorded run.

    Attributes:
        kind: Kind of the fix.
        words: The fix in one sentence.
        insertions: The fix as records that are inserted into the run.
        num_needless: Number of launches that wait, or are waited for, without need.
        diff: The fix as a unified diff of the user's source; empty if it cannot be written as one with certainty.
        edited: What `diff` changes; None without one.
        removes: Keys (`Race.key`) of the races that it removes, the given race included; empty if it is not checked.
    """

    kind: FixKind
    words: str
    insertions: tuple[Insertion, ...]
    num_needless: int = 0
    diff: str = ""
    edited: Edited | None = None
    removes: frozenset[Key] = frozenset()

    @property
    def num_edits(self) -> int:
        """Number of edits in `diff`."""
        return 0 if self.edited is None else len(self.edited.edits)

    @property
    def rank(self) -> tuple[int, bool]:
        """Sort key: what the fix blocks, then whether it has no diff."""
        return _RANK.get(self.kind, HOST_RANK), not self.diff


def join_fixes(one: Fix, two: Fix) -> Fix:
    """Return a fix that does both; without a diff if they are not edits of one source."""
    edited = None
    if one.edited is not None and two.edited is not None and one.edited.source is two.edited.source:
        more = [edit for edit in two.edited.edits if edit not in one.edited.edits]
        edited = replace(one.edited, edits=(*one.edited.edits, *more))
    diff = "" if edited is None else edited.diff
    costlier = max(one, two, key=lambda fix: _RANK.get(fix.kind, HOST_RANK))
    return Fix(
        costlier.kind,
        f"{one.words}; and {two.words}",
        one.insertions + tuple(insertion for insertion in two.insertions if insertion not in one.insertions),
        one.num_needless + two.num_needless,
        diff,
        edited if diff else None,
    )


def plain_candidates(run: Run, occurrences: Sequence[Occurrence], race: Race) -> Iterator[Fix]:
    """Fixes without a diff: records at the two accesses that race, described in words."""
    if race.kind is RaceKind.HOST:
        yield from _host_candidates(run, occurrences, race)
        return
    first, second = _describe_access(race.first), _describe_access(race.second)
    whoms = _listed(seen.race.first.stream for seen in occurrences)
    if race.kind is RaceKind.USE_AFTER_FREE and all(needs_record_stream(seen.race.first) for seen in occurrences):
        yield Fix(
            FixKind.RECORD_STREAM,
            f"call record_stream on {race.first.tensor} with {whoms}, before it is freed: "
            f"{first} may still run when its memory is allocated again",
            record_stream_insertions(occurrences),
        )
    if is_collective(race.first):
        yield Fix(
            FixKind.WAIT_WORK,
            f"before {second}, call wait() on the work that {first} returned",
            _event_insertions(occurrences, is_host=False),
        )
        return
    pairs = dict.fromkeys((seen.race.second.stream, seen.race.first.stream) for seen in occurrences)
    waits = {who: _listed(whom for waiting, whom in pairs if waiting == who) for who, _ in pairs}
    yield Fix(
        FixKind.WAIT_STREAM,
        f"before {second}, let "
        + ", and ".join(f"{stream_name(who)} wait for {whom}" for who, whom in waits.items())
        + " (wait_stream)",
        tuple(i for seen in occurrences for i in wait(seen.second, seen.race.first.stream, seen.race.second.stream)),
        num_needless=num_needless(run, occurrences),
    )
    yield Fix(
        FixKind.WAIT_EVENT,
        f"record an event on {whoms} after {first}, and let {_listed(waits)} wait for it before {second}",
        _event_insertions(occurrences, is_host=False),
    )


def _host_candidates(run: Run, occurrences: Sequence[Occurrence], race: Race) -> Iterator[Fix]:
    if any(seen.race.first.stream == HOST for seen in occurrences):
        return
    streams = _listed(seen.race.first.stream for seen in occurrences)
    first, second = _describe_access(race.first), _describe_access(race.second)
    yield Fix(
        FixKind.SYNC_STREAM,
        f"synchronize {streams} before {second}",
        tuple(Insertion(seen.second, StreamSynchronized(seen.race.first.stream)) for seen in occurrences),
        num_needless=num_needless(run, occurrences),
    )
    yield Fix(
        FixKind.SYNC_EVENT,
        f"record an event on {streams} after {first}, and synchronize it before {second}",
        _event_insertions(occurrences, is_host=True),
    )


def _listed(streams: Iterable[StreamId]) -> str:
    """Return the names of streams, each once: ``stream s1, stream s2 and the default stream``."""
    names = list(dict.fromkeys(map(stream_name, streams)))
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _describe_access(touch: Access) -> str:
    """Return an access, for the middle of a sentence."""
    what = f"{touch.op or 'the access'} of {touch.tensor}"
    if touch.captured is not None:
        return f"the replay at {touch.place} of {what}"
    return what if touch.place is None else f"{what} at {touch.place}"


def needs_record_stream(touch: Access) -> bool:
    """Return whether ``record_stream`` has an effect: the stream is not the one whose pool the memory came from."""
    return touch.memory is not None and touch.memory.stream not in (None, HOST, touch.stream)


def record_stream_insertions(occurrences: Sequence[Occurrence]) -> tuple[Insertion, ...]:
    """``record_stream`` of the earlier tensors on the streams of the earlier accesses."""
    memories = [(seen, seen.race.first.memory) for seen in occurrences]
    return tuple(
        Insertion(
            seen.first, BlockRecordedOnStream(Region(memory.start, max(memory.num_bytes, 1)), seen.race.first.stream)
        )
        for seen, memory in memories
        if memory is not None
    )


def wait(position: int, whom: StreamId, who: StreamId) -> tuple[Insertion, ...]:
    """``who.wait_stream(whom)`` before the record at `position`."""
    event = ("fix", position, whom, who)
    return Insertion(position, EventRecorded(event, whom)), Insertion(position, EventWaited(event, who))


def _event_insertions(occurrences: Sequence[Occurrence], *, is_host: bool) -> tuple[Insertion, ...]:
    found: list[Insertion] = []
    for seen in occurrences:
        event = ("fix", seen.first)
        waiting = EventSynchronized(event) if is_host else EventWaited(event, seen.race.second.stream)
        found += [
            Insertion(seen.first + 1, EventRecorded(event, seen.race.first.stream)),
            Insertion(seen.second, waiting),
        ]
    return tuple(found)


def num_needless(run: Run, occurrences: Sequence[Occurrence], waits: Iterable[int] | None = None) -> int:
    """Number of launches that a wait of the later access's stream for the earlier one's affects without need.

    These are launches on the earlier stream after the access, and launches on the later stream before its access.

    Args:
        run: The recorded run.
        occurrences: Occurrences of the race.
        waits: Positions of the waits; by default directly before the later accesses.
    """
    found, positions = 0, None if waits is None else sorted(waits)
    for seen in occurrences:
        here = [p for p in positions if seen.first < p <= seen.second] if positions is not None else []
        at = here[0] if here else seen.second
        first, second = seen.race.first.stream, seen.race.second.stream
        found += sum(isinstance(r, OperatorLaunched) and r.stream == first for r in run.records[seen.first + 1 : at])
        found += sum(isinstance(r, OperatorLaunched) and r.stream == second for r in run.records[at : seen.second])
    return found
