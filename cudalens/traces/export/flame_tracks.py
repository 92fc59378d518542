"""Host threads and streams as properly nested tracks, for formats with one stack at a time."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cudalens.frames import GPU_CATEGORIES, Trace, is_category
from cudalens.frames import tree as tree_
from cudalens.frames.column_arrays import integers
from cudalens.traces.export.flame_paths import device_name, grouped, stream_name, thread_name

Ints = NDArray[np.int64]


class Track(NamedTuple):
    """Properly nested rows, with the order in which they open and close.

    Attributes:
        name: Name of the thread or stream; additional tracks of it end in " (2)" and so on.
        rows: Rows of the events, each before the rows it encloses; shape (n,).
        start: When each opens, ns; (n,).
        end: When each closes, ns, cut where a later sibling begins or its parent ends; (n,).
        opens: Position of each opening among the 2 n openings and closings; (n,).
        closes: Position of each closing; (n,).
    """

    name: str
    rows: Ints
    start: Ints
    end: Ints
    opens: Ints
    closes: Ints


def tracks(trace: Trace) -> list[Track]:
    """Tracks of each host thread and each stream of `trace`, host threads first. Instants are left out."""
    events = trace.events
    # The row of category Trace is the recording itself and encloses all other rows.
    interval = ~events["is_instant"].to_numpy() & ~is_category(events["cat"].array, ("Trace",))
    on_device = events["device"].notna().to_numpy() | is_category(events["cat"].array, tuple(GPU_CATEGORIES))
    found: list[Track] = []
    sides = (
        (np.flatnonzero(interval & ~on_device), ("tid", "thread"), thread_name),
        (np.flatnonzero(interval & on_device), ("device", "stream"), _lane_name),
    )
    for rows, columns, name_of in sides:
        if not len(rows):
            continue
        first, second = (events[column].array[rows] for column in columns)
        group, one = grouped(first, second)
        for number in np.argsort(one).tolist():
            name = name_of(first[one[number]], second[one[number]])
            found.extend(_lanes(trace, rows[group == number], name, columns[0] == "device"))
    return found


def _lane_name(device: object, stream: object) -> str:
    return f"{device_name(device)}, {stream_name(stream)}"


def _lanes(trace: Trace, rows: Ints, name: str, on_device: bool) -> Iterator[Track]:
    """Yield the rows of one thread or stream, on as few tracks as the overlaps of their roots allow."""
    events = trace.events
    start = events["ts"].to_numpy()[rows]
    dur = events["dur"].to_numpy()[rows]
    parent = _parents(trace, rows, start, dur, on_device)
    root = _roots(parent)
    lane = _lanes_of_roots(start, start + dur, parent < 0)[root]
    for number in range(int(lane.max()) + 1):
        at = np.flatnonzero(lane == number)
        at = at[np.argsort(root[at], kind="stable")]  # rows outside the tree may be between those of a root
        place = np.full(len(rows), -1, np.int64)
        place[at] = np.arange(len(at))
        above = parent[at]
        label = name if number == 0 else f"{name} ({number + 1})"
        yield _track(label, rows[at], start[at], dur[at], np.where(above >= 0, place[above], -1))


def _parents(trace: Trace, rows: Ints, start: Ints, dur: Ints, on_device: bool) -> Ints:
    """Parent of each row, as a position in `rows`: from the call tree for host rows, from times for device work."""
    if on_device:
        return tree_.parents(start, dur, np.zeros(len(rows), np.int64))
    place = np.full(len(trace), -1, np.int64)
    place[rows] = np.arange(len(rows))
    above = integers(trace.events["parent"].array[rows])
    return np.where(above >= 0, place[above], -1)


def _roots(parent: Ints) -> Ints:
    """Return the outermost row above each row (itself, for a root)."""
    root: Ints = np.where(parent >= 0, parent, np.arange(len(parent)))
    while (root[root] != root).any():
        root = root[root]
    return root


def _lanes_of_roots(start: Ints, end: Ints, is_root: NDArray[np.bool_]) -> Ints:
    """Return the first lane on which each root does not overlap an earlier one; 0 for other rows. Shape (n,)."""
    lane = np.zeros(len(start), np.int64)
    at = np.flatnonzero(is_root)
    reach = np.maximum.accumulate(end[at])
    if (start[at][1:] >= reach[:-1]).all():
        return lane
    busy: list[tuple[int, int]] = []  # (end, lane)
    free: list[int] = []
    for i, begin, finish in zip(at.tolist(), start[at].tolist(), end[at].tolist(), strict=True):
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        number = heapq.heappop(free) if free else len(busy)
        lane[i] = number
        heapq.heappush(busy, (finish, number))
    return lane


def _track(name: str, rows: Ints, start: Ints, dur: Ints, parent: Ints) -> Track:
    """Return the track of a forest of rows in preorder.

    When a row opens, all rows before it have opened, and all of those except its ancestors have closed. It closes when
    all its descendants have closed.
    """
    depth = tree_.depths(parent).astype(np.int64)
    size = _sizes(parent, depth)
    opens = 2 * np.arange(len(rows)) - depth
    start, end = _cut(start, start + dur, parent, depth)
    return Track(name, rows, start, end, opens, opens + 2 * size - 1)


def _sizes(parent: Ints, depth: Ints) -> Ints:
    """Number of rows in each row's subtree, itself included."""
    size = np.ones(len(parent), np.int64)
    for level in range(int(depth.max(initial=0)), 0, -1):
        at = np.flatnonzero(depth == level)
        np.add.at(size, parent[at], size[at])
    return size


def _cut(start: Ints, end: Ints, parent: Ints, depth: Ints) -> tuple[Ints, Ints]:
    """Starts and ends, cut to the parent's interval and to the start of the next sibling, from the roots down."""
    start, end = start.copy(), end.copy()
    order = np.argsort(depth, kind="stable")
    for at in np.split(order, np.flatnonzero(np.diff(depth[order])) + 1):
        above = parent[at]
        inside = above >= 0
        start[at] = np.where(inside, np.clip(start[at], start[above], end[above]), start[at])
        end[at] = np.where(inside, np.minimum(end[at], end[above]), end[at])
        next_start = np.append(np.where(above[1:] == above[:-1], start[at][1:], end[at][:-1]), end[at][-1:])
        end[at] = np.maximum(np.minimum(end[at], next_start), start[at])
    return start, end
