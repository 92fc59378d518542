"""Attribute the idle time of the devices that the host caused: what did the host do in each gap?

A gap between device work is the host's if the work that ends it was launched too late: the launch began after the gap
did, minus the time in which the fastest launches of the same trace reach the device; or if the launch took `PAUSE_NS`
or longer, and returned after the gap had begun. Within the host's gaps, reasons are assigned in this order. For 2 and 3
a gap ends where the launch returned, if its work began `PAUSE_NS` later and the host launched more in between: the rest
is the driver's, which can submit work in batches.

1. checks of replays, reading data, recording graphs, compiling, driver memory, the profiler itself;
2. of the rest of a gap that begins while the host waits for the GPU (the wait emptied the queue): the part up to the
   end of the wait, and the part after it unless that is `LONG_NS` or longer, or within a call of `PAUSE_NS` or longer;
3. of the rest, parts of `LONG_NS` or longer are other work of the host, and so are parts of `PAUSE_NS` or longer
   in which no thread was in any recorded event (where Python calls are not recorded); shorter ones are launching.

Before the first and after the last device work, the first step is the same, and the rest is `IdleTime.outside`. So the
parts are disjoint, and their sum is at most the time of the window in which no device was at work.

`cudalens.analysis.time.idle` has a row for each gap, of every device or stream and with every cause; the host is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from cudalens.analysis.summary import window_on_clock
from cudalens.analysis.time.groups import Intervals, intersect, subtract, union, unite
from cudalens.frames import RUNTIME_CATEGORIES
from cudalens.frames.build import innermost_event
from cudalens.frames.column_arrays import Bools, Ints

if TYPE_CHECKING:
    from cudalens.analysis.findings.trace_arrays import TraceArrays

#: A host that launches nothing for this long does other work: launching an operator takes some 10 µs.
LONG_NS: Final = 1_000_000

#: A host that is in no event for this long does other work, too: Python between two operators takes some 10 µs.
PAUSE_NS: Final = 100_000

#: A launch reaches an idle device sooner than this (5 µs is usual), unless their clocks differ.
MAX_LATENCY_NS: Final = 20_000

#: By how much a wait can seem to end before the work that it waited for, because clocks differ.
_SKEW_NS: Final = 5_000

LOADER: Final = r"^enumerate\(DataLoader\)#"
COMPILE: Final = (
    r"\(dynamo_timed\)$|^Lazy Function Loading$|\bModule (?:Unl|L)oading$"
    r"|^(?:cu|cuda|hip)(?:Module|Library)(?:Unl|L)oad|^TorchDynamo Cache Miss"
    r"|^(?:nvrtc|hiprtc)CompileProgram|^cuLink(?:AddData|Complete|Create)"
    r"|[/\\]torch[/\\]_(?:dynamo|inductor)[/\\].*: (?:_?compile|compile_fx|compile_inner)\w*$"
    r"|[/\\]torch[/\\]utils[/\\]cpp_extension\.py\(\d+\): |[/\\]triton[/\\]compiler[/\\].*: compile$"
)
#: Recordings of CUDA graphs by torch.compile: its timer, and the Python call around it.
RECORD: Final = r"^CUDAGraphNode\.record\b|[/\\]cudagraph_trees\.py\(\d+\): record_function$"
#: The calls around the capture of a stream into a CUDA graph: what is launched between them does not run.
BEGIN_CAPTURE: Final = r"^(?:cuda|cu|hip)StreamBeginCapture"
END_CAPTURE: Final = r"^(?:cuda|cu|hip)StreamEndCapture"
ALLOCATE: Final = (
    r"^(?:cuda|hip)(?:Malloc|MallocAsync|Free|FreeAsync|HostAlloc|HostMalloc|MallocHost|FreeHost|HostFree"
    r"|MallocPitch|Malloc3D|MallocArray|Malloc3DArray|MallocManaged|FreeArray|HostRegister|HostUnregister)$"
    r"|^cuMem(?:Alloc|AllocPitch|AllocManaged|AllocHost|HostAlloc|HostRegister|Free|FreeHost|Create|Map|Unmap|Release"
    r"|SetAccess|AddressReserve)(?:_v\d)?$|^cuArray(?:3D)?(?:Create|Destroy)(?:_v\d)?$"
)
PROFILER: Final = r"^(?:Activity Buffer Request|Buffer Flush|Instrumentation|Resource)$"

#: Ours, and torch's own (``record_python_gc_info``).
GARBAGE: Final = r"^Python (?:garbage collection|GC)$"

REASONS: Final = {
    "garbage": GARBAGE,
    "loader": LOADER,
    "record": RECORD,
    "compile": COMPILE,
    "allocate": ALLOCATE,
    "profiler": PROFILER,
}


@dataclass(frozen=True)
class Gaps:
    """Idle gaps, or parts of gaps, with one reason; arrays of shape (n,).

    Attributes:
        start: Start, ns.
        end: End, ns.
        ended_by: Index of the device work that ended the whole gap.
        wait: Row of ``trace.syncs`` in which the gap began, -1 for none.
    """

    start: Ints
    end: Ints
    ended_by: Ints
    wait: Ints

    @property
    def length(self) -> Ints:
        """Length of each, ns."""
        return self.end - self.start

    @property
    def total_ns(self) -> int:
        """Length of all, ns."""
        return int(self.length.sum())

    @property
    def num_gaps(self) -> int:
        """The number of gaps of which these are parts."""
        return len(np.unique(self.ended_by))

    def select(self, chosen: Bools) -> Gaps:
        """The `chosen` ones that are not empty."""
        chosen = chosen & (self.end > self.start)
        return Gaps(self.start[chosen], self.end[chosen], self.ended_by[chosen], self.wait[chosen])


@dataclass(frozen=True)
class IdleTime:
    """The idle time that the host caused, by reason, and the devices' own gaps.

    Attributes:
        by_event: Times within events of the host, before the first and after the last work as well: check, garbage,
            loader, record, compile, allocate, profiler.
        sync: Gaps after waits for the GPU.
        host_work: Gaps in which the host did other work.
        outside: The rest of the window before the first and after the last work.
        launch: Gaps in which the host was launching.
        queued: Gaps shorter than `MAX_LATENCY_NS` before work that was launched in time: what a device needs between
            two pieces of work.
    """

    by_event: dict[str, Intervals]
    sync: Gaps
    host_work: Gaps
    launch: Gaps
    queued: Gaps
    outside: Intervals


def attribute_idle(arrays: TraceArrays) -> IdleTime:
    """Divide the idle time of the devices by what the host did."""
    gaps, is_host, wait_end = _gaps(arrays)
    remaining, outside = union(gaps.start[is_host], gaps.end[is_host]), _outside(arrays)
    by_event = {}
    reasons = {"check": arrays.time_of(arrays.check_rows)}
    reasons |= {reason: arrays.time_of(arrays.matching(pattern)) for reason, pattern in REASONS.items()}
    reasons["record"] = unite(reasons["record"], arrays.captures)
    for reason, times in reasons.items():
        by_event[reason] = intersect(unite(remaining, outside), times)
        remaining, outside = subtract(remaining, times), subtract(outside, times)
    queued = gaps.select(~is_host & (gaps.length < MAX_LATENCY_NS))
    remaining = subtract(remaining, _begun_late(arrays, gaps))
    return IdleTime(by_event, *_divided(arrays, remaining, gaps, wait_end), queued, outside)


def _begun_late(arrays: TraceArrays, gaps: Gaps) -> Intervals:
    """The parts of gaps after the return of the launch of the work that ends them, if that is `PAUSE_NS` late.

    Those in which the host launches later work, so that it is ahead; without long calls of the runtime, which show what
    the work waits for.
    """
    launch = arrays.work.launch[gaps.ended_by]
    at, dur = arrays.ts[np.maximum(launch, 0)], arrays.dur[np.maximum(launch, 0)]
    returned = np.maximum(at + dur, gaps.start)
    launches = np.sort(arrays.ts[arrays.work.launch[arrays.work.launch >= 0]])
    is_ahead = np.searchsorted(launches, gaps.end) > np.searchsorted(launches, returned)
    is_late = (launch >= 0) & (dur < PAUSE_NS) & (gaps.end - returned >= PAUSE_NS) & is_ahead
    calls = np.flatnonzero(arrays.is_in(*RUNTIME_CATEGORIES) & (arrays.dur >= PAUSE_NS))
    return subtract(union(returned[is_late], gaps.end[is_late]), arrays.time_of(calls))


def _outside(arrays: TraceArrays) -> Intervals:
    """The measured window before the first and after the last device work; empty without device work."""
    busy, host = arrays.busy, np.flatnonzero(arrays.thread >= 0)
    if not len(busy.start) or not len(host):
        return busy
    first, last = int(busy.start[0]), int(busy.end[-1])
    begin, end = arrays.window.start, arrays.window.end
    if not arrays.is_file:
        begin = min(int(arrays.ts[host].min()), first)
        end = max(int(arrays.end[host].max()), last)
        begin, end = window_on_clock(arrays.trace.info, begin, end)
    return union(np.array([min(begin, first), last]), np.array([first, max(end, last)]))


def _gaps(arrays: TraceArrays) -> tuple[Gaps, Bools, Ints]:
    """The gaps between device work, which of them the host caused, and the end of the wait that each begins in."""
    work, busy = arrays.work, arrays.busy
    start, end = busy.end[:-1], busy.start[1:]
    first = np.searchsorted(work.start, end, "left")
    launch = work.launch[first]
    at = arrays.ts[np.maximum(launch, 0)]
    delay = end - at
    sane = (launch >= 0) & (delay >= 0) & (delay <= MAX_LATENCY_NS)
    latency = int(np.percentile(delay[sane], 5)) if sane.any() else 0
    wait, wait_end = _waits_at(arrays, start)
    # A first launch loads code: the device can become idle while the host is in it.
    returns = arrays.end[np.maximum(launch, 0)]
    is_slow = (returns - at >= PAUSE_NS) & (returns > start)
    return Gaps(start, end, first, wait), (launch >= 0) & ((at + latency > start) | is_slow), wait_end


def _divided(arrays: TraceArrays, rest: Intervals, gaps: Gaps, wait_end: Ints) -> tuple[Gaps, Gaps, Gaps]:
    """What remains of the host's gaps: after waits, in other work, launching."""
    pauses = _pauses(arrays)  # what remains is cut at their ends
    parts = (intersect(rest, pauses), subtract(rest, pauses))
    order = np.argsort(np.concatenate([part.start for part in parts]), kind="stable")
    rest = Intervals(*(np.concatenate([getattr(part, name) for part in parts])[order] for name in ("start", "end")))
    of_gap = np.searchsorted(gaps.start, rest.start, "right") - 1
    ended_by, wait = gaps.ended_by[of_gap], gaps.wait[of_gap]
    has_wait = wait >= 0
    # Each is cut in two at the end of the wait; without a wait the second part is all of it.
    cut = np.clip(np.where(has_wait, wait_end[of_gap], rest.start), rest.start, rest.end)
    within, after = Gaps(rest.start, cut, ended_by, wait), Gaps(cut, rest.end, ended_by, wait)
    is_long = (after.length >= LONG_NS) | (~has_wait & _is_pause(arrays, after)) | _is_in_long_call(arrays, after)
    waited = (within.select(has_wait), after.select(has_wait & ~is_long))
    fields = ("start", "end", "ended_by", "wait")
    sync = Gaps(*(np.concatenate([getattr(part, name) for part in waited]) for name in fields))
    return sync, after.select(is_long), after.select(~is_long & ~has_wait)


