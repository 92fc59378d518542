"""Rules about the measured window: a first step that warms up, and what is recorded before and after the window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from cudalens.analysis import units
from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.findings.finding import Finding
from cudalens.analysis.findings.idle_attribution import ALLOCATE, COMPILE, LOADER, LONG_NS, MAX_LATENCY_NS
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.time.groups import Intervals, intersect, length, subtract, union
from cudalens.analysis.time.work import WAITING
from cudalens.frames import RUNTIME_CATEGORIES
from cudalens.frames.build import STEP_PREFIX, innermost_event

if TYPE_CHECKING:
    from cudalens.frames import Trace


#: A first step is cold from 1.5 times the longest other step on; caches and clocks alone make up to some tenths.
_MIN_STEPS: Final = 4
_COLD: Final = 1.5
_TAIL_SHARE: Final = 0.20

#: A first call of an operator takes at least this many times as long as each later one.
_MUCH: Final = 5

#: Causes of idle time in which the host prepared the next work, and had nothing to wait for.
_HOST_IS_SLOW: Final = ("sync", "launch")

#: Of so many of the longest events of the host the one that overlaps idle time the most is named.
_MOST_ROWS: Final = 100

_PAGES_TO_HOST: Final = r"DtoH.*\(Unified\)"
_ON_PAGES: Final = (
    "initialize, check and reduce the data on the GPU, or leave the host's loop out of the recording: it reads or "
    "writes page by page"
)

#: Where fewer of the launches are recorded, gaps have no cause.
_FEW_LAUNCHES: Final = 0.5

_NOT_RECORDED: Final = (
    "the recorded work does not explain this: kernels are missing from the trace (dropped records, another library), "
    "another process used the GPU (nvidia-smi), or the driver of Windows submits work in batches; compare with nsys"
)

#: What the host did in idle time, by cause, in the sentence about time that no finding explains.
_LEFT: Final = {
    "check": "in checks of replays",
    "garbage": "in Python's garbage collection",
    "loader": "waiting for data",
    "record": "recording CUDA graphs",
    "compile": "compiling or loading code",
    "allocate": "in driver memory",
    "profiler": "in the profiler itself",
    "sync": "after the host had waited for the GPU",
    "driver_calls": "in long driver calls",
    "host_work": "while the host did other work",
    "launch": "while the host was launching",
    "queued": "between pieces of work that were launched in time",
    "ends": "before the first or after the last work",
    "device": "before work whose launch is not recorded, or that waited for other work",
}


def first_step(arrays: TraceArrays) -> Iterator[Finding]:
    """``cold_start``: the first of at least four steps took 1.5 times as long as the longest of the others, or more.

    Gain: the first step's length minus the median of the others.
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
    gain = int(lengths[0]) - usual
    yield arrays.finding("cold_start", "a slow first step", what, gain, advice, "high", rows=rows[:1])


def idle_ends(arrays: TraceArrays) -> Iterator[Finding]:
    """``idle_ends``: the device had no work for a fifth of the window, before its first or after its last work.

    Gain: the longer of the two times, without reading data, compiling and other causes that have a rule. The measured
    window of a file begins and ends with device work or a profiler step; there the finding needs an event of the host
    that takes a tenth of the time.
    """
    outside, first = arrays.idle.outside, arrays.busy.start[:1]
    if not len(outside.start):
        return
    is_before = outside.start < first
    lengths = outside.end - outside.start
    before, after = int(lengths[is_before].sum()), int(lengths[~is_before].sum())
    gain = max(before, after)
    if gain < _TAIL_SHARE * arrays.wall_ns or gain < LONG_NS:
        return
    where, at = ("before its first", 0) if before >= after else ("after its last", int(np.argmax(arrays.work.end)))
    part = is_before if before >= after else ~is_before
    row, took_ns = _main_host_row(arrays, Intervals(outside.start[part], outside.end[part]))
    if row < 0 and arrays.is_file:
        return
    name = "" if row < 0 else f"; the host was longest in {arrays.name_of(row)}"
    took = "" if row < 0 else f" ({units.duration(took_ns)})"
    what = f"the GPU had no work for {units.duration(gain)} {where} work{name}{took}."
    if row >= 0 and before >= after and _is_first_call(arrays, row):
        advice = (
            "measure after a warm-up, %%cudaprofile --warmup 3: first calls create the context and load libraries; if "
            "it is as long in each run, overlap it with GPU work"
        )
    else:
        advice = "profile only the part that uses the GPU, or overlap the host's part with GPU work"
    rows = arrays.work.rows[at : at + 1] if row < 0 else np.array([row])
    yield arrays.finding(
        "idle_ends", "a GPU without work", what, gain, advice, "medium",
        rows=rows, place=None if row < 0 else arrays.place(row), is_idle=True,
    )  # fmt: skip


