"""What had to wait for what: the dependencies of a trace between host threads, streams and CUDA events.

Each piece of device work begins when its launch has reached the device, the work before it on its stream is done, and
the CUDA events that its stream waits for are done. A host thread goes on by itself, except where it waits: for device
work in a synchronising call, and for autograd's thread while that runs the backward pass. Of several causes the one
that was fulfilled last is *binding*: it takes the time that remains, so that the graph explains the trace exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from cudalens.analysis.critical_path.dependencies import Arrivals, Causes, EventEdges, Window, Works
from cudalens.analysis.critical_path.host import HostLines, host_lines
from cudalens.analysis.critical_path.waits import find_waits
from cudalens.analysis.time.groups import numbered
from cudalens.analysis.time.work import device_work

if TYPE_CHECKING:
    from cudalens.frames import Trace

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: The binding dependency of a piece of device work: its stream, its launch, a CUDA event, or none that is known.
STREAM: Final = 0
LAUNCH: Final = 1
EVENT: Final = 2
ROOT: Final = 3


@dataclass
class Graph:
    """All dependencies.

    Attributes:
        window: What is looked at.
        host: The host's threads.
        works: The device's work.
        arrivals: Where threads go on after waiting.
        causes: What they wait for.
        edges: Waits of streams for CUDA events.
        binding: STREAM, LAUNCH, EVENT or ROOT for each work, shape (w,).
        bound_by: Position of the binding event edge, -1 for none, shape (w,).
        stream_lag: Least time from the end of the work before it on its stream, ns, shape (w,).
        launch_lag: Least time from the start of its launch, ns, shape (w,).
        root_lag: Time from the begin of the window for ROOT, ns, shape (w,).
        is_overlapped: It began before the work before it on its stream had ended, shape (w,).
        notes: What is not known, in sentences.
        leading: Threads that the run is made of: the path does not end on others, shape (num_threads,).
    """

    window: Window
    host: HostLines
    works: Works
    arrivals: Arrivals
    causes: Causes
    edges: EventEdges
    leading: Bools
    binding: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    bound_by: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    stream_lag: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    launch_lag: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    root_lag: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    is_overlapped: Bools = field(default_factory=lambda: np.empty(0, bool))
    notes: tuple[str, ...] = ()


def build_graph(trace: Trace, window: Window) -> Graph:
    """The dependencies of `trace` within `window`."""
    host = host_lines(trace.events, window.begin, window.host_end)
    works = _works(trace, window, host)
    arrivals, causes, edges, notes = find_waits(trace.events, window, host, works)
    graph = Graph(window, host, works, arrivals, causes, edges, _leading(host, works))
    late = int(((works.launch >= 0) & (works.issued > works.start)).sum())
    if late:
        notes = (*notes, f"{late} pieces of device work start before their launch: their launches are left out")
    graph.notes = notes
    _bind(graph)
    return graph


def _leading(host: HostLines, works: Works) -> Bools:
    """Threads that launch device work, or else the one with the most stretches.

    Others (a watchdog, a progress bar, a loader) are in some call to the very end of a recording, and hold up nobody
    that could be known.
    """
    launching = works.launch[works.has_launch]
    count = np.bincount(host.of_row[launching], minlength=len(host.first))
    if not count.any():
        length = host.last - host.first
        count = (length == length.max(initial=0)).astype(np.int64)
    leading: Bools = count > 0
    return leading


def _works(trace: Trace, window: Window, host: HostLines) -> Works:
    work = device_work(trace)
    ts = trace.events["ts"].to_numpy()
    known = work.launch >= 0
    issued = np.where(known, ts[work.launch] if len(ts) else work.start, work.start)
    inside = (issued < window.host_end) & (work.end > window.begin) | (work.start == work.end) & (
        (issued >= window.begin) & (issued <= window.host_end) & (work.start >= window.begin)
    )
    at = np.flatnonzero(inside)
    chain, _ = numbered({"device": work.device[at], "stream": work.stream[at]})
    order = np.argsort(chain, kind="stable")
    at, chain = at[order], chain[order]
    start = np.maximum(work.start[at], window.begin)
    issued, launch = issued[at], work.launch[at]
    thread = np.where(launch >= 0, host.of_row[launch] if len(host.of_row) else -1, -1)
    in_time = (issued >= window.begin) & (issued <= start) & (thread >= 0)
    num_chains = int(chain.max(initial=-1)) + 1
    first = np.searchsorted(chain, np.arange(num_chains))
    is_first = np.zeros(len(at), bool)
    is_first[first] = True
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
        first=first,
        stop=np.searchsorted(chain, np.arange(num_chains), side="right"),
    )


def _within(host: HostLines, thread: Ints, time: Ints) -> Bools:
    """Times that lie on their thread's line."""
    if not len(host.first):
        return np.zeros(len(thread), bool)
    safe = np.maximum(thread, 0)
    inside: Bools = (time >= host.start[host.first[safe]]) & (time <= host.end[host.last[safe]]) & (thread >= 0)
    return inside


