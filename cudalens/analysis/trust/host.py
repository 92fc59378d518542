"""Rules about the host's rows and the recording itself: torn call trees, steps, duplicates, rows of another time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np
import pandas as pd

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.event_arrays import EventArrays
from cudalens.analysis.summary import step_rows
from cudalens.analysis.time.groups import length, union
from cudalens.analysis.units import count, duration, percent, plural, shorten
from cudalens.frames import GPU_ACTIVITIES, RUNTIME_CATEGORIES, Trace, is_category
from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.column_arrays import Bools, Ints, combined, integers
from cudalens.gpus.predict import Band

#: Programs that record the work of GPUs: a file of theirs without any is not a run of the CPU.
_GPU_RECORDERS: Final = {
    "file:nsys": "nsys",
    "file:nvprof": "nvprof",
    "file:rocpd": "rocprofiler",
    "file:rocprofv3": "rocprofv3",
    "file:rpd": "rpd",
}
_TORCH: Final = "file:kineto"

#: nsys dropped the rows of work whose times it had not read when the recording ended.
_INCOMPLETE: Final = r"incomplete CUPTI events dropped"

#: Messages of nsys that give a reason for missing GPU work, the most telling first.
_REASONS: Final = (
    r"CUPTI_ERROR|CUPTI error",
    r"not supported by this build|driver version.*(?:not supported|too)|unsupported.*driver",
    r"(?i)insufficient|privilege|permission",
    r"might have not been started correctly|[Uu]nable to (?:initialize|start).*CUDA",
    r"No CUDA events|CUDA events.*(?:not|might)|CUDA profiling",
    _INCOMPLETE,
)
_OTHER_TOOL: Final = (
    "Another tool (nsys, ncu, a second profiler, DCGM) may use CUPTI, or device activities were off; end it and "
    "profile again."
)
_NOT_STARTED: Final = (
    "Start the profiler before the program uses the GPU, profile all of its processes, and end the recording after "
    "torch.cuda.synchronize()."
)
NOT_COMPLETE: Final = (
    "End the recording after cudaDeviceSynchronize() and a second of rest, and update nsys and the driver."
)


@dataclass(frozen=True, eq=False)
class MissingWork:
    """What a recording lacks.

    Attributes:
        what: What is missing, in words.
        reason: What the recorder says about it; "" if nothing.
        todo: What to try.
        launches: Rows of the launches without work; empty if there are none.
    """

    what: str
    reason: str
    todo: str
    launches: Ints

    @property
    def sentence(self) -> str:
        """What is missing, with the reason."""
        return f"{self.what}: {self.reason}" if self.reason else self.what


@once_per_trace
def missing_work(trace: Trace) -> MissingWork | None:
    """What `trace` lacks of the work that it was recorded for; None if it has device work, or is a run of the CPU."""
    arrays = TrustArrays(trace)
    reason, source = _reason(trace, _REASONS), trace.info.source
    other_tool, not_started = (NOT_COMPLETE,) * 2 if re.search(_INCOMPLETE, reason) else (_OTHER_TOOL, _NOT_STARTED)
    if len(arrays.work.rows) or (not len(arrays) and source not in _GPU_RECORDERS):
        return None
    if len(arrays.launches):
        what = f"{plural(len(arrays.launches), 'launch')}, and no device work was recorded"
        return MissingWork(what, reason, other_tool, arrays.launches)
    none = np.empty(0, np.int64)
    if source in _GPU_RECORDERS:
        return MissingWork(f"{_GPU_RECORDERS[source]} recorded no GPU work", reason, not_started, none)
    if source == _TORCH and not arrays.is_in("cpu_op", "python_function").any():
        return MissingWork("neither an operator nor GPU work was recorded", reason, not_started, none)
    return None


def has_incomplete_events(trace: Trace) -> bool:
    """Return whether nsys reports that it dropped work whose times it had not read."""
    return bool(_reason(trace, (_INCOMPLETE,)))


def _reason(trace: Trace, patterns: Sequence[str]) -> str:
    """Return the message of nsys that explains missing GPU work best, by `patterns`; "" if there is none."""
    try:
        messages = json.loads(trace.info.extra.get("nsys_diagnostics", "[]"))
    except ValueError:
        return ""
    texts = [text for text in messages if isinstance(text, str)] if isinstance(messages, list) else []
    for pattern in patterns:
        for text in texts:
            if re.search(pattern, text):
                return shorten(" ".join(text.split()).rstrip("."), 200)
    return ""


#: Categories of which each row is one call, so that two on a thread are nested or disjoint. A range of the program
#: (``user_annotation``) can begin in one function and end in another, so ranges and functions can cross.
_CALLS: Final = (("cpu_op", *RUNTIME_CATEGORIES), ("python_function",))

#: How many open Python calls torch's tracer records when it starts (``python_tracer.cpp``).
_PYTHON_DEPTH: Final = 128

_FAR_NS: Final = 3600 * 10**9
_MUCH_OVERHEAD: Final = 0.05
_SLACK_NS: Final = 1_000_000
_SECOND_NS: Final = 1e9
_KEY: Final = ("name", "cat", "thread")
_IDS: Final = ("device", "stream", "pid", "tid", "correlation_id", "external_id", "graph_node_id")

#: Damage of a file after which all its events are still there.
_HARMLESS: Final = frozenset(
    {
        "device work without a device, taken as device 0",
        "event that is not strict JSON",
        "invalid UTF-8",
        "something after the list of events",
        "a second list of events, ignored",
    }
)


#: Damage of a live run after which events are missing.
_LIVE_LOSSES: Final = ("no GPU activity", "profiler failed", "event without a usable start")


def torn_trees(arrays: TrustArrays) -> Iterator[Issue]:
    """Calls that begin within an earlier call of their thread and end after it."""
    torn, of_python = (_torn(arrays, categories) for categories in _CALLS)
    what = f"{plural(len(torn), 'call')} that began within another call and ended after it"
    todo = "Parents and self times around them are uncertain; a step of the host's clock can cause this."
    yield arrays.issue("torn calls", "partial", what, torn, todo)
    what = f"{plural(len(of_python), 'Python call')} that began within another one and ended after it"
    todo = "torch's tracer misses the end of some calls that raise, and of generators; self times there are uncertain."
    yield arrays.issue("torn Python calls", "note", what, of_python, todo)


def _torn(arrays: TrustArrays, categories: tuple[str, ...]) -> Ints:
    """Rows that overlap an earlier row of the same parent: of two nested ones, one would be the other's parent."""
    rows = np.flatnonzero(arrays.is_in(*categories) & arrays.is_host & ~arrays.is_async)
    parent = arrays.parent[rows]
    roots = np.flatnonzero(parent < 0)
    parent[roots] = -1 - _threads(arrays, rows[roots])
    order = np.argsort(parent, kind="stable")
    rows, parent = rows[order], parent[order]
    start, end, slack = arrays.ts[rows], arrays.end[rows], arrays.host_resolution_ns - 1
    is_sibling = parent[1:] == parent[:-1]
    if not (is_sibling & (end[:-1] - start[1:] > slack)).any():
        return rows[:0]  # the first overlap among siblings is one of neighbours
    reach = pd.Series(end).groupby(parent).cummax().to_numpy()
    is_torn = is_sibling & (reach[:-1] - start[1:] > slack) & (end[1:] > start[1:])
    return rows[1:][is_torn]


