"""`TraceArrays`: one Trace as arrays, with the queries that several rules share; each result is computed once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from cudalens.analysis import units
from cudalens.analysis.critical_path.dependencies import Window
from cudalens.analysis.critical_path.path import whole_window
from cudalens.analysis.event_arrays import EventArrays, nearest
from cudalens.analysis.findings.finding import MAX_ROWS, Confidence, Finding, Replays, without_host, without_waits
from cudalens.analysis.findings.idle_attribution import (
    ALLOCATE,
    BEGIN_CAPTURE,
    COMPILE,
    END_CAPTURE,
    LONG_NS,
    PAUSE_NS,
    PROFILER,
    RECORD,
    IdleTime,
    attribute_idle,
)
from cudalens.analysis.short_names import names_in_short
from cudalens.analysis.summary import measured_window
from cudalens.analysis.time.groups import Intervals, length, subtract, taken, union
from cudalens.analysis.time.roofline import Calls
from cudalens.analysis.time.work import COMPUTE, uses_torch
from cudalens.analysis.trust.device import share_of_lost_work
from cudalens.analysis.trust.host import FILTERED, missing_work, share_of_gaps
from cudalens.frames import RUNTIME_CATEGORIES, Trace
from cudalens.frames.build import REPLAY_CHECK, innermost_event
from cudalens.frames.column_arrays import Bools, Ints, combined, integers
from cudalens.frames.stacks import ENTRY_COLUMNS, enclosing_entries, entry_text, user_place

_AMD: Final = re.compile(r"\bAMD\b|Instinct|Radeon|gfx\d")
#: Runtimes without CUDA graphs.
OTHER_RUNTIMES: Final = tuple(cat for cat in RUNTIME_CATEGORIES if not cat.startswith(("cuda", "hip")))

_NO_ROWS: Final = np.empty(0, np.int64)

#: One-off work that is idle time of this share of the window is worth an estimate of the time without it.
_ONE_OFF_SHARE: Final = 0.1

#: If the work of so many launches is not recorded, the devices were busy in gaps of the record.
_LOST: Final = 0.5

#: Operators of libraries; older traces have steps and other ranges among the operators.
_OPERATOR: Final = r"^(?!autograd::engine)[A-Za-z_]\w*::\w"

_WARMUP: Final = r"(?i)warm.?up"

#: The compute capability from which on devices have tensor cores.
_TENSOR_CORES: Final = 7.0

#: The wait with which ``torch.cuda.graph`` begins, and how much work it launches before the capture.
_DEVICE_WAIT: Final = r"^(?:cuda|hip)DeviceSynchronize\b"
_MAX_PREPARING: Final = 2

_TRAINING: Final = r"^autograd::engine|^Optimizer\.step#"

#: The ranges of torch.compile around its kernels, and the names of the kernels.
COMPILED_REGION: Final = r"^Torch-Compiled Region\b|^## Call CompiledFxGraph\b|^CompiledFunction"
_COMPILED_KERNEL: Final = r"^triton_(?:poi|red|per|tem)_"


class LongCalls(NamedTuple):
    """What the host did in gaps of its other work (`IdleTime.host_work`); arrays of the shape of the gaps.

    Attributes:
        running: The innermost event in the middle of the gap on the thread that then launched, -1 for none; the launch
            itself if that came before and took `PAUSE_NS` or longer.
        in_call: Whether that is a call of the runtime or driver.
    """

    running: Ints
    in_call: Bools


class TraceArrays(EventArrays):
    """One Trace as the rules of findings use it.

    Attributes:
        window: The measured window.
        wall_ns: Its length, to which shares refer, ns.
    """

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self.window = measured_window(trace)
        self.wall_ns = self.window.length_ns
        self._matches: dict[tuple[str, tuple[str, ...]], Ints] = {}

    @cached_property
    def thread(self) -> Ints:
        """A number for each host thread (process and thread), -1 for device work."""
        tid, pid = (self.events[name] for name in ("tid", "pid"))
        return np.where(tid.isna(), -1, combined(integers(pid), integers(tid)))

    @cached_property
    def has_python(self) -> bool:
        """Whether Python calls were recorded, which slows the host."""
        return bool(self.is_in("python_function").any())

    @cached_property
    def has_torch(self) -> bool:
        """Whether the program uses torch, by its operators, Python calls or kernels: advice can name its API."""
        return uses_torch(self.trace)

    @cached_property
    def is_training(self) -> bool:
        """Whether a backward pass or a step of an optimizer was recorded."""
        return bool(self.is_named(_TRAINING).any())

    @cached_property
    def is_inference(self) -> bool:
        """Whether operators were recorded, and none of a backward pass or of an optimizer."""
        return bool(self.is_in("cpu_op").any()) and not self.is_training

    @cached_property
    def is_compiled(self) -> bool:
        """Whether torch.compile made some of the kernels or launched them."""
        return bool(len(self.matching(_COMPILED_KERNEL, "kernel")) or len(self.host(COMPILED_REGION)))

    @property
    def is_file(self) -> bool:
        """Whether another program recorded the trace, so that the recording is not the measured window."""
        return self.trace.info.source.startswith("file:")

    @cached_property
    def is_cpu_run(self) -> bool:
        """Whether the run used no device: without device work that was recorded, or that is missing."""
        return not len(self.work.rows) and missing_work(self.trace) is None

    @cached_property
    def is_filtered(self) -> bool:
        """Whether operators were removed from the file, so that its idle time is not that of the run."""
        return self.is_file and share_of_gaps(self.trace) >= FILTERED

    @cached_property
    def lacks_work(self) -> bool:
        """Whether the work of most launches is not recorded, so that idle time is not that of the devices."""
        return self.is_file and share_of_lost_work(self.trace) >= _LOST

    @cached_property
    def idle(self) -> IdleTime:
        """The idle time of the devices that the host caused, by reason."""
        return attribute_idle(self)

    @cached_property
    def busy(self) -> Intervals:
        """When any device was at work."""
        return union(self.work.start, self.work.end)

    @cached_property
    def span_ns(self) -> int:
        """From the first start to the last end of device work, ns; 0 without device work."""
        return int(self.busy.end[-1] - self.busy.start[0]) if len(self.busy.start) else 0

    @cached_property
    def captures(self) -> Intervals:
        """From the begin to the end of each capture of a stream into a CUDA graph, on the thread that captured.

        With torch, from the end of the wait with which ``torch.cuda.graph`` begins: it then collects garbage, and frees
        the memory that the allocator keeps. Before the capture it launches no more than the state of random generators.
        """
        begins, ends = (np.flatnonzero(self.is_named(pattern)) for pattern in (BEGIN_CAPTURE, END_CAPTURE))
        start, end = [], []
        for thread in np.unique(self.thread[begins]):
            first, last = begins[self.thread[begins] == thread], ends[self.thread[ends] == thread]
            place = np.searchsorted(self.ts[last], self.ts[first])
            known = place < len(last)
            start.append(self._prepared(self.ts[first[known]], int(thread)))
            end.append(self.end[last[place[known]]])
        if not start:
            return Intervals(_NO_ROWS, _NO_ROWS)
        return union(np.concatenate(start), np.concatenate(end))

    def _prepared(self, begin: Ints, thread: int) -> Ints:
        """When the preparations of the captures that begin at `begin` on a thread began, ns."""
        waits = np.flatnonzero(self.is_named(_DEVICE_WAIT) & (self.thread == thread))
        if not self.has_torch or not len(waits):
            return begin
        ended = np.sort(self.end[waits])
        place = np.searchsorted(ended, begin, "right") - 1
        waited = ended[np.maximum(place, 0)]
        launch = self.work.launch[self.work.launch >= 0]
        launched = np.sort(self.ts[launch[self.thread[launch] == thread]])
        number = np.searchsorted(launched, begin) - np.searchsorted(launched, waited)
        return np.where((place >= 0) & (number <= _MAX_PREPARING), waited, begin)

    @cached_property
    def long_calls(self) -> LongCalls:
        """What the host did in the gaps of its other work."""
        gaps = self.idle.host_work
        launch = self.work.launch[gaps.ended_by]
        pid, tid = (self.events[name].array[launch] for name in ("pid", "tid"))
        running = innermost_event(self.events, (gaps.start + gaps.end) // 2, pid, tid)
        # A first launch loads code. What follows it, such as a wait for its work, is not why the work begins late.
        is_slow = (launch >= 0) & (self.dur[launch] >= PAUSE_NS) & (self.end[launch] > gaps.start)
        running = np.where(is_slow & (running >= 0) & (self.ts[running] > self.ts[launch]), launch, running)
        return LongCalls(running, self.is_in(*RUNTIME_CATEGORIES)[running] & (running >= 0))

    @cached_property
    def replays(self) -> Replays:
        """What changes of the run gain."""
        window = whole_window(self.trace)
        if self.is_file and len(self.work.rows):
            # With the call that launched the first work of the measured window, and the calls that waited for the last.
            launch = int(self.work.launch[0])
            begin = min(self.window.start, int(self.ts[launch])) if launch >= 0 else self.window.start
            calls = np.flatnonzero(self.is_in(*RUNTIME_CATEGORIES) & (self.ts <= self.window.end))
            window = Window(begin, max(self.window.end, int(self.end[calls].max(initial=begin))))
        return Replays(self.trace, window, self.idle_ns)

    @cached_property
    def steady(self) -> Replays:
        """What changes gain in a run without one-off work: compiling, loading, driver memory, first calls."""
        return self.replays.without(without_host(self.one_off_rows), without_waits(self.one_off_rows))

    @cached_property
    def steady_note(self) -> str:
        """``; without first calls it would take about 1.20 ms``, if that is a tenth shorter; else ""."""
        idle, calls = self.idle, self.long_calls
        one_off_ns = sum(length(idle.by_event[reason]) for reason in ("compile", "record", "allocate"))
        one_off_ns += int(idle.host_work.length[calls.in_call | self.is_first_call].sum())
        if one_off_ns < _ONE_OFF_SHARE * self.wall_ns:
            return ""
        return f"; without first calls the window would take about {units.duration(self.wall_ns - one_off_ns)}"

    @cached_property
    def one_off_rows(self) -> Ints:
        """Host rows that a second run of the same program does not have."""
        named = [self.host(pattern) for pattern in (COMPILE, RECORD, ALLOCATE, PROFILER)]
        calls = self.long_calls
        return np.unique(np.concatenate([self.check_rows, *named, calls.running[calls.in_call | self.is_first_call]]))

    @cached_property
    def is_first_call(self) -> Bools:
        """Which gaps of other host work lie in the first operator of a name; shape of `long_calls`."""
        running, gaps = self.long_calls.running, self.idle.host_work
        is_op = (self.is_in("cpu_op") & self.is_named(_OPERATOR))[running] & (running >= 0)
        codes = self.events["name"].array.codes
        rows = np.flatnonzero(self.is_in("cpu_op"))
        first = np.full(len(self.events["name"].array.categories) + 1, len(codes), np.int64)
        np.minimum.at(first, codes[rows], rows)
        return is_op & (first[codes[running]] == running) & (gaps.length >= LONG_NS)

    @cached_property
    def capability(self) -> float | None:
        """Compute capability of the first device that has one; None if unknown."""
        for device in self.trace.info.devices:
            with suppress(ValueError):
                return float(device.capability or "")
        return None

    @cached_property
    def is_amd(self) -> bool:
        """Whether a device is one of AMD."""
        return any(_AMD.search(device.name) for device in self.trace.info.devices)

    @cached_property
    def has_tensor_cores(self) -> bool:
        """Whether the first device can have tensor cores: from compute capability 7.0 on, except the GTX 16 series."""
        is_gtx_16 = any("GTX 16" in device.name for device in self.trace.info.devices)
        return (self.capability is None or self.capability >= _TENSOR_CORES) and not is_gtx_16

    @cached_property
    def is_geforce(self) -> bool:
        """Whether a device is a GeForce GPU, whose tensor cores are slower than those of others of its capability."""
        return any("GeForce" in device.name for device in self.trace.info.devices)

    @cached_property
    def calls(self) -> tuple[Ints, Calls]:
        """Indices of the computing work, and the operators that launched it."""
        compute = np.flatnonzero(self.work.kind == COMPUTE)
        return compute, Calls(self.trace, taken(self.work, compute))

    @cached_property
    def is_other_device(self) -> bool:
        """Whether the runtime of another device than CUDA's or HIP's was recorded: XPU, MTIA, PrivateUse1."""
        return bool(self.is_in(*OTHER_RUNTIMES).any())

    @property
    def idle_ns(self) -> int:
        """The part of `span_ns` in which no device was at work."""
        return self.span_ns - length(self.busy)

    def matching(self, pattern: str, *cats: str) -> Ints:
        """Rows in whose name `pattern` (a regular expression) is found, of categories `cats` if any; no instants."""
        if (pattern, cats) not in self._matches:
            hits = self.is_named(pattern) & ~self.events["is_instant"].to_numpy() & ~self.is_in_check
            self._matches[pattern, cats] = np.flatnonzero(hits & self.is_in(*cats) if cats else hits)
        return self._matches[pattern, cats]

    @cached_property
    def check_rows(self) -> Ints:
        """The ranges of the host in which cudalens compares replays with calls without a graph."""
        return np.flatnonzero(self.is_named(f"^{REPLAY_CHECK}$") & (self.thread >= 0))

    @cached_property
    def is_in_check(self) -> Bools:
        """Which events are within `check_rows`: a program without ``check=True`` does not have them."""
        is_in_check = np.zeros(len(self.events), bool)
        is_in_check[self.beneath(self.check_rows)] = True
        is_in_check[self.check_rows] = False
        return is_in_check

    def host(self, pattern: str) -> Ints:
        """Rows of host threads in whose name `pattern` is found."""
        rows = self.matching(pattern)
        return rows[self.thread[rows] >= 0]

    def outermost(self, rows: Ints) -> Ints:
        """Those of `rows` whose parent is not one of them."""
        return rows[np.isin(self.parent[rows], rows, invert=True)]

    def outermost_ops(self, rows: Ints) -> Ints:
        """The outermost operator around each of `rows`, or the row itself; without repeats."""
        is_op = self.is_in("cpu_op", *RUNTIME_CATEGORIES)
        found = np.unique(rows)
        while True:
            above = self.parent[found]
            climbs = (above >= 0) & is_op[np.maximum(above, 0)]
            if not climbs.any():
                return found
            found = np.unique(np.where(climbs, above, found))

    def beneath(self, rows: Ints) -> Ints:
        """`rows` and all their descendants."""
        marked = np.zeros(len(self.events), bool)
        marked[rows] = True
        return np.flatnonzero(nearest(marked, self.parent) >= 0)

    def time_of(self, rows: Ints) -> Intervals:
        """The union of the intervals of `rows`."""
        return union(self.ts[rows], self.end[rows])

    def work_time(self, chosen: Ints | Bools) -> Intervals:
        """The union of the intervals of the `chosen` device work."""
        return union(self.work.start[chosen], self.work.end[chosen])

    def is_work(self, rows: Ints) -> Bools:
        """Which device work is one of `rows` (sorted); shape of the work."""
        return np.isin(self.work.rows, rows, assume_unique=True)

    def idle_before(self, chosen: Ints) -> int:
        """Idle time that ended with the `chosen` device work (indices), without that in one-off calls, ns."""
        is_one_off = self.long_calls.in_call | self.is_first_call
        parts = (self.idle.launch, self.idle.queued, self.idle.host_work.select(~is_one_off))
        before_first = Intervals(*(side[self.idle.outside.start < self.busy.start[:1]] for side in self.idle.outside))
        first = length(before_first) if 0 in chosen else 0
        return first + sum(part.select(np.isin(part.ended_by, chosen)).total_ns for part in parts)

    def exposed(self, chosen: Bools) -> int:
        """Time of the `chosen` device work in which no other work ran, ns."""
        return length(subtract(self.work_time(chosen), self.work_time(~chosen)))

    def is_minor(self, gain: int, share: float) -> bool:
        """Whether a gain is 0, or below `share` of the measured window."""
        return not gain or gain < share * self.wall_ns

    def share(self, ns: float) -> str:
        """A time as a percentage of the measured window."""
        return units.percent(100 * ns / self.wall_ns if self.wall_ns else None)

    @cached_property
    def by_launch(self) -> tuple[Ints, Ints, Ints]:
        """Indices of the device work with a known launch by thread and time of the launch; its thread and time."""
        known = np.flatnonzero(self.work.launch >= 0)
        launch = self.work.launch[known]
        order = np.lexsort((self.ts[launch], self.thread[launch]))
        launch = launch[order]
        return known[order], self.thread[launch], self.ts[launch]

    def launched_in(self, first: Ints, last: Ints | None = None) -> tuple[Ints, Ints]:
        """Range of positions in `by_launch` of what was launched from the start of each `first` to the end of `last`.

        Args:
            first: Host rows, shape (n,).
            last: A host row of the same thread for each of `first`; by default `first` itself.

        Returns:
            First position, and one past the last; each of shape (n,).
        """
        _, thread, at = self.by_launch
        until = self.end[first if last is None else last]
        low, high = np.empty(len(first), np.int64), np.empty(len(first), np.int64)
        # Sorted by thread, then by time: a search among the launches of one thread at a time.
        for number in np.unique(self.thread[first]).tolist():
            mine = self.thread[first] == number
            begin, end = np.searchsorted(thread, [number, number + 1])
            low[mine] = begin + np.searchsorted(at[begin:end], self.ts[first[mine]])
            high[mine] = begin + np.searchsorted(at[begin:end], until[mine])
        return low, high

    def launched(self, first: Ints, last: Ints | None = None) -> Ints:
        """Indices of the device work in any of the ranges of `launched_in`, ascending."""
        low, high = self.launched_in(first, last)
        covers = np.zeros(len(self.by_launch[0]) + 1, np.int64)
        np.add.at(covers, low, 1)
        np.add.at(covers, high, -1)
        return np.sort(self.by_launch[0][np.cumsum(covers)[:-1] > 0])

    def is_warmup(self, row: int) -> bool:
        """Whether a row is within a range that is called warm-up."""
        named = self.is_named(_WARMUP)
        while row >= 0 and not named[row]:
            row = int(self.parent[row])
        return row >= 0

    def place(self, row: int) -> str | None:
        """The user's line of an event: from its recorded stack, or from the Python calls around it or its launch."""
        row = int(self.ints("launch")[row]) if self.thread[row] < 0 else row
        stacks, names, at = self.ints("stack"), self.events["name"].array, row
        while at >= 0:
            if stacks[at] >= 0:
                return _first_of_user(self._entries(int(stacks[at])))
            at = int(self.parent[at])
        is_python, call_line = self.is_in("python_function"), self.ints("call_line")
        return _first_of_user(enclosing_entries(row, self.parent, is_python, call_line, lambda one: str(names[one])))

    def place_of(self, rows: Ints, weight: Ints | None = None) -> str | None:
        """`place` of the row of the largest `weight`, by default of the longest; None without rows."""
        weight = self.dur[rows] if weight is None else weight
        return self.place(int(rows[np.argmax(weight)])) if len(rows) else None

    def _entries(self, stack: int) -> list[str]:
        rows = self.trace.stacks
        rows = rows[rows["stack"] == stack]
        return [entry_text(*entry) for entry in zip(*(rows[name] for name in ENTRY_COLUMNS), strict=True)]

    def name_of(self, row: int) -> str:
        """The short name of an event."""
        name = str(self.events["name"].array[row])
        return units.shorten(names_in_short(self.trace).get(name, name), 60)

    def main_name(self, rows: Ints, weight: Ints | None = None) -> str:
        """The short name with the largest sum of `weight` (by default of durations) over `rows`."""
        names = self.events["name"].array[rows]
        sums = np.bincount(names.codes, weights=self.dur[rows] if weight is None else weight)
        name = str(names.categories[int(np.argmax(sums))])
        return units.shorten(names_in_short(self.trace).get(name, name), 60)

    def finding(
        self, rule: str, title: str, what: str, gain_ns: int | None, advice: str, confidence: Confidence, *,
        rows: Ints = _NO_ROWS, weight: Ints | None = None, place: str | None = None, is_idle: bool = False,
        changed: Ints | None = None,
    ) -> Finding:  # fmt: skip
        """A finding in this Trace. It keeps the `MAX_ROWS` of `rows` with the largest `weight` (default: durations).

        The part of the gain that is not time of the `changed` rows' device work is idle time; by default none of the
        gain is such time if it `is_idle`, else `rows` are the changed ones.
        """
        share = None if gain_ns is None or not self.wall_ns else 100 * gain_ns / self.wall_ns
        what = f"{what[:1].upper()}{what[1:]}"
        weight = self.dur[rows] if weight is None else weight
        kept = np.sort(rows[np.argsort(-weight, kind="stable")[:MAX_ROWS]])
        is_modelled = self.trace.info.is_simulated
        shown = tuple(kept.tolist())
        if changed is None:
            changed = _NO_ROWS if is_idle else rows
        idle_ns = max((gain_ns or 0) - self._work_of(changed), 0) if len(self.work.rows) else 0
        return Finding(
            rule, title, what, gain_ns, share, shown, place, advice, confidence, is_modelled,
            is_idle=is_idle, idle_ns=idle_ns, alone_pct=share,
        )  # fmt: skip

    def _work_of(self, rows: Ints) -> int:
        """The time of the device work that some rows are, or launched, ns."""
        host = rows[self.thread[rows] >= 0]
        chosen = np.isin(self.work.rows, rows)
        if len(host):
            chosen[self.launched(host)] = True
        return length(self.work_time(chosen))


def _first_of_user(entries: Iterable[str]) -> str | None:
    place = next(filter(None, map(user_place, entries)), None)
    return None if place is None else place.text()
