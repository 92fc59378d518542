"""Finds the waits of forward threads for autograd's threads.

The engine runs the backward pass on its own threads, while ``backward()`` blocks the thread that called it. A recording
has no waiting call, but the forward thread records no event while autograd's thread works: the interval of the forward
thread around the start and the end of backward work is taken as the wait.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from cudalens.analysis.critical_path.host import HostLines
from cudalens.frames import RUNTIME_CATEGORIES
from cudalens.frames.column_arrays import Ints, integers, is_category, map_texts, run_ends, run_starts

#: Names of autograd's nodes.
_BACKWARD: Final = re.compile(r"Backward\d*$")


class Handovers(NamedTuple):
    """Waits of a thread for a moment of another thread; arrays of shape (h,), times in ns."""

    thread: Ints
    since: Ints
    time: Ints
    source_thread: Ints
    source_time: Ints


def handovers(events: pd.DataFrame, host: HostLines) -> Handovers:
    """Return the waits of autograd's threads for forward threads, and of forward threads for autograd's."""
    parts = [_between(events, host, back, front) for back, front in _thread_pairs(events, host)]
    if not parts:
        return Handovers(*(np.empty(0, np.int64) for _ in Handovers._fields))
    return _last_returns(Handovers(*(np.concatenate(part) for part in zip(*parts, strict=True))), host)


def _thread_pairs(events: pd.DataFrame, host: HostLines) -> list[tuple[int, int]]:
    """Pairs of autograd's thread and the thread that waits for it, if both are known and differ."""
    is_backward = integers(events["fwd_tid"]) > 0
    if not is_backward.any():  # Kineto wrote no such numbers before 2022
        is_backward = map_texts(events["name"].array, lambda name: _BACKWARD.search(name) is not None, False)
    backward = np.flatnonzero(is_backward & (host.of_row >= 0))
    if not len(backward) or len(host.first) < 2:
        return []
    front = np.append(host.of_row, -1)[integers(events["forward"].array[backward])]
    count = np.bincount(host.of_row[host.of_row >= 0], minlength=len(host.first))
    pairs = []
    for back in np.unique(host.of_row[backward]).tolist():
        known = front[(host.of_row[backward] == back) & (front >= 0)]
        others = np.where(np.arange(len(count)) == back, -1, count)
        chosen = int(np.argmax(np.bincount(known))) if len(known) else int(np.argmax(others))
        if chosen != back:
            pairs.append((back, chosen))
    return pairs


def _between(events: pd.DataFrame, host: HostLines, back: int, front: int) -> Handovers:
    """Return the waits of both threads: runs of work of `back` within one interval of `front`."""
    begin, end = _busy(host, back)
    lo, hi = int(host.first[front]), int(host.last[front]) + 1
    at = np.searchsorted(host.start[lo:hi], begin, side="left") - 1
    safe = np.maximum(at, 0) + lo
    inside = (at >= 0) & (begin < host.end[safe])
    begin, end, interval = begin[inside], end[inside], safe[inside]
    given, begin, end = interval[run_starts(interval)], begin[run_starts(interval)], end[run_ends(interval)]
    is_call = np.append(is_category(events["cat"].array, RUNTIME_CATEGORIES), False)[host.owner[given]]
    # autograd's thread never starts by itself. The other one waits for it only if it records no event in that time.
    waits = (end <= host.end[given]) & ~is_call
    returned = given[waits]
    return Handovers(
        np.concatenate([np.full(len(given), back), np.full(len(returned), front)]),
        np.concatenate([_idle_since(host, back, begin), host.start[returned]]),
        np.concatenate([begin, host.end[returned]]),
        np.concatenate([np.full(len(given), front), np.full(len(returned), back)]),
        np.concatenate([host.start[given], end[waits]]),
    )


def _busy(host: HostLines, thread: int) -> tuple[Ints, Ints]:
    """Starts and ends of the times in which a thread was within events."""
    lo, hi = int(host.first[thread]), int(host.last[thread]) + 1
    inside = host.owner[lo:hi] >= 0
    return host.start[lo:hi][inside & run_starts(inside)], host.end[lo:hi][inside & run_ends(inside)]


def _idle_since(host: HostLines, thread: int, begin: Ints) -> Ints:
    """Start of the time between events before each start of a run."""
    starts, ends = _busy(host, thread)
    at = np.searchsorted(starts, begin)
    return np.where(at > 0, ends[np.maximum(at - 1, 0)], begin)


def _last_returns(found: Handovers, host: HostLines) -> Handovers:
    """Of several threads that one thread waits for in the same interval, the last one to finish."""
    order = np.lexsort((found.source_time, found.time, found.thread))
    last = order[run_ends(found.thread[order], found.time[order])]
    return Handovers(*(part[last] for part in found))
