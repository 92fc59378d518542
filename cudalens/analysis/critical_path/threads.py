"""Which stretches of autograd's threads a forward thread waited for.

The engine runs the backward pass on threads of its own, while ``backward()`` blocks the thread that called it. A
recording shows no call that waits, but a thread whose line does not move while autograd's works: the stretch of the
forward thread within which backward work begins and ends is taken to be that wait.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.critical_path.host import HostLines
from cudalens.frames import RUNTIME_CATEGORIES, is_category

Ints = NDArray[np.int64]


class Handovers(NamedTuple):
    """A thread that went on because another had come so far; arrays of shape (h,), times in ns."""

    thread: Ints
    since: Ints
    time: Ints
    source_thread: Ints
    source_time: Ints


def handovers(events: pd.DataFrame, host: HostLines) -> Handovers:
    """Forward threads that hand over to autograd's threads, and back."""
    parts = [_between(events, host, back, front) for back, front in _thread_pairs(events, host)]
    if not parts:
        return Handovers(*(np.empty(0, np.int64) for _ in Handovers._fields))
    return _last_returns(Handovers(*(np.concatenate(part) for part in zip(*parts, strict=True))), host)


def _thread_pairs(events: pd.DataFrame, host: HostLines) -> list[tuple[int, int]]:
    """(autograd's thread, the thread that waits for it), where both are known and differ."""
    backward = np.flatnonzero((events["fwd_tid"].to_numpy(dtype=np.int64, na_value=-1) > 0) & (host.of_row >= 0))
    if not len(backward) or len(host.first) < 2:
        return []
    forward = events["forward"].array[backward].to_numpy(dtype=np.int64, na_value=-1)
    front = np.where(forward >= 0, host.of_row[forward], -1)
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
    """What `front` hands to `back` and gets back: runs of work within one stretch of `front`."""
    begin, end = _busy(host, back)
    lo, hi = int(host.first[front]), int(host.last[front]) + 1
    at = np.searchsorted(host.start[lo:hi], begin, side="left") - 1
    safe = np.maximum(at, 0) + lo
    held = (at >= 0) & (begin < host.end[safe])
    begin, end, stretch = begin[held], end[held], safe[held]
    opens = np.ones(len(stretch), bool)
    opens[1:] = stretch[1:] != stretch[:-1]
    closes = np.append(opens[1:], True)[: len(stretch)]
    stretch, begin, end = stretch[opens], begin[opens], end[closes]
    owner = host.owner[stretch]
    is_call = is_category(events["cat"].array, RUNTIME_CATEGORIES)[np.maximum(owner, 0)] & (owner >= 0)
    # autograd's thread never begins by itself; it is waited for only where the other one does not go on meanwhile.
    waits = (end <= host.end[stretch]) & ~is_call
    given, returned = stretch, stretch[waits]
    return Handovers(
        np.concatenate([np.full(len(given), back), np.full(len(returned), front)]),
        np.concatenate([_idle_since(host, back, begin), host.start[returned]]),
        np.concatenate([begin, host.end[returned]]),
        np.concatenate([np.full(len(given), front), np.full(len(returned), back)]),
        np.concatenate([host.start[given], end[waits]]),
    )


def _busy(host: HostLines, thread: int) -> tuple[Ints, Ints]:
    """Where a thread was within events: starts and ends of runs without a gap."""
    lo, hi = int(host.first[thread]), int(host.last[thread]) + 1
    inside = host.owner[lo:hi] >= 0
    opens = inside & np.append(True, ~inside[:-1])[: len(inside)]
    closes = inside & np.append(~inside[1:], True)[: len(inside)]
    return host.start[lo:hi][opens], host.end[lo:hi][closes]


def _idle_since(host: HostLines, thread: int, begin: Ints) -> Ints:
    """Since when a thread had been between events at the start of each run."""
    starts, ends = _busy(host, thread)
    at = np.searchsorted(starts, begin)
    return np.where(at > 0, ends[np.maximum(at - 1, 0)], begin)


def _last_returns(found: Handovers, host: HostLines) -> Handovers:
    """Of several threads that one waits for in the same stretch, the one that was done last."""
    order = np.lexsort((found.source_time, found.time, found.thread))
    thread, time = found.thread[order], found.time[order]
    is_last = np.append((thread[1:] != thread[:-1]) | (time[1:] != time[:-1]), True)[: len(order)]
    return Handovers(*(part[order[is_last]] for part in found))