def _is_in_long_call(arrays: TraceArrays, parts: Gaps) -> Bools:
    """Which parts of gaps lie in a call of the runtime that takes `PAUSE_NS` or longer: a first launch loads code."""
    found = np.zeros(len(parts.start), bool)
    long = np.flatnonzero(parts.length >= PAUSE_NS)
    if not len(long):
        return found
    middle = (parts.start[long] + parts.end[long]) // 2
    launch = arrays.work.launch[parts.ended_by[long]]
    pid, tid = (arrays.events[name].array[launch] for name in ("pid", "tid"))
    running = innermost_event(arrays.events, middle, pid, tid)
    is_call = arrays.is_in(*RUNTIME_CATEGORIES)[running] & (arrays.dur[running] >= PAUSE_NS) & (running >= 0)
    found[long] = is_call & (launch >= 0)
    return found


def _pauses(arrays: TraceArrays) -> Intervals:
    """Times of `PAUSE_NS` or longer in which no thread was in an operator or call; none where Python was recorded."""
    rows = np.flatnonzero(arrays.is_in("cpu_op", *RUNTIME_CATEGORIES, "overhead"))
    busy = arrays.time_of(rows)
    start, end = busy.end[:-1], busy.start[1:]
    some = (end - start >= PAUSE_NS) & (not arrays.has_python)
    return Intervals(start[some], end[some])


