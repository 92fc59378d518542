"""Find the fix of a race: candidates are tried on the recorded run, and the cheapest that works is suggested.

A fix inserts records into the run (an event is recorded here and waited for there). The engine then checks the run
again: the race must be gone, and no other race may appear. ``record_stream`` blocks nothing, a stream wait blocks that
stream, a synchronisation blocks the host. If the source is available, a fix is also a unified diff of the user's code.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from cudalens.sanitizer.engine import Race, RaceKind, Record
from cudalens.sanitizer.fixes.candidates import (
    HOST_RANK,
    Fix,
    join_fixes,
    needs_record_stream,
    plain_candidates,
)
from cudalens.sanitizer.fixes.recorded import Key, Run, between
from cudalens.sanitizer.fixes.source import Sources
from cudalens.sanitizer.fixes.writing import written_candidates
from cudalens.sanitizer.races_frame import Finding


def suggest(
    run: Run | Iterable[Record], race: Race, sources: Sources | None = None, known: Mapping[Key, Race] | None = None
) -> Fix | None:
    """Return the best fix that removes a race from the recorded run, and all races of the same cause.

    The inputs of one operator can come from several streams: each of them must be waited for, or the value is still
    wrong. So a fix is complete only if it also removes the other races of the same later access.

    Args:
        run: The program that has the race, as records or as a checked run.
        race: The race.
        sources: Provides the user's source; by default `linecache`.
        known: Races by `Race.key`, with what the run does not contain: call stacks and names of tensors.

    Returns:
        None if the run does not contain the race (its first access is too old), or if no candidate removes it.
    """
    run = run if isinstance(run, Run) else Run(run)
    sources = sources or Sources()
    fix = _cheapest(run, race, sources, 0)
    if fix is None:
        return None
    cause, number, joined = _cause_of(race), 0, fix
    for seen in run.occurrences.values():
        other = (known or {}).get(seen[0].race.key, seen[0].race)
        if other.key in joined.removes or _cause_of(other) != cause:
            continue
        number += 1
        more = _cheapest(run, other, sources, number)
        if more is None:
            return None
        joined = join_fixes(joined, more)
        removed = run.is_fixed_by(race.key, joined.insertions)
        if removed is None or other.key not in removed:
            return None
        joined = replace(joined, removes=frozenset(removed))
    return joined


def _cause_of(race: Race) -> tuple[object, ...]:
    """What races of one cause share: the access to memory that is then freed, or the access that should have waited."""
    if race.kind is RaceKind.USE_AFTER_FREE:
        return True, race.first.place or race.key[1]
    return False, race.second.place or race.key[2]


def _cheapest(run: Run, race: Race, sources: Sources, number: int) -> Fix | None:
    """Return the cheapest candidate that removes a race; `number`: how many fixes it is joined to."""
    occurrences = run.occurrences.get(race.key)
    if not occurrences:
        return None
    candidates = [
        *written_candidates(run, occurrences, race, sources, number),
        *plain_candidates(run, occurrences, race),
    ]
    for rank in sorted({candidate.rank for candidate in candidates}):
        passed = list(_passed(run, race.key, [c for c in candidates if c.rank == rank]))
        if passed:
            return min(passed, key=lambda pair: pair[0])[1]
    return None


def _passed(run: Run, key: Key, candidates: Sequence[Fix]) -> Iterator[tuple[tuple[int, int, int, int], Fix]]:
    """Yield the candidates that work, each with its cost: races removed (negative), needless waits, edits, position."""
    for number, c in enumerate(candidates):
        removed = run.is_fixed_by(key, c.insertions)
        if removed is not None:
            yield (-len(removed), c.num_needless, c.num_edits, number), replace(c, removes=frozenset(removed))


def findings_of(
    records: Iterable[Record],
    races: Iterable[Race],
    sources: Sources | None = None,
    *,
    captures: Iterable[Iterable[Record]] = (),
    budget_s: float = 3.0,
) -> list[Finding]:
    """Races with their fixes and the records between their accesses.

    Args:
        records: The recorded run.
        races: Its races, found live or by `replay`. Races that one fix removes share it.
        sources: Provides the user's source; by default `linecache`.
        captures: The records of each capture of a CUDA graph, in which streams can race, too.
        budget_s: Seconds after which no further fix is tried. Each trial checks the whole run again.
    """
    sources, races = sources or Sources(), list(races)
    runs = [Run(records)]
    known = {race.key: race for race in races}
    runs += [Run(each, is_capture=True) for each in captures]
    fixes: list[Fix | None] = []
    end = time.monotonic() + budget_s
    for race in races:
        is_fixed = any(fix is not None and race.key in fix.removes and fix.rank <= _best_rank(race) for fix in fixes)
        is_tried = not is_fixed and time.monotonic() < end
        fixes.append(_suggest_for_all(runs, race, sources, known) if is_tried else None)
    findings = []
    for race, fix in zip(races, fixes, strict=True):
        story = next((found for run in runs if (found := between(run, race.key)) is not None), None)
        findings.append(Finding(race, _shared(race.key, fix, fixes), story, seen_ns=race.seen_ns))
    return findings


def _suggest_for_all(runs: Sequence[Run], race: Race, sources: Sources, known: Mapping[Key, Race]) -> Fix | None:
    """The best fix in each of the runs that have a race: the program, or the captures of a function.

    Edits of code that was captured several times must work in each capture.
    """
    racing = [run for run in runs if race.key in run.occurrences]
    if not racing:
        return None
    fix = suggest(racing[0], race, sources, known)
    if fix is None or not fix.diff:
        return fix
    others = [suggest(run, race, sources, known) for run in racing[1:]]
    removed = [racing[0].occurrences[key][0].race for key in fix.removes]
    places = {access.place for each in removed for access in (each.first, each.second)}
    is_captured_elsewhere = any(run.runs_any(places) for run in runs if run.is_capture and run not in racing)
    if is_captured_elsewhere or any(other is None or other.diff != fix.diff for other in others):
        return suggest(racing[0], race, Sources(lambda filename: []), known)
    return fix


def _best_rank(race: Race) -> tuple[int, bool]:
    """Return the lowest rank that a fix of the race can have."""
    if race.kind is RaceKind.HOST:
        return HOST_RANK, False
    return int(race.kind is not RaceKind.USE_AFTER_FREE or not needs_record_stream(race.first)), False


def _shared(key: Key, own: Fix | None, fixes: Sequence[Fix | None]) -> Fix | None:
    """The fix that removes the most races, among those that remove this one and have no higher rank than its own."""
    able = [f for f in fixes if f is not None and key in f.removes and (own is None or f.rank <= own.rank)]
    return max(able, key=lambda fix: len(fix.removes), default=None)
