"""Find the library's Python frames that enclose all work of a thread, and threads that only wait.

With Python stacks, each thread begins with the frames that were open when recording began: of a launcher, ipykernel,
IPython, asyncio. They take a row each and say nothing about the work. The timeline shows them as one row.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.time.attribution_keys import is_library_call
from cudalens.frames.column_arrays import Bools, Ints, is_category, map_texts

#: A frame encloses its thread if it lasts at least this share of the time between the first start and the last end.
_SHARE: Final = 0.95
#: Functions in which an idle thread waits; its other frames lead to them.
_WAITS: Final = re.compile(r"\b(?:wait|wait_for_tstate_lock|select|poll|epoll|recv|get|acquire|sleep|accept|read)\b")


def num_enclosing(events: pd.DataFrame, lane: Ints, num_lanes: int) -> Ints:
    """Return how many outermost frames of each lane enclose all of it and lead to a library; shape (num_lanes,).

    The user's own frames below the last such frame of a library do not count: they stay rows of their own.

    Args:
        events: ``trace.events``.
        lane: Lane of each row, shape (n,).
        num_lanes: Number of lanes.
    """
    found = np.zeros(num_lanes, np.int64)
    is_python = is_category(events["cat"].array, ("python_function",))
    is_enclosing = is_python & _is_enclosing(events, lane, num_lanes)
    is_library = map_texts(events["name"].array, is_library_call, False)
    start, dur = events["ts"].to_numpy(), events["dur"].to_numpy()
    for number in np.unique(lane[is_enclosing & is_library]).tolist():
        rows = np.flatnonzero(lane == number)
        rows = rows[np.lexsort((-dur[rows], start[rows]))][: np.count_nonzero(is_enclosing[rows])]
        found[number] = _leading(is_enclosing[rows], is_library[rows])
    return found


def is_idle(events: pd.DataFrame, lane: Ints, num_lanes: int) -> Bools:
    """Return whether a lane only has Python frames that end in a wait; shape (num_lanes,)."""
    is_python = is_category(events["cat"].array, ("python_function",))
    works = ~is_python & ~events["is_instant"].to_numpy()
    is_leaf = np.ones(len(events), bool)
    parent = events["parent"].array.to_numpy(dtype=np.int64, na_value=-1)
    is_leaf[parent[parent >= 0]] = False
    works |= is_leaf & is_python & ~map_texts(events["name"].array, lambda name: bool(_WAITS.search(name)), False)
    has_work = np.bincount(lane, weights=works, minlength=num_lanes) > 0
    return ~has_work & (np.bincount(lane[is_python], minlength=num_lanes) > 0)


def _is_enclosing(events: pd.DataFrame, lane: Ints, num_lanes: int) -> Bools:
    start, dur = events["ts"].to_numpy(), events["dur"].to_numpy()
    is_span = ~events["is_instant"].to_numpy()
    first = np.full(num_lanes, np.iinfo(np.int64).max)
    last = np.full(num_lanes, np.iinfo(np.int64).min)
    np.minimum.at(first, lane[is_span], start[is_span])
    np.maximum.at(last, lane[is_span], (start + dur)[is_span])
    extent = np.where(last > first, last.astype(np.float64) - first, np.inf)
    return dur >= _SHARE * extent[lane]


def _leading(is_enclosing: Bools, is_library: Bools) -> int:
    """Number of rows from the first one, all of which enclose the lane, up to the last one of a library."""
    num = len(is_enclosing) if is_enclosing.all() else int(np.argmin(is_enclosing))
    of_library = np.flatnonzero(is_library[:num])
    return int(of_library[-1]) + 1 if len(of_library) else 0
