"""Groups of work (by device, stream, step, name) and sets of intervals: unions, sums and quantiles, vectorised.

A set is a pair of int64 arrays ``(start, end)``. `union` makes it canonical: sorted, not touching, none empty. The
other functions take and return canonical sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.time.work import Work
from cudalens.frames import Trace
from cudalens.frames.column_arrays import Ints, integers, nullable


class Intervals(NamedTuple):
    """Half-open intervals; arrays of shape (n,), ns."""

    start: Ints
    end: Ints


def union(start: Ints, end: Ints) -> Intervals:
    """Return the canonical set of points in any of the intervals; empty and negative ones have none."""
    some = end > start
    start, end = np.asarray(start)[some], np.asarray(end)[some]
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    opens = np.ones(len(start), bool)
    opens[1:] = start[1:] > reach[:-1]
    closes = np.append(opens[1:], True)[: len(start)]
    return Intervals(start[opens], reach[closes])


def length(intervals: Intervals) -> int:
    """Total length of a canonical set, ns."""
    return int((intervals.end - intervals.start).sum())


def unite(a: Intervals, b: Intervals) -> Intervals:
    """Points of `a` or `b`."""
    return union(np.concatenate([a.start, b.start]), np.concatenate([a.end, b.end]))


def intersect(a: Intervals, b: Intervals) -> Intervals:
    """Points of both `a` and `b`."""
    return _covered(a, b, 1, 1)


def subtract(a: Intervals, b: Intervals) -> Intervals:
    """Points of `a` that are not in `b`."""
    return _covered(a, b, 1, 0)


def _covered(a: Intervals, b: Intervals, in_a: int, in_b: int) -> Intervals:
    """Points that are `in_a` times in `a` and `in_b` times in `b` (each 0 or 1), by a sweep over all ends."""
    at = np.concatenate([a.start, a.end, b.start, b.end])
    n, m = len(a.start), len(b.start)
    step_a = np.repeat(np.array([1, -1, 0, 0], np.int64), [n, n, m, m])
    step_b = np.repeat(np.array([0, 0, 1, -1], np.int64), [n, n, m, m])
    order = np.argsort(at, kind="stable")
    at = at[order]
    hit = (np.cumsum(step_a[order]) == in_a) & (np.cumsum(step_b[order]) == in_b)
    return union(at[:-1][hit[:-1]], at[1:][hit[:-1]])


class Lanes:
    """Intervals of several groups on one axis, one group after the other, so that one sweep serves all groups.

    Coordinates are numbers of distinct times, not nanoseconds, so that no sum can exceed 64 bits, whatever is in a
    file.
    """

    def __init__(self, start: Ints, end: Ints, group: Ints, num_groups: int) -> None:
        """Place the intervals on the axis.

        Args:
            start: Starts, ns, shape (n,).
            end: Ends, ns, shape (n,).
            group: Group of each, 0 to `num_groups` - 1, shape (n,).
            num_groups: Number of groups.
        """
        self.num_groups = num_groups
        self._times, place = np.unique(np.concatenate([start, end]), return_inverse=True)
        self._stride = len(self._times) + 1
        offset = group * self._stride
        self.start = place[: len(start)] + offset
        self.end = place[len(start) :] + offset

    def union(self, rows: Any = slice(None)) -> Intervals:
        """Return the canonical set of the points of `rows`, in coordinates."""
        return union(self.start[rows], self.end[rows])

    def groups(self, at: Ints) -> Ints:
        """Return the group of each coordinate."""
        return at // self._stride

    def times(self, at: Ints) -> Ints:
        """Return the time of each coordinate, ns."""
        return self._times[at % self._stride] if len(at) else np.empty(0, np.int64)

    def lengths(self, intervals: Intervals) -> Ints:
        """Total length of a canonical set in each group, ns, shape (num_groups,)."""
        spans = self.times(intervals.end) - self.times(intervals.start)
        return sums(spans, self.groups(intervals.start), self.num_groups)


def sums(values: Ints, group: Ints, num_groups: int) -> Ints:
    """Exact sum of `values` in each group, shape (num_groups,); ``bincount`` would round to doubles."""
    total = np.zeros(num_groups, np.int64)
    np.add.at(total, group, values)
    return total


def quantiles(values: NDArray[Any], group: Ints, num_groups: int, at: Sequence[float]) -> list[NDArray[np.float64]]:
    """Quantiles of `values` in each group, linear between neighbours (numpy's default).

    Args:
        values: Shape (n,).
        group: Group of each, shape (n,).
        num_groups: Number of groups.
        at: Which quantiles, 0 to 1.

    Returns:
        An array of shape (num_groups,) for each of `at`; NaN for a group without values.
    """
    order = np.lexsort((values, group))
    ordered = np.append(values[order], values[:1]) if len(values) else np.zeros(1)
    counts = np.bincount(group, minlength=num_groups)
    first = np.cumsum(counts) - counts
    found = []
    for q in at:
        place = np.maximum(counts - 1, 0) * q
        low = np.floor(place).astype(np.int64)
        below = ordered[np.minimum(first + low, len(ordered) - 1)].astype(np.float64)
        above = ordered[np.minimum(first + np.minimum(low + 1, np.maximum(counts - 1, 0)), len(ordered) - 1)]
        found.append(np.where(counts > 0, below + (above - below) * (place - low), np.nan))
    return found


def numbered(keys: Mapping[str, Any]) -> tuple[Ints, pd.DataFrame]:
    """Numbers of the distinct combinations of `keys`, in order of the keys.

    Args:
        keys: Arrays of shape (n,) by name.

    Returns:
        The group of each row, shape (n,), and a row per group with its keys.
    """
    frame = pd.DataFrame(keys)
    group = frame.groupby(list(keys), sort=True, dropna=False, observed=True).ngroup().to_numpy(np.int64)
    first = np.unique(group, return_index=True)[1]
    return group, frame.iloc[first].reset_index(drop=True)


def measured(values: NDArray[np.float64]) -> pd.arrays.FloatingArray:
    """Numbers as Float64, where NaN is missing."""
    missing = np.isnan(values)
    return nullable(np.where(missing, 0.0, values), missing)


def share(part: Any, whole: Any) -> pd.arrays.FloatingArray:
    """`part` of `whole` in per cent as Float64; missing where `whole` is 0."""
    part, whole = np.broadcast_arrays(np.asarray(part, np.float64), np.asarray(whole, np.float64))
    return measured(np.divide(100 * part, whole, out=np.full(part.shape, np.nan), where=whole != 0))


def steps_of(trace: Trace, work: Work) -> Ints:
    """Profiler step of each piece of work, -1 for none, shape (n,)."""
    return integers(trace.events["step"])[work.rows]


def taken(work: Work, rows: Any) -> Work:
    """Return the pieces of `work` at `rows` (numbers or a mask)."""
    return Work(*(array[rows] for array in work))


def in_step(trace: Trace, work: Work, step: int | None) -> Work:
    """Return the work of one profiler step, by the step of its launch; all of it for None."""
    return work if step is None else taken(work, steps_of(trace, work) == step)