def _threads(arrays: TrustArrays, rows: Ints) -> Ints:
    return combined(*(arrays.ints(name, rows, missing=MISSING) for name in ("pid", "tid")))


def steps(arrays: TrustArrays) -> Iterator[Issue]:
    """Profiler steps that overlap or occur twice; numbers that are missing."""
    rows, numbers = _steps(arrays)
    thread = _threads(arrays, rows)
    order = np.argsort(thread, kind="stable")
    rows, numbers, thread = rows[order], numbers[order], thread[order]
    is_next, skipped = thread[1:] == thread[:-1], np.diff(numbers)
    overlap = arrays.end[rows[:-1]] - arrays.ts[rows[1:]] >= arrays.host_resolution_ns
    wrong = rows[1:][is_next & (overlap | (skipped == 0))]
    what = f"{plural(len(wrong), 'profiler step')} that overlap with the step before, or occur twice"
    yield arrays.issue(
        "overlapping steps", "partial", what, wrong, "Figures by step count some rows for the wrong one."
    )
    is_skip = is_next & (skipped > 1)
    what = f"{count(int((skipped - 1)[is_skip].sum()))} profiler steps were not recorded"
    yield arrays.issue("missing steps", "note", what, rows[1:][is_skip], "A schedule skips steps.")


def _steps(arrays: TrustArrays) -> tuple[Ints, Ints]:
    """Rows of the host's step ranges in time order, and their numbers."""
    names = arrays.events["name"].array
    texts = enumerate(map(str, names.categories.tolist()))
    tails = {i: text.removeprefix(STEP_PREFIX) for i, text in texts if text.startswith(STEP_PREFIX)}
    number = {i: int(tail) for i, tail in tails.items() if tail.isascii() and tail.isdigit() and len(tail) < 19}
    rows = np.flatnonzero(np.isin(names.codes, list(number)) & arrays.is_host)
    return rows, np.array([number[int(code)] for code in names.codes[rows]], np.int64)


