"""Rules about memory that the driver allocates and frees, and about the state of the device: memory, clocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from cudalens.analysis import units
from cudalens.analysis.findings.finding import Confidence, Finding, without_host, without_waits
from cudalens.analysis.findings.fusion_rules import OPTIMIZER_STEP
from cudalens.analysis.findings.idle_attribution import ALLOCATE
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.memory.totals import Refusal, last_refusal
from cudalens.analysis.time.groups import Intervals, intersect, length
from cudalens.analysis.time.work import COMPUTE
from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.column_arrays import Ints
from cudalens.frames.sync_kinds import SyncKind

#: Share of the idle time in driver calls that is late from which on the calls never stop.
_LATE: Final = 0.1

#: A warm-up of the allocator is a likely cause from this share of the window on, else a possible one.
_COLD_SHARE: Final = 0.2

#: Memory that is allocated in the first third of a run can belong to the warm-up.
_STEADY: Final = 1 / 3

#: Driver memory that is freed so often between kernels is freed in a loop.
_MIN_FREES: Final = 3
#: In a program without a caching allocator so many calls after the first third are not its setup.
_MIN_CALLS: Final = 20
_FREE: Final = r"^(?:cuda|hip)Free|^cuMem(?:Free|Unmap|Release)"
#: Calls that allocate from a pool of the driver, and free into it.
_OF_POOL: Final = r"^(?:cuda|hip)(?:Malloc|Free)Async"

#: So many calls within operators are not those of a cache that is released.
_MIN_UNCACHED: Final = 20
_UNCACHED: Final = (
    "torch's caching allocator is off (PYTORCH_NO_CUDA_MEMORY_CACHING=1, or an allocator without a cache): each tensor "
    "asks the driver for memory; turn it on"
)


def allocating(arrays: TraceArrays) -> Iterator[Finding]:
    """``driver_memory``: the driver allocates or frees memory, which stops the host, and often the device.

    Gain: what a replay saves without these calls, at most the idle time of the devices within them; nothing is reported
    without device work. A caching allocator calls the driver at first and then no more, unless memory runs out or new
    sizes are requested. If calls in steps after the first have a tenth of their idle time, they go on; so do calls
    after the first third of a run without steps, if they free memory three times. Otherwise they are a warm-up, and the
    advice says so. Where most of the idle time is after the first retry or ``empty_cache()``, only the calls from there
    on count; without a caching allocator, all do.
    """
    rows = arrays.matching(ALLOCATE)
    if not len(rows) or not arrays.span_ns:
        return
    is_uncached = _is_uncached(arrays, rows)
    late = rows if is_uncached else _from_first_release(arrays, rows)
    is_released = 2 * length(_idle_in(arrays, late)) >= length(_idle_in(arrays, rows)) if len(late) else False
    rows = late if is_released else rows
    size, is_steady = length(_idle_in(arrays, rows)), is_released or _is_steady(arrays, rows)
    waits = arrays.trace.syncs[arrays.trace.syncs["event"].isin(rows)]
    retries = int((waits["kind"] == SyncKind.ALLOCATOR_RETRY).sum()) if is_released and not is_uncached else 0
    at_most = length(arrays.time_of(rows)) if is_released else size
    gain = arrays.replays.bound(at_most, without_host(rows), without_waits(rows))
    again = f", {units.plural(retries, 'time')} because memory had run out" if retries else ""
    what = (
        f"{units.plural(len(rows), 'call')} allocated or freed driver memory{again}; the GPU was idle for "
        f"{units.duration(size)} in these calls{'' if is_steady else arrays.steady_note}."
    )
    title = "allocating driver memory" if is_steady else "first calls that allocate driver memory"
    is_likely = is_steady or gain >= _COLD_SHARE * arrays.wall_ns
    confidence: Confidence = "medium" if is_likely else "low"
    yield arrays.finding(
        "driver_memory", title, what, gain,
        _UNCACHED if is_uncached else _advice(arrays, rows, retries, is_released, is_steady),
        "high" if is_released else confidence,
        rows=rows, place=arrays.place_of(rows), is_idle=True,
    )  # fmt: skip


def _idle_in(arrays: TraceArrays, rows: Ints) -> Intervals:
    """Idle time of the devices within some calls that allocate or free memory."""
    return intersect(arrays.idle.by_event["allocate"], arrays.time_of(rows))


def _is_steady(arrays: TraceArrays, rows: Ints) -> bool:
    """Whether the run shows that the calls go on: in steps after the first, or with as many frees as a loop has.

    A caching allocator requests memory in all of a first forward and backward pass, so that calls late in a run without
    steps are no sign of that.
    """
    if arrays.is_warmup(int(rows[np.argmax(arrays.dur[rows])])):
        return False
    kernels = arrays.work.start[arrays.work.kind == COMPUTE]
    after_first = rows[arrays.ts[rows] >= int(kernels.min(initial=arrays.busy.start[-1]))]
    steps = arrays.host(rf"^{STEP_PREFIX}\d+$")
    if len(steps) < 2:
        steps = arrays.outermost(arrays.host(OPTIMIZER_STEP))
    begin = int(arrays.end[steps[0]]) if len(steps) > 1 else round(arrays.window.start + _STEADY * arrays.wall_ns)
    late = after_first[arrays.ts[after_first] >= begin]
    if not arrays.has_torch:  # without a caching allocator
        return len(late) >= _MIN_CALLS
    late_ns = length(_idle_in(arrays, late))
    if len(steps) < 2 and len(late):  # one long call is the set-up of a library
        late_ns -= length(_idle_in(arrays, late[[int(np.argmax(arrays.dur[late]))]]))
    goes_on = late_ns >= _LATE * length(_idle_in(arrays, rows))
    is_free = arrays.is_named(_FREE, late)
    # What is freed after the last allocation is freed at the end.
    last = int(arrays.ts[late[~is_free]].max(initial=-1))
    return goes_on and (len(steps) > 1 or int((arrays.ts[late[is_free]] < last).sum()) >= _MIN_FREES)


def _is_uncached(arrays: TraceArrays, rows: Ints) -> bool:
    """Whether tensors are allocated by the driver, one by one: operators free them, and not the allocator's caches."""
    is_free = arrays.is_named(_FREE)[rows]
    frees, others = rows[is_free], rows[~is_free]
    above = arrays.parent[frees]
    in_operators = int((arrays.is_in("cpu_op")[above] & (above >= 0)).sum())
    is_one_by_one = 2 * int(np.abs(np.diff(is_free.astype(np.int8))).sum()) >= len(rows) / 4
    return (
        arrays.has_torch
        and min(len(others), in_operators) >= _MIN_UNCACHED
        and 2 * in_operators >= len(frees)
        and 2 * len(frees) >= len(others)
        and is_one_by_one
    )


