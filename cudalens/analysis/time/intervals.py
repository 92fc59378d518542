"""Sets of half-open intervals [start, end) on the integer nanosecond line, vectorised and exact.

A set is a pair of int64 arrays ``(start, end)``. `union` makes it canonical: sorted, not touching, none empty. The
other functions take and return canonical sets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


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