def duplicates(arrays: TrustArrays) -> Iterator[Issue]:
    """Rows that occur twice: same time, name, lane and ids, of which one identifies a single call or operator."""
    rows = duplicate_rows(arrays)
    of_device, of_host = rows[arrays.is_device[rows]], rows[~arrays.is_device[rows]]
    what = f"{plural(len(of_device), 'device row')} recorded twice"
    todo = "They count twice in sums; it is unknown whether the file was merged with itself."
    yield arrays.issue("duplicate work", "partial", what, of_device, todo)
    what = f"{plural(len(of_host), 'row')} of the host recorded twice"
    yield arrays.issue("duplicate rows", "repairable", what, of_host, "The second of each is removed.")


def duplicate_rows(arrays: TrustArrays) -> Ints:
    """Return the second and further rows of each set of equal rows, ascending."""
    tied = np.zeros(len(arrays), bool)
    same = (arrays.ts[1:] == arrays.ts[:-1]) & (arrays.dur[1:] == arrays.dur[:-1])
    tied[1:] |= same
    tied[:-1] |= same
    tied &= ~arrays.events["is_instant"].to_numpy()
    # True for rows with an id that no other row of their kind can have: calls, work and operators.
    is_work = arrays.is_call | arrays.is_in(*GPU_ACTIVITIES)
    of_call = is_work & (arrays.ints("correlation_id", missing=MISSING) != MISSING)
    has_own_id = of_call | (arrays.is_in("cpu_op") & (arrays.ints("external_id") > 0))
    rows = np.flatnonzero(tied & has_own_id)
    keys = {"ts": arrays.ts[rows], "dur": arrays.dur[rows]}
    keys |= {name: arrays.ints(name, rows, missing=MISSING) for name in _IDS}
    keys |= {name: arrays.events[name].array.codes[rows] for name in _KEY}
    return rows[pd.DataFrame(keys).duplicated().to_numpy()]


def far_rows(arrays: TrustArrays) -> Iterator[Issue]:
    """Rows an hour or more from all others, with nothing between: of another clock, or without a time."""
    reach = np.maximum.accumulate(arrays.end)
    gaps = arrays.ts[1:] - reach[:-1]
    is_far = gaps >= _FAR_NS
    if not is_far.any():
        return
    part = np.append(0, np.cumsum(is_far))
    rows = np.flatnonzero(part != np.bincount(part).argmax())
    gap = duration(int(gaps[is_far].max()))
    what = f"{plural(len(rows), 'row')} {gap} away from all others: of another clock, or without a time"
    yield arrays.issue("far away", "partial", what, rows, "Spans and idle times that include them are wrong.")


def outside_window(arrays: TrustArrays) -> Iterator[Issue]:
    """Rows of a live run that are entirely before its recording began, or after it ended."""
    info = arrays.trace.info
    if info.source.startswith("file:") or info.started_ns is None or info.ended_ns is None:
        return
    started_ns = min([info.started_ns, *arrays.ts[step_rows(arrays.trace)].tolist()])  # a host ahead of its device
    first = started_ns - int(_SECOND_NS * (info.start_s or 0)) - _SLACK_NS
    last = info.ended_ns + int(_SECOND_NS * (info.stop_s or 0)) + _SLACK_NS
    kept = ~arrays.is_in("Trace", "overhead")
    rows = np.flatnonzero(((arrays.end < first) | (arrays.ts > last)) & kept)
    what = f"{plural(len(rows), 'row')} outside of the recorded time"
    yield arrays.issue("outside the window", "partial", what, rows, "Shares of the wall time can exceed it.")


