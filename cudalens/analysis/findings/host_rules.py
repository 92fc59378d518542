"""Rules about a device that is idle because of the host: launching, waiting, reading data, compiling, allocating.

Gains are idle time of the devices, as `cudalens.analysis.findings.idle_attribution` divides it, or what a replay of the
run without the cause saves (`Replays`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.event_arrays import Ints
from cudalens.analysis.findings.finding import CONFIDENCES, Finding
from cudalens.analysis.findings.idle_attribution import ALLOCATE, COMPILE, GARBAGE, LOADER, PAUSE_NS, Gaps
from cudalens.analysis.findings.repeats import Repeat, find_repeat
from cudalens.analysis.findings.replays import fused, with_work, without_host, without_waits
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.time.intervals import Intervals, intersect, length, union
from cudalens.analysis.time.sync_groups import wait_groups
from cudalens.frames import RUNTIME_CATEGORIES
from cudalens.frames.build import innermost_event
from cudalens.frames.syncs.kinds import SyncKind, is_host_copy, plain_call, sync_target

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
_WAIT_KEYS: Final = ["place", "kind", "op"]

#: If removing all waits gains more than this times the largest gain of one line, the lines are one finding.
_JOINT: Final = 1.5

#: Share of the idle time in driver calls that is late from which on the calls never stop.
_LATE: Final = 0.1

#: A warm-up of the allocator is a likely cause from this share of the window on, else a possible one.
_COLD_SHARE: Final = 0.2

#: Kinds of waits whose advice is to read the values later, all at once.
_READS: Final = (
    SyncKind.ITEM,
    SyncKind.CPU,
    SyncKind.TOLIST,
    SyncKind.NUMPY,
    SyncKind.PRINT,
    SyncKind.PAGEABLE_TO_HOST,
)

_WARMUP: Final = r"(?i)warm.?up"

#: Memory that is allocated in the first third of a run can belong to the warm-up.
_STEADY: Final = 1 / 3


def launching(arrays: TraceArrays) -> Iterator[Finding]:
    """``launch_bound`` and ``graphable``: the devices wait between kernels for the host to launch the next one.

    Gain of ``launch_bound``: gaps shorter than `LONG_NS` in which the host was launching, and did nothing that another
    rule reports. Threshold: a tenth of the devices' time.

    Gain of ``graphable``: what a replay saves in which each repeat of the same sequence of kernels (`find_repeat`) is
    one launch, at most the gaps within these stretches. If these are most of the gaps of ``launch_bound``, only
    ``graphable`` is reported.
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
    confidence = CONFIDENCES[arrays.has_python + (gaps.total_ns < _HIGH_SHARE * arrays.span_ns)]
    what = (
        f"the GPU was idle for {units.duration(gaps.total_ns)} ({arrays.share(gaps.total_ns)} of the window) in "
        f"{units.plural(len(gaps.start), 'gap')} before kernels that the host launched too late{_slowed(arrays)}."
    )
    advice = "torch.compile(model) to fuse small operators, larger batches, or %%cudagraph if shapes do not change"
    rows = arrays.work.rows[gaps.ended_by]
    return arrays.finding(
        "launch_bound", "launch overhead", what, gaps.total_ns, advice, confidence,
        rows=rows, weight=gaps.length, place=arrays.place_of(rows, gaps.length), is_idle=True,
    )  # fmt: skip


def _slowed(arrays: TraceArrays) -> str:
    """A remark on runs with Python calls: recording them slows the host several times over, launches included."""
    return "; recording Python calls slowed the host: profile without stacks to confirm" if arrays.has_python else ""


def _within(gaps: Gaps, repeat: Repeat) -> int:
    return length(intersect(union(gaps.start, gaps.end), Intervals(repeat.start, repeat.end)))


def _graphable(arrays: TraceArrays, repeat: Repeat) -> Finding | None:
    launch, queued = _within(arrays.idle.launch, repeat), _within(arrays.idle.queued, repeat)
    size = launch + queued
    if launch < _GRAPH_SHARE * arrays.span_ns or repeat.has_graphs:
        return None
    gain = arrays.replays.bound(size, fused(arrays.work.rows[repeat.at], repeat.number, as_graph=True))
    waits = _waits_within(arrays, repeat)
    first = f"remove the {units.plural(waits, 'wait')} for the GPU from it, then use " if waits else ""
    late = f"{units.duration(launch)} of it" if queued else "all of it"
    what = (
        f"the same {repeat.period} kernels repeat {repeat.times} times in a row, with gaps of {units.duration(size)} "
        f"between them ({late} because the host launched too late){_slowed(arrays)}."
    )
    advice = (
        f'{first}%%cudagraph on the cell, @cudalens.cudagraph on the function, or torch.compile(mode="reduce-overhead")'
    )
    is_sure = not waits and not arrays.has_python and repeat.has_same_grids
    rows = arrays.work.rows[repeat.first : repeat.first + repeat.period]
    return arrays.finding(
        "graphable", "launch overhead in a repeating region", what, gain, advice, "high" if is_sure else "medium",
        rows=rows, place=arrays.place(int(rows[0])), is_idle=True,
    )  # fmt: skip