def _is_pause(arrays: TraceArrays, parts: Gaps) -> Bools:
    """Which parts lie in a pause."""
    pauses = _pauses(arrays)
    if not len(pauses.start):
        return np.zeros(len(parts.start), bool)
    at = np.searchsorted(pauses.start, parts.start, "right") - 1
    inside: Bools = (at >= 0) & (parts.end <= pauses.end[at])
    return inside & (parts.length >= PAUSE_NS // 2)


def _waits_at(arrays: TraceArrays, at: Ints) -> tuple[Ints, Ints]:
    """The wait for the GPU that the host is in at each instant (a row of ``trace.syncs``, -1 for none), and its end."""
    syncs = arrays.trace.syncs
    known = np.flatnonzero(syncs["dur"].notna().to_numpy())
    if not len(known):
        return np.full(len(at), -1, np.int64), np.zeros(len(at), np.int64)
    start = syncs["ts"].to_numpy()[known]
    end = start + syncs["dur"].array[known].to_numpy(dtype=np.int64)
    order = np.argsort(start, kind="stable")
    # The host returns some microseconds after the device has ended, unless their clocks differ by as much.
    place = np.searchsorted(start[order], at, "right") - 1
    found = order[np.maximum(place, 0)]
    inside = (place >= 0) & (end[found] >= at - _SKEW_NS)
    return np.where(inside, known[found], -1), np.where(inside, end[found], 0)