def _bind(graph: Graph) -> None:
    """Find what was binding for each piece of work, and give it the time that remains."""
    works, edges, begin = graph.works, graph.edges, graph.window.begin
    n = len(works)
    before, start = works.previous_end, works.start
    graph.is_overlapped = before > start
    graph.stream_lag, graph.launch_lag = _typical_lags(works, graph.is_overlapped)
    # An overlapped work shows that it does not wait for the end of the one before it: only the order of starts is left.
    floor = np.where(graph.is_overlapped, np.roll(start, 1) if n else start, before)
    none = np.iinfo(np.int64).min
    ready = np.full((4, n), none, np.int64)
    ready[STREAM] = np.where(works.is_first, none, floor + graph.stream_lag)
    ready[LAUNCH] = np.where(works.has_launch, works.issued + graph.launch_lag, none)
    np.maximum.at(ready[EVENT], edges.target, works.end[edges.source])
    ready[ROOT] = np.where((ready[:3] == none).all(axis=0), begin, none)
    # Of causes that were fulfilled together a CUDA event says most, then the stream.
    order = np.array([EVENT, STREAM, LAUNCH, ROOT])
    graph.binding = order[np.argmax(ready[order], axis=0)] if n else np.empty(0, np.int64)
    rest = start - ready.max(axis=0) if n else start
    graph.stream_lag = graph.stream_lag + np.where(graph.binding == STREAM, rest, 0)
    graph.launch_lag = graph.launch_lag + np.where(graph.binding == LAUNCH, rest, 0)
    graph.root_lag = np.where(graph.binding == ROOT, start - begin, 0)
    graph.bound_by = _binding_edges(graph, rest)


def _typical_lags(works: Works, is_overlapped: Bools) -> tuple[Ints, Ints]:
    """What a launch and a change of works usually take, where other causes hide it; at most what there was."""
    before, start = works.previous_end, works.start
    launch_room = np.where(works.has_launch, start - works.issued, 0)
    found_empty = works.has_launch & (works.is_first | (before <= works.issued))
    typical = int(np.median(launch_room[found_empty])) if found_empty.any() else 0
    # What was launched after the work before it had ended did not wait for it.
    is_late = works.has_launch & (before <= works.issued)
    gap_room = np.where(works.is_first | is_overlapped | is_late, 0, start - before)
    queued = works.has_launch & ~works.is_first & ~is_overlapped & (works.issued + typical <= before)
    gap = int(np.median(gap_room[queued])) if queued.any() else 0
    return np.minimum(gap, gap_room), np.minimum(typical, launch_room)


def _binding_edges(graph: Graph, rest: Ints) -> Ints:
    works, edges = graph.works, graph.edges
    bound_by = np.full(len(works), -1, np.int64)
    of_bound = np.flatnonzero(graph.binding[edges.target] == EVENT)
    order = of_bound[np.argsort(works.end[edges.source[of_bound]], kind="stable")]
    bound_by[edges.target[order]] = order  # the last to end stays
    chosen = np.flatnonzero(bound_by >= 0)
    edges.lag[bound_by[chosen]] = rest[chosen]
    return bound_by