def cut_python_stacks(arrays: TrustArrays) -> Iterator[Issue]:
    """Threads with more open Python calls at the start than torch's tracer records."""
    rows = np.flatnonzero(arrays.is_in("python_function") & arrays.is_host)
    if len(rows) < _PYTHON_DEPTH:
        return
    tid = arrays.ints("tid", rows, missing=MISSING)
    at_start = arrays.ts[rows] == pd.Series(arrays.ts[rows]).groupby(tid).transform("min").to_numpy()
    threads, number = np.unique(tid[at_start], return_counts=True)
    cut = rows[np.isin(tid, threads[number >= _PYTHON_DEPTH]) & at_start]
    outermost = cut[arrays.events["depth"].to_numpy()[cut] == 0]
    what = f"Python calls of {plural(len(outermost), 'thread')} lack their outermost callers"
    todo = f"torch's tracer records the {_PYTHON_DEPTH} innermost calls that are open when it starts."
    yield arrays.issue("cut Python stacks", "note", what, outermost, todo)


def damage(arrays: TrustArrays) -> Iterator[Issue]:
    """Yield what the reader of a file, or a collector of a live run, could not read."""
    # A file of a virtual device's run keeps that source; the reader adds the number of its events.
    is_file = arrays.trace.info.source.startswith("file:") or "file_events" in arrays.trace.info.options
    for problem in arrays.trace.info.problems:
        is_reported = is_file or problem.kind.startswith(_LIVE_LOSSES)
        if is_reported and problem.kind not in _HARMLESS:
            yield Issue("damage", "partial", problem.kind, np.empty(0, np.int64), problem.count, problem.where)


def profiler_overhead(arrays: TrustArrays) -> Iterator[Issue]:
    """Time in which the profiler itself blocked the program, from `_MUCH_OVERHEAD` of the recording on."""
    rows, window = np.flatnonzero(arrays.is_in("overhead")), arrays.host_window
    if not len(rows) or window is None or window[1] <= window[0]:
        return
    inside = union(np.maximum(arrays.ts[rows], window[0]), np.minimum(arrays.end[rows], window[1]))
    share = length(inside) / (window[1] - window[0])
    if share >= _MUCH_OVERHEAD:
        what = f"CUPTI blocked the program for {percent(100 * share)} of the recording"
        todo = "Warm up before the recording begins: kernels are loaded and buffers allocated at first use."
        yield arrays.issue("profiler overhead", "note", what, rows, todo)


def filtered(arrays: TrustArrays) -> Iterator[Issue]:
    """Operators that were removed from a file, by the gaps between the numbers that torch gave to them."""
    share = share_of_gaps(arrays.trace)
    if arrays.trace.info.source.startswith("file:") and share >= FILTERED:
        what = f"operators are missing after {percent(100 * share)} of those in the file: it has a part of them only"
        todo = "Use the file that the profiler wrote: idle times, sums and counts are those of the rows that are left."
        yield Issue("filtered", "partial", what, np.empty(0, np.int64), 1, todo=todo)


def simulated(arrays: TrustArrays) -> Iterator[Issue]:
    """Times that are modelled, not measured."""
    if arrays.trace.info.is_simulated and len(arrays):
        spec = arrays.trace.info.source.removeprefix("virtual:")
        band = arrays.trace.info.kernel_time_band
        width = f" (80 % band of the kernels: {Band(*band).words})" if band else ""
        what = f"device times are modelled for a virtual {spec}, not measured{width}"
        yield Issue("simulated", "note", what, np.empty(0, np.int64), 1)


#: Of the operators' numbers, the share after which some are missing: 0.01 at most in whole files, 0.6 in sampled ones.
FILTERED: Final = 0.3

#: Fewer operators show nothing.
_LEAST: Final = 50


@once_per_trace
def share_of_gaps(trace: Trace) -> float:
    """Return the share of operators and ranges after whose number the next one is missing; 0 if there are too few.

    torch numbers operators and ranges one after the other. A complete file lacks few of these numbers: of operators
    that had not ended, and of what other threads ran between two recordings.
    """
    events = trace.events
    ids = integers(events["external_id"])[is_category(events["cat"].array, ("cpu_op", "user_annotation"))]
    steps = np.diff(np.sort(ids[ids > 0]))  # np.unique takes ten times as long for as many numbers
    steps = steps[steps > 0]
    return float((steps > 1).mean()) if len(steps) + 1 >= _LEAST else 0.0


# `TrustArrays`: a Trace as arrays for the rules of trust, and `Issue`: what a rule finds.

#: Marks a missing value in an array of keys: -1 can be a valid one.
MISSING: Final = int(np.iinfo(np.int64).min)

Severity = Literal["note", "repairable", "partial"]

