"""Follows the critical path from the last moment back to the first, always to the binding cause.

A path on one stream or one host thread is one step, whatever the number of its events, so the loop runs once for each
change between host, streams and threads.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from cudalens.analysis.critical_path.graph import EVENT, LAUNCH, STREAM, DependencyGraph
from cudalens.analysis.time.work import KINDS
from cudalens.frames.column_arrays import Ints, categorical, masked

if TYPE_CHECKING:
    from cudalens.frames import Trace

#: Kinds of pieces by their number; the first three are device work.
HOST, IDLE, LAUNCHING, GAP, WAIT, SYNC, HANDOVER, UNKNOWN = range(3, 11)
PIECES: Final = (*KINDS, "host", "untraced host", "launch delay", "stream gap", "event wait", "sync return",
                 "handover", "unknown")  # fmt: skip

#: Part of the path on a thread: its number, start, end.
_HostRun = tuple[int, int, int]
#: Part of the path on a stream: works first to last, end.
_DeviceRun = tuple[int, int, int]
#: Part of the path between those: kind, row, start, end.
_Edge = tuple[int, int, int, int]


def path_frame(trace: Trace, graph: DependencyGraph) -> pd.DataFrame:
    """Return the critical path's pieces in order of time, columns as in `cudalens.analysis.CriticalPath.frame`."""
    walker = _Walker(graph)
    walker.walk()
    host, device = _host_pieces(graph, walker.host_runs), _device_pieces(graph, walker.device_runs)
    parts = [host, device, _columns(walker.edges, 4)]
    kind, row, begin, end = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    some = np.flatnonzero(end > begin)
    order = some[np.argsort(begin[some], kind="stable")]
    return _framed(trace, kind[order], row[order], begin[order], end[order])


def _columns(rows: Sequence[tuple[int, ...]], num: int) -> tuple[Ints, ...]:
    return tuple(np.array(rows, np.int64).reshape(-1, num).T)


class _Walker:
    """Goes back from cause to cause; a place is (whether it is a host thread, number of the thread or work, time).

    A path may have some hundred thousand steps, each of which reads a few numbers of arrays: memoryviews return them
    as plain integers, several times faster than arrays do.
    """

    def __init__(self, graph: DependencyGraph) -> None:
        self.host_runs: list[_HostRun] = []
        self.device_runs: list[_DeviceRun] = []
        self.edges: list[_Edge] = []
        self._graph = graph
        arrivals, causes, works = graph.arrivals, graph.causes, graph.works
        self._arrival_source, self._arrival_row = arrivals.source.data, arrivals.row.data
        self._cause_time, self._cause_work = causes.time.data, causes.work.data
        self._cause_thread, self._thread_of_row = causes.thread.data, graph.host.of_row.data
        self._start, self._end, self._row = works.start.data, works.end.data, works.row.data
        self._issued, self._launch = works.issued.data, works.launch.data
        self._binding, self._bound_by = graph.binding.data, graph.bound_by.data
        self._event_source = graph.edges.source.data
        waited = np.flatnonzero(arrivals.source >= 0)
        self._waits: dict[int, tuple[list[int], list[int]]] = {}
        for thread in np.unique(arrivals.thread[waited]).tolist():
            at = waited[arrivals.thread[waited] == thread]
            self._waits[thread] = (arrivals.time[at].tolist(), at.tolist())
        changes = np.where(graph.binding != STREAM, np.arange(len(graph.works)), -1)
        self._head = (np.maximum.accumulate(changes) if len(changes) else changes).data

    def walk(self) -> None:
        """Fill the lists of parts of the path."""
        is_host, where, time = self._last()
        while where >= 0:
            is_host, where, time = (self._back_on_host if is_host else self._back_on_device)(where, time)

    def _last(self) -> tuple[bool, int, int]:
        """Return the place with the last end of all; a host thread before device work."""
        host, works = self._graph.host, self._graph.works
        ends = np.where(self._graph.leading, host.end[host.last], self._graph.window.begin)
        thread, work = int(np.argmax(ends)) if len(ends) else -1, int(np.argmax(works.end)) if len(works) else -1
        if thread >= 0 and (work < 0 or ends[thread] >= works.end[work]):
            return True, thread, int(ends[thread])
        return False, work, int(works.end[work]) if work >= 0 else 0

    def _back_on_host(self, thread: int, time: int) -> tuple[bool, int, int]:
        """To the cause of the thread's last wait, or to its start."""
        times, arrivals = self._waits.get(thread, ([], []))
        at = bisect_right(times, time) - 1
        graph = self._graph
        if at < 0:
            begin = int(graph.host.start[graph.host.first[thread]])
            self.host_runs.append((thread, begin, time))
            self.edges.append((UNKNOWN, -1, graph.window.begin, begin))
            return False, -1, 0
        self.host_runs.append((thread, times[at], time))
        cause, row = self._arrival_source[arrivals[at]], self._arrival_row[arrivals[at]]
        since, work = self._cause_time[cause], self._cause_work[cause]
        self.edges.append((SYNC if work >= 0 else HANDOVER, row, since, times[at]))
        return (False, work, since) if work >= 0 else (True, self._cause_thread[cause], since)

    def _back_on_device(self, work: int, time: int) -> tuple[bool, int, int]:
        """To the cause of the first of the works that only wait for each other."""
        head = self._head[work]
        start, row, binding = self._start[head], self._row[head], self._binding[head]
        self.device_runs.append((head, work, time))
        if binding == LAUNCH:
            issued = self._issued[head]
            self.edges.append((LAUNCHING, row, issued, start))
            return True, self._thread_of_row[self._launch[head]], issued
        if binding == EVENT:
            source = self._event_source[self._bound_by[head]]
            self.edges.append((WAIT, row, self._end[source], start))
            return False, source, self._end[source]
        self.edges.append((UNKNOWN, row, self._graph.window.begin, start))
        return False, -1, 0


