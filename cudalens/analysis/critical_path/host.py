"""Host threads as unbroken lines of stretches: which event each thread was in at every moment.

A stretch belongs to the innermost event that was running; between events of a thread it belongs to none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames import is_category

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Categories about the recording itself, which have no place in a call tree.
_NO_PLACE = ("Trace", "overhead")


class Moments:
    """Moments of threads as numbers in order of thread, then time.

    They count given times: keys made of nanoseconds would leave 64 bits where a stray row lies decades from others.
    """

    def __init__(self, *times: Ints) -> None:
        """Take the times that are to be told apart, ns."""
        self._times = np.sort(np.concatenate(times))

    def key(self, thread: Ints, time: Ints) -> Ints:
        """A number for each moment; times that were not given count as the last given one before them."""
        key: Ints = thread * (len(self._times) + 1) + np.searchsorted(self._times, time, side="right")
        return key


@dataclass(frozen=True)
class HostLines:
    """Stretches of host threads, thread by thread in order of time; arrays of shape (p,), times in ns.

    Attributes:
        thread: Number of the thread.
        start: Start of the stretch.
        end: Its end, which is the next one's start on the same thread.
        owner: Row of the innermost event, -1 between events.
        first: First stretch of each thread, shape (num_threads,).
        last: Last stretch of each thread, shape (num_threads,).
        of_row: Number of the thread of each event, -1 for what stands on none; shape (n,).
    """

    thread: Ints
    start: Ints
    end: Ints
    owner: Ints
    first: Ints
    last: Ints
    of_row: Ints

    @cached_property
    def _keys(self) -> tuple[Moments, Ints]:
        moments = Moments(self.start)
        return moments, moments.key(self.thread, self.start)

    def at(self, thread: Ints, time: Ints) -> Ints:
        """The stretch that holds each time; of two that meet there the later, at a thread's end its last."""
        moments, keys = self._keys
        found: Ints = np.searchsorted(keys, moments.key(thread, time), side="right") - 1
        return found

    def offset(self, length: Ints, thread: Ints, time: Ints) -> Ints:
        """How far along its thread each time lies when the stretches have `length` instead of their own, ns."""
        before = np.cumsum(length) - length
        at = self.at(thread, time)
        into = time - self.start[at]
        whole = self.end[at] - self.start[at]
        scaled = np.where(length[at] == whole, into, np.rint(length[at] * (into / whole)).astype(np.int64))
        moved: Ints = before[at] + scaled
        return moved


def host_rows(events: pd.DataFrame) -> Bools:
    """Rows that have a place in the call tree of a thread; asynchronous ranges have none."""
    parent = events["parent"].to_numpy(dtype=np.int64, na_value=-1)
    has_child = np.zeros(len(events), bool)
    has_child[parent[parent >= 0]] = True
    is_async = (events["dur"].to_numpy() > 0) & (events["self_dur"].to_numpy() == 0) & (parent < 0) & ~has_child
    host = events["device"].isna().to_numpy() & events["tid"].notna().to_numpy() & ~events["is_instant"].to_numpy()
    found: Bools = host & ~is_async & ~is_category(events["cat"].array, _NO_PLACE)
    return found


def host_lines(events: pd.DataFrame, begin: int, end: int) -> HostLines:
    """The stretches of all host threads between `begin` and `end`, ns."""
    rows = np.flatnonzero(host_rows(events))
    codes = _threads(events, rows)
    of_row = np.full(len(events), -1, np.int64)
    of_row[rows] = codes
    start = events["ts"].to_numpy()[rows]
    stop = start + events["dur"].to_numpy()[rows]
    inside = (stop > begin) & (start < end) & (stop > start)
    rows, start, stop = rows[inside], np.maximum(start[inside], begin), np.minimum(stop[inside], end)
    parent = events["parent"].array[rows].to_numpy(dtype=np.int64, na_value=-1)
    return _stretches(rows, start, stop, parent, of_row)


def _threads(events: pd.DataFrame, rows: Ints) -> Ints:
    """A number for each row's thread, in order of first appearance."""
    keys = [pd.factorize(events[name].array[rows])[0].astype(np.int64) for name in ("pid", "tid")]
    codes: Ints = pd.factorize(keys[0] * (len(rows) + 1) + keys[1])[0].astype(np.int64)
    return codes


def _stretches(rows: Ints, start: Ints, stop: Ints, parent: Ints, of_row: Ints) -> HostLines:
    """From the starts and ends of events: after a start the event owns the thread, after an end its parent does.

    At one moment ends come before starts, inner ends before outer ones; the last word counts.
    """
    time = np.concatenate([stop[::-1], start])
    owner = np.concatenate([parent[::-1], rows])
    thread = np.concatenate([of_row[rows[::-1]], of_row[rows]])
    order = np.argsort(time, kind="stable")
    order = order[np.argsort(thread[order].astype(np.int32), kind="stable")]
    time, owner, thread = time[order], owner[order], thread[order]
    keep = np.ones(len(time), bool)
    keep[:-1] = (time[1:] != time[:-1]) | (thread[1:] != thread[:-1])
    time, owner, thread = time[keep], owner[keep], thread[keep]
    keep = np.ones(len(time), bool)
    keep[1:] = (owner[1:] != owner[:-1]) | (thread[1:] != thread[:-1])
    is_last = np.append(thread[1:] != thread[:-1], True)[: len(time)]
    keep |= is_last
    time, owner, thread, is_last = time[keep], owner[keep], thread[keep], is_last[keep]
    body = np.flatnonzero(~is_last)
    return _lines(thread[body], time[body], time[body + 1], owner[body], of_row)


def _lines(thread: Ints, start: Ints, end: Ints, owner: Ints, of_row: Ints) -> HostLines:
    # Threads without any stretch of time are numbered last, so that the others stay dense.
    present, dense = np.unique(thread, return_inverse=True)
    number = np.full(int(of_row.max(initial=-1)) + 2, -1, np.int64)
    number[present] = np.arange(len(present))
    thread = dense.astype(np.int64).reshape(-1)
    first = np.searchsorted(thread, np.arange(len(present)))
    last = np.searchsorted(thread, np.arange(len(present)), side="right") - 1
    return HostLines(thread, start, end, owner, first, last, number[of_row])
