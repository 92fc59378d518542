"""The events of a Trace as numpy arrays, for the rules of findings and of trust; searches up the call tree."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, Final

import numpy as np

from cudalens.analysis.time.work import Work, device_work
from cudalens.frames import Trace, is_category
from cudalens.frames.column_arrays import Bools, Ints, integers, map_texts


class EventArrays:
    """The events of a Trace as arrays of shape (n,); columns are converted at first use.

    Args:
        trace: Any Trace.

    Attributes:
        trace: That Trace.
        events: Its events.
        ts: Start of each event, ns.
        dur: Duration of each event, ns.
        end: End of each event, ns.
        work: Its device work.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace, self.events = trace, trace.events
        self.ts: Ints = self.events["ts"].to_numpy()
        self.dur: Ints = self.events["dur"].to_numpy()
        self.end: Ints = self.ts + self.dur
        self.work: Work = device_work(trace)

    @cached_property
    def parent(self) -> Ints:
        """Row of each event's parent, -1 for none."""
        return self.ints("parent")

    @cached_property
    def self_dur(self) -> Ints:
        """Self time of each event, ns."""
        return self.events["self_dur"].to_numpy()

    def ints(self, column: str, rows: Any = slice(None), *, missing: int = -1) -> Ints:
        """Return a nullable integer column of `rows` as int64, with `missing` for missing values."""
        return integers(self.events[column].array[rows], missing)

    def is_in(self, *categories: str) -> Bools:
        """True for events of any of these categories."""
        return is_category(self.events["cat"].array, categories)

    def is_named(self, pattern: str, rows: Any = slice(None)) -> Bools:
        """True for those of `rows` in whose name the regular expression `pattern` is found; searches a name once."""
        search = re.compile(pattern).search
        return map_texts(self.events["name"].array[rows], lambda name: search(name) is not None, False)


# Search the call tree upwards from many rows at once: the nearest ancestor that is marked, or still running.

#: Generations that are climbed one by one: most trees are no deeper. Deeper ones are climbed by powers of two.
_STEPS: Final = 16
#: Rows that look up together, which bounds the memory of a round.
_PART: Final = 1 << 20


def nearest(marked: Bools, parent: Ints) -> Ints:
    """Return the nearest marked row at or above each row of the call tree, -1 for none; shape (n,).

    Args:
        marked: Shape (n,).
        parent: Row of the parent or -1, shape (n,). Each round doubles the distance that a row looks up.
    """
    found: Ints = np.where(marked, np.arange(len(parent)), parent)
    rows = np.flatnonzero(~marked & (found >= 0))
    parts = np.array_split(rows, len(rows) // _PART + 1)
    while parts:
        parts = [left for part in parts if len(left := _climbed(part, found, marked))]
    return found


def _climbed(rows: Ints, found: Ints, marked: Bools) -> Ints:
    """Double the distance that `rows` look up, in place; returns those that have not arrived."""
    target = found[rows]
    found[rows] = target = np.where(marked[target], target, found[target])
    return rows[(target >= 0) & ~marked[target]]


def nearest_of(rows: Ints, marked: Bools, parent: Ints) -> Ints:
    """`nearest` of some rows only; -1 for row -1. Shape (m,)."""
    found = rows.copy()
    going = np.flatnonzero(rows >= 0)
    for _ in range(_STEPS):
        going = going[~marked[found[going]]]
        found[going] = parent[found[going]]
        going = going[found[going] >= 0]
        if not len(going):
            return found
    found[going] = nearest(marked, parent)[found[going]]
    return found


def running_at(rows: Ints, at: Ints, end: Ints, parent: Ints) -> Ints:
    """Return the nearest row at or above each of some rows that ends later than a time; -1 where none does. Shape (m,).

    Args:
        rows: Rows to look up from, -1 for none, shape (m,).
        at: A time for each, ns, shape (m,).
        end: End of each row of the tree, ns, shape (n,); no row ends before a row beneath it.
        parent: Row of the parent or -1, shape (n,).
    """
    found = rows.copy()
    going = np.flatnonzero(rows >= 0)
    for _ in range(_STEPS):
        going = going[end[found[going]] <= at[going]]
        found[going] = parent[found[going]]
        going = going[found[going] >= 0]
        if not len(going):
            return found
    going = going[end[found[going]] <= at[going]]
    for up in reversed(_powers(parent)):
        higher = up[found[going]]
        is_over = (higher >= 0) & (end[np.maximum(higher, 0)] <= at[going])
        found[going] = np.where(is_over, higher, found[going])
    found[going] = parent[found[going]]
    return found


def is_within_same(rows: Ints, key: Ints, parent: Ints, depth: Ints) -> Bools:
    """Return whether a row above each of some rows is among them and has the same key. Shape (m,).

    Rows are numbered so that those beneath a row follow it directly: then one lies within another where the other comes
    before it, and reaches to it.

    Args:
        rows: Distinct rows, shape (m,).
        key: The key of each of them, shape (m,).
        parent: Row of the parent or -1, shape (n,).
        depth: Number of rows above each row, shape (n,).
    """
    place, size = _preorder(parent, depth)
    order = np.lexsort((place[rows], key))
    first, last = place[rows[order]], place[rows[order]] + size[rows[order]]
    opens = np.append(True, key[order][1:] != key[order][:-1])[: len(rows)]
    # Keys one after the other: what one key reaches never counts for the next.
    stride = len(parent) + 1
    base = (np.cumsum(opens) - 1) * stride
    reach = np.maximum.accumulate(base + last)
    within = np.zeros(len(rows), bool)
    within[order[1:]] = (base + first)[1:] < reach[:-1]
    return within


def _preorder(parent: Ints, depth: Ints) -> tuple[Ints, Ints]:
    """Place of each row in an order in which all rows beneath it follow it directly; and how many those are with it."""
    n = len(parent)
    size = np.ones(n, np.int64)
    rows = np.flatnonzero(parent >= 0)
    rows = rows[np.argsort(-depth[rows], kind="stable")]
    for part in np.split(rows, np.flatnonzero(np.diff(depth[rows])) + 1):
        np.add.at(size, parent[part], size[part])
    order = np.argsort(parent, kind="stable")
    before = np.cumsum(size[order]) - size[order]
    opens = np.append(True, parent[order][1:] != parent[order][:-1])[:n]
    place = np.empty(n, np.int64)
    place[order] = before - before[opens][np.cumsum(opens) - 1]
    place += parent >= 0
    above = parent.copy()
    while (going := np.flatnonzero(above >= 0)).size:
        step = above[going]
        place[going] += place[step]
        above[going] = above[step]
    return place, size


def _powers(parent: Ints) -> list[Ints]:
    """Return the row 1, 2, 4, 8 … generations above each row, -1 where there is none, up to the deepest row's."""
    ups = [parent]
    while (up := ups[-1])[up >= 0].size:
        ups.append(np.where(up >= 0, up[np.maximum(up, 0)], -1))
    return ups[:-1]
