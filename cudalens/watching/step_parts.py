"""The parts of a step, where the time of the recorded steps of a Trace went, and the window that these steps had."""

from __future__ import annotations

from typing import Final

import numpy as np

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.event_arrays import EventArrays
from cudalens.analysis.summary import step_rows
from cudalens.analysis.time.groups import Intervals, intersect, length, subtract, union, unite
from cudalens.analysis.time.idle import idle_causes
from cudalens.analysis.time.work import COMMUNICATION, COMPUTE, MEMORY, Work, device_work
from cudalens.frames import Trace


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
