"""Find the fix of a race: candidates are tried on the recorded run, and the cheapest that works is suggested.

A fix inserts records into the run (an event is recorded here and waited for there). The engine then checks the run
again: the race must be gone, and no other race may appear. ``record_stream`` blocks nothing, a stream wait blocks that
stream, a synchronisation blocks the host. If the source is available, a fix is also a unified diff of the user's code.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from cudalens.sanitizer.engine import Race, RaceKind, Record
from cudalens.sanitizer.fixes.candidates import HOST_RANK, Fix, needs_record_stream, plain_candidates
from cudalens.sanitizer.fixes.recorded import Key, Run, between
from cudalens.sanitizer.fixes.source import Sources
from cudalens.sanitizer.fixes.writing import written_candidates
from cudalens.sanitizer.races_frame import Finding


def suggest(run: Run | Iterable[Record], race: Race, sources: Sources | None = None) -> Fix | None:
    """The best fix that removes a race from the recorded run.

    Args:
        run: The program that has the race, as records or as a checked run.
        race: The race; only its `Race.key` is used.
        sources: Provides the user's source; by default `linecache`.

    Returns:
        None if the run does not contain the race (its first access is too old), or if no candidate removes it.
    """
    run = run if isinstance(run, Run) else Run(run)
    occurrences = run.occurrences.get(race.key)
    if not occurrences:
        return None
    candidates = [
        *written_candidates(run, occurrences, race, sources or Sources()),
        *plain_candidates(run, occurrences, race),
    ]
    for rank in sorted({candidate.rank for candidate in candidates}):
        passed = list(_passed(run, race.key, [c for c in candidates if c.rank == rank]))
        if passed:
            return min(passed, key=lambda pair: pair[0])[1]
    return None


def _passed(run: Run, key: Key, candidates: Sequence[Fix]) -> Iterator[tuple[tuple[int, int, int, int], Fix]]:
    """The candidates that work, each with its cost: races removed (negative), needless waits, edits, position."""
    for number, c in enumerate(candidates):
        removed = run.is_fixed_by(key, c.insertions)
        if removed is not None:
            yield (-len(removed), c.num_needless, c.num_edits, number), replace(c, removes=frozenset(removed))


def findings_of(
    records: Iterable[Record], races: Iterable[Race], sources: Sources | None = None, *, budget_s: float = 3.0
) -> list[Finding]:
    """Races with their fixes and the records between their accesses.

    Args:
        records: The recorded run.
        races: Its races, found live or by `replay`. Races that one fix removes share it.
        sources: Provides the user's source; by default `linecache`.
        budget_s: Seconds after which no further fix is tried. Each trial checks the whole run again.
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
    """The lowest rank that a fix of the race can have."""
    if race.kind is RaceKind.HOST:
        return HOST_RANK, False
    return int(race.kind is not RaceKind.USE_AFTER_FREE or not needs_record_stream(race.first)), False


def _shared(key: Key, own: Fix | None, fixes: Sequence[Fix | None]) -> Fix | None:
    """The fix that removes the most races, among those that remove this one and have no higher rank than its own."""
    able = [f for f in fixes if f is not None and key in f.removes and (own is None or f.rank <= own.rank)]
    return max(able, key=lambda fix: len(fix.removes), default=None)