#: Names of the calls that wait for all work of a device.
DEVICE_WAIT: Final = r"^(?:cuda|cu|hip)(?:Device|Ctx|Thread)Synchronize"

_US: Final = 1000
_LAUNCH: Final = r"^(?:cuda|cu|hip)\w*Launch\w*(?:Kernel|Graph)|^(?:cuda|cu|hip)Graph\w*Launch"
_NO_TREE: Final = ("Trace", "overhead")


@dataclass(frozen=True, eq=False)
class Issue:
    """What one rule found in one Trace.

    Attributes:
        rule: Short name of the rule.
        severity: ``note``: worth knowing, affects no figure; ``repairable``: `cudalens.analysis.repaired` corrects it;
            ``partial``: cannot be corrected.
        what: What is wrong, with numbers.
        rows: All rows of the events frame that it concerns, ascending; dtype int64.
        count: Number of rows; if it concerns no rows, how often it occurred.
        where: The first place, as text.
        todo: What can be done about it.
    """

    rule: str
    severity: Severity
    what: str
    rows: Ints
    count: int
    where: str = ""
    todo: str = ""


class TrustArrays(EventArrays):
    """One Trace as the rules of trust use it; arrays of shape (n,) unless stated otherwise."""

    def __len__(self) -> int:
        return len(self.ts)

    @cached_property
    def is_device(self) -> Bools:
        """True for all rows on a device: work, annotations, synchronisations."""
        return ~np.asarray(self.events["device"].array.isna())

    @cached_property
    def is_host(self) -> Bools:
        """True for intervals of the host that are part of a call tree or could be."""
        return ~(self.is_device | self.events["is_instant"].to_numpy() | self.is_in(*_NO_TREE))

    @cached_property
    def is_async(self) -> Bools:
        """True for ranges of the host that began and ended on different threads: no tree, and no self time."""
        lonely: Bools = (self.parent < 0) & self.is_host & (self.events["self_dur"].to_numpy() == 0) & (self.dur > 0)
        lonely[self.parent[self.parent >= 0]] = False
        return lonely

    @cached_property
    def is_call(self) -> Bools:
        """True for runtime and driver calls."""
        return self.is_in(*RUNTIME_CATEGORIES)

    def calls(self, pattern: str) -> Ints:
        """Rows of the runtime and driver calls in whose name `pattern` is found; ascending, shape (k,)."""
        rows = np.flatnonzero(self.is_call)
        return rows[self.is_named(pattern, rows)]

    @cached_property
    def launches(self) -> Ints:
        """Rows of the calls that launch kernels or graphs, by their names; ascending, shape (k,)."""
        return self.calls(_LAUNCH)

    @cached_property
    def host_window(self) -> tuple[int, int] | None:
        """First start and last end of the host's rows, ns; None if there are none."""
        rows = np.flatnonzero(self.is_host)
        return (int(self.ts[rows[0]]), int(self.end[rows].max())) if len(rows) else None

    @cached_property
    def resolution_ns(self) -> int:
        """1000 if the times of all device work are whole microseconds, as in older files; else 1."""
        is_whole = not (self.work.start % _US).any() and not ((self.work.end - self.work.start) % _US).any()
        return _US if is_whole and len(self.work.rows) else 1

    @cached_property
    def host_resolution_ns(self) -> int:
        """1000 if the times of all rows are whole microseconds; else 1."""
        return _US if not (self.dur % _US).any() and not (self.ts % _US).any() else 1

    def issue(self, rule: str, severity: Severity, what: str, rows: Ints, todo: str = "") -> Issue:
        """An issue of `rows`; of none if `rows` is empty, which `cudalens.analysis.trust.check.issues` leaves out."""
        rows = np.sort(rows)
        where = self._place(int(rows[0])) if len(rows) else ""
        return Issue(rule, severity, what, rows, len(rows), where, todo)

    def _place(self, row: int) -> str:
        event = self.events.iloc[row]
        lane = f" on stream {event['stream']}" if self.is_device[row] and event["stream"] is not None else ""
        at = int(self.ts[row]) - int(self.ts[0])
        return f"row {row}, {shorten(str(event['name']), 60)}{lane}, {duration(at)} after the first"


def device_rows(rows: Ints, verb: str) -> str:
    """``1 device row starts``, ``3 device rows start``."""
    return f"{plural(len(rows), 'device row')} {verb}{'s' if len(rows) == 1 else ''}"