def _is_first_call(arrays: TraceArrays, row: int) -> bool:
    """Whether a row is a call of the runtime, or the first and much the longest operator of its name."""
    if arrays.is_in(*RUNTIME_CATEGORIES)[row]:
        return True
    codes = arrays.events["name"].array.codes
    same = np.flatnonzero((codes == codes[row]) & arrays.is_in("cpu_op"))
    others = arrays.dur[same[1:]]
    return row in same[:1] and int(arrays.dur[row]) >= _MUCH * int(others.max(initial=0))


def unexplained(arrays: TraceArrays, left: Mapping[str, int]) -> Iterator[Finding]:
    """``idle``: the devices were idle for a fifth of the window or more for reasons that no other finding has.

    Gain: that time.

    Args:
        arrays: The Trace.
        left: Idle time that no finding claims by its cause, as `cudalens.analysis.findings.finding` has it, ns.
    """
    gain = sum(left.values())
    if gain < _TAIL_SHARE * arrays.wall_ns:
        return
    parts = sorted(((ns, cause) for cause, ns in left.items() if ns >= gain / 20), reverse=True)
    title, advice, names = "idle time of the GPU without a recorded cause", _advice_for(arrays, parts[0][1]), _LEFT
    if parts[0][1] in _HOST_IS_SLOW:
        title = "a host that is slower than the GPU"
    on_pages = parts[0][1] == "device" and 2 * _beside_pages_ns(arrays) >= gain
    if on_pages:
        title, advice = "a host that works on managed memory", _ON_PAGES
        names = _LEFT | {"device": "mostly after pages of managed memory had moved to the host, which worked on them"}
    in_time = parts[0][1] == "device" and not on_pages and 2 * _launched_in_time_ns(arrays) >= gain
    if in_time:
        names = _LEFT | {"device": "before work that the host had launched in time, and that began late"}
        advice = _NOT_RECORDED
    if parts[0][1] == "device" and not on_pages and (arrays.work.launch >= 0).mean() < _FEW_LAUNCHES:
        advice = "the launches of this work are not recorded: ranges of the program (record_function) show its part"
    listed = ", ".join(f"{units.duration(ns)} {names[cause]}" for ns, cause in parts)
    what = f"the GPU was idle for {units.duration(gain)} ({arrays.share(gain)} of the window): {listed}."
    if parts[0][1] == "device" and not on_pages and not (arrays.work.launch >= 0).any():
        named = _longest_beside(arrays)
        if named is not None:
            what += f" The host was longest in {arrays.name_of(named[0])} ({units.duration(named[1])} of it)."
    rows = arrays.work.rows[:1]
    yield arrays.finding(
        "idle", title, what, gain, advice, "medium",
        rows=rows, is_idle=True,
    )  # fmt: skip


def _launched_in_time_ns(arrays: TraceArrays) -> int:
    """Idle time of the devices after the launch of the work that ended it, where that is `MAX_LATENCY_NS` or more."""
    start, end = arrays.busy.end[:-1], arrays.busy.start[1:]
    launch = arrays.work.launch[np.searchsorted(arrays.work.start, end, "left")]
    late = end - np.maximum(arrays.end[np.maximum(launch, 0)], start)
    return int(late[(launch >= 0) & (late >= MAX_LATENCY_NS)].sum())


def _beside_pages_ns(arrays: TraceArrays) -> int:
    """Idle time of the devices after pages of managed memory moved to the host, which then reads or writes them."""
    to_host = arrays.end[arrays.matching(_PAGES_TO_HOST, "gpu_memcpy")]
    start, end = arrays.busy.end[:-1], arrays.busy.start[1:]
    return int((end - start)[np.isin(start, to_host)].sum())


