"""Rules about a device that is idle because of the host: launching, reading data, compiling, repeated sequences.

Gains are idle time of the devices, as `cudalens.analysis.findings.idle_attribution` divides it, or what a replay of the
run without the cause saves (`Replays`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.findings.finding import CONFIDENCES, Finding, fused, with_work, without_host, without_waits
from cudalens.analysis.findings.idle_attribution import (
    BEGIN_CAPTURE,
    COMPILE,
    GARBAGE,
    LOADER,
    LONG_NS,
    PAUSE_NS,
    RECORD,
    Gaps,
)
from cudalens.analysis.findings.trace_arrays import COMPILED_REGION, TraceArrays
from cudalens.analysis.time.groups import Intervals, intersect, length, union, unite
from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.column_arrays import Bools, Ints
from cudalens.frames.sync_kinds import is_host_copy, plain_call, sync_target

#: Of the devices' time from first to last work: good programs have some gaps between kernels, too.
_LAUNCH_SHARE: Final = 0.10

#: From this share on, launching is the bottleneck and not one of several.
_HIGH_SHARE: Final = 0.30

#: If this much of the launch gaps lies in repeats, `graphable` replaces `launch_bound`.
_SUBSUMES: Final = 0.75
_GRAPH_SHARE: Final = 0.05

#: A run that records CUDA graphs for most of the time is a start, and not a loop.
_MOSTLY_RECORDING: Final = 0.5

#: Fewer launches are not a loop that launching can slow down.
_MIN_LAUNCHES: Final = 20

_OTHER_SHARE: Final = 0.05

#: Kernels of torch.compile; Triton compiles one in tens of milliseconds, and torch.compile a graph in seconds.
_TRITON: Final = "^triton_"
_COMPILE_NS: Final = 10_000_000

#: What to try where torch.compile launches the kernels.
_COMPILED_LAUNCHES: Final = (
    'torch.compile(model, mode="reduce-overhead") replays the region\'s kernels as CUDA graphs, or larger batches'
)
_WRAPPER: Final = r"[/\\]torchinductor_"
_SLEEP: Final = r"<built-in function sleep>"
_WRAPPER_ADVICE: Final = (
    'it is the wrapper of torch.compile\'s kernels: mode="reduce-overhead" (a CUDA graph), or '
    "torch._inductor.config.cpp_wrapper = True"
)

#: What to try in a program without torch: C++, OpenMP, OpenACC.
_NATIVE_LAUNCHES: Final = "fewer and larger kernels (fuse loops), or a CUDA graph of the sequence"

#: Other host work is a warm-up if so much of it is in the first quarter of the device work, of at least so many pieces.
_MOST_AT_FIRST: Final = 0.75
_MIN_FIRST: Final = 10
_MIN_EARLY: Final = 3
#: A function that is called so often runs in a loop, unless nearly all calls are in the first half.
_AT_FIRST: Final = 0.8
_MIN_RECURRING: Final = 8

#: An operator in a pause takes ten times as long as it usually does; pauses come in operators of several names.
_USUAL_SHARE: Final = 0.1
_MIN_PAUSES: Final = 3

#: So many calls, throughout the run, are not first calls.
_MIN_EACH: Final = 100
_EACH_CALL: Final = "each of these calls takes long, not only the first: fewer of them, with more work in each"

#: More waits than this are not for the work before the recording, which the first ones wait for.
_MIN_REPEATED: Final = 5


def launching(arrays: TraceArrays) -> Iterator[Finding]:
    """``launch_bound`` and ``graphable``: the devices wait between kernels for the host to launch the next one.

    Gain of ``launch_bound``: gaps shorter than `LONG_NS` in which the host was launching, and did nothing that another
    rule reports. Threshold: a tenth of the devices' time. Not where graphs are recorded for half of it or more.

    Gain of ``graphable``: what a replay saves in which each repeat of the same sequence of kernels (`find_repeat`) is
    one launch, at most the gaps within these stretches. Waits for the GPU within the sequence have to be removed first:
    then it is what the graphs save after that. If these are most of the gaps of ``launch_bound``, only
    ``graphable`` is reported.
    """
    gaps, repeat = arrays.idle.launch, find_repeat(arrays)
    graph = None if repeat is None else _graphable(arrays, repeat)
    if graph is not None:
        yield graph
    if gaps.total_ns < _LAUNCH_SHARE * arrays.span_ns or gaps.num_gaps < _MIN_LAUNCHES:
        return
    if length(arrays.idle.by_event["record"]) > _MOSTLY_RECORDING * arrays.span_ns:
        return
    if graph is None or repeat is None or _within(gaps, repeat) < _SUBSUMES * gaps.total_ns:
        confidence = CONFIDENCES[arrays.has_python + (gaps.total_ns < _HIGH_SHARE * arrays.span_ns)]
        what = (
            f"the GPU was idle for {units.duration(gaps.total_ns)} ({arrays.share(gaps.total_ns)} of the window) in "
            f"{units.plural(gaps.num_gaps, 'gap')} before kernels that the host launched too late{_slowed(arrays)}."
        )
        last = (
            "or larger batches" if arrays.is_other_device else "larger batches, or %%cudagraph if shapes do not change"
        )
        advice = f"torch.compile(model) to fuse small operators, {last}" if arrays.has_torch else _NATIVE_LAUNCHES
        if arrays.has_torch and _is_in_compiled(arrays, gaps):
            advice = _COMPILED_LAUNCHES
        rows = arrays.work.rows[gaps.ended_by]
        yield arrays.finding(
            "launch_bound", "launch overhead", what, gaps.total_ns, advice, confidence,
            rows=rows, weight=gaps.length, place=arrays.place_of(rows, gaps.length), is_idle=True,
        )  # fmt: skip


def _is_in_compiled(arrays: TraceArrays, gaps: Gaps) -> bool:
    """Whether most of the gaps are before work that a region of torch.compile launched."""
    regions = arrays.host(COMPILED_REGION)
    if not len(regions):
        return False
    inside = np.isin(gaps.ended_by, arrays.launched(regions))
    return 2 * int(gaps.length[inside].sum()) >= gaps.total_ns


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
    if 2 * length(arrays.captures) >= arrays.wall_ns:  # the program is capturing graphs
        return None
    # Waits for the GPU in each repeat.
    at = arrays.trace.syncs["ts"].to_numpy()
    place = np.searchsorted(repeat.start, at, "right") - 1
    inside = (place >= 0) & (at < repeat.end[np.maximum(place, 0)])
    waits = int(np.ceil(inside.sum() / repeat.times))
    graph = fused(arrays.work.rows[repeat.at], repeat.number, as_graph=True)
    calls = arrays.trace.syncs["event"].dropna().to_numpy(dtype=np.int64)
    before = (without_waits(calls),) if waits and len(calls) else ()
    gain = min(size, arrays.steady.gain(graph, after=before) + arrays.steady.slack_ns)
    first = f"remove the {units.plural(waits, 'wait')} for the GPU from it, then " if waits else ""
    late = f"{units.duration(launch)} of it" if queued else "all of it"
    is_kernel = arrays.is_in("kernel")[arrays.work.rows[repeat.at]]
    kernels = arrays.work.rows[repeat.at[is_kernel]]
    what_of = "kernels" if is_kernel.all() else "kernels and copies"
    repeats = f"the same {repeat.period} {what_of} repeat {repeat.times} times in a row"
    if len(np.unique(arrays.events["name"].array.codes[kernels])) == 1:
        beside = "" if is_kernel.all() else ", with copies between,"
        repeats = f"the same kernel runs {units.plural(len(kernels), 'time')}{beside} in a row"
    what = (
        f"{repeats}, with gaps of {units.duration(size)} "
        f"between them ({late} because the host launched too late){_slowed(arrays)}."
    )
    use = "use " if waits else ""
    how = f'{use}%%cudagraph on the cell, @cudalens.cudagraph on the function, or torch.compile(mode="reduce-overhead")'
    if not arrays.has_torch:
        how = "fuse the loop into one kernel, or capture it into a CUDA graph (cudaStreamBeginCapture) and launch that"
    elif arrays.is_other_device:
        how = f"{use}torch.compile(model), which fuses small operators"
    advice = f"{first}{how}"
    is_sure = not waits and not arrays.has_python and repeat.has_same_grids
    rows = arrays.work.rows[repeat.first : repeat.first + repeat.period]
    return arrays.finding(
        "graphable", "launch overhead in a repeating region", what, gain, advice, "high" if is_sure else "medium",
        rows=rows, place=arrays.place(int(rows[0])), is_idle=True,
    )  # fmt: skip


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


def checking_replays(arrays: TraceArrays) -> Iterator[Finding]:
    """``replay_check``: cudalens compares replays with calls without a graph, because of ``check=True``.

    Gain: what a replay saves without the comparisons and the device work that they launched.
    """
    rows = arrays.check_rows
    if not len(rows):
        return
    inside = arrays.beneath(rows)
    work = arrays.work.rows[np.isin(arrays.work.launch, inside)]
    gain = arrays.replays.gain(without_host(rows), without_waits(inside), with_work(work, 0.0))
    what = (
        f"The checks of cudagraph(check=True) took {units.duration(length(arrays.time_of(rows)))}: each calls the "
        "function without a graph, too, and compares the results. Kernels, copies and operators of that are in the "
        "tables."
    )
    yield arrays.finding(
        "replay_check", "checks of replays", what, gain, "measure without check=True", "high",
        rows=rows, is_idle=not len(work), changed=work,
    )  # fmt: skip


def recording_graphs(arrays: TraceArrays) -> Iterator[Finding]:
    """``graph_recording``: CUDA graphs are captured within the measured window, by torch.compile or by the program.

    Gain: what a replay saves without the recordings, at most the idle time of the devices within them; without device
    work, their time.
    """
    rows, captures = arrays.outermost(arrays.host(RECORD)), arrays.captures
    times = unite(arrays.time_of(rows), captures)
    if not len(times.start):
        return
    has_work = len(arrays.work.rows) > 0
    size = length(arrays.idle.by_event["record"] if has_work else times)
    gain = size if len(captures.start) else arrays.replays.bound(size, without_host(rows))
    rows = rows if len(rows) else arrays.host(BEGIN_CAPTURE)
    what = (
        f"CUDA graphs were recorded in the measured window: the GPU was idle for {units.duration(size)} in "
        f"{units.duration(length(times))}."
    )
    advice = (
        "measure after the recordings, one for each shape of the inputs: %%cudaprofile --warmup 3; if they repeat, "
        "check whether shapes change"
    )
    yield arrays.finding(
        "graph_recording", "recording CUDA graphs", what, gain, advice, "high",
        rows=rows, place=arrays.place_of(rows), is_idle=has_work,
    )  # fmt: skip


def compiling(arrays: TraceArrays) -> Iterator[Finding]:
    """``compiling``: torch.compile, or the driver's loading of code, within the measured window.

    Gain: what a replay saves without such events, at most the idle time of the devices within them; without device
    work, their time.
    """
    rows = arrays.matching(COMPILE)
    has_work = len(arrays.work.rows) > 0
    if not len(rows) or not (has_work or arrays.is_cpu_run):
        return
    size = length(arrays.idle.by_event["compile"] if has_work else arrays.time_of(rows))
    # The profiler's rows of overhead are in no call tree: a replay does not have them.
    in_tree = rows[(arrays.thread[rows] >= 0) & ~arrays.is_in("overhead")[rows]]
    gain = arrays.replays.bound(size, without_host(in_tree)) if len(in_tree) == len(rows) else size
    largest = arrays.name_of(int(rows[np.argmax(arrays.dur[rows])]))
    what = (
        f"code was compiled or loaded in the measured window ({largest}): {units.duration(size)}{arrays.steady_note}."
    )
    advice = "measure after a warm-up: %%cudaprofile --warmup 3; if it repeats, check whether shapes change"
    if not arrays.has_torch:
        advice = "measure after a warm-up, or build for the GPU's architecture (nvcc -arch) so that nothing is compiled"
    yield arrays.finding(
        "compiling", "compiling or loading code", what, gain, advice, "high", rows=rows, is_idle=has_work
    )


def other_work(arrays: TraceArrays) -> Iterator[Finding]:
    """``host_work``, ``driver_calls``, ``first_calls``, ``host_pauses``: the host does something else than launch.

    Gain: such gaps without what other rules report. ``driver_calls`` has those in whose middle a call of the runtime or
    driver was running; ``first_calls`` those of `LONG_NS` or longer in the first operator of a name, which loads code
    and creates handles of libraries; ``host_pauses`` those of `LONG_NS` or longer in at least `_MIN_PAUSES` operators
    of different names that take less than a tenth of it elsewhere, so that the thread did not run; ``host_work`` the
    others. Gaps of `_COMPILE_NS` or longer before Triton kernels, without any event, are ``compiling``. Threshold of
    each: a twentieth of the window. What the host did is the innermost event that was running in the middle of the gap
    on the thread that then launched.
    """
    gaps = arrays.idle.host_work
    if not gaps.total_ns:
        return
    running, in_call = arrays.long_calls
    is_first, is_paused = arrays.is_first_call, _is_paused(arrays)
    is_compiled = _is_compiled(arrays) & ~in_call
    kinds = (
        (in_call, _driver_calls),
        (is_compiled, _compiled),
        (is_first, _first_calls),
        (is_paused, _host_pauses),
        (~in_call & ~is_compiled & ~is_first & ~is_paused, _host_work),
    )
    for chosen, make in kinds:
        some = gaps.select(chosen)
        if not arrays.is_minor(some.total_ns, _OTHER_SHARE):
            yield make(arrays, some, running[chosen])


def _driver_calls(arrays: TraceArrays, gaps: Gaps, running: Ints) -> Finding:
    longest = int(running[np.argmax(gaps.length)])
    name = str(arrays.events["name"].array[longest])
    what = (
        f"the GPU was idle for {units.duration(gaps.total_ns)} in {units.plural(gaps.num_gaps, 'gap')} while the "
        f"host was in driver calls, the longest {name} ({units.duration(int(gaps.length.max()))})."
    )
    num_waits = sum(_is_wait(one) for one in arrays.events["name"].array[running])
    # Many gaps, of which the last third of the window has its part, are not those of first calls.
    last = gaps.select(gaps.start >= arrays.window.end - arrays.wall_ns // 3)
    if gaps.num_gaps >= _MIN_EACH and last.total_ns >= gaps.total_ns / 6:
        advice = _EACH_CALL
    else:
        advice = _call_advice(arrays, name, num_waits)
    return arrays.finding(
        "driver_calls", "long driver calls", what, gaps.total_ns, advice, "medium",
        rows=np.unique(running), place=arrays.place(longest), is_idle=True,
    )  # fmt: skip


def _is_wait(name: str) -> bool:
    call = plain_call(name)
    return bool(is_host_copy(call) or sync_target(call))


def _first_calls(arrays: TraceArrays, gaps: Gaps, running: Ints) -> Finding:
    rows = np.unique(running)
    longest = int(running[np.argmax(gaps.length)])
    what = (
        f"the GPU was idle for {units.duration(gaps.total_ns)} in {units.plural(gaps.num_gaps, 'gap')} within the "
        f"first calls of {units.plural(len(rows), 'operator')}, the longest {arrays.name_of(longest)} "
        f"({units.duration(int(gaps.length.max()))}){arrays.steady_note}."
    )
    advice = (
        "measure after a warm-up, %%cudaprofile --warmup 1: first calls load kernels, create handles of cuBLAS and "
        "cuDNN, and request memory"
    )
    return arrays.finding(
        "first_calls", "first calls of operators", what, gaps.total_ns, advice, "medium",
        rows=rows, place=arrays.place(longest), is_idle=True,
    )  # fmt: skip


def _is_compiled(arrays: TraceArrays) -> Bools:
    """Which gaps of other host work are those in which a Triton kernel is compiled, where no event shows that."""
    gaps = arrays.idle.host_work
    is_triton = arrays.is_named(_TRITON)[arrays.work.rows[gaps.ended_by]]
    return is_triton & (gaps.length >= _COMPILE_NS) & (arrays.long_calls.running < 0)


def _compiled(arrays: TraceArrays, gaps: Gaps, running: Ints) -> Finding:
    rows = arrays.work.rows[gaps.ended_by]
    what = (
        f"the GPU was idle for {units.duration(gaps.total_ns)} in {units.plural(gaps.num_gaps, 'gap')} before Triton "
        f"kernels, without an operator or call: they were compiled ({arrays.main_name(rows, gaps.length)})."
    )
    advice = "measure after a warm-up: %%cudaprofile --warmup 3; if it repeats, check whether shapes change"
    return arrays.finding(
        "compiling", "compiling or loading code", what, gaps.total_ns, advice, "medium", rows=rows, is_idle=True
    )


def _is_paused(arrays: TraceArrays) -> Bools:
    """Which gaps of other host work are mostly one call of an operator that usually takes less than a tenth of it."""
    running, gaps = arrays.long_calls.running, arrays.idle.host_work
    ops = np.flatnonzero(arrays.is_in("cpu_op"))
    codes = arrays.events["name"].array.codes
    usual = np.zeros(len(arrays.events["name"].array.categories) + 1)
    medians = pd.Series(arrays.dur[ops]).groupby(codes[ops]).median()
    usual[medians.index.to_numpy()] = medians.to_numpy()
    is_op = arrays.is_in("cpu_op")[running] & (running >= 0) & ~arrays.is_first_call & (gaps.length >= LONG_NS)
    is_op &= arrays.dur[running] >= gaps.length / 2  # else the gap is of many operators
    found: Bools = is_op & (usual[codes[running]] < _USUAL_SHARE * gaps.length)
    if len(np.unique(codes[running[found]])) < _MIN_PAUSES:
        return np.zeros(len(found), bool)
    return found


def _host_pauses(arrays: TraceArrays, gaps: Gaps, running: Ints) -> Finding:
    longest = int(running[np.argmax(gaps.length)])
    what = (
        f"the GPU was idle for {units.duration(gaps.total_ns)} in {units.plural(gaps.num_gaps, 'gap')} in which "
        f"operators took ten times as long as usual, the longest {arrays.name_of(longest)} "
        f"({units.duration(int(gaps.length.max()))}): the thread that launches did not run."
    )
    advice = (
        "other threads or processes used its CPU, or held Python's lock: fewer DataLoader workers than CPUs, fewer "
        "threads (OMP_NUM_THREADS), and no other program on the machine"
    )
    return arrays.finding(
        "host_pauses", "pauses of the host", what, gaps.total_ns, advice, "medium",
        rows=np.unique(running), place=arrays.place(longest), is_idle=True,
    )  # fmt: skip


def _call_advice(arrays: TraceArrays, name: str, num_waits: int) -> str:
    """What to try against a long call, by what it does, and how many of the calls are waits."""
    call = plain_call(name)
    if _is_wait(name) and not arrays.has_torch:
        return (
            "the call returned after the work that this trace shows had ended: look for work that is not recorded "
            "(other processes, managed memory), and wait once after the loop"
        )
    if _is_wait(name) and num_waits >= _MIN_REPEATED:
        return (
            "the waits end later than the work that they waited for, again and again: another process used the GPU in "
            "between (nvidia-smi), or its work is not recorded"
        )
    if _is_wait(name):
        return (
            "record from an earlier step on: the call waits for work that this trace does not show, which was launched "
            "before the recording or by another process"
        )
    if len(arrays.matching(r"GraphInstantiate|GraphExecUpdate|StreamEndCapture")) and "Graph" in call:
        return "capture and instantiate CUDA graphs before the measured window"
    warm_up = ", %%cudaprofile --warmup 3" if arrays.has_torch else ""
    return f"measure after a warm-up{warm_up}: first calls load code and initialize libraries"


def _host_work(arrays: TraceArrays, gaps: Gaps, running: Ints) -> Finding:
    at = int(np.argmax(gaps.length))
    row, rows = _covering(arrays, int(running[at]), int(gaps.length[at])), arrays.work.rows[gaps.ended_by]
    is_step = arrays.is_named(f"^{STEP_PREFIX}")[row] and row >= 0
    name = f"in {arrays.name_of(row)}" if row >= 0 and not is_step else "outside recorded operators and calls"
    at_first_ns = 0 if _recurs(arrays, gaps, running) else _at_first_ns(arrays, gaps)
    early = f"; {units.duration(at_first_ns)} of it in the first quarter of the work" if at_first_ns else ""
    what = (
        f"the GPU was idle for {units.duration(gaps.total_ns)} in {units.plural(gaps.num_gaps, 'gap')} of "
        f"{units.duration(PAUSE_NS)} or more while the host did other work, the longest {name}"
        f"{early}{_slowed(arrays)}."
    )
    advice = _host_work_advice(arrays, gaps, running, is_early=at_first_ns > 0)
    return arrays.finding(
        "host_work", "other host work", what, gaps.total_ns, advice, "low" if arrays.has_python else "medium",
        rows=rows, weight=gaps.length, place=arrays.place(row if row >= 0 else int(rows[at])), is_idle=True,
    )  # fmt: skip


def _host_work_advice(arrays: TraceArrays, gaps: Gaps, running: Ints, *, is_early: bool) -> str:
    warm_up = "%%cudaprofile --warmup 3" if arrays.has_torch else "outside of the recording"
    if arrays.is_warmup(int(running[np.argmax(gaps.length)])):
        return f"measure after this warm-up, {warm_up}"
    if is_early and not arrays.has_torch:
        return "it is mostly at the start, and does not repeat: do not record it, or name it with NVTX ranges"
    if is_early:
        return f"measure after a warm-up, {warm_up}: later work does not have most of this time"
    has_ops = bool(arrays.is_in("cpu_op").any())
    if not has_ops and not arrays.has_python and 2 * gaps.length[running < 0].sum() >= gaps.total_ns:
        if not arrays.has_torch:
            return "name the host's work with NVTX ranges: only its calls of the runtime are recorded"
        return "record what the host does: activities=[CPU, CUDA] of torch.profiler, or nsys --python-sampling=true"
    if len(arrays.captures.start) == 0 and (advice := _advice_in_python(arrays, gaps, running)):
        return advice
    at = int(np.argmax(gaps.length))
    row = _covering(arrays, int(running[at]), int(gaps.length[at]))
    if row not in (-1, running[at]) and arrays.is_in("cpu_op")[row]:
        return f"it is in operators that {arrays.name_of(row)} calls: fewer and larger ones, or torch.compile"
    advice = "move that work (logging, metrics, Python loops over elements) out of the loop, or to another thread"
    if has_ops and not arrays.has_python:  # a program with torch, which has such lines
        advice += "; for its lines, profile with %%cudaprofile --stacks"
    return advice


def _covering(arrays: TraceArrays, row: int, gap_ns: int) -> int:
    """The innermost event around `row` that takes half of a gap or more; `row` itself if there is none."""
    found = row
    while found >= 0 and 2 * int(arrays.dur[found]) < gap_ns:
        found = int(arrays.parent[found])
    return row if found < 0 else found


def _recurs(arrays: TraceArrays, gaps: Gaps, running: Ints) -> bool:
    """Whether most of the gaps are in Python functions that run as often later: a busy device hides the later ones."""
    rows = np.flatnonzero(arrays.is_in("python_function"))
    if not len(rows):
        return False
    codes = arrays.events["name"].array.codes
    middle = np.median(arrays.ts[rows])  # the host runs ahead of the device: not the middle of the window
    balance = np.zeros(len(arrays.events["name"].array.categories) + 1, np.int64)
    np.add.at(balance, codes[rows], np.where(arrays.ts[rows] > middle, 1, -1))
    calls = np.bincount(codes[rows], minlength=len(balance))
    known = (running >= 0) & arrays.is_in("python_function")[running]
    of = codes[running]
    recurs = known & (calls[of] >= _MIN_RECURRING) & (balance[of] > -_AT_FIRST * calls[of])
    return 2 * int(gaps.length[recurs].sum()) >= gaps.total_ns


def _advice_in_python(arrays: TraceArrays, gaps: Gaps, running: Ints) -> str | None:
    """What to try where most of the gaps are in Python functions: their own time, as others would be innermost."""
    in_python = arrays.is_in("python_function")[running] & (running >= 0)
    if 2 * int(gaps.length[in_python].sum()) < gaps.total_ns:
        return None
    at = int(np.argmax(np.where(in_python, gaps.length, -1)))
    row = _covering(arrays, int(running[at]), int(gaps.length[at]))
    if arrays.is_named(_WRAPPER)[row]:
        return _WRAPPER_ADVICE
    if arrays.is_named(_SLEEP)[row]:
        return "the program sleeps: remove time.sleep(), or wait for what it waits for (an event, a queue)"
    if row != running[at]:
        return f"it is in Python functions that {arrays.name_of(row)} calls: call it less often, or keep its result"
    return (
        f"it is the own time of {arrays.name_of(row)}: its Python lines, or C++ code that no event shows "
        "(py-spy record --native)"
    )


def _at_first_ns(arrays: TraceArrays, gaps: Gaps) -> int:
    """The time of gaps in the first quarter of the device work, if that is most of their time; else 0.

    Gaps of a loop are as long in each quarter.
    """
    num_first = len(arrays.work.rows) // 4
    early = gaps.select(gaps.ended_by < num_first)
    is_most = early.total_ns >= _MOST_AT_FIRST * gaps.total_ns and early.num_gaps >= _MIN_EARLY
    return early.total_ns if is_most and num_first >= _MIN_FIRST else 0


#: Shorter sequences are loops over elements, which are too small for a graph.
_MIN_PERIOD: Final = 8

_MIN_TIMES: Final = 3

#: Of all kernels: a smaller part does not characterize the run.
_MIN_MATCH: Final = 0.5

_MAX_CANDIDATES: Final = 40


@dataclass(frozen=True)
class Repeat:
    """A sequence of kernels that repeats on one stream.

    Attributes:
        period: Number of kernels in it.
        times: How often it runs, in all stretches together.
        first: Index of its first kernel, in the device work.
        start: Start of each stretch of repeats, ns.
        end: End of each stretch, ns.
        has_same_grids: Whether launch grids repeat as well.
        has_graphs: Whether CUDA graphs launched it.
        at: Indices of all its kernels in the device work, shape (n,).
        number: The number of the repeat of each, shape (n,).
    """

    period: int
    times: int
    first: int
    start: Ints
    end: Ints
    has_same_grids: bool
    has_graphs: bool
    at: Ints
    number: Ints


def find_repeat(arrays: TraceArrays) -> Repeat | None:
    """The shortest sequence that repeats through most of the kernels of the busiest stream; None if none does.

    A period is tried if several names recur at that distance. It holds in the stretches in which each kernel has the
    name of the kernel one period before it. These must be at least `_MIN_TIMES` periods long, and have half of all
    kernels together.
    """
    work = arrays.work
    streams, counts = np.unique(work.stream, return_counts=True)
    if not len(streams):
        return None
    at = np.flatnonzero(work.stream == streams[np.argmax(counts)])
    codes = arrays.events["name"].array.codes[work.rows[at]].astype(np.int64)
    for period in _candidates(codes):
        first, last = _stretches(codes, period)
        if (last - first).sum() >= _MIN_MATCH * len(codes):
            return _repeat(arrays, at, period, first, last)
    return None


def _candidates(codes: Ints) -> list[int]:
    """Distances at which names recur, shortest first, of those that most names have."""
    order = np.argsort(codes, kind="stable")
    same = codes[order][1:] == codes[order][:-1]
    distance = np.diff(order)[same]
    # A shorter sequence is part of a longer one that repeats as well.
    distance = np.where(distance < _MIN_PERIOD, -(-_MIN_PERIOD // distance) * distance, distance)
    distance = distance[(distance >= _MIN_PERIOD) & (distance * _MIN_TIMES <= len(codes))]
    found, counts = np.unique(distance, return_counts=True)
    best = np.argsort(-counts * found, kind="stable")[:_MAX_CANDIDATES]
    return sorted(found[best].tolist())


def _stretches(codes: Ints, period: int) -> tuple[Ints, Ints]:
    """First kernel, and one past the last, of each stretch that repeats with `period` at least `_MIN_TIMES` times."""
    match = np.concatenate([[False], codes[period:] == codes[:-period], [False]])
    edges = np.flatnonzero(np.diff(match.astype(np.int8)))
    first, last = edges[::2], edges[1::2] + period
    some = last - first >= _MIN_TIMES * period
    return first[some], last[some]


def _repeat(arrays: TraceArrays, at: Ints, period: int, first: Ints, last: Ints) -> Repeat:
    work, events = arrays.work, arrays.events
    grids = events["grid"].array.codes[work.rows[at]]
    begin, end = int(first[0]), int(last[0])
    same = bool((grids[begin + period : end] == grids[begin : end - period]).all())
    graphs = events["graph_id"].array[work.rows[at[begin:end]]]
    launch = work.launch[at[begin : begin + period]]
    return Repeat(
        period,
        int(((last - first) // period).sum()),
        int(at[begin]),
        work.start[at[first]],
        np.maximum.accumulate(work.end[at[last - 1]]),
        same,
        bool((~graphs.isna()).any() or len(np.unique(launch)) < len(launch) / 2),
        *_members(at, period, first, last),
    )


def _members(at: Ints, period: int, first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """All kernels of the stretches, and the number of the repeat of each."""
    within = [np.arange(a, b) for a, b in zip(first, last, strict=True)]
    of = [np.arange(b - a) // period for a, b in zip(first, last, strict=True)]
    begins = np.cumsum([0, *(int(numbers[-1]) + 1 for numbers in of[:-1])])
    return at[np.concatenate(within)], np.concatenate([n + k for n, k in zip(of, begins, strict=True)])
