"""Build the call tree of the host rows that torch's profiler recorded, and find the marks in it.

Every row and every allocator action of the host gets a place by its real time. All later steps use only places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cudalens.device.own_work import MARK
from cudalens.frames import RawRows, categorical, is_category
from cudalens.frames import tree as call_tree
from cudalens.frames.column_arrays import Bools, Ints, combined, integers

_NO_THREAD: Final = np.iinfo(np.int64).min


@dataclass
class HostTree:
    """Rows in pre-order per thread: a row is directly followed by the rows that it encloses.

    Attributes:
        row: Row index in the events, or in the allocator's actions, at each place; shape (n,).
        is_memory: Whether it is an allocator action; shape (n,).
        lane: Thread number of each place; shape (n,).
        tid: The thread id of each lane; -1 if unknown; shape (num lanes,).
        parent: Place of the enclosing row or -1; shape (n,).
        depth: Number of enclosing rows; shape (n,).
        size: Number of rows in its subtree, including itself; shape (n,).
        mark: Mark number, 0 for other rows; shape (n,).
        place_of: Place of each mark by its number.
        real_begin: Real start of each row, ns on the profiler's clock; shape (n,).
        real_end: Real end of each row, ns; shape (n,).
    """

    row: Ints
    is_memory: Bools
    lane: Ints
    tid: Ints
    parent: Ints
    depth: NDArray[np.int32]
    size: Ints
    mark: Ints
    place_of: dict[int, int]
    real_begin: Ints
    real_end: Ints

    def __len__(self) -> int:
        return len(self.row)

    @property
    def begin(self) -> Ints:
        """Index of each row's start in the sequence of all starts and ends; shape (n,)."""
        return 2 * np.arange(len(self.row), dtype=np.int64) - self.depth

    @property
    def end(self) -> Ints:
        """Index of each row's end in the same sequence; shape (n,)."""
        return self.begin + 2 * self.size - 1

    def levels(self) -> Iterator[Ints]:
        """Yield the places of each depth, outermost first."""
        order = np.argsort(self.depth, kind="stable")
        yield from np.split(order, np.flatnonzero(np.diff(self.depth[order])) + 1) if len(order) else ()


def read_tree(host: RawRows) -> HostTree:
    """Return the tree of the host rows. Asynchronous ranges are not part of it.

    Args:
        host: The rows that torch's profiler recorded, on its clock.
    """
    events, memory = host.events, host.memory or {"ts": np.empty(0, np.int64)}
    num_events, num_actions = len(events["ts"]), len(memory["ts"])
    ts = np.concatenate([events["ts"], memory["ts"]])
    dur = np.concatenate([events["dur"], np.zeros(num_actions, np.int64)])
    tids = np.concatenate([_tids(events, num_events), _tids(memory, num_actions)])
    lane = combined(tids)
    has_place = np.ones(len(ts), bool)
    if host.async_mask is not None:
        has_place[:num_events] = ~host.async_mask
    by_time = call_tree.sort_order(ts, dur)
    by_time = by_time[has_place[by_time]]
    enclosing = call_tree.parents(ts[by_time], dur[by_time], lane[by_time])
    by_lane = np.argsort(lane[by_time], kind="stable")
    place = np.empty(len(by_lane), np.int64)
    place[by_lane] = np.arange(len(by_lane))
    enclosing = enclosing[by_lane]
    parent = np.where(enclosing >= 0, place[enclosing], -1) if len(enclosing) else enclosing
    depth = call_tree.depths(parent)
    order = by_time[by_lane]
    marks = np.concatenate([_marks(events), np.zeros(num_actions, np.int64)])[order]
    found = np.flatnonzero(marks)
    tid_of_lane = np.full(int(lane.max()) + 1 if len(lane) else 0, _NO_THREAD, np.int64)
    tid_of_lane[lane] = tids
    return HostTree(
        row=np.where(order >= num_events, order - num_events, order),
        is_memory=order >= num_events,
        lane=lane[order],
        tid=tid_of_lane,
        parent=parent,
        depth=depth,
        size=_sizes(parent, depth),
        mark=marks,
        place_of=dict(zip(marks[found].tolist(), found.tolist(), strict=True)),
        real_begin=ts[order],
        real_end=ts[order] + dur[order],
    )


def _tids(columns: dict[str, Any], length: int) -> Ints:
    tid = columns.get("tid")
    return np.full(length, -1, np.int64) if tid is None else integers(tid)


def _marks(events: dict[str, Any]) -> Ints:
    """Return the mark number of each row, 0 for other rows."""
    return by_name(events, lambda name: int(name[len(MARK) :]) if name.startswith(MARK) else 0, 0)


def by_name(events: dict[str, Any], value_of: Callable[[str], int], missing: int) -> Ints:
    """Apply `value_of` to each row's name, once per distinct name."""
    names = events["name"]
    values = np.array([*map(value_of, names.categories.tolist()), missing], np.int64)
    return values[names.codes]


def without_mark_names(events: dict[str, Any], tree: HostTree) -> dict[str, Any]:
    """Return the columns with one common name for all marks."""
    names = events["name"]
    marks = tree.row[tree.mark > 0]
    codes = names.codes.astype(np.int32)
    codes[marks] = -1
    plain = categorical(codes, names.categories.tolist()).remove_unused_categories()
    codes = plain.codes.astype(np.int32)
    codes[marks] = len(plain.categories)
    return events | {"name": categorical(codes, [*plain.categories.tolist(), MARK])}


def has_category(events: dict[str, Any], *names: str) -> Bools:
    """True for each row whose category is one of `names`."""
    return is_category(events["cat"], names)


def _sizes(parent: Ints, depth: NDArray[np.int32]) -> Ints:
    size = np.ones(len(parent), np.int64)
    order = np.argsort(-depth, kind="stable")
    for level in np.split(order, np.flatnonzero(np.diff(depth[order])) + 1) if len(order) else ():
        inner = level[parent[level] >= 0]
        np.add.at(size, parent[inner], size[inner])
    return size