def _longest_beside(arrays: TraceArrays) -> tuple[int, int] | None:
    """The host's row that was longest while the devices were idle, and that time, ns; None below a tenth of it."""
    idle = Intervals(arrays.busy.end[:-1], arrays.busy.start[1:])
    is_call = arrays.is_in("Trace", "overhead") | arrays.is_named(_NOT_CALLS)
    rows = np.flatnonzero((arrays.thread >= 0) & ~is_call & (arrays.self_dur > 0))
    rows = rows[np.argsort(-arrays.self_dur[rows], kind="stable")][:_MOST_ROWS]
    overlaps = [length(intersect(idle, arrays.time_of(rows[k : k + 1]))) for k in range(len(rows))]
    if not overlaps or max(overlaps) < length(idle) / 10:
        return None
    longest = int(np.argmax(overlaps))
    return int(rows[longest]), overlaps[longest]


def _mostly_in(arrays: TraceArrays) -> tuple[int, int] | None:
    """The host's row of the name in which it was the most while the devices were idle, and that time, ns."""
    start, end = arrays.busy.end[:-1], arrays.busy.start[1:]
    launch = arrays.work.launch[np.searchsorted(arrays.work.start, end, "left")]
    start, end, launch = start[launch >= 0], end[launch >= 0], launch[launch >= 0]
    pid, tid = (arrays.events[name].array[launch] for name in ("pid", "tid"))
    running = innermost_event(arrays.events, (start + end) // 2, pid, tid)
    known = running >= 0
    if not known.any():
        return None
    running, lengths = running[known], (end - start)[known]
    codes = arrays.events["name"].array.codes[running]
    total = np.bincount(codes, lengths)
    most = int(np.argmax(total))
    at = int(np.argmax(np.where(codes == most, lengths, -1)))
    return int(running[at]), int(total[most])


def _advice_for(arrays: TraceArrays, cause: str) -> str:
    """What to record or look at, by the largest cause."""
    if not (arrays.thread >= 0).any():
        return "record the host too (operators and runtime calls): the trace has only device work"
    if cause == "device" and not arrays.has_torch and len(arrays.matching(_PAGES_TO_HOST, "gpu_memcpy")):
        return "name the host's work with NVTX ranges: it ends when it touches a page of managed memory"
    if cause == "device":
        return "cudalens.analysis.idle_time(trace) has each gap with the work that it waited for"
    if arrays.has_python:
        named = _mostly_in(arrays)
        if named is None:
            return "cudalens.analysis.idle_time(trace) has each gap with the host's line"
        return (
            f"look at {arrays.name_of(named[0])}, in which the host was for {units.duration(named[1])} of it; "
            "cudalens.analysis.idle_time(trace) has each gap"
        )
    if arrays.trace.info.source == "file:nsys" and arrays.has_torch:
        return "nsys profile --python-sampling=true records the host's lines in each gap"
    if cause in _HOST_IS_SLOW and not arrays.has_torch:
        return "give the GPU more work at a time: fewer and larger kernels and copies; the waits alone do not cost this"
    if not arrays.is_in("cpu_op").any():  # nsys of a program in C++, which has no Python stacks
        return "name the host's work with NVTX ranges: only its calls of the runtime are recorded"
    return "record with --stacks (with_stack=True): the host's lines in each gap"


def _main_host_row(arrays: TraceArrays, times: Intervals) -> tuple[int, int]:
    """The host event that explains most of `times`, and its time, ns; -1 and 0 for none of a tenth of them.

    Of those that begin within `times`, it is the innermost one that covers half of them, be it by many short calls
    within it; without one, that with the longest self time.
    """
    at = np.searchsorted(times.start, arrays.ts, "right") - 1
    inside = (at >= 0) & (arrays.ts < times.end[np.maximum(at, 0)]) & (arrays.thread >= 0)
    inside &= ~arrays.is_in("Trace", "overhead") & ~arrays.is_named(f"^{STEP_PREFIX}|{WAITING}")
    rows = np.flatnonzero(inside)
    if not len(rows):
        return -1, 0
    covered = np.minimum(arrays.end[rows], times.end[at[rows]]) - arrays.ts[rows]
    most = covered >= length(times) / 2
    if most.any():
        inner = int(np.argmin(np.where(most, covered, np.iinfo(np.int64).max)))
        return int(rows[inner]), int(covered[inner])
    row = int(rows[np.argmax(arrays.self_dur[rows])])
    own = int(arrays.self_dur[row])
    return (row, own) if own >= length(times) / 10 else (-1, 0)


#: A call of the runtime before the first work that takes this long creates the context.
_CONTEXT_NS: Final = 20_000_000
#: Unless it waits: then it is for work from before the recording.
_WAIT: Final = r"^(?:cuda|cu|hip)(?:Device|Stream|Event|Ctx)Synchronize"


#: The name of the time in which no event of the host was recorded.
NOTHING: Final = "nothing recorded"


_READ: Final = (
    r"^(?:p?read(?:64|v)?|fread|f?open(?:at)?|mmap)$|\btorch[./]serialization\.py|\bload_state_dict\b"
    r"|\bfrom_pretrained\b"
)


_WARMUP: Final = r"(?i)warm.?up"


_NOT_CALLS: Final = rf"^{STEP_PREFIX}|{WAITING}"


#: What the host did, by patterns of names; of several at a time, the first.
_CAUSES: Final = {
    "compiling or loading code": COMPILE,
    "allocating driver memory": ALLOCATE,
    "waiting for data": LOADER,
    "reading files": _READ,
    "a warm-up": _WARMUP,
}


@dataclass(frozen=True)
class OutsideTime:
    """The part of a recording before or after its measured window.

    Attributes:
        is_before: Whether it is before the window.
        length_ns: Its length.
        causes: What the host did, with the time of each, longest first; their sum is `length_ns`.
        longest: The name of the host's event with the longest self time in it; None if nothing was recorded.
        longest_ns: That time.
    """

    is_before: bool
    length_ns: int
    causes: tuple[tuple[str, int], ...]
    longest: str | None
    longest_ns: int


@once_per_trace
def outside_times(trace: Trace) -> tuple[OutsideTime, ...]:
    """The parts of `trace` before and after its measured window, without empty ones."""
    arrays = TraceArrays(trace)
    window = arrays.window
    sides = (
        (True, window.recorded_start, window.start),
        (False, window.end, window.recorded_end),
    )
    return tuple(_outside_time(arrays, *side) for side in sides if side[2] > side[1])


def _outside_time(arrays: TraceArrays, is_before: bool, start: int, end: int) -> OutsideTime:
    part = union(np.array([start]), np.array([end]))
    remaining, causes = part, []
    calls = np.flatnonzero(arrays.is_in(*RUNTIME_CATEGORIES))
    found = []
    if is_before:
        first_calls = calls[(arrays.ts[calls] < arrays.window.start) & (arrays.dur[calls] >= _CONTEXT_NS)]
        is_wait = arrays.is_named(_WAIT)[first_calls]
        found.append(("creating the context", first_calls[~is_wait]))
        found.append(("waiting for earlier work", first_calls[is_wait]))
    found += [(name, arrays.host(pattern)) for name, pattern in _CAUSES.items()]
    others = np.flatnonzero((arrays.thread >= 0) & ~arrays.is_in("Trace", "overhead"))
    others = others[~arrays.is_named(_NOT_CALLS, others)]
    in_ops = np.flatnonzero(arrays.is_in("cpu_op"))
    found += [("operators", in_ops), ("other calls of the runtime", calls), ("other recorded events", others)]
    for name, rows in found:
        times = intersect(remaining, arrays.time_of(rows))
        remaining = subtract(remaining, times)
        causes.append((name, length(times)))
    causes.append((NOTHING, length(remaining)))
    known = tuple(sorted((cause for cause in causes if cause[1]), key=lambda cause: -cause[1]))
    row, row_ns = _longest_row(arrays, part)
    return OutsideTime(is_before, end - start, known, None if row < 0 else arrays.name_of(row), row_ns)


def _longest_row(arrays: TraceArrays, part: Intervals) -> tuple[int, int]:
    """The host's row with the most self time in `part`, limited to it, and that time; -1 and 0 if there is none."""
    start, end = int(part.start[0]), int(part.end[0])
    inside = (arrays.thread >= 0) & (arrays.ts < end) & (arrays.end > start)
    inside &= ~arrays.is_in("Trace", "overhead") & ~arrays.is_named(_NOT_CALLS)
    rows = np.flatnonzero(inside)
    if not len(rows):
        return -1, 0
    overlap = np.minimum(arrays.end[rows], end) - np.maximum(arrays.ts[rows], start)
    own = np.minimum(arrays.self_dur[rows], overlap)
    at = int(np.argmax(own))
    return int(rows[at]), int(own[at])
