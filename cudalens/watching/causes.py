"""What changed between the steps before and after a change of the step time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from cudalens.analysis import units
from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.compare.runs import differences
from cudalens.analysis.event_arrays import EventArrays
from cudalens.analysis.summary import step_rows
from cudalens.analysis.time.groups import Intervals, intersect, length, subtract, union, unite
from cudalens.analysis.time.idle import idle_causes
from cudalens.analysis.time.work import COMMUNICATION, COMPUTE, KINDS, MEMORY, Work, device_work
from cudalens.errors import TraceError
from cudalens.frames import Trace

#: Share of the change that a part has to explain.
_LEAST_PART: Final = 0.2
#: The step times of the two recordings differ at least and at most by this multiple of the change.
_LEAST_RECORDED: Final = 0.5
_MOST_RECORDED: Final = 2.0
#: Relative change of a size or a clock that is a cause.
_LEAST_SHARE: Final = 0.04
_MOST: Final = 4


@dataclass(frozen=True)
class Before:
    """What is known of the steps on one side of a change.

    Attributes:
        step_ns: Median step time.
        data_ns: Median time in which a step waited for its DataLoader; 0 if unknown.
        elements: Median number of elements of a batch; None if unknown.
        retries: Allocations per step that the allocator had to retry after releasing its cache; None if unknown.
        clock_mhz: Clock of the GPU; None if unknown.
        trace: Recorded steps; None if there are none.
    """

    step_ns: float
    data_ns: float = 0.0
    elements: float | None = None
    retries: float | None = None
    clock_mhz: float | None = None
    trace: Trace | None = None


class Cause(NamedTuple):
    """One cause of a change.

    Attributes:
        kind: ``data loading``, ``allocator retries``, ``sync``, ``larger batch``, ``clock``, ``communication``,
            ``GPU work``, ``idle`` or ``host``.
        text: The cause in words.
        delta_ns: Time per step that it explains; 0 where that is not known.
    """

    kind: str
    text: str
    delta_ns: float


def causes(before: Before, after: Before) -> list[Cause]:
    """Causes of the change from `before` to `after`, the most likely first.

    Causes that were counted (retries of the allocator, added synchronisations, sizes, clocks) precede parts of the
    step, which only say where the time goes; but data loading precedes them if it is the largest part. A part is a
    cause if it explains a fifth of the change. Recordings whose own steps differ by another amount (one of the first
    steps, or of steps after a further change) do not say what this change is.
    """
    delta = after.step_ns - before.step_ns
    has_change = False  # in the recordings: their steps differ by about the change
    if before.trace is not None and after.trace is not None and delta:
        recorded = sum(step_parts(after.trace).values()) - sum(step_parts(before.trace).values())
        has_change = _LEAST_RECORDED <= recorded / delta <= _MOST_RECORDED
    if not has_change:
        before, after = replace(before, trace=None), replace(after, trace=None)
    parts = {}
    if before.trace is not None and after.trace is not None:
        old, new = step_parts(before.trace), step_parts(after.trace)
        parts = {name: new.get(name, 0.0) - old.get(name, 0.0) for name in {**old, **new}}
    loading, counted = _loading(before, after, delta), _sizes_and_clocks(before, after, delta, parts)
    compute = [] if counted else _more_compute(before, after, delta, parts)
    others = [*loading, *compute, *_other_parts(delta, parts, has_loading=bool(loading))]
    others.sort(key=lambda cause: -abs(cause.delta_ns))
    first = [cause for cause in others[:1] if cause.kind == "data loading"]
    retries, syncs = _retries(before, after, delta), _syncs(before, after, delta)
    found = [*retries, *first, *syncs, *counted, *others[len(first) :]]
    return (found or _operators(before, after, delta))[:_MOST]


def _explains(part: float, delta: float) -> bool:
    return part / delta >= _LEAST_PART if delta else False


def _retries(before: Before, after: Before, delta: float) -> list[Cause]:
    if before.retries is None or after.retries is None or delta <= 0 or after.retries < 2 * before.retries + 0.05:
        return []
    text = f"the allocator releases its cache and retries {after.retries:.2g} times a step, {before.retries:.2g} before"
    return [Cause("allocator retries", text, delta)]


def _loading(before: Before, after: Before, delta: float) -> list[Cause]:
    more = after.data_ns - before.data_ns
    if not _explains(more, delta):
        return []
    return [Cause("data loading", f"{_signed(more)} in data loading", more)]


def _syncs(before: Before, after: Before, delta: float) -> list[Cause]:
    if before.trace is None or after.trace is None or delta <= 0:
        return []
    old, new = _num_syncs(before.trace), _num_syncs(after.trace)
    added = {place: new[place] - old.get(place, 0.0) for place in new if new[place] - old.get(place, 0.0) >= 0.5}
    if not added:
        return []
    place = max(added, key=lambda one: added[one])
    waits = "wait" if added[place] == 1 else "waits"
    return [Cause("sync", f"{added[place]:.2g} more {waits} for the GPU a step: {place}", delta)]


def _num_syncs(trace: Trace) -> dict[str, float]:
    """Waits for the GPU per step, by what waits and where."""
    num_steps = max(len(step_rows(trace)), 1)
    syncs = trace.syncs
    if not len(syncs):
        return {}
    texts = syncs["op"].astype(object).where(syncs["op"].notna(), syncs["call"].astype(object))
    places = syncs["place"].astype(object)
    labels = [
        f"{op} at {place}" if isinstance(place, str) else str(op) for op, place in zip(texts, places, strict=True)
    ]
    names, counts = np.unique(labels, return_counts=True)
    return dict(zip(names.tolist(), (counts / num_steps).tolist(), strict=True))


def _sizes_and_clocks(before: Before, after: Before, delta: float, parts: dict[str, float]) -> list[Cause]:
    """Causes of more or less time in kernels that were measured: another size of the batch, another clock."""
    sized = _ratio(before.elements, after.elements)
    if sized is not None and abs(sized) >= _LEAST_SHARE and (sized > 0) == (delta > 0):
        share = f"{1 + sized:.3g} times as many" if sized >= 1 else f"{abs(100 * sized):.0f} % {_more(sized)}"
        text = f"batches have {share} elements"
        return [Cause("larger batch" if sized > 0 else "smaller batch", text, delta)]
    clocked = _ratio(before.clock_mhz, after.clock_mhz)
    if clocked is not None and abs(clocked) >= _LEAST_SHARE and (clocked < 0) == (delta > 0):
        text = f"the GPU's clock went from {before.clock_mhz:.0f} to {after.clock_mhz:.0f} MHz"
        return [Cause("clock", text, parts.get("GPU compute", delta))]
    return []


def _more_compute(before: Before, after: Before, delta: float, parts: dict[str, float]) -> list[Cause]:
    more = parts.get("GPU compute", 0.0)
    if not _explains(more, delta):
        return []
    return [Cause("GPU work", f"GPU compute {_signed(more)}{_top_kernel(before, after, delta)}", more)]


def _other_parts(delta: float, parts: dict[str, float], *, has_loading: bool) -> list[Cause]:
    """Parts besides computing; those of data loading only where the steps themselves do not show it."""
    found = []
    for name, more in parts.items():
        is_known = name in ("GPU compute", "data loading") or (has_loading and name == "idle: data loading")
        if is_known or not _explains(more, delta):
            continue
        if name == "communication":
            kind = "communication"
        else:
            kind = "idle" if name.startswith("idle") else "host"
        if name == "idle: data loading":
            kind = "data loading"
        text = (
            f"GPU idle {_signed(more)} ({name.removeprefix('idle: ')})" if kind == "idle" else f"{name} {_signed(more)}"
        )
        found.append(Cause(kind, text, more))
    return found


def _top_kernel(before: Before, after: Before, delta: float) -> str:
    assert before.trace is not None
    assert after.trace is not None
    try:
        kernels = differences(before.trace, after.trace).kernels
    except TraceError:
        return ""
    kernels = kernels[(kernels["delta_ns"] * delta > 0) & (kernels["kind"] == KINDS[COMPUTE])]  # no copies
    return f", most in {units.shorten(str(kernels.iloc[0]['name']), 60)}" if len(kernels) else ""


def _operators(before: Before, after: Before, delta: float) -> list[Cause]:
    """Return the operator or call that changed most, where no part explains the change."""
    if before.trace is None or after.trace is None:
        return []
    try:
        ops = differences(before.trace, after.trace).ops
    except TraceError:
        return []
    ops = ops[ops["delta_ns"] * delta > 0]
    if not len(ops):
        return []
    top = ops.iloc[0]
    return [
        Cause(
            "host", f"{units.shorten(str(top['name']), 60)} {_signed(float(top['delta_ns']))}", float(top["delta_ns"])
        )
    ]


def _ratio(before: float | None, after: float | None) -> float | None:
    return after / before - 1 if before and after is not None else None


def _more(change: float) -> str:
    return "more" if change > 0 else "fewer"


def _signed(ns: float) -> str:
    return f"{'+' if ns >= 0 else '-'}{units.duration(abs(ns))}"


# The parts of a step, where the time of the recorded steps of a Trace went, and the window that these steps had.


def of_steps(trace: Trace, clock_ns: int | None) -> Trace:
    """`trace` with the window in which the device worked for its steps, of which the host may have been ahead.

    A host that runs ahead of the device launches a step while the device works for an earlier one. The first recorded
    work then begins late, and the time before it belongs to earlier steps. The window ends with the last recorded work,
    or with the last step on the host where that is later, and is as long as the steps took.

    Args:
        trace: Recorded steps.
        clock_ns: Time of these steps, from the end of the work before them to the end of their own; None if unknown.

    Returns:
        `trace` itself without device work, without steps, and if `clock_ns` or the start of the recording is unknown.
    """
    work, steps = device_work(trace), step_rows(trace)
    began = trace.info.started_ns
    if clock_ns is None or began is None or not len(work.rows) or not len(steps):
        return trace
    ts, dur = trace.events["ts"].to_numpy()[steps], trace.events["dur"].to_numpy()[steps]
    end = max(int((ts + dur).max()), int(work.end.max()))
    start = min(max(end - clock_ns, began), int(work.start.min()))
    return trace.replace(info=trace.info.replace(started_ns=start, ended_ns=end))


#: Parts of a step in order: those of a device, then those of a step without a device.
DEVICE_PARTS: Final = (
    "GPU compute", "communication", "copies", "idle: data loading", "idle: sync", "idle: launch", "idle: dependency",
    "idle: host", "idle: unknown",
)  # fmt: skip
HOST_PARTS: Final = ("data loading", "optimizer", "operators", "Python and other")
PARTS: Final = (*DEVICE_PARTS, *HOST_PARTS)

_LOADER: Final = "^enumerate\\(DataLoader\\)"
_OPTIMIZER: Final = "^Optimizer\\.step"
#: Collectives on the CPU, which run on threads of the process group.
_COLLECTIVE: Final = "^(gloo|mpi|ucc):"


@once_per_trace
def step_parts(trace: Trace) -> dict[str, float]:
    """Time of each part of a recorded step, ns per step; their sum is the time of a step.

    With device work the parts are those of the device that was busy longest, in the window of the run: computing;
    communication outside of it; copies outside of both; and idle time by the causes of `cudalens.analysis.idle_causes`,
    without what the host spent in a DataLoader. Without device work they are the times of the host: data loading, steps
    of optimizers, other operators, collectives outside of these, and the rest.

    Args:
        trace: A Trace with profiler steps; without steps the whole Trace counts as one.

    Returns:
        Parts that took time, in order of `PARTS`.
    """
    arrays = EventArrays(trace)
    if not len(arrays.ts):
        return {}
    steps = step_rows(trace)
    rows = steps if len(steps) else np.arange(len(arrays.ts))
    window = Intervals(arrays.ts[rows].min(keepdims=True), arrays.end[rows].max(keepdims=True))
    parts = _of_device(trace, arrays, _window(trace, window)) if len(arrays.work.rows) else _of_host(arrays, window)
    num_steps = max(len(steps), 1)
    return {name: parts[name] / num_steps for name in PARTS if parts.get(name, 0) > 0}


def _of_device(trace: Trace, arrays: EventArrays, window: Intervals) -> dict[str, int]:
    devices, place = np.unique(arrays.work.device, return_inverse=True)
    at = int(np.argmax([length(_union(arrays.work, place == k)) for k in range(len(devices))]))
    work, device = Work(*(values[place == at] for values in arrays.work)), int(devices[at])
    whole = Intervals(window.start, np.maximum(window.end, work.end.max(keepdims=True)))
    kinds = [_union(work, work.kind == kind) for kind in (COMPUTE, COMMUNICATION, MEMORY)]
    busy = unite(unite(kinds[0], kinds[1]), kinds[2])
    idle = subtract(whole, busy)
    # Idle time by cause; what is outside of the gaps is the host's, and data loading is taken from the host.
    idle_ns = length(idle)
    loading_ns = length(intersect(idle, _ranges(arrays, _LOADER)))
    causes = idle_causes(trace)
    causes = causes[causes["device"].fillna(-1) == device]
    by_cause = dict(zip(causes["cause"].astype(str), causes["part_ns"].tolist(), strict=True))
    by_cause["host"] = by_cause.get("host", 0) + max(idle_ns - sum(by_cause.values()), 0)
    moved = min(loading_ns, by_cause["host"])
    by_cause["host"] -= moved
    found = {f"idle: {cause}": ns for cause, ns in by_cause.items()} | {"idle: data loading": moved}
    found |= {
        "GPU compute": length(intersect(whole, kinds[0])),
        "communication": length(intersect(whole, subtract(kinds[1], kinds[0]))),
        "copies": length(intersect(whole, subtract(kinds[2], unite(kinds[0], kinds[1])))),
    }
    return found


def _window(trace: Trace, steps: Intervals) -> Intervals:
    """Return the window of the run; that of its steps on the host if it is not known."""
    start, end = trace.info.started_ns, trace.info.ended_ns
    return steps if start is None or end is None else Intervals(np.array([start]), np.array([end]))


def _union(work: Work, rows: np.ndarray) -> Intervals:
    return union(work.start[rows], work.end[rows])


def _of_host(arrays: EventArrays, window: Intervals) -> dict[str, int]:
    loading = intersect(window, _ranges(arrays, _LOADER))
    steps = subtract(intersect(window, _ranges(arrays, _OPTIMIZER)), loading)
    is_op = arrays.is_in("cpu_op")
    ops = subtract(subtract(intersect(window, union(arrays.ts[is_op], arrays.end[is_op])), loading), steps)
    waiting = subtract(subtract(subtract(intersect(window, _ranges(arrays, _COLLECTIVE)), loading), steps), ops)
    known = {"data loading": length(loading), "optimizer": length(steps), "operators": length(ops)}
    known["communication"] = length(waiting)
    return known | {"Python and other": length(window) - sum(known.values())}


def _ranges(arrays: EventArrays, pattern: str) -> Intervals:
    rows = arrays.is_named(pattern) & (arrays.ints("device") < 0)
    return union(arrays.ts[rows], arrays.end[rows])