def _waits_within(arrays: TraceArrays, repeat: Repeat) -> int:
    """Waits for the GPU in each repeat."""
    at = arrays.trace.syncs["ts"].to_numpy()
    place = np.searchsorted(repeat.start, at, "right") - 1
    inside = (place >= 0) & (at < repeat.end[np.maximum(place, 0)])
    return int(np.ceil(inside.sum() / repeat.times))


def waiting(arrays: TraceArrays) -> Iterator[Finding]:
    """``host_sync``: the devices run out of work because the host waited for them.

    Gain: what a replay saves in which the calls do not wait; where they are not recorded, the gaps that begin while the
    host waits. Waits after which no device was idle gain nothing. One finding per line; one for several lines if
    removing the waits of one of them alone gains little, because the host then waits at the next.
    """
    gaps = arrays.idle.sync
    if not gaps.total_ns:
        return
    waits = arrays.trace.syncs
    group = waits.groupby(_WAIT_KEYS, observed=True, dropna=False, sort=False).ngroup().to_numpy()
    idle = np.bincount(group[gaps.wait], weights=gaps.length, minlength=int(group.max()) + 1).astype(np.int64)
    chosen = np.argsort(-idle, kind="stable")[:_MAX_PLACES]
    chosen = chosen[idle[chosen] > 0]
    each = [_gain_of_waits(arrays, np.flatnonzero(group == number), int(idle[number])) for number in chosen]
    together = np.flatnonzero(np.isin(group, chosen))
    whole = _gain_of_waits(arrays, together, int(idle[chosen].sum()))
    if len(chosen) > 1 and whole > _JOINT * max(each):
        yield _waiting(arrays, together, np.flatnonzero(group == chosen[0]), whole, len(chosen))
        return
    for number, gain in zip(chosen, each, strict=True):
        rows = np.flatnonzero(group == number)
        yield _waiting(arrays, rows, rows, gain, 1)


def _gain_of_waits(arrays: TraceArrays, numbers: Ints, idle_ns: int) -> int:
    """What a replay saves without some waits; and without the copies, where the advice is to read values later."""
    waits = arrays.trace.syncs.iloc[numbers]
    if waits["event"].isna().any():
        return idle_ns
    calls = waits["event"].to_numpy(dtype=np.int64)
    reads = arrays.outermost_ops(calls[waits["kind"].isin(_READS).to_numpy()])
    copies = arrays.work.rows[arrays.launched(reads)] if len(reads) else reads
    copies = copies[arrays.is_in("gpu_memcpy")[copies]]
    calls = np.union1d(calls, arrays.beneath(reads))
    return arrays.replays.gain(without_waits(calls), without_host(reads), with_work(copies, 0.0))


def _waiting(arrays: TraceArrays, numbers: Ints, of_first: Ints, gain: int, num_places: int) -> Finding:
    waits, first = arrays.trace.syncs.iloc[numbers], arrays.trace.syncs.iloc[of_first[0]]
    gaps = arrays.idle.sync.select(np.isin(arrays.idle.sync.wait, numbers))
    place, kind, op = (None if pd.isna(first[name]) else str(first[name]) for name in _WAIT_KEYS)
    groups = wait_groups(arrays.trace)
    advices = groups["advice"][groups["place"].isin([place]) & (groups["kind"] == kind) & groups["op"].isin([op])]
    advice = str(advices.iloc[0]) if len(advices) else "keep results on the device, and read them all at once"
    expression = next((e for e in (first["expression"], first["source"]) if not pd.isna(e)), None)
    code = f" ({units.shorten(str(expression), 60)})" if expression else f" in {op}" if op else ""
    where = f" in {num_places} places, most often" if num_places > 1 else ","
    what = (
        f"{units.plural(len(waits), 'wait')} of the host{where} {kind}{code}, emptied the queue: the GPU was then idle "
        f"for {units.duration(gaps.total_ns)} in {units.plural(len(np.unique(gaps.ended_by)), 'gap')} (the host waited "
        f"{units.duration(int(waits['dur'].sum()))})."
    )
    rows = waits["event"].dropna().to_numpy(dtype=np.int64)
    return arrays.finding(
        "host_sync", f"waiting for the GPU: {kind}", what, gain, advice, "high", rows=rows, place=place, is_idle=True
    )


