"""Summarize a Trace in the numbers that a verdict shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.time.averages import STEP_NAME, averages
from cudalens.analysis.time.groups import length, union
from cudalens.frames.build import GPU_ACTIVITIES, RUNTIME_CATEGORIES, STEP_PREFIX
from cudalens.frames.column_arrays import Ints, has_prefix, integers, is_category, map_texts

if TYPE_CHECKING:
    from cudalens.frames import RunInfo, Trace


_NUM_TOP: Final = 10
_NOT_COSTS: Final = ("Trace", "overhead")


@dataclass(frozen=True)
class TopCost:
    """One of the largest costs.

    Attributes:
        name: Operator, kernel or range.
        cat: Kineto's category.
        self_ns: Self time, summed over all its rows, ns.
        share_pct: Its share of all self time on its side (host or device).
        count: Number of rows.
        is_device: Whether it is device work.
    """

    name: str
    cat: str
    self_ns: int
    share_pct: float
    count: int
    is_device: bool


@dataclass(frozen=True)
class Summary:
    """The numbers of a Trace that a verdict shows.

    Attributes:
        wall_ns: Length of the measured window, as `measured_window` defines it, ns.
        recorded_ns: Length of the whole recording, ns; equal to `wall_ns` for a profiled block.
        device_busy_ns: Time in which any device was at work (union of its activities); None without device work.
        device_busy_by_device: The same for each device index.
        host_busy_ns: Time in which any thread was in an operator (union of the outermost operators); None without any.
        top: The largest self times by name: of device work where there is any, else of the host; largest first. Ranges
            of profiler steps are left out: they contain everything.
        num_events: Rows of the events frame.
        num_ops: Operators (category cpu_op).
        num_kernels: GPU kernels.
        num_launches: Runtime and driver calls that launched device work, by their link to it or by their name.
        peak_memory_bytes: Largest ``allocated_bytes`` per device type; None if no memory was recorded.
        num_problems: Damage that the reader or the session survived.
        is_simulated: Whether the times are a model's.
        build_s: Seconds from raw results to frames.
        start_s: Seconds that starting took, or None.
        stop_s: Seconds that stopping took, or None.
        num_steps: Number of profiler steps, or None without any.
        step_mean_ns: Mean length of a step, or None.
        step_std_ns: Sample standard deviation of the steps' lengths; None for fewer than two.
    """

    wall_ns: int
    recorded_ns: int
    device_busy_ns: int | None
    device_busy_by_device: Mapping[int, int]
    host_busy_ns: int | None
    top: tuple[TopCost, ...]
    num_events: int
    num_ops: int
    num_kernels: int
    num_launches: int
    peak_memory_bytes: Mapping[str, int] | None
    num_problems: int
    is_simulated: bool
    build_s: float
    start_s: float | None
    stop_s: float | None
    num_steps: int | None
    step_mean_ns: float | None
    step_std_ns: float | None


@once_per_trace
def summarize(trace: Trace) -> Summary:
    """Return the numbers of `trace` that a verdict shows.

    Args:
        trace: Any Trace, live or loaded.
    """
    events, info = trace.events, trace.info
    cat = events["cat"].array
    busy, by_device = None, {}
    if len(rows := np.flatnonzero(is_category(cat, GPU_ACTIVITIES))):
        start = events["ts"].to_numpy()[rows]
        end = start + events["dur"].to_numpy()[rows]
        device = integers(events["device"])[rows]
        busy = length(union(start, end))
        by_device = {int(d): length(union(start[device == d], end[device == d])) for d in np.unique(device) if d >= 0}
    steps = events["dur"].to_numpy()[step_rows(trace)]
    window = measured_window(trace)
    host_busy = None
    if len(op_rows := np.flatnonzero(is_category(cat, ("cpu_op",)))):  # operators of all threads
        op_start = events["ts"].to_numpy()[op_rows]
        host_busy = length(union(op_start, op_start + events["dur"].to_numpy()[op_rows]))
    return Summary(
        wall_ns=window.length_ns,
        recorded_ns=window.recorded_ns,
        device_busy_ns=busy,
        device_busy_by_device=by_device,
        host_busy_ns=host_busy,
        top=_top(averages(trace)),
        num_events=len(events),
        num_ops=int(is_category(cat, ("cpu_op",)).sum()),
        num_kernels=int(is_category(cat, ("kernel",)).sum()),
        num_launches=_num_launches(events),
        peak_memory_bytes=memory_peaks(trace.memory),
        num_problems=sum(problem.count for problem in info.problems),
        is_simulated=info.is_simulated,
        build_s=info.build_s,
        start_s=info.start_s,
        stop_s=info.stop_s,
        num_steps=len(steps) or None,
        step_mean_ns=float(steps.mean()) if len(steps) else None,
        step_std_ns=float(steps.std(ddof=1)) if len(steps) > 1 else None,
    )


class MeasuredWindow(NamedTuple):
    """The part of a recording that figures refer to, and all of the recording; ns on the clock of the events.

    Attributes:
        start: Start of the measured window.
        end: End of the measured window.
        recorded_start: Start of the recording, at most `start`.
        recorded_end: End of the recording, at least `end`.
    """

    start: int
    end: int
    recorded_start: int
    recorded_end: int

    @property
    def length_ns(self) -> int:
        """Length of the measured window, ns."""
        return self.end - self.start

    @property
    def recorded_ns(self) -> int:
        """Length of the recording, ns."""
        return self.recorded_end - self.recorded_start


@once_per_trace
def measured_window(trace: Trace) -> MeasuredWindow:
    """Return the measured window of `trace`, and its whole recording.

    A profiled block is measured from its start to its end. The recording in a file often begins and ends elsewhere:
    with the process, or with the session of the profiler. Its measured window begins with the first device work or
    profiler step, and ends with the last one; without device work, with the first and the last event that takes time.
    A recording is the span of its events, without the profiler's own.
    """
    info, events = trace.info, trace.events
    ts = events["ts"].to_numpy()
    end = ts + events["dur"].to_numpy()
    is_counted, takes_time = ~is_category(events["cat"].array, _NOT_COSTS), ~events["is_instant"].to_numpy()
    if info.started_ns is not None and info.ended_ns is not None:
        recorded = info.started_ns, info.ended_ns
    elif not is_counted.any():
        recorded = 0, 0
    else:
        recorded = int(ts[is_counted].min()), int(end[is_counted].max())
    is_work = is_category(events["cat"].array, GPU_ACTIVITIES) & takes_time
    if not is_work.any():
        is_work = is_counted & takes_time
    if not info.source.startswith("file:") or not is_work.any():
        return MeasuredWindow(*recorded, *recorded)
    inner = np.concatenate([np.flatnonzero(is_work), step_rows(trace)])
    first, last = int(ts[inner].min()), int(end[inner].max())
    return MeasuredWindow(first, last, min(first, recorded[0]), max(last, recorded[1]))


def wall_ns(trace: Trace) -> int:
    """Length of the measured window, ns, as `measured_window` defines it."""
    return measured_window(trace).length_ns


def window_on_clock(info: RunInfo, first: int, last: int) -> tuple[int, int]:
    """The measured window if it is known and on the clock of the events; else `first` to `last`, when these are, ns."""
    started, ended = info.started_ns, info.ended_ns
    if started is None or ended is None or started > last or ended < first:
        return first, last
    return started, ended


def step_rows(trace: Trace) -> Ints:
    """Rows of the events that are profiler steps of the host."""
    events = trace.events
    is_step = has_prefix(events["name"].array, STEP_PREFIX)
    return np.flatnonzero(is_step & events["device"].isna().to_numpy() & ~events["is_instant"].to_numpy())


def _top(rows: pd.DataFrame) -> tuple[TopCost, ...]:
    counts = ~rows["cat"].isin(_NOT_COSTS) & (rows["name"].astype(str) != STEP_NAME)
    costs = rows[counts & (rows["self_ns"] > 0) & (rows["share_pct"] > 0)]
    on_device = costs["is_device"] & costs["cat"].isin(GPU_ACTIVITIES)
    costs = costs[on_device] if on_device.any() else costs[~costs["is_device"]]
    chosen = costs.head(_NUM_TOP)
    fields = ("name", "cat", "self_ns", "share_pct", "count", "is_device")
    return tuple(TopCost(*values) for values in zip(*(chosen[field].tolist() for field in fields), strict=True))


def _num_launches(events: pd.DataFrame) -> int:
    # Waits have a link to their call, too: a synchronisation launches nothing.
    launch = integers(events["launch"])[is_category(events["cat"].array, GPU_ACTIVITIES)]
    launches = np.zeros(len(events), bool)
    launches[launch[launch >= 0]] = True
    calls = np.flatnonzero(is_category(events["cat"].array, RUNTIME_CATEGORIES))
    launches[calls] |= map_texts(events["name"].array[calls], _launches, False)
    return int(launches.sum())


def _launches(name: str) -> bool:
    """Return whether a runtime or driver call of this name launches work (cudaLaunchKernel, hipGraphLaunch, …)."""
    return "Launch" in name and ("Kernel" in name or "Graph" in name)


def memory_peaks(memory: pd.DataFrame) -> dict[str, int] | None:
    """Largest ``allocated_bytes`` of each device type; None if no memory was recorded."""
    known = memory[memory["allocated_bytes"].notna() & memory["device_type"].notna()]
    if not len(known):
        return None
    # Totals are per device: the peak of a device type is that of its fullest device.
    peaks = known.groupby("device_type", observed=True)["allocated_bytes"].max()
    return {str(kind): int(peak) for kind, peak in peaks.items()}
