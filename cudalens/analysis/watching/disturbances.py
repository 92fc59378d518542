"""Join changes of a step time that goes up and down without a cause in the program, as beside other load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cudalens.frames.watching.run import WatchedChange

#: Changes in turn, slower and faster, that are one disturbance.
NUM_LEAST: Final = 3
#: Kinds of causes that say only that the same work took another time.
_UNSPECIFIC: Final = frozenset({"host", "idle"})


def grouped(changes: Sequence[WatchedChange]) -> list[tuple[WatchedChange, ...]]:
    """The changes in order; those of one disturbance together, each other one alone.

    A disturbance is a series of at least `NUM_LEAST` changes that are slower and faster in turn, none of which has a
    cause in the program: data loading, a synchronisation, retries, a batch size, a clock, communication or GPU work.
    """
    series: list[list[WatchedChange]] = []
    for one in changes:
        if series and _is_unspecific(one) and _is_unspecific(series[-1][-1]) and _turns(series[-1][-1], one):
            series[-1].append(one)
        else:
            series.append([one])
    return [part for found in series for part in _split(found)]


def _split(series: list[WatchedChange]) -> list[tuple[WatchedChange, ...]]:
    return [tuple(series)] if len(series) >= NUM_LEAST else [(one,) for one in series]


def _is_unspecific(change: WatchedChange) -> bool:
    return set(change.kinds) <= _UNSPECIFIC


def _turns(before: WatchedChange, after: WatchedChange) -> bool:
    return (before.after_ns > before.before_ns) != (after.after_ns > after.before_ns)