def reading(arrays: TraceArrays) -> Iterator[Finding]:
    """``data_loader``: the device is idle while the program waits for the next batch.

    Gain: what a replay saves without the ranges ``enumerate(DataLoader)#…``, at most the idle time within them; without
    device work, the time of these ranges.
    """
    rows = arrays.host(LOADER)
    if not len(rows):
        return
    has_work = len(arrays.work.rows) > 0
    size = length(arrays.idle.by_event["loader"] if has_work else arrays.time_of(rows))
    gain = arrays.replays.bound(size, without_host(rows))
    if any("SingleProcess" in name for name in arrays.events["name"].array[rows].unique()):
        how = "in the training process, num_workers=0"
        advice = "DataLoader(num_workers=4, pin_memory=True, persistent_workers=True) prepares batches in parallel"
    else:
        how = "by worker processes"
        advice = "more workers, a larger prefetch_factor, or less work per sample (decode and augment in advance)"
    what = (
        f"the {'GPU was idle' if has_work else 'program waited'} for {units.duration(size)} in "
        f"{units.plural(len(rows), 'fetch')} of the next batch (prepared {how})."
    )
    yield arrays.finding(
        "data_loader", "waiting for data", what, gain, advice, "high",
        rows=rows, place=arrays.place_of(rows), is_idle=has_work,
    )  # fmt: skip


def collecting(arrays: TraceArrays) -> Iterator[Finding]:
    """``garbage_collection``: Python's garbage collector runs while the devices are idle.

    Gain: what a replay saves without the collections, at most the idle time within them; without device work, their
    time.
    """
    rows = arrays.host(GARBAGE)
    if not len(rows):
        return
    has_work = len(arrays.work.rows) > 0
    size = length(arrays.idle.by_event["garbage"] if has_work else arrays.time_of(rows))
    gain = arrays.replays.bound(size, without_host(rows))
    beside = f", {units.duration(size)} of it while the GPU was idle" if has_work else ""
    taken = units.duration(int(arrays.dur[rows].sum()))
    what = f"{units.plural(len(rows), 'garbage collection')} of Python took {taken}{beside}."
    advice = "gc.freeze() after the setup, then gc.disable() in the loop and gc.collect() between epochs"
    yield arrays.finding(
        "garbage_collection", "Python garbage collection", what, gain, advice, "high",
        rows=rows, place=arrays.place_of(rows), is_idle=has_work,
    )  # fmt: skip


def compiling(arrays: TraceArrays) -> Iterator[Finding]:
    """``compiling``: torch.compile, or the driver's loading of code, within the measured window.

    Gain: what a replay saves without such events, at most the idle time of the devices within them; without device
    work, their time.
    """
    rows = arrays.matching(COMPILE)
    if not len(rows):
        return
    has_work = len(arrays.work.rows) > 0
    size = length(arrays.idle.by_event["compile"] if has_work else arrays.time_of(rows))
    on_host = rows[arrays.thread[rows] >= 0]
    gain = arrays.replays.bound(size, without_host(on_host)) if len(on_host) else size
    largest = units.shorten(str(arrays.events["name"].array[rows[np.argmax(arrays.dur[rows])]]), 60)
    what = f"code was compiled or loaded in the measured window ({largest}): {units.duration(size)}."
    advice = "measure after a warm-up: %%cudaprofile --warmup 3; if it repeats, check whether shapes change"
    yield arrays.finding(
        "compiling", "compiling or loading code", what, gain, advice, "high", rows=rows, is_idle=has_work
    )


