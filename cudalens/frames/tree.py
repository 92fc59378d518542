"""The call tree of the events: parent, depth and self time, without a Python loop over events.

Definition, the same as torch.profiler's: on one lane, with events in order of (start, longest first), an event's parent
is the nearest earlier event that ends no earlier than it and later than its start. An event that only partly overlaps
an earlier one is therefore not its child.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cudalens.frames.column_arrays import Bools, Ints, integers, nullable


def sort_order(ts: Ints, dur: Ints) -> Ints:
    """Order of (start, longest first), stable.

    Timestamps arrive as a few ascending runs, which a stable sort merges fast; only ties are sorted again.
    """
    order: Ints = np.argsort(ts, kind="stable").astype(np.int64, copy=False)
    sorted_ts = ts[order]
    tied = np.zeros(len(ts), bool)
    same = sorted_ts[1:] == sorted_ts[:-1]
    tied[1:] |= same
    tied[:-1] |= same
    at = np.flatnonzero(tied)
    group = order[at]
    order[at] = group[np.lexsort((-dur[group], ts[group]))]
    return order


def parents(ts: Ints, dur: Ints, lane: NDArray[np.integer]) -> Ints:
    """Row of each event's parent, -1 for a root and for events of negative lane.

    Args:
        ts: Start of each event, ns, already in `sort_order`.
        dur: Duration of each event, ns.
        lane: Which call tree each event belongs to (a host thread); negative for events that have none.

    Returns:
        Row numbers, shape (n,). Pointer jumping: every round, an event whose candidate ends too early moves on to that
        candidate's own candidate, since whatever the candidate skipped ends too early for this event as well. A run of
        n siblings takes log2(n) rounds, a return from depth d takes d rounds of ever fewer events.
    """
    members = np.flatnonzero(lane >= 0)
    by_lane = members[np.argsort(lane[members], kind="stable")]
    end = (ts + dur).take(by_lane)
    # Zero-length events at an interval's end lie outside of it, hence "later than its start".
    need = np.maximum(end, ts.take(by_lane) + 1)
    candidate = _nearest_reaching(end, need, lane.take(by_lane))
    result = np.full(len(ts), -1, np.int64)
    result[by_lane] = np.where(candidate >= 0, by_lane.take(candidate), -1)
    return result


def _nearest_reaching(end: Ints, need: Ints, lane: NDArray[np.integer]) -> Ints:
    """For each i the largest j < i of the same lane with end[j] >= need[i], else -1."""
    n = len(end)
    candidate: Ints = np.arange(-1, n - 1, dtype=np.int64)
    if n == 0:
        return candidate
    candidate[np.flatnonzero(np.diff(lane, prepend=lane[0] - 1))] = -1
    open_ = np.flatnonzero(candidate >= 0)
    open_ = open_[end.take(candidate.take(open_)) < need.take(open_)]
    while len(open_):
        target = candidate.take(candidate.take(open_))
        candidate[open_] = target
        open_, target = open_[target >= 0], target[target >= 0]
        open_ = open_[end.take(target) < need.take(open_)]
    return candidate


def depths(parent: Ints) -> NDArray[np.int32]:
    """Return the number of ancestors of each row, by doubling the distance looked back in each round."""
    depth = (parent >= 0).astype(np.int32)
    above = parent.copy()
    open_ = np.flatnonzero(above >= 0)
    while len(open_):
        up = above.take(open_)
        depth[open_] += depth.take(up)
        above[open_] = higher = above.take(up)
        open_ = open_[higher >= 0]
    return depth


def self_durations(dur: Ints, parent: Ints) -> Ints:
    """`dur` less the summed `dur` of the children, ns; exact."""
    child = np.flatnonzero(parent >= 0)
    rest = dur.copy()
    np.subtract.at(rest, parent.take(child), dur.take(child))
    return rest


def lines_without(call_line: Any, parent: Ints, order: Ints, is_removed: Bools) -> Any:
    """Return the column ``call_line`` after the removal of rows: what a removed row called was called by its caller.

    Args:
        call_line: The column; shape (n,).
        parent: Row around each row, -1 for none; shape (n,).
        order: The rows, enclosing ones first.
        is_removed: Whether a row is removed; shape (n,).
    """
    line = integers(call_line)
    for row in order.tolist():
        up = parent[row]
        if up >= 0 and is_removed[up] and line[up] >= 0:
            line[row] = line[up]
    return nullable(line.astype(np.int32), line < 0)
