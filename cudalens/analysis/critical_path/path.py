"""The critical path: the chain of host calls, launches, device work and waits that set how long a run took.

It is followed from the last moment back to the first, always to the binding cause.

A path on one stream or one host thread is one step, whatever the number of its events, so the loop runs once for each
change between host, streams and threads.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np
import pandas as pd

from cudalens.analysis.critical_path.dependencies import Window, host_rows
from cudalens.analysis.critical_path.graph import EVENT, LAUNCH, STREAM, DependencyGraph, build_graph
from cudalens.analysis.critical_path.replay import WhatIf, what_if
from cudalens.analysis.time.work import KINDS, device_work
from cudalens.errors import invalid_choice
from cudalens.frames import Ranks, Trace
from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.column_arrays import Ints, categorical, masked

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


_KEYS: Final = ("kind", "name", "device", "stream", "event")
PIECES: Final = (*KINDS, "host", "untraced host", "launch delay", "stream gap", "event wait", "sync return",
                 "handover", "unknown")  # fmt: skip
DEVICE_KINDS: Final = PIECES[:3]
HOST_KINDS: Final = ("host", "untraced host")


@dataclass(frozen=True, eq=False, repr=False)
class CriticalPath:
    """The critical path of a trace, or of a part of it.

    Attributes:
        frame: A row per piece, in order of time; each begins at the end of the previous one. Columns: ``kind`` (see
            below), ``event`` (row of ``trace.events``, <NA> for none), ``start``, ``end``, ``dur_ns`` (the time on the
            path, ns, which may be a part of the event), and of that event ``name``, ``device``, ``stream``, ``pid``,
            ``tid``.
        length_ns: Length of the path: from the start of the analysed part to its last end.
        notes: What the recording lacks, and the resulting assumptions.
        trace: The Trace.
        graph: Its dependencies.

    Kinds: ``compute``, ``communication``, ``memory`` are device work, as in `device_time`. ``host``: the host was in
    that (innermost) event, ``untraced host``: between events. ``launch delay``: from the start of a launching call to
    the start of the work (``event``). ``stream gap``: from the end of the previous work on its stream to the start of
    the work. ``event wait``: from the end of the work that a CUDA event marks to the start of the work that waited for
    it. ``sync return``: from the end of device work to the end of the host call that waited for it (``event``).
    ``handover``: from one host thread to another. ``unknown``: before the first known event.
    """

    frame: pd.DataFrame
    length_ns: int
    notes: tuple[str, ...]
    trace: Trace
    graph: DependencyGraph

    def by(self, key: str = "kind") -> pd.DataFrame:
        """Return the path's time by ``kind``, ``name``, ``device``, ``stream`` or ``event``, longest first.

        Returns:
            Columns ``key``, ``count`` (pieces), ``dur_ns`` (their sum) and ``share_pct`` (of the path). Pieces without
            a value are in a row of <NA>, so that ``dur_ns`` adds up to `length_ns`.

        Raises:
            ValueError: `key` is unknown.
        """
        if key not in _KEYS:
            raise invalid_choice("by", key, _KEYS)
        grouped = self.frame.groupby(key, observed=True, dropna=False)["dur_ns"].agg(["size", "sum"]).reset_index()
        grouped.columns = pd.Index([key, "count", "dur_ns"])
        grouped["share_pct"] = 100.0 * grouped["dur_ns"] / max(self.length_ns, 1)
        return grouped.sort_values("dur_ns", ascending=False, kind="stable", ignore_index=True)

    def what_if(
        self,
        *,
        scale: Mapping[str, float] | None = None,
        fuse: str | ArrayLike | None = None,
        without_operators: bool = False,
        without_syncs: bool = False,
        overlap_copies: bool = False,
    ) -> WhatIf:
        """Estimates the duration of the same part with changes, which are applied together.

        Args:
            scale: Factors of durations (0 removes, 2 doubles) by what they apply to: ``"kernels"``, ``"copies"``,
                ``"communication"`` (device work by kind), ``"launches"`` (host time of the calls that launch device
                work), ``"host"`` (all host time), or a name or pattern with ``*`` of device work, or of host events
                (with the host time of their descendants). Several factors multiply.
            fuse: Device work that becomes one launch: rows of ``trace.events``, a boolean mask of them, or a name
                or pattern. On each stream it then waits for the first of their launches only. Durations stay; gaps
                between direct neighbours, and the host time of the other launch calls, are removed.
            without_operators: With `fuse`: also remove the host time of operators that launch nothing else, as in the
                replay of a CUDA graph; that of the operator with the remaining launch stays.
            without_syncs: Synchronising calls do not wait.
            overlap_copies: Work after a copy or a set on its stream does not wait for its end.

        Raises:
            ValueError: There is no change, a factor is negative, or a name matches no event.
        """
        return what_if(
            self.trace,
            self.graph,
            self.length_ns,
            scale=dict(scale or {}),
            fuse=fuse,
            without_operators=without_operators,
            without_syncs=without_syncs,
            overlap_copies=overlap_copies,
        )

    @property
    def verdict(self) -> str:
        """The composition of the path in a sentence."""
        if not len(self.frame):
            return "No host events or device work: there is no critical path."
        totals = self.frame.groupby(self.frame["kind"].astype(object))["dur_ns"].sum()
        device, host = (int(totals.reindex(list(kinds)).fillna(0).sum()) for kinds in (DEVICE_KINDS, HOST_KINDS))
        delays = self.length_ns - device - host
        shares = [100.0 * part / max(self.length_ns, 1) for part in (device, host, delays)]
        if device >= max(host, delays):
            bound = "The GPU"
        else:
            bound = "The host" if host >= delays else "Waiting and launching"
        text = f"{shares[0]:.0f} % device work, {shares[1]:.0f} % host, {shares[2]:.0f} % delays between them"
        return f"{bound} is the bottleneck of {self.length_ns / 1e6:,.3f} ms: {text}."

    def __repr__(self) -> str:
        """The verdict and the kinds."""
        lines = [f"{row.dur_ns / 1e6:12,.3f} ms {row.share_pct:5.1f} %  {row.kind}" for row in self.by().itertuples()]
        return "\n".join([self.verdict, *lines, *(f"Note: {note}." for note in self.notes)])


@overload
def critical_path(
    trace: Trace, *, step: int | None = None, start: int | None = None, end: int | None = None
) -> CriticalPath: ...
@overload
def critical_path(
    trace: Ranks, *, step: int | None = None, start: int | None = None, end: int | None = None
) -> dict[int, CriticalPath]: ...
def critical_path(
    trace: Trace | Ranks, *, step: int | None = None, start: int | None = None, end: int | None = None
) -> CriticalPath | dict[int, CriticalPath]:
    """Return the longest chain of dependencies: the run gets faster only if this chain gets faster.

    Dependencies are the order of a host thread; launches (from the start of the call to the start of the work); the
    order of a stream; waits of streams for CUDA events; host calls that wait for the device; and forward threads that
    wait for autograd's. The path leads backward from the last end to the start, each time to the last cause to finish;
    its pieces have no gaps between them. A path over starts and ends with launch, stream and synchronisation edges is
    also in HolisticTraceAnalysis' critical path analysis and in Daydream (Zhu et al., USENIX ATC 2020), which replays
    changed durations as well.

    Args:
        trace: Any Trace; Ranks give a path for each rank.
        step: Only this profiler step: its range on the host, and the device work launched within.
        start: Only from the start of this row of the events on.
        end: Only to the end of this row; default: the end of `start`. It includes the device work launched in between.

    Returns:
        The path; empty without events. Work that was launched before the part and runs in it counts from the part's
        start on.

    Raises:
        ValueError: The step or row does not exist, or both are given.
    """
    if isinstance(trace, Ranks):
        return {rank: critical_path(one, step=step, start=start, end=end) for rank, one in trace.items()}
    graph = build_graph(trace, _window(trace, step, start, end))
    frame = path_frame(trace, graph)
    length = int(frame["dur_ns"].sum())
    return CriticalPath(frame, length, graph.notes, trace, graph)


def _window(trace: Trace, step: int | None, start: int | None, end: int | None) -> Window:
    events = trace.events
    if step is not None:
        if start is not None or end is not None:
            raise ValueError("step and start/end both select a part of the trace: give one of them")
        names = events["name"].astype(object)
        host = events["device"].isna()
        rows = np.flatnonzero((names == f"{STEP_PREFIX}{step}") & host)
        if not len(rows):
            known = sorted(int(number) for number in events["step"].dropna().unique())
            raise ValueError(f"step {step} is not in this trace; its steps are {known}")
        return _around(events, rows)
    if start is not None or end is not None:
        first, last = (start if start is not None else end), (end if end is not None else start)
        rows = np.array([_row(events, first), _row(events, last)])
        return Window(int(events["ts"].array[rows[0]]), int(events["ts"].array[rows[1]] + events["dur"].array[rows[1]]))
    return whole_window(trace)


def whole_window(trace: Trace) -> Window:
    """From the first start to the last end of the host's events and the device work."""
    rows = np.concatenate([np.flatnonzero(host_rows(trace.events)), device_work(trace).rows])
    return _around(trace.events, rows)


def _around(events: pd.DataFrame, rows: NDArray[np.int64]) -> Window:
    if not len(rows):
        return Window(0, 0)
    ts = events["ts"].to_numpy()[rows]
    return Window(int(ts.min()), int((ts + events["dur"].to_numpy()[rows]).max()))


def _row(events: pd.DataFrame, row: Any) -> int:
    if not 0 <= int(row) < len(events):
        raise ValueError(f"row {row} is not in the trace, which has {len(events)} events")
    return int(row)


#: Kinds of pieces by their number; the first three are device work.
HOST, IDLE, LAUNCHING, GAP, WAIT, SYNC, HANDOVER, UNKNOWN = range(3, 11)

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