def allocating(arrays: TraceArrays) -> Iterator[Finding]:
    """``driver_memory``: the driver allocates or frees memory, which stops the host, and often the device.

    Gain: what a replay saves without these calls, at most the idle time of the devices within them; nothing is reported
    without device work. A caching allocator calls the driver at first and then no more, unless memory runs out or new
    sizes are requested. If calls after the first third of the run have a tenth of their idle time, all of them count;
    otherwise they are a warm-up, and the advice says so.
    """
    rows = arrays.matching(ALLOCATE)
    if not len(rows) or not len(arrays.work.rows):
        return
    idle = arrays.idle.by_event["allocate"]
    late = rows[arrays.ts[rows] >= int(arrays.ts.min()) + _STEADY * arrays.wall_ns]
    size = length(idle)
    is_steady = length(intersect(idle, arrays.time_of(late))) >= _LATE * size
    waits = arrays.trace.syncs
    retries = int((waits["kind"] == "allocator retry").sum())
    released = waits["event"].array[(waits["kind"] == "empty_cache()").to_numpy()].dropna().to_numpy(dtype=np.int64)
    gain = arrays.replays.bound(
        size + int(waits["dur"].sum()) if retries or len(released) else size, without_host(rows), without_waits(rows)
    )
    again = f", {units.plural(retries, 'time')} because memory had run out" if retries else ""
    when = "" if is_steady else " at the start of the run"
    what = (
        f"{units.plural(len(rows), 'call')} allocated or freed driver memory{when}{again}; the GPU was idle for "
        f"{units.duration(size)} in these calls."
    )
    is_likely = is_steady or gain >= _COLD_SHARE * arrays.wall_ns
    yield arrays.finding(
        "driver_memory", "allocating driver memory", what, gain, _allocation_advice(retries, len(released), is_steady),
        "high" if retries or len(released) else "medium" if is_likely else "low",
        rows=rows, place=arrays.place_of(rows), is_idle=True,
    )  # fmt: skip


def _allocation_advice(retries: int, num_released: int, is_steady: bool) -> str:
    if retries:
        return "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragmentation, or lower the peak of memory"
    if num_released:
        return "no torch.cuda.empty_cache() in the loop: the allocator asks the driver for the same memory again"
    if not is_steady:
        return "measure after a warm-up, %%cudaprofile --warmup 3: the allocator then reuses this memory"
    return "allocate buffers once and reuse them, with constant shapes"


def other_work(arrays: TraceArrays) -> Iterator[Finding]:
    """``host_work`` and ``driver_calls``: the device is idle while the host is busy with something else.

    Gain: such gaps without what other rules report. ``driver_calls`` has those in whose middle a call of the runtime or
    driver was running, ``host_work`` the others. Threshold of each: a twentieth of the window. What the host did is the
    innermost event that was running in the middle of the gap on the thread that then launched.
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
    name = str(arrays.events["name"].array[longest])
    what = (
        f"the GPU was idle for {units.duration(gaps.total_ns)} in {units.plural(len(gaps.start), 'gap')} while the "
        f"host was in driver calls, the longest {name} ({units.duration(int(gaps.length.max()))})."
    )
    return arrays.finding(
        "driver_calls", "long driver calls", what, gaps.total_ns, _call_advice(arrays, name), "medium",
        rows=np.unique(running), place=arrays.place(longest), is_idle=True,
    )  # fmt: skip


def _call_advice(arrays: TraceArrays, name: str) -> str:
    """What to try against a long call, by what it does."""
    call = plain_call(name)
    if is_host_copy(call) or sync_target(call):
        return (
            "record from an earlier step on: the call waits for work that this trace does not show, which was launched "
            "before the recording or by another process"
        )
    if len(arrays.matching(r"GraphInstantiate|GraphExecUpdate|StreamEndCapture")) and "Graph" in call:
        return "capture and instantiate CUDA graphs before the measured window"
    return "measure after a warm-up, %%cudaprofile --warmup 3: first calls load code and initialize libraries"


def _host_work(arrays: TraceArrays, gaps: Gaps, running: Ints) -> Finding:
    at = int(np.argmax(gaps.length))
    row, rows = int(running[at]), arrays.work.rows[gaps.ended_by]
    name = f"in {units.shorten(str(arrays.events['name'].array[row]), 60)}" if row >= 0 else "outside recorded events"
    what = (
        f"the GPU was idle for {units.duration(gaps.total_ns)} in {units.plural(len(gaps.start), 'gap')} of "
        f"{units.duration(PAUSE_NS)} or more while the host did other work, the longest {name}{_slowed(arrays)}."
    )
    if _is_warmup(arrays, row):
        advice = "measure after this warm-up, %%cudaprofile --warmup 3"
    else:
        advice = "move that work (logging, metrics, Python loops over elements) out of the loop, or to another thread"
        if not arrays.has_python:
            advice += "; for its lines, profile with %%cudaprofile --stacks"
    return arrays.finding(
        "host_work", "other host work", what, gaps.total_ns, advice, "low" if arrays.has_python else "medium",
        rows=rows, weight=gaps.length, place=arrays.place(row if row >= 0 else int(rows[at])), is_idle=True,
    )  # fmt: skip


def _is_warmup(arrays: TraceArrays, row: int) -> bool:
    """Whether a row is within a range that is called warm-up."""
    named = arrays.is_named(_WARMUP)
    while row >= 0 and not named[row]:
        row = int(arrays.parent[row])
    return row >= 0
