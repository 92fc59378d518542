"""Builds the dependency graph of a trace: dependencies between host threads, streams and CUDA events.

Device work starts after its launch has reached the device, the previous work on its stream has ended, and the CUDA
events that its stream waits for are done. A host thread waits for device work in synchronising calls, and for
autograd's thread during the backward pass. Of several causes the last one to finish is *binding*: it gets the remaining
time, so that the graph reproduces the trace exactly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from cudalens.analysis.critical_path.dependencies import (
    Arrivals,
    Causes,
    EventEdges,
    HostLines,
    Moments,
    Window,
    Works,
    host_lines,
)
from cudalens.analysis.time.groups import numbered
from cudalens.analysis.time.work import device_work
from cudalens.frames import RUNTIME_CATEGORIES
from cudalens.frames.column_arrays import Bools, Ints, integers, is_category, map_texts, positions, run_ends, run_starts
from cudalens.frames.sync_kinds import SKEW_NS, is_host_copy, is_release, plain_call, sync_target

if TYPE_CHECKING:
    from cudalens.frames import Trace


#: The binding dependency of a piece of device work: its stream, its launch, a CUDA event, or unknown.
STREAM: Final = 0
LAUNCH: Final = 1
EVENT: Final = 2
ROOT: Final = 3


@dataclass
class DependencyGraph:
    """All dependencies.

    Attributes:
        window: The analysed part.
        host: The host's threads.
        works: The device's work.
        arrivals: Ends of waits of threads.
        causes: Causes of these waits.
        edges: Waits of streams for CUDA events.
        leading: Threads on which the path may end, shape (num_threads,).
        notes: What is unknown, in sentences.
        binding: STREAM, LAUNCH, EVENT or ROOT for each work, shape (w,).
        bound_by: Position of the binding event edge, -1 for none, shape (w,).
        stream_lag: Least time from the end of the previous work on its stream, ns, shape (w,).
        launch_lag: Least time from the start of its launch, ns, shape (w,).
        root_lag: Time from the start of the window for ROOT, ns, shape (w,).
        is_overlapped: Whether it runs beside most of the previous work on its stream, shape (w,).
    """

    window: Window
    host: HostLines
    works: Works
    arrivals: Arrivals
    causes: Causes
    edges: EventEdges
    leading: Bools
    notes: tuple[str, ...]
    binding: Ints
    bound_by: Ints
    stream_lag: Ints
    launch_lag: Ints
    root_lag: Ints
    is_overlapped: Bools


def build_graph(trace: Trace, window: Window) -> DependencyGraph:
    """Return the dependencies of `trace` within `window`."""
    host = host_lines(trace.events, window.begin, window.host_end)
    works = _works(trace, window, host)
    arrivals, causes, edges, notes = find_waits(trace.events, window, host, works)
    late = int(((works.launch >= 0) & (works.issued > works.start)).sum())
    if late:
        notes = (*notes, f"{late} pieces of device work start before their launch: their launches are left out")
    # The binding dependency of each piece of work, and the lags; that of the binding one has the remaining time.
    n = len(works)
    before, start = works.previous_end, works.start
    # Kernels of a graph, and those with a programmatic launch, start shortly before the previous one has ended: they
    # depend on its end all the same, with a negative lag.
    is_overlapped = 2 * (before - start) > np.roll(works.end - works.start, 1)
    is_overlapped &= before > start
    stream_lag, launch_lag = _typical_lags(works, is_overlapped)
    # Overlapped work does not wait for the end of the previous work: only the order of starts counts.
    floor = np.where(is_overlapped, np.roll(start, 1), before)
    none = np.iinfo(np.int64).min
    ready = np.full((4, n), none, np.int64)
    ready[STREAM] = np.where(works.is_first, none, floor + stream_lag)
    ready[LAUNCH] = np.where(works.has_launch, works.issued + launch_lag, none)
    np.maximum.at(ready[EVENT], edges.target, works.end[edges.source])
    ready[ROOT] = np.where((ready[:3] == none).all(axis=0), window.begin, none)
    # Of causes that finish at the same time a CUDA event comes first, then the stream.
    order = np.array([EVENT, STREAM, LAUNCH, ROOT])
    binding = order[np.argmax(ready[order], axis=0)]
    rest = start - ready.max(axis=0)
    bound = {
        "binding": binding,
        "bound_by": _binding_edges(works, edges, binding, rest),
        "stream_lag": stream_lag + np.where(binding == STREAM, rest, 0),
        "launch_lag": launch_lag + np.where(binding == LAUNCH, rest, 0),
        "root_lag": np.where(binding == ROOT, start - window.begin, 0),
        "is_overlapped": is_overlapped,
    }
    return DependencyGraph(window, host, works, arrivals, causes, edges, _leading(host, works), notes, **bound)


def _leading(host: HostLines, works: Works) -> Bools:
    """Threads that launch device work, or else the one with the most intervals.

    Other threads (a watchdog, a progress bar, a loader) may be in a call at the end of a recording, but delay nothing.
    """
    leading: Bools = np.bincount(host.of_row[works.launch[works.has_launch]], minlength=len(host.first)) > 0
    length = host.last - host.first
    return leading if leading.any() else length == length.max(initial=0)


def _works(trace: Trace, window: Window, host: HostLines) -> Works:
    work = device_work(trace)
    ts = trace.events["ts"].to_numpy()
    known = work.launch >= 0
    issued = np.where(known, ts[work.launch] if len(ts) else work.start, work.start)
    is_migration = map_texts(trace.events["name"].array[work.rows], lambda name: "(Unified)" in name, False)
    inside = (issued < window.host_end) & (work.end > window.begin) | (work.start == work.end) & (
        (issued >= window.begin) & (issued <= window.host_end) & (work.start >= window.begin)
    )
    # A page of unified memory moves because a kernel or the host touches it, and within the time of that.
    at = np.flatnonzero(inside & ~is_migration)
    chain, _ = numbered({"device": work.device[at], "stream": work.stream[at]})
    order = np.argsort(chain, kind="stable")
    at, chain = at[order], chain[order]
    start = np.maximum(work.start[at], window.begin)
    issued, launch = issued[at], work.launch[at]
    thread = np.append(host.of_row, -1)[launch]
    in_time = (issued >= window.begin) & (issued <= start) & (thread >= 0)
    is_first = run_starts(chain)
    return Works(
        row=work.rows[at],
        chain=chain,
        device=work.device[at],
        stream=work.stream[at],
        kind=work.kind[at],
        start=start,
        end=work.end[at],
        launch=launch,
        issued=issued,
        has_launch=in_time & _within(host, thread, issued),
        is_first=is_first,
        first=np.flatnonzero(is_first),
        stop=np.flatnonzero(run_ends(chain)) + 1,
    )


def _within(host: HostLines, thread: Ints, time: Ints) -> Bools:
    """Times within the recorded time of their thread."""
    if not len(host.first):
        return np.zeros(len(thread), bool)
    safe = np.maximum(thread, 0)
    return (time >= host.start[host.first[safe]]) & (time <= host.end[host.last[safe]]) & (thread >= 0)


def _typical_lags(works: Works, is_overlapped: Bools) -> tuple[Ints, Ints]:
    """Typical lags of launches and between works, where other causes hide them; at most the recorded time."""
    before, start = works.previous_end, works.start
    launch_room = np.where(works.has_launch, start - works.issued, 0)
    found_empty = works.has_launch & (works.is_first | (before <= works.issued))
    typical = int(np.median(launch_room[found_empty])) if found_empty.any() else 0
    # Work that was launched after the previous work had ended did not wait for it.
    is_late = works.has_launch & (before <= works.issued)
    gap_room = np.where(works.is_first | is_overlapped | is_late, 0, start - before)
    queued = works.has_launch & ~works.is_first & ~is_overlapped & (works.issued + typical <= before)
    gap = int(np.median(gap_room[queued])) if queued.any() else 0
    return np.minimum(gap, gap_room), np.minimum(typical, launch_room)


def _binding_edges(works: Works, edges: EventEdges, binding: Ints, rest: Ints) -> Ints:
    bound_by = np.full(len(works), -1, np.int64)
    of_bound = np.flatnonzero(binding[edges.target] == EVENT)
    order = of_bound[np.argsort(works.end[edges.source[of_bound]], kind="stable")]
    bound_by[edges.target[order]] = order  # the last to end stays
    chosen = np.flatnonzero(bound_by >= 0)
    edges.lag[bound_by[chosen]] = rest[chosen]
    return bound_by


# Waits: of host calls for the device, of streams for CUDA events, of threads for autograd's threads.

#: Upper limit of the duration of a synchronising call without a wait; less if a shorter one was recorded.
CALL_NS: Final = 10_000

_NONE, _DEVICE, _STREAM, _EVENT, _RELEASE, _COPY, _ASYNC_COPY, _STREAM_WAIT = range(8)
_BY_TARGET: Final = {"device": _DEVICE, "stream": _STREAM, "event": _EVENT}
_STREAM_WAITS: Final = ("cudaStreamWaitEvent", "cuStreamWaitEvent", "hipStreamWaitEvent")

_Arrays = TypeVar("_Arrays", Arrivals, Causes)
Found = tuple[Arrivals, Causes, EventEdges, tuple[str, ...]]


def find_waits(events: pd.DataFrame, window: Window, host: HostLines, works: Works) -> Found:
    """Return all waits within `window`. Ends of `works` after the end of the host's wait for them are moved back to it.

    Synchronising calls are recognised by name. Kineto's ``cuda_sync`` rows have the stream or CUDA event of a call.
    Without them a call is taken to wait for the device work that ended last within it.

    The engine runs the backward pass on its own threads, while ``backward()`` blocks the thread that called it. A
    recording has no waiting call, but the forward thread records no event while autograd's thread works: the interval
    of the forward thread around the start and the end of backward work is taken as the wait.

    Returns:
        Arrivals of host threads, their causes, waits of streams, and notes on what is unknown.
    """
    is_call = is_category(events["cat"].array, RUNTIME_CATEGORIES)
    kind = np.full(len(events), _NONE)
    kind[is_call] = map_texts(events["name"].array[is_call], _kind_of, _NONE)
    queues = _Queues(works)
    calls = _calls(events, window, host, kind)
    syncs = _Syncs(events, calls)
    pairs = _pairs(events, works, queues, calls, kind[calls], syncs)
    arrivals, causes = _arrivals(events, window, host, works, calls, pairs)
    edges, unknown_waits = _event_edges(events, works, queues, kind)
    notes = _notes(kind[calls], syncs, unknown_waits)
    return *_with_threads(events, host, arrivals, causes), edges, notes


def _kind_of(name: str) -> int:
    call = plain_call(name)
    if target := sync_target(call):
        return _BY_TARGET[target]
    if call in _STREAM_WAITS:
        return _STREAM_WAIT
    if is_host_copy(call):
        return _ASYNC_COPY if call.endswith("Async") else _COPY
    return _RELEASE if is_release(call) else _NONE


def _calls(events: pd.DataFrame, window: Window, host: HostLines, kind: Ints) -> Ints:
    """Rows of calls that may wait, except those within another one, by thread and time."""
    rows = np.flatnonzero((kind != _NONE) & (kind != _STREAM_WAIT) & (host.of_row >= 0))
    start = events["ts"].to_numpy()[rows]
    end = start + events["dur"].to_numpy()[rows]
    inside = (start >= window.begin) & (end <= window.host_end) & (end > start)
    rows, start, end = rows[inside], start[inside], end[inside]
    thread = host.of_row[rows]
    order = np.lexsort((-end, start, thread))
    rows, start, end, thread = rows[order], start[order], end[order], thread[order]
    return rows[_outermost(thread, start, end)]


def _outermost(thread: Ints, start: Ints, end: Ints) -> Bools:
    """Intervals, by thread and start, that do not begin within an earlier one of their thread."""
    moments = Moments(start, end)
    reach = np.maximum.accumulate(moments.key(thread, end)) if len(end) else end
    outer = np.ones(len(end), bool)
    outer[1:] = moments.key(thread, start)[1:] >= reach[:-1]
    return outer


class _Queues:
    """The work of each stream in order, and the work that a call at some time can wait for."""

    def __init__(self, works: Works) -> None:
        self.works = works
        self.issued: list[Ints] = []
        self.ended: list[Ints] = []
        self._latest: list[Ints] = []
        for first, stop in zip(works.first.tolist(), works.stop.tolist(), strict=True):
            # Work without a recorded launch was issued no earlier than the previous work.
            known = np.where(works.launch[first:stop] >= 0, works.issued[first:stop], np.iinfo(np.int64).min)
            self.issued.append(np.maximum.accumulate(known))
            ended = np.maximum.accumulate(works.end[first:stop])
            self.ended.append(ended)
            at = np.where(works.end[first:stop] == ended, np.arange(stop - first), 0)
            self._latest.append(first + np.maximum.accumulate(at))

    def last_before(self, chain: int, bound: Ints, until: Ints) -> tuple[Ints, Bools]:
        """Return the work on a stream that ended last, of the work issued before `bound` and ended until `until`.

        Returns:
            Its position, -1 for none; and whether all work issued before `bound` had ended.
        """
        num_issued = np.searchsorted(self.issued[chain], bound, side="left")
        num_ended = np.searchsorted(self.ended[chain], until, side="right")
        count = np.minimum(num_issued, num_ended)
        found = np.where(count > 0, self._latest[chain][np.maximum(count - 1, 0)], -1)
        return found, num_ended >= num_issued

    def first_after(self, chain: int, time: Ints) -> Ints:
        """Position of the first work on a stream that was issued after `time`, -1 for none."""
        at = np.searchsorted(self.issued[chain], time, side="right")
        return np.where(at < len(self.issued[chain]), at + self.works.first[chain], -1)


class _Syncs:
    """The data of the ``cuda_sync`` row of each call; -1 for none.

    Attributes:
        stream: The stream that was waited for.
        device: Its device.
        bound: Work issued before this time was waited for, ns; the call's start if unknown.
        is_known: Whether there is such a row.
    """

    def __init__(self, events: pd.DataFrame, calls: Ints) -> None:
        self.stream = np.full(len(calls), -1, np.int64)
        self.device = np.full(len(calls), -1, np.int64)
        self.bound = events["ts"].to_numpy()[calls].copy()
        self.is_known = np.zeros(len(calls), bool)
        rows, launch = sync_rows(events)
        at = positions(calls, launch)
        rows, at = rows[at >= 0], at[at >= 0]
        awaited, own = _ints(events, "wait_stream", rows), _ints(events, "stream", rows)
        self.is_known[at] = True
        self.device[at] = _ints(events, "device", rows)
        self.stream[at] = np.where(awaited >= 0, awaited, np.where(own < 0xFFFFFFFF, own, -1))
        recorded = record_times(events, rows)
        self.bound[at] = np.where(recorded >= 0, recorded, self.bound[at])


def sync_rows(events: pd.DataFrame) -> tuple[Ints, Ints]:
    """Rows of category ``cuda_sync`` whose call was recorded, and the row of that call."""
    rows = np.flatnonzero(is_category(events["cat"].array, ("cuda_sync",)))
    launch = _ints(events, "launch", rows)
    return rows[launch >= 0], launch[launch >= 0]


def record_times(events: pd.DataFrame, rows: Ints) -> Ints:
    """Time at which the CUDA event of each ``cuda_sync`` row was recorded, ns, -1 if unknown."""
    wanted = _ints(events, "wait_record_id", rows)
    ends = ("EventRecord", "EventRecordWithFlags")
    calls = np.flatnonzero(is_category(events["cat"].array, RUNTIME_CATEGORIES))
    calls = calls[map_texts(events["name"].array[calls], lambda name: plain_call(name).endswith(ends), False)]
    at = np.where(wanted >= 0, positions(_ints(events, "correlation_id", calls), wanted), -1)
    return np.append(events["ts"].to_numpy()[calls], -1)[at]


def _ints(events: pd.DataFrame, column: str, rows: Ints) -> Ints:
    return integers(events[column].array[rows])


def _pairs(
    events: pd.DataFrame, works: Works, queues: _Queues, calls: Ints, kind: Ints, syncs: _Syncs
) -> tuple[Ints, Ints]:
    """Pairs of a call (position in `calls`) and the work that it waited for."""
    start = events["ts"].to_numpy()[calls]
    until = start + events["dur"].to_numpy()[calls] + SKEW_NS
    parts = [_copy_pairs(events, works, calls, kind)]
    may_wait = np.isin(kind, (_DEVICE, _STREAM, _EVENT, _RELEASE))
    for chain in range(len(works.first)):
        stream, device = works.stream[works.first[chain]], works.device[works.first[chain]]
        mine = np.isin(syncs.stream, (-1, stream)) & np.isin(syncs.device, (-1, device))
        at = np.flatnonzero(may_wait & mine)
        work, is_drained = queues.last_before(chain, syncs.bound[at], until[at])
        # A wait for a whole stream ends when all its work has ended; else the wait was for another stream.
        sure = (syncs.stream[at] >= 0) | (kind[at] == _DEVICE)
        possible = (work >= 0) & (is_drained | ((kind[at] == _EVENT) & ~sure))
        waited = works.end[np.maximum(work, 0)] > start[at] if len(works) else possible
        chosen = possible & (waited | (sure & (kind[at] != _RELEASE)))
        parts.append((at[chosen], work[chosen]))
    call, work = (np.concatenate(part) for part in zip(*parts, strict=True))
    return _best_guesses(works, call, work, kind, syncs)


def _copy_pairs(events: pd.DataFrame, works: Works, calls: Ints, kind: Ints) -> tuple[Ints, Ints]:
    """Work that a copying call waited for: its copy, if it blocks or the memory is pageable.

    With pageable memory a call can return while the last part of its copy runs: it then waited for the work before.
    """
    at = np.where((kind == _COPY) | (kind == _ASYNC_COPY), positions(works.launch, calls), -1)
    call = np.flatnonzero(at >= 0)
    work = at[call]
    is_pageable = map_texts(events["name"].array[works.row[work]], lambda name: "Pageable" in name, False)
    start = events["ts"].to_numpy()[calls[call]]
    until = start + events["dur"].to_numpy()[calls[call]] + SKEW_NS
    is_partial = is_pageable & (works.end[work] > until) & (works.start[work] <= until) & ~works.is_first[work]
    work = np.where(is_partial, work - 1, work)
    waits = (kind[call] == _COPY) | is_pageable
    waits &= (works.end[work] > start) & (works.end[work] <= until)
    return call[waits], work[waits]


def _best_guesses(works: Works, call: Ints, work: Ints, kind: Ints, syncs: _Syncs) -> tuple[Ints, Ints]:
    """For a call of an unknown stream, only the work that ended last; for the others all."""
    guessed = (syncs.stream[call] < 0) & np.isin(kind[call], (_STREAM, _EVENT))
    at = np.flatnonzero(guessed)
    at = at[np.lexsort((works.end[work[at]], call[at]))]
    keep = ~guessed
    keep[at[run_ends(call[at])]] = True
    return call[keep], work[keep]


def _arrivals(
    events: pd.DataFrame, window: Window, host: HostLines, works: Works, calls: Ints, pairs: tuple[Ints, Ints]
) -> tuple[Arrivals, Causes]:
    start = events["ts"].to_numpy()[calls]
    end = start + events["dur"].to_numpy()[calls]
    call, work = pairs
    usable = works.start[work] < end[call]
    call, work = call[usable], work[usable]
    np.minimum.at(works.end, work, end[call])
    kept, arrival = np.unique(call, return_inverse=True)
    arrival = arrival.reshape(-1)
    start, end, rows = start[kept], end[kept], calls[kept]
    latest = np.full(len(kept), np.iinfo(np.int64).min)
    np.maximum.at(latest, arrival, works.end[work])
    waited = latest > start
    shortest = int((end - start).min(initial=CALL_NS))
    own = np.where(waited, np.minimum(shortest, end - start), end - start)
    source, lag = bind_last(arrival, works.end[work], waited, end)
    causes = Causes(arrival, work, np.full(len(work), -1, np.int64), works.end[work].copy(), lag)
    return Arrivals(host.of_row[rows], start, end, own, rows, np.ones(len(rows), bool), source), causes


def bind_last(arrival: Ints, time: Ints, waited: Bools, end: Ints) -> tuple[Ints, Ints]:
    """The last cause to finish of each arrival that waited, and the lags: that cause gets all the remaining time.

    Args:
        arrival: Arrival of each cause, shape (c,).
        time: End of each cause, ns, shape (c,).
        waited: Whether each arrival waited, shape (a,).
        end: End of its wait, ns, shape (a,).
    """
    source = np.full(len(waited), -1, np.int64)
    order = np.argsort(time, kind="stable")
    source[arrival[order]] = order
    source[~waited] = -1
    lag = np.zeros(len(arrival), np.int64)
    at = np.flatnonzero(source >= 0)
    lag[source[at]] = end[at] - time[source[at]]
    return source, lag


def _event_edges(events: pd.DataFrame, works: Works, queues: _Queues, kind: Ints) -> tuple[EventEdges, int]:
    """Waits of streams for CUDA events, and the number of such calls without details."""
    rows, launch = sync_rows(events)
    is_wait = (_ints(events, "wait_stream", rows) >= 0) & (kind[launch] == _STREAM_WAIT)
    num_unknown = int((kind == _STREAM_WAIT).sum()) - len(np.unique(launch[is_wait]))
    rows, launch = rows[is_wait], launch[is_wait]
    called = events["ts"].to_numpy()[launch]
    recorded = record_times(events, rows)
    bound = np.where(recorded >= 0, recorded, called)
    device, awaited, waiting = (_ints(events, name, rows) for name in ("device", "wait_stream", "stream"))
    source, target = np.full(len(rows), -1, np.int64), np.full(len(rows), -1, np.int64)
    for chain, first in enumerate(works.first.tolist()):
        here = device == works.device[first]
        of_source = np.flatnonzero(here & (awaited == works.stream[first]))
        never = np.full(len(of_source), np.iinfo(np.int64).max)
        source[of_source], _ = queues.last_before(chain, bound[of_source], never)
        of_target = np.flatnonzero(here & (waiting == works.stream[first]))
        target[of_target] = queues.first_after(chain, called[of_target])
    both = (source >= 0) & (target >= 0)
    source, target = source[both], target[both]
    is_ordered = (works.end[source] <= works.start[target]) & (works.start[source] < works.start[target])
    pairs = np.unique(np.stack([source[is_ordered], target[is_ordered]]), axis=1)
    return EventEdges(pairs[0], pairs[1], np.zeros(pairs.shape[1], np.int64)), num_unknown


def _notes(kind: Ints, syncs: _Syncs, unknown_waits: int) -> tuple[str, ...]:
    notes = []
    if unknown_waits:
        notes.append(f"{unknown_waits} waits of streams for CUDA events have no details and are left out")
    guessed = int((~syncs.is_known & np.isin(kind, (_STREAM, _EVENT))).sum())
    if guessed:
        notes.append(f"{guessed} waits of the host have no stream: each is taken to wait for the last work in it")
    return tuple(notes)


def _with_threads(events: pd.DataFrame, host: HostLines, arrivals: Arrivals, causes: Causes) -> tuple[Arrivals, Causes]:
    """Arrivals and causes with those of threads that wait for autograd's, by thread and time."""
    found = handovers(events, host)
    number, none = np.arange(len(found.time)), np.full(len(found.time), -1, np.int64)
    source = number + len(causes.arrival)
    waits = Arrivals(found.thread, found.since, found.time, none + 1, none, none >= 0, source)
    lag = found.time - found.source_time
    reasons = Causes(number + len(arrivals.time), none, found.source_thread, found.source_time, lag)
    arrivals, causes = _concatenated(arrivals, waits), _concatenated(causes, reasons)
    order = np.lexsort((arrivals.time, arrivals.thread))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    causes.arrival = place[causes.arrival]
    return Arrivals(*(getattr(arrivals, field.name)[order] for field in fields(Arrivals))), causes


def _concatenated(first: _Arrays, second: _Arrays) -> _Arrays:
    names = (field.name for field in fields(first))
    return type(first)(*(np.concatenate([getattr(first, name), getattr(second, name)]) for name in names))


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
    # Of several threads that one thread waits for in the same interval, the last one to finish.
    found = Handovers(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    order = np.lexsort((found.source_time, found.time, found.thread))
    last = order[run_ends(found.thread[order], found.time[order])]
    return Handovers(*(part[last] for part in found))


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
