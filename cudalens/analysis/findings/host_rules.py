"""Rules about a device that is idle because of the host: launching, waiting, reading data, compiling, allocating.

Costs are idle time of the devices, as `cudalens.analysis.findings.idle_attribution` divides it: two of these rules
never count the same idle time, except that `graphable` counts part of `launch_bound` and then replaces it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.event_arrays import Ints
from cudalens.analysis.findings.finding import CONFIDENCES, Finding
from cudalens.analysis.findings.idle_attribution import ALLOCATE, COMPILE, LOADER, LONG_NS, Gaps
from cudalens.analysis.findings.repeats import Repeat, find_repeat
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.time.intervals import Intervals, intersect, length, union
from cudalens.analysis.time.sync_groups import wait_groups
from cudalens.frames import RUNTIME_CATEGORIES
from cudalens.frames.build import innermost_event

#: Of the devices' time from first to last work: good programs have some gaps between kernels, too.
_LAUNCH_SHARE: Final = 0.10

#: From this share on, launching is the bottleneck and not one of several.
_HIGH_SHARE: Final = 0.30

#: If this much of the launch gaps lies in repeats, `graphable` replaces `launch_bound`.
_SUBSUMES: Final = 0.75
_GRAPH_SHARE: Final = 0.05

#: Fewer launches are not a loop that launching can slow down.
_MIN_LAUNCHES: Final = 20

_OTHER_SHARE: Final = 0.05
_MAX_PLACES: Final = 3

#: Memory that is allocated in the first third of a run can belong to the warm-up.
_STEADY: Final = 1 / 3

#: A first step is cold from 1.5 times the longest other step on; caches and clocks alone make up to some tenths.
_MIN_STEPS: Final = 4
_COLD: Final = 1.5

_TAIL_SHARE: Final = 0.20


def launching(arrays: TraceArrays) -> Iterator[Finding]:
    """``launch_bound`` and ``graphable``: the devices wait between kernels for the host to launch the next one.

    Cost of ``launch_bound``: gaps shorter than `LONG_NS` in which the host was launching, and did nothing that another
    rule reports. Threshold: a tenth of the devices' time.

    Cost of ``graphable``: the part of these gaps within stretches in which the same sequence of kernels repeats
    (`find_repeat`), and the device's own gaps between these kernels, which a replayed graph shortens as well. This is
    an upper bound, since a graph still needs about a microsecond per kernel. If it has most of the gaps of
    ``launch_bound``, only ``graphable`` is reported.
    """
    gaps, repeat = arrays.idle.launch, find_repeat(arrays)
    graph = None if repeat is None else _graphable(arrays, repeat)
    if graph is not None:
        yield graph
    if gaps.total_ns < _LAUNCH_SHARE * arrays.span_ns or len(gaps.start) < _MIN_LAUNCHES:
        return
    if graph is None or repeat is None or _within(gaps, repeat) < _SUBSUMES * gaps.total_ns:
        yield _launch_bound(arrays, gaps)


def _launch_bound(arrays: TraceArrays, gaps: Gaps) -> Finding:
    share = gaps.total_ns / arrays.span_ns
    confidence = CONFIDENCES[arrays.has_python + (share < _HIGH_SHARE)]
    what = (
        f"the GPU was idle for {units.duration(gaps.total_ns)} ({units.percent(100 * share)} of its time) in "
        f"{units.plural(len(gaps.start), 'gap')} before kernels that the host launched too late{_slowed(arrays)}."
    )
    advice = "larger batches, torch.compile(model) to fuse small operators, or %%cudagraph if shapes do not change"
    rows = arrays.work.rows[gaps.ended_by]
    return arrays.finding(
        "launch_bound", "launch overhead", what, gaps.total_ns, advice, confidence,
        rows=rows, weight=gaps.length, place=arrays.place_of(rows, gaps.length),
    )  # fmt: skip


def _slowed(arrays: TraceArrays) -> str:
    """A remark on runs with Python calls: recording them slows the host several times over, launches included."""
    return "; recording Python calls slowed the host: profile without stacks to confirm" if arrays.has_python else ""


def _within(gaps: Gaps, repeat: Repeat) -> int:
    return length(intersect(union(gaps.start, gaps.end), Intervals(repeat.start, repeat.end)))


def _graphable(arrays: TraceArrays, repeat: Repeat) -> Finding | None:
    launch, queued = _within(arrays.idle.launch, repeat), _within(arrays.idle.queued, repeat)
    cost = launch + queued
    if launch < _GRAPH_SHARE * arrays.span_ns or repeat.has_graphs:
        return None
    waits = _waits_within(arrays, repeat)
    first = f"remove the {units.plural(waits, 'wait')} for the GPU from it, then use " if waits else ""
    late = f"{units.duration(launch)} of it" if queued else "all of it"
    what = (
        f"the same {repeat.period} kernels repeat {repeat.times} times in a row, with gaps of {units.duration(cost)} "
        f"between them ({late} because the host launched too late){_slowed(arrays)}."
    )
    advice = (
        f'{first}%%cudagraph on the cell, @cudalens.cudagraph on the function, or torch.compile(mode="reduce-overhead")'
    )
    is_sure = not waits and not arrays.has_python and repeat.has_same_grids
    rows = arrays.work.rows[repeat.first : repeat.first + repeat.period]
    return arrays.finding(
        "graphable", "launch overhead in a repeating region", what, cost, advice, "high" if is_sure else "medium",
        rows=rows, place=arrays.place(int(rows[0])),
    )  # fmt: skip


def _waits_within(arrays: TraceArrays, repeat: Repeat) -> int:
    """Waits for the GPU in each repeat."""
    at = arrays.trace.syncs["ts"].to_numpy()
    place = np.searchsorted(repeat.start, at, "right") - 1
    inside = (place >= 0) & (at < repeat.end[np.maximum(place, 0)])
    return int(np.ceil(inside.sum() / repeat.times))


def waiting(arrays: TraceArrays) -> Iterator[Finding]:
    """``host_sync``: the devices run out of work because the host waited for them.

    Cost: gaps that begin while the host waits, up to the next work; only up to the end of the wait if the host then did
    other work for `LONG_NS` or longer. A wait without a gap costs nothing. One finding per line.
    """
    gaps = arrays.idle.sync
    if not gaps.total_ns:
        return
    waits = arrays.trace.syncs
    keys = ["place", "kind", "op"]
    group = waits.groupby(keys, observed=True, dropna=False, sort=False).ngroup().to_numpy()
    cost = np.bincount(group[gaps.wait], weights=gaps.length, minlength=int(group.max()) + 1)
    for number in np.argsort(-cost, kind="stable")[:_MAX_PLACES].tolist():
        if cost[number] > 0:
            num_gaps = len(np.unique(gaps.ended_by[group[gaps.wait] == number]))
            yield _waiting(arrays, waits.iloc[np.flatnonzero(group == number)], int(cost[number]), num_gaps)


def _waiting(arrays: TraceArrays, waits: pd.DataFrame, cost: int, num_gaps: int) -> Finding:
    first, groups = waits.iloc[0], wait_groups(arrays.trace)
    place, kind, op = (None if pd.isna(first[name]) else str(first[name]) for name in ("place", "kind", "op"))
    advices = groups["advice"][groups["place"].isin([place]) & (groups["kind"] == kind) & groups["op"].isin([op])]
    advice = str(advices.iloc[0]) if len(advices) else "keep results on the device, and read them all at once"
    expression = next((e for e in (first["expression"], first["source"]) if not pd.isna(e)), None)
    code = f" ({units.shorten(str(expression), 60)})" if expression else f" in {op}" if op else ""
    what = (
        f"{units.plural(len(waits), 'wait')} of the host, {kind}{code}, emptied the queue: the GPU was then idle for "
        f"{units.duration(cost)} in {units.plural(num_gaps, 'gap')} (the host waited "
        f"{units.duration(int(waits['dur'].sum()))})."
    )
    rows = waits["event"].dropna().to_numpy(dtype=np.int64)
    return arrays.finding(
        "host_sync", f"waiting for the GPU: {kind}", what, cost, advice, "high", rows=rows, place=place
    )


def reading(arrays: TraceArrays) -> Iterator[Finding]:
    """``data_loader``: the device is idle while the program waits for the next batch.

    Cost: idle time within ranges ``enumerate(DataLoader)#…``; without device work, the time of these ranges.
    """
    rows = arrays.host(LOADER)
    if not len(rows):
        return
    has_work = len(arrays.work.rows) > 0
    cost = length(arrays.idle.by_event["loader"] if has_work else arrays.time_of(rows))
    if any("SingleProcess" in name for name in arrays.events["name"].array[rows].unique()):
        how = "in the training process, num_workers=0"
        advice = "DataLoader(num_workers=4, pin_memory=True, persistent_workers=True) prepares batches in parallel"
    else:
        how = "by worker processes"
        advice = "more workers, a larger prefetch_factor, or less work per sample (decode and augment in advance)"
    what = (
        f"the {'GPU was idle' if has_work else 'program waited'} for {units.duration(cost)} in "
        f"{units.plural(len(rows), 'fetch')} of the next batch (prepared {how})."
    )
    yield arrays.finding(
        "data_loader", "waiting for data", what, cost, advice, "high", rows=rows, place=arrays.place_of(rows)
    )


def compiling(arrays: TraceArrays) -> Iterator[Finding]:
    """``compiling``: torch.compile, or the driver's loading of code, within the measured window.

    Cost: idle time of the devices within such events, and their time before the first device work; without device work,
    their time.
    """
    rows = arrays.matching(COMPILE)
    if not len(rows):
        return
    times = arrays.time_of(rows)
    cost = length(times)
    if len(arrays.work.rows):
        ahead = intersect(times, union(arrays.ts.min(keepdims=True), arrays.busy.start[:1]))
        cost = length(arrays.idle.by_event["compile"]) + length(ahead)
    largest = units.shorten(str(arrays.events["name"].array[rows[np.argmax(arrays.dur[rows])]]), 60)
    what = f"code was compiled or loaded in the measured window ({largest}): {units.duration(cost)}."
    advice = "measure after a warm-up: %%cudaprofile --warmup 3; if it repeats, check whether shapes change"
    yield arrays.finding("compiling", "compiling or loading code", what, cost, advice, "high", rows=rows)


def allocating(arrays: TraceArrays) -> Iterator[Finding]:
    """``driver_memory``: the driver allocates or frees memory after the first third of the run.

    Cost: idle time of the devices within such calls of that part; nothing is reported without device work. A caching
    allocator calls the driver at first and then no more, unless memory runs out or new sizes are requested.
    """
    rows = arrays.matching(ALLOCATE)
    if not len(rows) or not len(arrays.work.rows):
        return
    late = rows[arrays.ts[rows] >= int(arrays.ts.min()) + _STEADY * arrays.wall_ns]
    cost = length(intersect(arrays.idle.by_event["allocate"], arrays.time_of(late)))
    retries = int((arrays.trace.syncs["kind"] == "allocator retry").sum())
    again = f", {units.plural(retries, 'time')} because memory had run out" if retries else ""
    what = (
        f"{units.plural(len(late), 'call')} allocated or freed driver memory in the later part of the run{again}; the "
        f"GPU was idle for {units.duration(cost)} in these calls."
    )
    advice = (
        "lower the peak, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragmentation"
        if retries
        else "let torch's allocator reuse memory: no empty_cache() in loops, constant shapes, buffers allocated once"
    )
    yield arrays.finding(
        "driver_memory", "allocating driver memory", what, cost, advice, "high" if retries else "medium",
        rows=late, place=arrays.place_of(late),
    )  # fmt: skip


def other_work(arrays: TraceArrays) -> Iterator[Finding]:
    """``host_work`` and ``driver_calls``: the device is idle for a millisecond or more while the host is busy.

    Cost: such gaps without what other rules report. ``driver_calls`` has those in whose middle a call of the runtime or
    driver was running (a first launch that loads code, a library that initializes), ``host_work`` the others. Threshold
    of each: a twentieth of the devices' time. What the host did is the innermost event that was running in the middle
    of the gap on the thread that then launched.
    """
    gaps = arrays.idle.host_work
    if not gaps.total_ns:
        return
    launch = arrays.work.launch[gaps.ended_by]
    pid, tid = (arrays.events[name].array[launch] for name in ("pid", "tid"))
    running = innermost_event(arrays.events, (gaps.start + gaps.end) // 2, pid, tid)
    in_call = arrays.is_in(*RUNTIME_CATEGORIES)[running] & (running >= 0)
    for chosen, make in ((in_call, _driver_calls), (~in_call, _host_work)):
        some = gaps.select(chosen)
        if not arrays.is_minor(some.total_ns, _OTHER_SHARE):
            yield make(arrays, some, running[chosen])


def _driver_calls(arrays: TraceArrays, gaps: Gaps, running: Ints) -> Finding:
    longest = int(running[np.argmax(gaps.length)])
    what = (
        f"the GPU was idle for {units.duration(gaps.total_ns)} in {units.plural(len(gaps.start), 'gap')} while the "
        f"host was in driver calls, the longest {arrays.events['name'].array[longest]} "
        f"({units.duration(int(gaps.length.max()))})."
    )
    advice = "first launches load code and initialize libraries: measure after a warm-up, %%cudaprofile --warmup 3"
    return arrays.finding(
        "driver_calls", "long driver calls", what, gaps.total_ns, advice, "medium",
        rows=np.unique(running), place=arrays.place(longest),
    )  # fmt: skip


def _host_work(arrays: TraceArrays, gaps: Gaps, running: Ints) -> Finding:
    at = int(np.argmax(gaps.length))
    row, rows = int(running[at]), arrays.work.rows[gaps.ended_by]
    name = f"in {units.shorten(str(arrays.events['name'].array[row]), 60)}" if row >= 0 else "outside recorded events"
    what = (
        f"the GPU was idle for {units.duration(gaps.total_ns)} in {units.plural(len(gaps.start), 'gap')} of "
        f"{units.duration(LONG_NS)} or more while the host did other work, the longest {name}{_slowed(arrays)}."
    )
    advice = "move that work (logging, metrics, Python loops over elements) out of the loop, or to another thread"
    if not arrays.has_python:
        advice += "; for its lines, profile with %%cudaprofile --stacks"
    return arrays.finding(
        "host_work", "other host work", what, gaps.total_ns, advice, "low" if arrays.has_python else "medium",
        rows=rows, weight=gaps.length, place=arrays.place(row if row >= 0 else int(rows[at])),
    )  # fmt: skip


def first_step(arrays: TraceArrays) -> Iterator[Finding]:
    """``cold_start``: the first of at least four steps took 1.5 times as long as the longest of the others, or more.

    Cost: the first step's length minus the median of the others.
    """
    rows = arrays.host(r"^ProfilerStep#\d+$")
    lengths = arrays.dur[rows]
    if len(rows) < _MIN_STEPS or lengths[0] < _COLD * lengths[1:].max():
        return
    usual = int(np.median(lengths[1:]))
    what = (
        f"the first step took {units.duration(int(lengths[0]))}, the median of the {len(rows) - 1} others is "
        f"{units.duration(usual)}: it includes the warm-up (memory, libraries, clocks)."
    )
    advice = "%%cudaprofile --warmup 3 --repeat N, or a schedule with warmup steps"
    cost = int(lengths[0]) - usual
    yield arrays.finding("cold_start", "a slow first step", what, cost, advice, "high", rows=rows[:1])


def idle_ends(arrays: TraceArrays) -> Iterator[Finding]:
    """``idle_ends``: the device had no work for a fifth of the window, before its first or after its last work.

    Cost: the longer of the two times. Only for a window that was measured; that of a file begins and ends with its
    events.
    """
    info, busy = arrays.trace.info, arrays.busy
    if info.started_ns is None or info.ended_ns is None or not arrays.span_ns or info.source.startswith("file:"):
        return
    before, after = int(busy.start[0]) - info.started_ns, info.ended_ns - int(busy.end[-1])
    cost = max(before, after)
    if cost < _TAIL_SHARE * arrays.wall_ns or cost < LONG_NS:
        return
    where, at = ("before its first", 0) if before >= after else ("after its last", int(np.argmax(arrays.work.end)))
    what = f"the GPU had no work for {units.duration(cost)} {where} work."
    advice = "profile only the part that uses the GPU, or overlap the host's part with GPU work"
    rows = arrays.work.rows[at : at + 1]
    yield arrays.finding("idle_ends", "a GPU without work", what, cost, advice, "medium", rows=rows)