def _ranges(first: Ints, count: Ints) -> tuple[Ints, Ints]:
    """Return the numbers first, first + 1, … of each of several ranges, and which range each belongs to."""
    of = np.repeat(np.arange(len(first)), count)
    within = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    return first[of] + within, of


def _host_pieces(graph: DependencyGraph, runs: Sequence[_HostRun]) -> tuple[Ints, ...]:
    thread, begin, end = _columns([run for run in runs if run[2] > run[1]], 3)
    if not len(thread):
        return _columns([], 4)
    host = graph.host
    first, last = host.at(thread, begin), host.at(thread, end - 1)
    stretch, of = _ranges(first, last - first + 1)
    owner = host.owner[stretch].astype(np.int64)
    kind = np.where(owner >= 0, HOST, IDLE)
    return kind, owner, np.maximum(host.start[stretch], begin[of]), np.minimum(host.end[stretch], end[of])


def _device_pieces(graph: DependencyGraph, runs: Sequence[_DeviceRun]) -> tuple[Ints, ...]:
    """Works of each run, up to the start of the next where they overlap, and the gaps between them."""
    if not runs:
        return _columns([], 4)
    works = graph.works
    first, last, until = _columns(runs, 3)
    at, of = _ranges(first, last - first + 1)
    is_last = at == last[of]
    following = np.where(is_last, until[of], works.start[np.minimum(at + 1, len(works) - 1)])
    end = np.minimum(works.end[at], following)
    after = at[~is_last] + 1
    gaps = (np.full(len(after), GAP), works.row[after], end[~is_last], following[~is_last])
    pieces = (works.kind[at].astype(np.int64), works.row[at], works.start[at], end)
    return tuple(np.concatenate(pair) for pair in zip(pieces, gaps, strict=True))


def _framed(trace: Trace, kind: Ints, row: Ints, begin: Ints, end: Ints) -> pd.DataFrame:
    events = trace.events
    columns = {
        "kind": categorical(kind.astype(np.int8), list(PIECES)),
        "event": masked(row),
        "start": begin,
        "end": end,
        "dur_ns": end - begin,
    }
    for name in ("name", "device", "stream", "pid", "tid"):
        columns[name] = events[name].array.take(row, allow_fill=True) if len(row) else events[name].array[:0]
    return pd.DataFrame(columns, copy=False)
