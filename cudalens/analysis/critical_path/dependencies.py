"""The nodes and edges of the dependency graph as arrays: device work, intervals of host threads, and their causes.

An interval belongs to the innermost running event, or to none between the events of a thread.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames.column_arrays import Bools, Ints, combined, integers, is_category, run_ends, run_starts


@dataclass(frozen=True)
class Window:
    """The analysed part of a trace; ns.

    Attributes:
        begin: Start of the path.
        host_end: End of the host threads; device work launched before it belongs to the part.
    """

    begin: int
    host_end: int


@dataclass
class Works:
    """Device work by stream and start; arrays of shape (w,), times in ns.

    Attributes:
        row: Row of the events frame.
        chain: Number of its stream.
        device: Device index, -1 where unknown.
        stream: Stream, -1 where unknown.
        kind: As in `cudalens.analysis.time.work.Work`.
        start: Start, not before the window.
        end: End; or the end of the host's wait for it, if that is earlier because the clocks differ.
        launch: Row of the launching call, -1 where unknown.
        issued: Start of its launch; its own start if that is unknown.
        has_launch: Whether its launch is in the window, on a host thread, and not after its start.
        is_first: Whether it is the first of its stream.
        first: First work of each stream, shape (num_chains,).
        stop: One past the last work of each stream, shape (num_chains,).
    """

    row: Ints
    chain: Ints
    device: Ints
    stream: Ints
    kind: NDArray[np.int8]
    start: Ints
    end: Ints
    launch: Ints
    issued: Ints
    has_launch: Bools
    is_first: Bools
    first: Ints
    stop: Ints

    def __len__(self) -> int:
        return len(self.row)

    @property
    def previous_end(self) -> Ints:
        """End of the previous work on the stream; the own start for the first."""
        return np.where(self.is_first, self.start, np.roll(self.end, 1)) if len(self) else self.end


@dataclass
class Arrivals:
    """The ends of waits of host threads; arrays of shape (a,), by thread and time, ns.

    Attributes:
        thread: Number of the thread.
        since: Start of the wait.
        time: End of the wait.
        own: Duration of the call if there is nothing to wait for.
        row: Row of the call; -1 if the thread waits for another thread.
        is_sync: Whether it is a synchronising call, not a wait for a thread.
        source: Position of the binding cause; -1 if it did not wait.
    """

    thread: Ints
    since: Ints
    time: Ints
    own: Ints
    row: Ints
    is_sync: Bools
    source: Ints


@dataclass
class Causes:
    """The causes of arrivals: device work or a moment of another thread; arrays of shape (c,).

    Attributes:
        arrival: Position of the arrival.
        work: Position of the device work whose end is waited for, -1 for a moment of a thread.
        thread: The other thread, -1 for device work.
        time: The moment of that thread, or the end of the work, ns.
        lag: Least time from then to the arrival, ns.
    """

    arrival: Ints
    work: Ints
    thread: Ints
    time: Ints
    lag: Ints


@dataclass
class EventEdges:
    """Work that waits for a CUDA event; arrays of shape (k,).

    Attributes:
        source: Position of the work that the event marks.
        target: Position of the first work after the wait.
        lag: Least time from the end of the source to the start of the target, ns.
    """

    source: Ints
    target: Ints
    lag: Ints


#: Categories about the recording itself, which are in no call tree.
_NO_PLACE = ("Trace", "overhead")


class Moments:
    """Moments of threads as numbers in order of thread, then time.

    The numbers count the given times: keys made of nanoseconds would exceed 64 bits if a row is decades from others.
    """

    def __init__(self, *times: Ints) -> None:
        """Take the times to distinguish, ns."""
        self._times = np.sort(np.concatenate(times))

    def key(self, thread: Ints, time: Ints) -> Ints:
        """Return a number for each moment; other times count as the last given one before them."""
        return thread * (len(self._times) + 1) + np.searchsorted(self._times, time, side="right")


@dataclass(frozen=True)
class HostLines:
    """Intervals of host threads, thread by thread in order of time; arrays of shape (p,), times in ns.

    Attributes:
        start: Start of the interval.
        end: Its end, which is the start of the thread's next interval.
        owner: Row of the innermost event, -1 between events.
        first: First interval of each thread, shape (num_threads,).
        last: Last interval of each thread, shape (num_threads,).
        of_row: Number of the thread of each event, -1 for none; shape (n,).
    """

    start: Ints
    end: Ints
    owner: NDArray[np.int32]
    first: Ints
    last: Ints
    of_row: Ints

    def at(self, thread: Ints, time: Ints) -> Ints:
        """Return the interval around each time; of two that meet there the later, at a thread's end its last."""
        found = np.full(len(thread), -1, np.int64)
        order = np.argsort(thread, kind="stable")
        for part in np.split(order, np.flatnonzero(run_starts(thread[order]))[1:]):
            if len(part) and (number := int(thread[part[0]])) >= 0:
                first, last = int(self.first[number]), int(self.last[number])
                found[part] = first + np.searchsorted(self.start[first : last + 1], time[part], side="right") - 1
        return found

    def offset(self, length: Ints, thread: Ints, time: Ints) -> Ints:
        """Offset of each time on its thread if the intervals have `length` instead of their own, ns."""
        before = np.cumsum(length) - length
        at = self.at(thread, time)
        into = time - self.start[at]
        whole = self.end[at] - self.start[at]
        scaled = np.where(length[at] == whole, into, np.rint(length[at] * (into / whole)).astype(np.int64))
        return before[at] + scaled


