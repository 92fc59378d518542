"""Replays the dependencies of a trace with other durations.

Each moment is the latest of those that its causes allow: the longest path to it. Between waits a host thread has no
slack, and the constraints of its launches on a stream combine, ``max(launch + constant)``, for all launches between two
waits. So one pass in order of time over the waits suffices, whatever the number of events; all else are array
operations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis.critical_path.dependencies import Moments, Works
from cudalens.analysis.critical_path.graph import ROOT, DependencyGraph
from cudalens.analysis.event_arrays import nearest
from cudalens.analysis.time.averages import chosen_rows, sums_beneath
from cudalens.analysis.time.work import COMMUNICATION, COMPUTE, MEMORY
from cudalens.frames.column_arrays import Bools, Floats, Ints, integers, is_category, map_texts, run_starts

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from cudalens.frames import Trace


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


# Estimate the effect of changes, by replaying the dependencies of a trace with other durations.


@dataclass(frozen=True, repr=False)
class WhatIf:
    """The estimated effect of changes.

    Attributes:
        length_ns: Time from the start to the last end with the changes.
        before_ns: The same without them.
        saved_ns: The difference; negative if the changes cost time.
        changes: The changes, in words.
        assumptions: The assumptions, in words.
    """

    length_ns: int
    before_ns: int
    saved_ns: int
    changes: tuple[str, ...]
    assumptions: tuple[str, ...]

    def __repr__(self) -> str:
        """The changes, their effect, and the assumptions."""
        share = 100.0 * self.saved_ns / max(self.before_ns, 1)
        word = "saves" if self.saved_ns >= 0 else "costs"
        head = f"{'; '.join(self.changes)}: {word} {abs(self.saved_ns) / 1e6:,.3f} ms ({abs(share):.1f} %)"
        lines = [f"{head}, {self.before_ns / 1e6:,.3f} ms become {self.length_ns / 1e6:,.3f} ms."]
        return "\n".join([*lines, *(f"Assumed: {text}." for text in self.assumptions)])


_ALWAYS: Final = (
    "calls, works of a stream and waits keep their recorded order",
    "concurrent device work does not get faster when other work is removed",
)


def what_if(
    trace: Trace,
    graph: DependencyGraph,
    before_ns: int,
    *,
    scale: dict[str, float],
    fuse: str | ArrayLike | None,
    without_operators: bool,
    without_syncs: bool,
    overlap_copies: bool,
) -> WhatIf:
    """See `cudalens.analysis.CriticalPath.what_if`."""
    if not scale and fuse is None and not without_syncs and not overlap_copies:
        raise ValueError("what_if() changes nothing: give scale, fuse, without_syncs or overlap_copies")
    change = Change(trace.events, graph)
    for key, factor in scale.items():
        change.scale(key, factor)
    if fuse is not None:
        change.fuse(_group(fuse, change), without_operators)
    if without_syncs:
        change.drop_syncs()
    if overlap_copies:
        change.overlap_copies()
    length = change.length_ns()
    return WhatIf(length, before_ns, before_ns - length, tuple(change.texts), (*_ALWAYS, *change.assumed, *graph.notes))


def _group(which: Any, change: Change) -> Ints:
    """Group 0 for the selected rows of the events, -1 for the others."""
    rows = change.named(which) if isinstance(which, str) else chosen_rows("fuse", which, len(change.events))
    return np.where(rows, 0, -1)


_KINDS: Final = {"kernels": (COMPUTE, COMMUNICATION), "communication": (COMMUNICATION,), "copies": (MEMORY,)}


class Change:
    """Changes of a graph's durations, and the resulting length.

    Attributes:
        events: The events of the trace.
        texts: The changes, in words.
        assumed: The assumptions, in words.
    """

    def __init__(self, events: pd.DataFrame, graph: DependencyGraph) -> None:
        self.events, self._graph = events, graph
        self._host_factor = np.ones(len(graph.host.start))
        self._work_factor = np.ones(len(graph.works))
        self._durations: Durations = measured(graph)
        self.texts: list[str] = []
        self.assumed: list[str] = []

    def length_ns(self) -> int:
        """Time from the start to the last end with the changes, ns."""
        now = self._durations
        now.host = _scaled(now.host, self._host_factor)
        now.work = _scaled(now.work, self._work_factor)
        return replay(self._graph, now).end - self._graph.window.begin

    def scale(self, key: str, factor: float) -> None:
        """Multiply the durations that `key` selects by `factor`."""
        if not factor >= 0 or factor == float("inf"):
            raise ValueError(f"invalid value for scale[{key!r}]: {factor}; expected a finite number, at least 0")
        text = f"{key} removed" if factor == 0 else f"{key} x {factor:g}"
        graph = self._graph
        if key in _KINDS:
            self._scale_work(np.isin(graph.works.kind, _KINDS[key]), factor)
        elif key == "host":
            self._host_factor *= factor
        elif key == "launches":
            self.scale_host(self._is_launch(), factor)
            self.assumed.append("the delay from a launch to its work stays")
        else:
            text = self._scale_named(key, factor)
        self.texts.append(text)

    def _scale_named(self, pattern: str, factor: float) -> str:
        named = self.named(pattern)
        works = named[self._graph.works.row]
        host = named & (self._graph.host.of_row >= 0)
        if not works.any() and not host.any():
            raise ValueError(f"{pattern!r} matches no event in this part of the trace")
        self._scale_work(works, factor)
        if host.any():
            self.scale_host(host, factor)
            self.assumed.append(f"host time of {pattern} includes its descendants; its device work stays")
        count = int(works.sum()) or int(host.sum())
        return f"{count} x {pattern} " + ("removed" if factor == 0 else f"x {factor:g}")

    def named(self, pattern: str) -> Bools:
        """Return the rows of events with this name, or with names that match a pattern with ``*``."""
        names = self.events["name"].array
        return map_texts(names, lambda name: name == pattern or fnmatchcase(name, pattern), False)

    def scale_rows(self, rows: Ints, factor: Floats | float) -> None:
        """Scale the device work in these rows of the events by a factor, or by a factor for each."""
        factors = np.ones(len(self.events))
        factors[rows] = factor
        self._scale_work(np.isin(self._graph.works.row, rows), factors[self._graph.works.row])

    def _scale_work(self, which: Bools, factor: Floats | float) -> None:
        self._work_factor[which] *= np.broadcast_to(factor, which.shape)[which]
        self._close_gaps(which & (self._work_factor == 0))

    def _close_gaps(self, which: Bools) -> None:
        """Start work at the end of its predecessor on the stream; work that overlaps it (in damaged files) stays."""
        lag = self._durations.stream_lag
        lag[which] = np.minimum(lag[which], 0)

    def _is_launch(self) -> Bools:
        found = np.zeros(len(self.events), bool)
        launch = self._graph.works.launch
        found[launch[launch >= 0]] = True
        return found

    def scale_host(self, rows: Bools, factor: float) -> None:
        """Scale the host time of these rows of the events and of all their descendants, once."""
        within = nearest(rows, integers(self.events["parent"])) >= 0
        self._host_factor[np.append(within, False)[self._graph.host.owner]] *= factor

    def fuse(self, group: Ints, without_operators: bool, *, as_graph: bool = False) -> None:
        """Combine the device work of each group into one launch.

        Args:
            group: The group of each row of the events, -1 for none; shape (n,).
            without_operators: Also remove operators that launch nothing else.
            as_graph: Also remove all host time from the first to the last launch of a group, as replaying a graph does.
        """
        works, now = self._graph.works, self._durations
        of = group[works.row]
        fused = np.flatnonzero(of >= 0)
        if len(fused) < 2:
            raise ValueError(f"fuse selects {len(fused)} pieces of device work in this part of the trace; it needs two")
        leader = _leaders(works, of, fused)
        follows = (of >= 0) & (of == np.roll(of, 1)) & ~works.is_first
        self._close_gaps(follows)
        # On each stream the first work waits for the one launch; the others follow in the order of the stream.
        moved = now.has_launch[fused]
        now.launch_from[fused[moved]] = leader[moved]
        now.launch_lag[fused[moved]] = np.minimum(now.launch_lag[fused[moved]], now.launch_lag[leader[moved]])
        self._drop_launches(fused, np.unique(leader), without_operators)
        if as_graph:
            self._drop_host_between(fused, leader)
        self.texts.append(f"{len(fused)} pieces of device work as one launch")
        self.assumed.append("fused work takes as long as its parts, without gaps between neighbours on a stream")
        self.assumed.append("the first of the fused launches replaces all")

    def _drop_launches(self, fused: Ints, leaders: Ints, without_operators: bool) -> None:
        launch = self._graph.works.launch
        calls = np.zeros(len(self.events), bool)
        calls[launch[fused][launch[fused] >= 0]] = True
        # A call that launches other work as well stays.
        others = np.setdiff1d(np.arange(len(launch)), fused)
        kept = launch[np.concatenate([others, leaders])]
        calls[kept[kept >= 0]] = False
        if without_operators:
            calls |= self._idle_operators(calls)
        self.scale_host(calls, 0.0)

    def _drop_host_between(self, fused: Ints, leader: Ints) -> None:
        """Remove the host time between the first and the last launch of each group, on the thread of the first."""
        works, host = self._graph.works, self._graph.host
        thread = host.of_row[works.launch]
        mine = works.has_launch[fused] & (thread[fused] == thread[leader])
        fused, leader = fused[mine], leader[mine]
        first, last = (host.at(thread[leader], works.issued[of]) for of in (leader, fused))
        covers = np.zeros(len(host.start) + 1, np.int64)
        np.add.at(covers, first + 1, 1)
        np.add.at(covers, np.maximum(last, first) + 1, -1)
        self._host_factor[np.cumsum(covers)[:-1] > 0] = 0.0

    def _idle_operators(self, dropped: Bools) -> Bools:
        """Operators with launches, all of which are dropped."""
        events, launches = self.events, self._is_launch()
        parent, depth = integers(events["parent"]), events["depth"].to_numpy()
        gone, total = (sums_beneath(mask.astype(np.int64), parent, depth) for mask in (dropped, launches))
        return is_category(events["cat"].array, ("cpu_op",)) & (gone > 0) & (gone == total)

    def drop_syncs(self, rows: Ints | None = None) -> None:
        """Synchronising calls do not wait: those in these rows of the events, by default all."""
        arrivals = self._graph.arrivals
        which = arrivals.is_sync & (True if rows is None else np.isin(arrivals.row, rows))
        self._durations.waits[which] = False
        self.texts.append(f"{int((which & (arrivals.source >= 0)).sum())} waits of the host removed")
        self.assumed.append("the host does not need the values that it waited for, and the queue is never full")

    def overlap_copies(self) -> None:
        """Work after a copy or a set on its stream does not wait for its end."""
        works = self._graph.works
        self.overlap(works.row[works.kind == MEMORY])
        self.texts.append(f"{int((works.kind == MEMORY).sum())} copies and sets overlap other work")
        self.assumed.append("work after a copy on its stream does not need the copied data, and copy engines are free")

    def overlap(self, rows: Ints) -> None:
        """Work after the device work in these rows does not wait for its end."""
        works = self._graph.works
        self._durations.follows[np.roll(np.isin(works.row, rows), 1) & ~works.is_first] = False


def _leaders(works: Works, group: Ints, fused: Ints) -> Ints:
    """For each of `fused`, the work of its group whose launch comes first; shape of `fused`."""
    issued = np.where(works.has_launch[fused], works.issued[fused], np.iinfo(np.int64).max)
    order = np.lexsort((issued, group[fused]))
    first = np.flatnonzero(run_starts(group[fused][order]))
    _, number = np.unique(group[fused], return_inverse=True)
    return fused[order][first][number]


def _scaled(length: Ints, factor: Floats) -> Ints:
    changed = np.flatnonzero(factor != 1.0)
    scaled = length.copy() if len(changed) else length
    scaled[changed] = np.rint(length[changed] * factor[changed])
    return scaled