def _from_first_release(arrays: TraceArrays, rows: Ints) -> Ints:
    """The calls from the first retry or ``empty_cache()`` on; none if there is none."""
    waits = arrays.trace.syncs
    ends = waits[waits["kind"].isin([SyncKind.ALLOCATOR_RETRY, SyncKind.EMPTY_CACHE])]
    return rows[arrays.end[rows] >= int(ends["ts"].min())] if len(ends) else rows[:0]


def _advice(arrays: TraceArrays, rows: Ints, retries: int, is_released: bool, is_steady: bool) -> str:
    if not arrays.has_torch:
        first = "" if is_steady else ", and before the measurement: first calls create the context"
        pool = "a memory pool (cudaMallocAsync)"
        if 2 * arrays.is_named(_OF_POOL, rows).sum() >= len(rows):
            pool = "a pool that keeps its memory when the host waits (cudaMemPoolAttrReleaseThreshold)"
        return f"allocate once before the loop, and free after it{first}; or {pool}"
    if retries:
        return "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragmentation, or lower the peak of memory"
    if is_released:
        return "no torch.cuda.empty_cache() in the loop: the allocator asks the driver for the same memory again"
    if not is_steady:
        return (
            "measure after a warm-up, %%cudaprofile --warmup 1: first calls create the context, and the allocator then "
            "reuses memory; if the calls repeat in later runs, allocate buffers once and reuse them"
        )
    return "allocate buffers once and reuse them, with constant shapes"


#: Where less than this share of the reserved memory is unused, other segments do not help.
_UNUSED: Final = 0.05