def host_rows(events: pd.DataFrame) -> Bools:
    """Rows in the call tree of a thread; asynchronous ranges are in none."""
    parent = integers(events["parent"])
    has_child = np.zeros(len(events), bool)
    has_child[parent[parent >= 0]] = True
    is_async = (events["dur"].to_numpy() > 0) & (events["self_dur"].to_numpy() == 0) & (parent < 0) & ~has_child
    host = events["device"].isna().to_numpy() & events["tid"].notna().to_numpy() & ~events["is_instant"].to_numpy()
    return host & ~is_async & ~is_category(events["cat"].array, _NO_PLACE)


def host_lines(events: pd.DataFrame, begin: int, end: int) -> HostLines:
    """Return the intervals of all host threads between `begin` and `end`, ns."""
    rows = np.flatnonzero(host_rows(events))
    of_row = np.full(len(events), -1, np.int64)
    of_row[rows] = combined(*(pd.factorize(events[name].array[rows])[0] for name in ("pid", "tid")))
    start = events["ts"].to_numpy()[rows]
    stop = start + events["dur"].to_numpy()[rows]
    inside = (stop > begin) & (start < end) & (stop > start)
    rows, start, stop = rows[inside], np.maximum(start[inside], begin), np.minimum(stop[inside], end)
    return _intervals(rows, start, stop, integers(events["parent"].array[rows]), of_row)


def _intervals(rows: Ints, start: Ints, stop: Ints, parent: Ints, of_row: Ints) -> HostLines:
    """From the starts and ends of events: after a start the event owns the thread, after an end its parent does.

    At one moment ends come before starts, and inner ends before outer ones; the last one counts.
    """
    # Every array that is no longer used is freed: they are twice as long as the events.
    time, of_events = np.concatenate([stop[::-1], start]), of_row[rows].astype(np.int32)
    thread = np.concatenate([of_events[::-1], of_events])
    order = np.argsort(time, kind="stable")
    order = order[np.argsort(thread[order], kind="stable")]
    time, thread = time[order], thread[order]
    keep = run_ends(time, thread)
    order = order[keep]
    owner = np.concatenate([parent[::-1], rows]).astype(np.int32)[order]
    del order
    time = time[keep]
    thread = thread[keep]
    is_last = run_ends(thread)
    keep = run_starts(owner, thread) | is_last
    time = time[keep]
    owner, thread, is_last = owner[keep], thread[keep], is_last[keep]
    body = ~is_last
    end = time[1:][body[:-1]]
    time, owner, thread = time[body], owner[body], thread[body]
    # Threads without an interval get no number, so that the numbers stay dense.
    number = np.full(int(of_row.max(initial=-1)) + 2, -1, np.int64)
    present = np.flatnonzero(np.bincount(thread, minlength=1))
    number[present] = np.arange(len(present))
    first, last = np.flatnonzero(run_starts(thread)), np.flatnonzero(run_ends(thread))
    return HostLines(time, end, owner, first, last, number[of_row])
