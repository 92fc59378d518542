"""Join changes of a step time that goes up and down without a cause in the program, as beside other load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cudalens.watching.run import WatchedChange

#: Changes in turn, slower and faster, that are one disturbance.
NUM_LEAST: Final = 3
#: Kinds of causes that say only that the same work took another time.
_UNSPECIFIC: Final = frozenset({"host", "idle"})


def group_changes(changes: Sequence[WatchedChange]) -> list[tuple[WatchedChange, ...]]:
    """Return the changes in order; those of one disturbance together, each other one alone.

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


def largest_that_holds(groups: Sequence[Sequence[WatchedChange]]) -> Sequence[WatchedChange]:
    """The changes to name first: of those that still hold, the one by the largest factor; the later one of equal ones.

    A change holds until the level is nearer to that before it than to that after it. The change that ends it is named
    only if it is the last one and no other holds: a loop that is slow for a while and then as fast as before has
    nothing to report but that.
    """
    holding: list[Sequence[WatchedChange]] = []
    is_recovery = False
    for group in groups:
        level = group[-1].after_ns
        remaining = [earlier for earlier in holding if _holds(earlier, level)]
        is_recovery = len(remaining) < len(holding)
        holding = remaining if is_recovery else [*remaining, group]
    return max(reversed(holding), key=_size, default=groups[-1])


def _holds(group: Sequence[WatchedChange], level_ns: float) -> bool:
    """Return whether `level_ns` is nearer to the level after `group` than to that before it, as a factor."""
    before, after = group[0].before_ns, group[-1].after_ns
    middle = (before * after) ** 0.5
    return (level_ns > middle) == (after > before)


def _size(group: Sequence[WatchedChange]) -> float:
    """Return the factor between the largest and the smallest level of `group`."""
    levels = [group[0].before_ns, *(one.after_ns for one in group)]
    return max(levels) / max(min(levels), 1.0)


def _split(series: list[WatchedChange]) -> list[tuple[WatchedChange, ...]]:
    return [tuple(series)] if len(series) >= NUM_LEAST else [(one,) for one in series]


def _is_unspecific(change: WatchedChange) -> bool:
    return set(change.kinds) <= _UNSPECIFIC


def _turns(before: WatchedChange, after: WatchedChange) -> bool:
    return (before.after_ns > before.before_ns) != (after.after_ns > after.before_ns)