#: Above this, torch's allocator frees its caches and allocates again, and fragmentation alone can end a run.
_FULL: Final = 0.90

_THROTTLED: Final = 0.10


def memory_full(arrays: TraceArrays) -> Iterator[Finding]:
    """``memory_full``: the allocator reserves nine tenths of the device's memory or more, or has run out. No cost."""
    memory, devices = arrays.trace.memory, arrays.trace.info.devices
    on_device = memory[memory["device_type"].astype(str).isin(["cuda", "hip", "xpu"])]
    num_ooms = int((on_device["action"] == "oom").sum())
    total = next((device.total_memory_bytes for device in devices if device.total_memory_bytes), 0)
    reserved = on_device["reserved_bytes"].dropna()
    peak = int(reserved.max()) if len(reserved) else 0
    if not num_ooms and not (total and peak >= _FULL * total):
        return
    failed = (
        f"{units.plural(num_ooms, 'allocation')} failed{_at_refusal(last_refusal(arrays.trace))}" if num_ooms else ""
    )
    held = f"torch reserved {units.size(peak)} of the GPU's {units.size(total)}" if total and peak else ""
    advice = _memory_advice(arrays)
    what = f"{'; '.join(filter(None, (failed, held)))}."
    yield arrays.finding("memory_full", "memory nearly full", what, None, advice, "high")


def _at_refusal(refused: Refusal | None) -> str:
    """`` (90.0 MiB asked for, 5.00 MiB free, 2.00 MiB of the reserved memory unused)``, as far as it is known."""
    if refused is None or not refused.asked_bytes:
        return ""
    texts = [f"{units.size(refused.asked_bytes)} asked for"]
    if refused.free_bytes is not None:
        texts.append(f"{units.size(refused.free_bytes)} free")
    if refused.unused_bytes is not None:
        texts.append(f"{units.size(refused.unused_bytes)} of the reserved memory unused")
    return f" ({', '.join(texts)})"


def _has_unused(arrays: TraceArrays) -> bool:
    """Whether reserved memory was unused where the most was reserved, or that is not known."""
    sizes = arrays.trace.memory[["reserved_bytes", "allocated_bytes"]].dropna()
    if not len(sizes):
        return True
    reserved, allocated = (sizes[name].to_numpy(dtype=np.int64) for name in sizes)
    most = reserved == reserved.max()
    return bool(allocated[most].max() <= (1 - _UNUSED) * reserved.max())


def _memory_advice(arrays: TraceArrays) -> str:
    """What to try against a full device; checkpointing is for training, and servers allocate a pool in advance."""
    segments = ", PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" if _has_unused(arrays) else ""
    refused = last_refusal(arrays.trace)
    if refused is not None and refused.unused_bytes is not None:
        if refused.is_fragmented:
            return (
                "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: the unused pieces of torch's memory, with what the "
                "GPU has free, are enough"
            )
        return "%cudamem lists what holds memory; torch.utils.checkpoint, smaller batches, or lower precision"
    if arrays.is_training:
        return f"%cudamem lists what holds memory; torch.utils.checkpoint, smaller batches{segments}"
    return (
        f"%cudamem lists what holds memory; smaller batches{segments}; expected "
        "where a server allocates its cache in advance (gpu_memory_utilization of vLLM, mem_fraction_static of SGLang)"
    )


def slow_clocks(arrays: TraceArrays) -> Iterator[Finding]:
    """``slow_clocks``: the clocks of a busy device were throttled in a tenth of its readings or more. No cost."""
    metrics = arrays.trace.metrics
    is_busy = metrics["gpu_busy_pct"].fillna(100.0) > 0
    readings = metrics.loc[is_busy, "slowed_by"].dropna().astype(str)
    throttled = readings[readings != ""]
    if not len(throttled) or len(throttled) < _THROTTLED * len(readings):
        return
    reason, share = throttled.value_counts().index[0], units.percent(100 * len(throttled) / len(readings))
    what = f"the GPU's clocks were throttled by {reason} in {share} of the readings of a busy GPU."
    advice = "check cooling, power limit and other processes (nvidia-smi -q -d PERFORMANCE) before you compare runs"
    yield arrays.finding("slow_clocks", "throttled clocks", what, None, advice, "high")
