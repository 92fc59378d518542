"""Builds the dependency graph of a trace: dependencies between host threads, streams and CUDA events.

Device work starts after its launch has reached the device, the previous work on its stream has ended, and the CUDA
events that its stream waits for are done. A host thread waits for device work in synchronising calls, and for
autograd's thread during the backward pass. Of several causes the last one to finish is *binding*: it gets the remaining
time, so that the graph reproduces the trace exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from cudalens.analysis.critical_path.dependencies import (
    Arrivals,
    Causes,
    EventEdges,
    HostLines,
    Window,
    Works,
    host_lines,
)
from cudalens.analysis.critical_path.waits import find_waits
from cudalens.analysis.time.groups import numbered
from cudalens.analysis.time.work import device_work
from cudalens.frames.column_arrays import Bools, Ints, map_texts, run_ends, run_starts

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
