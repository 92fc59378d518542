"""Rules about copies: from pageable memory, not overlapped, too many, between layouts, on the device itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from cudalens.analysis import units
from cudalens.analysis.findings.finding import Finding, overlapped, with_work, without_host, without_waits
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.time.groups import length, subtract
from cudalens.analysis.time.sync_advice import FACTORY, SyncAdvice, waited_ns
from cudalens.analysis.time.work import COMPUTE
from cudalens.frames.column_arrays import Ints
from cudalens.frames.sync_kinds import SyncKind

#: Pages of managed memory that move because a kernel or the host touches them, and their copies by a prefetch.
_UNIFIED: Final = r"\(Unified\)"
_PREFETCHED: Final = r"\(Unified\).*, prefetched$"
_PAGEABLE: Final = r"^Memcpy (?:HtoD|DtoH).*Pageable"
_TO_DEVICE: Final = r"^(?:Memcpy|CopyH|MEMORY_COPY_H).*(?:HtoD|HOST_TO_DEVICE|HostToDevice)"
_BOTH_WAYS: Final = r"HtoD|DtoH|HostToDevice|DeviceToHost|HOST_TO_DEVICE|DEVICE_TO_HOST"
_LAYOUT: Final = r"nchwToNhwc|nhwcToNchw|(?i:nchw_?to_?nhwc|nhwc_?to_?nchw|tensor_?transform|batched_transpose)"
_COPY_OP: Final = r"^aten::(?:copy_|clone|_to_copy|_foreach_copy_)$"
_CAST: Final = "^aten::_to_copy$"
#: What a program calls to convert a tensor; autocast converts within the operators that it wraps.
_CONVERSION: Final = r"^aten::(?:to|_to_copy|copy_|type_as|float|half|bfloat16)$"
_COPY_CALL: Final = r"Memcpy"

#: torch.compile's functions with CUDA graphs copy inputs to fixed addresses, and clone outputs.
_COMPILED_FUNCTION: Final = r"^CompiledFunction"
_GRAPH_LAUNCH: Final = r"^(?:cuda|cu|hip)GraphLaunch"
_GRAPH_COPIES: Final = (
    "CUDA graphs of torch.compile copy inputs to fixed addresses and clone outputs: torch._dynamo.mark_static_address "
    'for inputs that stay where they are, or no graphs (mode="default") where launching is not the bottleneck'
)

#: What programs do with such a tensor before they copy it: elementwise operators, views, conversions.
_ADJUSTMENT: Final = (
    r"^aten::(?:empty|(?:add|sub|mul|div|neg|exp|sqrt|pow|clamp|erfinv|fill|zero|masked_fill|tril|triu|unsqueeze"
    r"|squeeze|lt|le|gt|ge|eq|ne|logical_not|detach)_?|rsub|where|view|reshape|expand|repeat|transpose|t|permute"
    r"|slice|select|to|_to_copy|contiguous|clone|lift_fresh|alias|resolve_conj|resolve_neg|pin_memory|is_pinned)$"
)

_MADE_ON_HOST: Final = 0.05

#: A CPU does not write faster, bytes per ns. What takes less time did not make the tensor that is copied after it:
#: older versions of torch's profiler make a small tensor for each range.
_HOST_RATE: Final = 200.0

#: Where making takes less than this share of copying, waits for the GPU are what costs, and other rules report them.
_MAKING_SHARE: Final = 0.1
_MAKE_ON_GPU: Final = 'make them on the GPU: torch.randn(n, device="cuda"); for a new model: with torch.device("cuda"):'

#: So many copies before any kernel are those of a model, and not of a batch.
_MIN_WEIGHTS: Final = 10
_MOVE_ONCE: Final = (
    'the copies before the first kernel move a model once: measure after them; to start sooner, torch.device("cuda") '
    "around its construction, or torch.load(map_location=...)"
)

_MIGRATED: Final = 0.05

#: A page fault takes tens of microseconds, and rarely this long.
_FAULT_NS: Final = 100_000
_MOSTLY: Final = 0.9
_NOT_OVERLAPPED: Final = 0.05
_MOSTLY_COPYING: Final = 0.5
_ON_DEVICE: Final = 0.05

#: A smaller copy takes less than the 10 µs that its call and its start on the device cost (PCIe: 25 bytes per ns).
_SMALL_BYTES: Final = 64 << 10
_MIN_SMALL: Final = 20

#: A gain of small copies that is more than so many times the idle time in their calls is not that of calls.
_BEYOND: Final = 2

#: A copy of 64 KiB at the rate of a bus takes less; for copies of unknown size.
_LONG_NS: Final = 10_000

#: A copy of this size reaches the rate of its bus.
_LARGE_BYTES: Final = 4 << 20


def pageable(arrays: TraceArrays) -> Iterator[Finding]:
    """``pageable_copies``: copies between the device and pageable host memory.

    They use a staging buffer of the driver, and the host waits for them. Those of less than 64 KiB do not count: what
    they cost is the host's wait. Gain: what a replay saves in which their calls do not wait, and they have the rate of
    pinned memory: the best one in this trace, else that of the bus; at most the time in which no other work ran, the
    idle time after these waits, and the host's time in copies to the device, which it can spend on launches. What it
    reads from the device it needs, so that the wait for that stays.
    """
    rows = arrays.matching(_PAGEABLE, "gpu_memcpy")
    moved = arrays.ints("num_bytes", rows)
    is_large = (moved >= _SMALL_BYTES) | ((moved < 0) & (arrays.dur[rows] >= _LONG_NS))
    rows, moved = rows[is_large], moved[is_large]
    if not len(rows):
        return
    total, busy = int(moved[moved > 0].sum()), int(arrays.dur[rows].sum())
    alone = arrays.exposed(arrays.is_work(rows))
    rate = f" ({units.size(total)}, {total / busy:.1f} GB/s)" if total >= _SMALL_BYTES and busy else ""
    to_device = np.intersect1d(rows, arrays.matching("^Memcpy HtoD", "gpu_memcpy"))
    launch = arrays.ints("launch", rows)
    calls = arrays.beneath(arrays.outermost_ops(launch[launch >= 0]))
    factor = np.minimum(1.0, np.maximum(moved, 0) / np.maximum(arrays.dur[rows], 1) / _pinned_rate(arrays))
    factor[moved < 0] = 0.5
    to_calls = arrays.ints("launch", to_device)
    to_calls = np.unique(to_calls[to_calls >= 0])
    waited = int(arrays.dur[to_calls].sum())
    # The host fills the staging buffer in these calls.
    edits = (without_waits(calls), without_host(to_calls), with_work(rows, factor))
    gain = min(arrays.steady.gain(*edits), alone + _idle_after(arrays, calls) + waited)
    if not arrays.has_torch:
        advice = (
            "pinned memory (cudaMallocHost, or cudaHostRegister) and cudaMemcpyAsync on a stream; if each iteration "
            "copies the same data, keep it on the GPU between kernels"
        )
    elif 2 * arrays.dur[np.intersect1d(rows, _made_on_host(arrays)[2])].sum() >= busy:
        advice = _MAKE_ON_GPU
    elif 2 * arrays.dur[np.intersect1d(rows, _of_modules(arrays))].sum() >= busy:
        advice = SyncAdvice.MAKE_MODULE_ON_DEVICE.value
    elif 2 * arrays.dur[_before_first_kernel(arrays, to_device)].sum() >= busy:
        advice = _MOVE_ONCE
    elif 2 * arrays.dur[to_device].sum() >= busy:
        advice = "DataLoader(pin_memory=True) or tensor.pin_memory(), and .to(device, non_blocking=True)"
    else:
        advice = (
            "keep results on the device, or host.copy_(x, non_blocking=True) into a pinned tensor and read it after an "
            "event"
        )
    what = (
        f"{_copies(rows)} {_ways(rows, to_device)} used pageable memory{rate}; no other work ran for "
        f"{units.duration(alone)}."
    )
    yield arrays.finding(
        "pageable_copies", "pageable copies", what, gain, advice, "high", rows=rows, place=arrays.place_of(rows)
    )


def _of_modules(arrays: TraceArrays) -> Ints:
    """Rows of the copies of parameters and buffers to the device, where the waits for them are recorded as such."""
    waits = arrays.trace.syncs
    calls = waits["event"][(waits["kind"] == SyncKind.MODULE_TO_DEVICE) & waits["event"].notna()]
    ops = arrays.outermost_ops(calls.to_numpy(dtype=np.int64))
    return arrays.work.rows[arrays.launched(ops)] if len(ops) else ops


def _before_first_kernel(arrays: TraceArrays, copies: Ints) -> Ints:
    """Those of `copies` before the first kernel, as a new model is moved; none if they are few."""
    kernels = arrays.work.start[arrays.work.kind == COMPUTE]
    early = copies[arrays.ts[copies] < kernels.min()] if len(kernels) else copies[:0]
    return early if len(early) >= _MIN_WEIGHTS else copies[:0]


def unified(arrays: TraceArrays) -> Iterator[Finding]:
    """``unified_memory``: pages of managed memory move between host and device because one of them touches them.

    Gain: idle time of the devices before and after such copies, at most `_FAULT_NS` of each gap: a page moves when the
    host, or a kernel, waits for it; in the rest of a longer gap the host works on the page. What kernels lose while
    they wait is not recorded and not part of it. Threshold: a twentieth of the window.
    """
    rows = np.setdiff1d(arrays.matching(_UNIFIED, "gpu_memcpy"), arrays.matching(_PREFETCHED, "gpu_memcpy"))
    if not len(rows):
        return
    start, end = arrays.busy.end[:-1], arrays.busy.start[1:]
    is_beside = np.isin(end, arrays.ts[rows]) | np.isin(start, arrays.end[rows])
    gaps = (end - start)[is_beside]
    gain = int(np.minimum(gaps, _FAULT_NS).sum())
    if arrays.is_minor(gain, _MIGRATED):
        return
    moved = arrays.ints("num_bytes", rows)
    total = units.size(int(moved[moved > 0].sum()))
    to_device = np.intersect1d(rows, arrays.matching("HtoD", "gpu_memcpy"))
    rest = ""
    if gain < _MOSTLY * gaps.sum():
        rest = f", at most {units.duration(gain)} of it for moving pages: then the host worked on them"
    what = (
        f"{_copies(rows)} of unified memory {_ways(rows, to_device)} ({total}) were made as pages were touched; the "
        f"GPU was idle for {units.duration(int(gaps.sum()))} beside them{rest}."
    )
    advice = "cudaMemPrefetchAsync before the kernel and before the host reads, or cudaMalloc and explicit copies"
    yield arrays.finding(
        "unified_memory", "unified memory that moves on demand", what, gain, advice, "high", rows=rows, is_idle=True
    )


def _idle_after(arrays: TraceArrays, calls: Ints) -> int:
    """Idle time in gaps that began while the host waited in one of `calls`, ns."""
    gaps, waits = arrays.idle.sync, arrays.trace.syncs["event"]
    is_mine = waits.isin(calls).fillna(False).to_numpy(bool)
    return int(gaps.length[is_mine[gaps.wait] & (gaps.wait >= 0)].sum()) if len(waits) else 0


def _ways(rows: Ints, to_device: Ints) -> str:
    """``to the GPU``, ``from the GPU``, or how many of each."""
    if len(to_device) == len(rows):
        return "to the GPU"
    if not len(to_device):
        return "from the GPU"
    return f"({units.count(len(to_device))} to the GPU, {units.count(len(rows) - len(to_device))} from it)"


def _pinned_rate(arrays: TraceArrays) -> float:
    """Rate of copies from pinned memory, bytes per ns: of the fastest large one, else by the generation of the bus."""
    rows = np.setdiff1d(arrays.matching(_BOTH_WAYS, "gpu_memcpy"), arrays.matching(_PAGEABLE, "gpu_memcpy"))
    moved = arrays.ints("num_bytes", rows)
    large = (moved >= _LARGE_BYTES) & (arrays.dur[rows] > 0)
    if large.any():
        return float((moved[large] / arrays.dur[rows[large]]).max())
    capability = arrays.capability or 8.0
    if capability >= 9:
        return 50.0
    return 24.0 if capability >= 8 else 12.0


def not_overlapped(arrays: TraceArrays) -> Iterator[Finding]:
    """``exposed_copies``: copies from pinned memory to the device while nothing else runs on it.

    Gain: what a replay saves in which work after such a copy on its stream does not wait for it, at most the time of
    the other work beside which no copy runs yet, and the idle time. A copy that is the first work of the window has
    nothing to run beside, and stays. Threshold: a twentieth of the window.
    """
    rows = np.setdiff1d(arrays.matching(_TO_DEVICE, "gpu_memcpy"), arrays.matching(_PAGEABLE, "gpu_memcpy"))
    if not len(rows):
        return
    mine = arrays.is_work(rows)
    free = subtract(arrays.work_time(~mine), arrays.work_time(mine))  # no copy runs beside it yet
    alone, beside = arrays.exposed(mine), length(free) + arrays.idle_ns
    later = rows[arrays.ts[rows] > arrays.work.start.min()]
    gain = arrays.steady.bound(min(arrays.exposed(arrays.is_work(later)), beside), overlapped(later))
    if arrays.is_minor(gain, _NOT_OVERLAPPED):
        return
    what = (
        f"{_copies(rows)} to the GPU ran for {units.duration(alone)} while no other work did; there is "
        f"{units.duration(beside)} of other work and idle time to overlap with."
    )
    how = (
        "torch.cuda.Stream, non_blocking=True, wait_stream"
        if arrays.has_torch
        else "cudaMemcpyAsync, cudaStreamWaitEvent"
    )
    advice = f"copy the next batch on a second stream during the computation ({how})"
    yield arrays.finding(
        "exposed_copies", "copies not overlapped", what, gain, advice, "medium", rows=rows, place=arrays.place_of(rows)
    )


def transfer_bound(arrays: TraceArrays) -> Iterator[Finding]:
    """``transfer_bound``: for most of the window the device only copies from pinned host memory.

    Gain: the time in which no other work ran; a replay keeps the host's launches, which wait for a full queue here.
    Copies before the first kernel, as of a model, do not count. Thresholds: half of the window; less other work than
    half of the copies, since `not_overlapped` reports what can be hidden.
    """
    rows = np.setdiff1d(arrays.matching(_TO_DEVICE, "gpu_memcpy"), arrays.matching(_PAGEABLE, "gpu_memcpy"))
    compute = arrays.work.start[arrays.work.kind == COMPUTE]
    rows = rows[arrays.ts[rows] > compute.min()] if len(compute) else rows[:0]
    mine = arrays.is_work(rows)
    alone = arrays.exposed(mine)
    if arrays.is_minor(alone, _MOSTLY_COPYING) or 2 * length(arrays.work_time(~mine)) > alone:
        return
    moved = arrays.ints("num_bytes", rows)
    total, busy = int(moved[moved > 0].sum()), int(arrays.dur[rows].sum())
    rate = f" ({units.size(total)}, {total / busy:.1f} GB/s)" if total >= _SMALL_BYTES and busy else ""
    what = (
        f"{_copies(rows)} to the GPU{rate} ran for {units.duration(alone)} while no other work did: transfers are what "
        "limits this run, and there is little other work to hide them."
    )
    where = "weights, caches" if arrays.has_torch else "tables, constants"
    advice = f"keep on the GPU what is copied again ({where}), copy fewer bytes, or do more work for each copy"
    yield arrays.finding(
        "transfer_bound", "copies that limit the run", what, alone, advice, "low",
        rows=rows, place=arrays.place_of(rows),
    )  # fmt: skip


def small_copies(arrays: TraceArrays) -> Iterator[Finding]:
    """``small_copies``: at least twenty calls that copy less than 64 KiB to the device: mostly call overhead.

    Copies of a CUDA graph have no call of their own and do not count. Gain: what a replay saves without the operators
    and calls that made them, and without their waits.
    """
    rows = arrays.matching(_TO_DEVICE, "gpu_memcpy")
    moved = arrays.ints("num_bytes", rows)
    rows = rows[(moved >= 0) & (moved < _SMALL_BYTES)]
    launch = arrays.ints("launch", rows)
    rows = rows[arrays.is_named(_COPY_CALL)[launch] & (launch >= 0)]
    calls = np.unique(arrays.ints("launch", rows))
    if len(calls) < _MIN_SMALL:
        return
    times = arrays.time_of(calls)
    idle = length(subtract(times, arrays.busy))
    ops = arrays.outermost_ops(calls)
    inside = arrays.beneath(ops)
    gain = arrays.steady.gain(without_waits(inside), without_host(ops), with_work(rows, 0.0))
    waits = arrays.trace.syncs
    waited = waited_ns(waits[waits["event"].isin(inside).fillna(False).to_numpy(bool)])
    emptied = f"; the host waited {units.duration(waited)} for the GPU in them, which emptied the queue"
    median = units.size(float(np.median(arrays.ints("num_bytes", rows))))
    what = (
        f"{_copies(rows)} to the GPU, with a median of {median}: their calls "
        f"took {units.duration(length(times))}, {units.duration(idle)} of it while the GPU was idle"
        f"{emptied if waited > idle and gain > _BEYOND * idle else ''}."
    )
    advice = "combine small tensors and copy once (torch.stack, one pinned buffer), or create them on the device"
    if not arrays.has_torch:
        advice = (
            "combine them in one pinned buffer and copy once, pass scalars as kernel arguments, or keep data on the GPU"
        )
    yield arrays.finding(
        "small_copies", "many small copies", what, gain, advice, "medium", rows=rows, place=arrays.place_of(calls)
    )


def made_on_host(arrays: TraceArrays) -> Iterator[Finding]:
    """``made_on_host``: tensors of zeros, random numbers and the like that are made on the CPU and copied to the GPU.

    Gain: what a replay saves without the operators that make them, and without their copies and the waits for these.
    A tensor is one that was made on the CPU if the operators of its thread before its copy are such an operator, and
    otherwise only elementwise operators, views and other such copies, and took as long as a CPU needs to write its
    bytes. Thresholds: a twentieth of the window; making takes a tenth of the time of copying.
    """
    making, copying, rows = _made_on_host(arrays)
    made_ns, copied_ns = length(arrays.time_of(making)), length(arrays.time_of(copying))
    if not len(copying) or made_ns < _MAKING_SHARE * copied_ns:
        return
    gain = arrays.steady.gain(
        without_host(making), without_host(copying), without_waits(arrays.beneath(copying)), with_work(rows, 0.0)
    )
    if arrays.is_minor(gain, _MADE_ON_HOST):
        return
    what = (
        f"{units.plural(len(copying), 'tensor')} made on the CPU and copied to the GPU: the host spent "
        f"{units.duration(made_ns)} on making, most in {arrays.main_name(making)}, and {units.duration(copied_ns)} on "
        "copying."
    )
    yield arrays.finding(
        "made_on_host", "tensors made on the CPU", what, gain, _MAKE_ON_GPU, "medium",
        rows=np.sort(np.concatenate([making, copying])), place=arrays.place_of(making), changed=rows,
    )  # fmt: skip


def _made_on_host(arrays: TraceArrays) -> tuple[Ints, Ints, Ints]:
    """Tensors that are made on the CPU and copied to the GPU.

    Returns:
        Rows of the outermost operators that make them and adjust them, of those that copy them, and of the copies.
    """
    copied = arrays.matching(_TO_DEVICE, "gpu_memcpy")
    launch = arrays.ints("launch", copied)
    copied, launch = copied[launch >= 0], launch[launch >= 0]
    copy_ops = np.setdiff1d(arrays.outermost_ops(launch), launch)
    if not len(copy_ops) or not len(arrays.matching(FACTORY, "cpu_op")):
        return copied[:0], copied[:0], copied[:0]
    is_op = arrays.is_in("cpu_op")
    ops = np.flatnonzero(is_op & ~(is_op[arrays.parent] & (arrays.parent >= 0)))
    ops = ops[np.lexsort((arrays.ts[ops], arrays.thread[ops]))]
    low, high = arrays.launched_in(ops)
    is_copy, is_on_host = np.isin(ops, copy_ops), low == high
    is_factory = is_on_host & arrays.is_named(FACTORY)[ops]
    is_adjustment = is_on_host & arrays.is_named(_ADJUSTMENT)[ops]
    # A run of operators ends with another operator, or with the thread: add(a, b) | zeros, mul, to, ones, to | linear.
    is_other = ~(is_copy | is_factory | is_adjustment)
    is_first = np.diff(arrays.thread[ops], prepend=-1) != 0
    run = np.cumsum(is_other | is_first)
    begin = np.searchsorted(run, run)
    made = np.cumsum(is_factory)
    made_in_run = made - made[begin] + is_factory[begin]
    moved = np.cumsum(is_copy)
    moved_in_run = moved - moved[begin] + is_copy[begin]
    is_of_made = is_copy & (made_in_run >= moved_in_run)
    if not arrays.trace.info.is_simulated:
        launched_bytes = np.maximum(arrays.ints("num_bytes", arrays.work.rows[arrays.by_launch[0]]), 0)
        total = np.concatenate([[0], np.cumsum(launched_bytes)])
        needed_ns = np.bincount(run, np.where(is_of_made, total[high] - total[low], 0)) / _HOST_RATE
        making_ns = np.bincount(run, np.where(~is_copy & (made_in_run > 0), arrays.dur[ops], 0))
        is_of_made &= (making_ns >= needed_ns)[run]
    # What is made after the last such copy of its run is not copied.
    copies_until = np.cumsum(is_of_made)
    copies_of_run = copies_until[np.searchsorted(run, run, "right") - 1]
    is_making = (is_factory | is_adjustment) & (made_in_run > 0) & (copies_until < copies_of_run)
    making, copying = np.sort(ops[is_making]), np.sort(ops[is_of_made])
    return making, copying, np.intersect1d(copied, arrays.work.rows[arrays.launched(copying)])


def layouts(arrays: TraceArrays) -> Iterator[Finding]:
    """``layout_conversions``: kernels that only convert between NCHW and NHWC, around convolutions.

    Gain: what a replay saves without them, at most the time in which they ran and no other work did.
    """
    rows = arrays.matching(_LAYOUT, "kernel")
    if not len(rows):
        return
    gain = arrays.steady.bound(arrays.exposed(arrays.is_work(rows)), with_work(rows, 0.0))
    taken = int(arrays.dur[rows].sum())
    what = f"{units.plural(len(rows), 'kernel')} converted layouts between NCHW and NHWC: {units.duration(taken)}."
    advice = "model.to(memory_format=torch.channels_last), and the same for the inputs"
    yield arrays.finding(
        "layout_conversions", "layout conversions", what, gain, advice, "high", rows=rows, place=arrays.place_of(rows)
    )


def on_device(arrays: TraceArrays) -> Iterator[Finding]:
    """``copies``: work that only copies or casts: kernels and copies launched by ``aten::copy_``, to the same device.

    Gain: what a replay saves without it and its operators, at most the time in which it ran and no other work did;
    without device work,
    the time of the outermost such operators. Threshold: a twentieth of the window.
    """
    ops = arrays.matching(_COPY_OP, "cpu_op")
    if not len(ops):
        return
    if len(arrays.work.rows):
        launched = arrays.launched(ops)
        # Which device work is a copy within a device.
        is_within_device = arrays.is_named(r"^(?:Memcpy|CopyD).*(?:DtoD|DeviceToDevice|DEVICE_TO_DEVICE)")[
            arrays.work.rows[launched]
        ]
        rows = arrays.work.rows[launched[(arrays.work.kind[launched] == COMPUTE) | is_within_device]]
        taken, where = int(arrays.dur[rows].sum()), "GPU"
        edits = (with_work(rows, 0.0), without_host(arrays.outermost(ops)))
        gain = arrays.steady.bound(arrays.exposed(arrays.is_work(rows)), *edits)
    else:
        rows, where = arrays.outermost_ops(ops) if arrays.is_cpu_run else ops[:0], "CPU"
        rows = rows[np.isin(rows, ops)]
        taken = gain = length(arrays.time_of(rows))
    if arrays.is_minor(gain, _ON_DEVICE):
        return
    what = f"the {where} copied or cast tensors {units.count(len(rows))} times, for {units.duration(taken)}."
    advice = (
        "look for .contiguous(), .clone(), .to(dtype) and torch.cat in the loop; views, out= and a single dtype avoid "
        "them; torch.compile fuses casts"
    )
    if len(arrays.work.rows) and 2 * _time_of_graph_copies(arrays, rows) >= taken:
        advice = _GRAPH_COPIES
    elif len(arrays.work.rows) and 2 * _time_of_casts(arrays, rows) >= taken:
        advice = (
            "autocast casts weights once per autocast context: use one for the whole step, or model.to(torch.bfloat16) "
            "with FP32 weights in the optimizer; torch.compile fuses the other casts"
        )
    yield arrays.finding("copies", "copies and casts", what, gain, advice, "low", rows=rows, place=arrays.place_of(ops))


def _time_of_casts(arrays: TraceArrays, rows: Ints) -> int:
    """Device time of those of `rows` that are casts within other operators, as autocast makes them, ns."""
    casts = arrays.matching(_CAST, "cpu_op")
    outermost = arrays.outermost_ops(casts)
    by_program = arrays.beneath(outermost[arrays.is_named(_CONVERSION)[outermost]])
    within = np.setdiff1d(casts, by_program)
    return int(arrays.dur[np.intersect1d(rows, arrays.work.rows[arrays.launched(within)])].sum()) if len(within) else 0


def _time_of_graph_copies(arrays: TraceArrays, rows: Ints) -> int:
    """Device time of those of `rows` that torch.compile launched beside its CUDA graphs, ns."""
    functions = arrays.matching(_COMPILED_FUNCTION, "cpu_op")
    if not len(functions) or not arrays.is_named(_GRAPH_LAUNCH).any():
        return 0
    copies = rows[arrays.is_in("gpu_memcpy")[rows]]
    return int(arrays.dur[np.intersect1d(copies, arrays.work.rows[arrays.launched(functions)])].sum())


def _copies(rows: Ints) -> str:
    return "1 copy" if len(rows) == 1 else f"{units.count(len(rows))} copies"
