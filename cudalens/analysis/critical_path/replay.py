"""Replays the dependencies of a trace with other durations.

Each moment is the latest of those that its causes allow: the longest path to it. Between waits a host thread has no
slack, and the constraints of its launches on a stream combine, ``max(launch + constant)``, for all launches between two
waits. So one pass in order of time over the waits suffices, whatever the number of events; all else are array
operations.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cudalens.analysis.critical_path.dependencies import Moments
from cudalens.analysis.critical_path.graph import ROOT, DependencyGraph
from cudalens.frames.column_arrays import Bools, Ints, run_starts

_NEVER = -(1 << 62)


@dataclass
class Durations:
    """The durations to replay, ns.

    Attributes:
        host: Length of each interval of the host's threads, shape (p,).
        work: Duration of each piece of device work, shape (w,).
        stream_lag: As in `DependencyGraph`, shape (w,).
        launch_lag: As in `DependencyGraph`, shape (w,).
        launch_from: Position of the work whose launch each work waits for; its own if it is not fused, shape (w,).
        follows: Whether each work waits for the previous one on its stream, shape (w,).
        has_launch: Whether each work waits for a launch, shape (w,).
        waits: Whether each arrival waits for device work, shape (a,).
    """

    host: Ints
    work: Ints
    stream_lag: Ints
    launch_lag: Ints
    launch_from: Ints
    follows: Bools
    has_launch: Bools
    waits: Bools


def measured(graph: DependencyGraph) -> Durations:
    """Return the recorded durations, as copies."""
    works, host = graph.works, graph.host
    return Durations(
        host=host.end - host.start,
        work=works.end - works.start,
        stream_lag=graph.stream_lag.copy(),
        launch_lag=graph.launch_lag.copy(),
        launch_from=np.arange(len(works)),
        follows=np.ones(len(works), bool),
        has_launch=works.has_launch.copy(),
        waits=np.ones(len(graph.arrivals.time), bool),
    )


@dataclass
class Times:
    """The replayed times; ns.

    Attributes:
        work: Start of each piece of device work, shape (w,).
        arrival: Time of each arrival, shape (a,).
        end: The last end of all.
    """

    work: Ints
    arrival: Ints
    end: int


def replay(graph: DependencyGraph, durations: Durations) -> Times:
    """Return the times with `durations`."""
    return _Replay(graph, durations).times()


@dataclass
class _Lists:
    """The data of the pass in order of time, as plain lists, which are faster for single items."""

    order: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    along: list[int] = field(default_factory=list)
    causes: dict[int, list[tuple[bool, int, int]]] = field(default_factory=dict)
    groups: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    waits: dict[int, list[tuple[int, int]]] = field(default_factory=dict)


class _Replay:
    def __init__(self, graph: DependencyGraph, durations: Durations) -> None:
        self._graph, self._durations = graph, durations
        self._num_arrivals = len(graph.arrivals.time)
        self._num_threads = len(graph.host.first)
        self._place_host()
        self._place_works()

    def _place_host(self) -> None:
        """Divide host threads into parts: one from the start of each thread, one from each arrival on.

        Parts 0 to num_threads - 1 start threads; the part of arrival a is num_threads + a.
        """
        graph, length = self._graph, self._durations.host
        host, arrivals, begin = graph.host, graph.arrivals, graph.window.begin
        self._arrival_order = Moments(arrivals.time)
        self._arrival_key = self._arrival_order.key(arrivals.thread, arrivals.time)
        self._first_arrival = np.searchsorted(arrivals.thread, np.arange(self._num_threads))
        self._along_arrival = host.offset(length, arrivals.thread, arrivals.time)
        start = host.start[host.first]
        along_start = host.offset(length, np.arange(self._num_threads), start)
        # A thread that another one starts does not wait for its recorded start.
        waits_first = np.zeros(self._num_threads, bool)
        waits_first[arrivals.thread[~arrivals.is_sync & (arrivals.time == start[arrivals.thread])]] = True
        initial = begin + np.where(waits_first, 0, start - begin)
        self._base = np.concatenate([initial, np.full(self._num_arrivals, _NEVER)])
        self._along_base = np.concatenate([along_start, self._along_arrival])

    def _part(self, thread: Ints, time: Ints) -> Ints:
        """Return the part of each moment of a thread."""
        count = np.searchsorted(self._arrival_key, self._arrival_order.key(thread, time), side="right")
        return np.where(count > self._first_arrival[thread], self._num_threads + count - 1, thread)

    def _moment(self, thread: Ints, time: Ints) -> tuple[Ints, Ints]:
        """Part of each moment, and its offset in the part, ns."""
        part = self._part(thread, time)
        along = self._graph.host.offset(self._durations.host, thread, time) - self._along_base[part]
        return part, along

    def _place_works(self) -> None:
        """Each work's earliest start as a sum along its stream, and the additional constraint of its launch."""
        graph, now = self._graph, self._durations
        works, n = graph.works, len(graph.works)
        busy = np.where(graph.is_overlapped, 0, np.roll(now.work, 1))
        step = np.where(works.is_first | ~now.follows, 0, np.maximum(busy + now.stream_lag, 0))
        self._sum = np.cumsum(step)
        launched = np.flatnonzero(now.has_launch)
        caller = now.launch_from[launched]
        thread = graph.host.of_row[works.launch[caller]]
        part, along = self._moment(thread, works.issued[caller])
        self._launched, self._launch_part = launched, part
        self._demand = along + now.launch_lag[launched] - self._sum[launched]
        self._root = np.full(n, _NEVER)
        rooted = graph.binding == ROOT
        self._root[rooted] = graph.window.begin + graph.root_lag[rooted] - self._sum[rooted]

    def _cuts(self) -> Ints:
        """Works whose time the pass needs: waited for, waiting for a CUDA event, or last of a stream."""
        graph = self._graph
        needed = [graph.causes.work[graph.causes.work >= 0], graph.edges.source, graph.edges.target]
        return np.unique(np.concatenate([*needed, graph.works.stop - 1]))

    def times(self) -> Times:
        cuts = self._cuts()
        return self._all_times(cuts, self._pass(cuts))

    def _pass(self, cuts: Ints) -> Ints:
        lists = self._lists(cuts)
        base, sums = self._base.tolist(), self._sum[cuts].tolist()
        is_first = run_starts(self._graph.works.chain[cuts]).tolist()
        first_part, num = self._num_threads, self._num_arrivals
        level, at = [_NEVER] * len(cuts), [0] * len(cuts)
        for item in lists.order:
            if item < num:
                moment = base[lists.before[item]] + lists.along[item]
                for is_work, source, lag in lists.causes.get(item, ()):
                    moment = max(moment, (at[source] if is_work else base[source]) + lag)
                base[first_part + item] = moment
                continue
            cut = item - num
            high = _NEVER if is_first[cut] else level[cut - 1]
            for part, demand in lists.groups.get(cut, ()):
                high = max(high, base[part] + demand if part >= 0 else demand)
            for source, lag in lists.waits.get(cut, ()):
                high = max(high, at[source] + lag - sums[cut])
            level[cut], at[cut] = high, high + sums[cut]
        self._base = np.array(base, np.int64)
        self._moments = self._base[self._num_threads :]
        return np.array(at, np.int64)

    def _lists(self, cuts: Ints) -> _Lists:
        graph, now = self._graph, self._durations
        works, arrivals, edges = graph.works, graph.arrivals, graph.edges
        lists = _Lists()
        time = np.concatenate([arrivals.time, works.start[cuts]])
        # At one moment waits for the device end first, then those for threads, then device work starts.
        rank = np.concatenate([np.where(arrivals.is_sync, 0, 1), np.full(len(cuts), 2)])
        lists.order = np.lexsort((np.arange(len(time)), rank, time)).tolist()
        before = self._num_threads + np.arange(self._num_arrivals) - 1
        before = np.where(run_starts(arrivals.thread), arrivals.thread, before)
        lists.before = before.tolist()
        since = graph.host.offset(now.host, arrivals.thread, arrivals.since)
        lists.along = (since - self._along_base[before] + self._own(since)).tolist()
        self._add_causes(lists, cuts)
        self._add_groups(lists, cuts)
        source, target = np.searchsorted(cuts, edges.source), np.searchsorted(cuts, edges.target)
        lag = edges.lag + now.work[edges.source]
        for cut, work, least in zip(target.tolist(), source.tolist(), lag.tolist(), strict=True):
            lists.waits.setdefault(cut, []).append((work, least))
        return lists

    def _own(self, since: Ints) -> Ints:
        """Duration of each waiting call without a wait, scaled like its intervals."""
        arrivals = self._graph.arrivals
        now = np.maximum(self._along_arrival - since, 0)
        was = arrivals.time - arrivals.since
        share = np.divide(now, was, out=np.zeros(len(was)), where=was > 0)
        return np.where(now == was, arrivals.own, np.rint(arrivals.own * share).astype(np.int64))

    def _add_causes(self, lists: _Lists, cuts: Ints) -> None:
        causes, now = self._graph.causes, self._durations
        is_work = causes.work >= 0
        source, lag = np.zeros(len(is_work), np.int64), causes.lag.copy()
        source[is_work] = np.searchsorted(cuts, causes.work[is_work])
        lag[is_work] += now.work[causes.work[is_work]]
        part, along = self._moment(causes.thread[~is_work], causes.time[~is_work])
        source[~is_work] = part
        lag[~is_work] += along
        used = ~is_work | now.waits[causes.arrival]
        columns = (causes.arrival, is_work, source, lag)
        for arrival, kind, where, how in zip(*(c[used].tolist() for c in columns), strict=True):
            lists.causes.setdefault(arrival, []).append((kind, where, how))

    def _add_groups(self, lists: _Lists, cuts: Ints) -> None:
        """The strongest constraint of the launches of each part on the works up to each cut."""
        rooted = np.flatnonzero(self._root > _NEVER)
        at = np.concatenate([self._launched, rooted])
        part = np.concatenate([self._launch_part, np.full(len(rooted), -1)])
        demand = np.concatenate([self._demand, self._root[rooted]])
        run = np.searchsorted(cuts, at)
        key = run * (self._num_threads + self._num_arrivals + 1) + part + 1
        order = np.argsort(key, kind="stable")
        if not len(order):
            return
        opens = np.flatnonzero(run_starts(key[order]))
        most = np.maximum.reduceat(demand[order], opens)
        chosen = order[opens]
        for cut, of_part, least in zip(run[chosen].tolist(), part[chosen].tolist(), most.tolist(), strict=True):
            lists.groups.setdefault(cut, []).append((of_part, least))

    def _all_times(self, cuts: Ints, cut_times: Ints) -> Times:
        """Return all times, from those of the cuts."""
        graph, now = self._graph, self._durations
        works, host = graph.works, graph.host
        level = self._root.copy()
        np.maximum.at(level, self._launched, self._base[self._launch_part] + self._demand)
        edges = graph.edges
        source = cut_times[np.searchsorted(cuts, edges.source)]
        np.maximum.at(level, edges.target, source + now.work[edges.source] + edges.lag - self._sum[edges.target])
        for first, stop in zip(works.first.tolist(), works.stop.tolist(), strict=True):
            np.maximum.accumulate(level[first:stop], out=level[first:stop])
        start = level + self._sum
        return Times(start, self._moments, self._last(start, host.last))

    def _last(self, start: Ints, last: Ints) -> int:
        host = self._graph.host
        ends = [self._graph.window.begin]
        if len(last):
            threads = np.flatnonzero(self._graph.leading)
            last = last[threads]
            part, along = self._moment(threads, host.end[last])
            ends.append(int((self._base[part] + along).max()))
        if len(start):
            ends.append(int((start + self._durations.work).max()))
        return max(ends)
