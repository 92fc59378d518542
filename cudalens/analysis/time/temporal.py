"""Temporal breakdown: the time of each device, stream or step: computing, communicating, copying and idle."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

import numpy as np
import pandas as pd

from cudalens.analysis.communication import is_communication
from cudalens.analysis.ranked import ranked
from cudalens.analysis.time.groups import Lanes, in_step, numbered, share, steps_of, sums
from cudalens.analysis.time.intervals import Intervals, intersect, length, subtract, union, unite
from cudalens.analysis.time.work import COMMUNICATION, COMPUTE, MEMORY, Work, device_work
from cudalens.errors import invalid_choice
from cudalens.frames import GPU_ACTIVITIES, Trace
from cudalens.frames.column_arrays import Ints, is_category, masked

FIELDS: Final = (
    "span_ns",
    "busy_ns",
    "idle_ns",
    "comp_ns",
    "comm_ns",
    "mem_ns",
    "exposed_comm_ns",
    "exposed_mem_ns",
    "overlap_ns",
    "sum_ns",
)


def device_time(trace: Trace) -> pd.Series:
    """Return the time of the devices of `trace` by kind of work, exact in integer nanoseconds.

    Device work is every kernel, copy (``gpu_memcpy``) and set (``gpu_memset``); annotations, synchronisations and
    overhead are not work. Of the kernels, *comm* are those of communication libraries, by their names
    (`cudalens.analysis.communication`), *comp* all others; *mem* is copies and sets. The time of a set of work is the
    length of the union of its intervals, over all streams and devices of the trace together, so that concurrent work
    counts once:

    - ``span_ns``: from the first start to the last end of device work.
    - ``busy_ns``: time of all work. ``idle_ns``: ``span_ns`` less ``busy_ns``.
    - ``comp_ns``, ``comm_ns``, ``mem_ns``: time of comp, comm, mem.
    - ``exposed_comm_ns``: time of comm outside of comp. ``exposed_mem_ns``: time of mem outside of comp and comm.
    - ``overlap_ns``: time of comm within comp.
    - ``sum_ns``: sum of the durations of all work, concurrent or not.

    Returns:
        A Series of dtype Int64 with these entries in this order, all ``<NA>`` without device work.
    """
    events = trace.events
    kernel = is_category(events["cat"].array, ("kernel",))
    work = is_category(events["cat"].array, GPU_ACTIVITIES) & ~events["is_instant"].to_numpy()
    if not work.any():
        return pd.Series(pd.NA, index=list(FIELDS), dtype="Int64", name="device_time")
    start = events["ts"].to_numpy()
    end = start + events["dur"].to_numpy()
    comm_name = is_communication(events["name"].array)
    busy, comp, comm, mem = (
        union(start[rows], end[rows])
        for rows in (work, work & kernel & ~comm_name, work & kernel & comm_name, work & ~kernel)
    )
    span = int(end[work].max() - start[work].min())
    values = (span, length(busy), span - length(busy), *_by_kind(comp, comm, mem), int((end - start)[work].sum()))
    return pd.Series(values, index=list(FIELDS), dtype="Int64", name="device_time")


def _by_kind(comp: Intervals, comm: Intervals, mem: Intervals) -> tuple[int, ...]:
    exposed_mem = subtract(mem, unite(comp, comm))
    parts = (comp, comm, mem, subtract(comm, comp), exposed_mem, intersect(comm, comp))
    return tuple(length(part) for part in parts)


By = Literal["device", "stream", "step"]
_PARTS: Final = ("comp", "exposed_comm", "exposed_mem", "idle")


@ranked
def temporal_breakdown(trace: Trace, by: By | None = None, *, step: int | None = None) -> pd.DataFrame:
    """Return the time of the devices by kind of work, exact in integer nanoseconds.

    The definitions are those of `cudalens.analysis.device_time`, applied to each group of device work separately: the
    time of a set of work is the length of the union of its intervals, so that concurrent work counts once. In every
    row ``busy_ns + idle_ns == span_ns`` and ``comp_ns + exposed_comm_ns + exposed_mem_ns == busy_ns``.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).
        by: None for one row over all devices and streams, whose numbers are those of `device_time`; ``"device"`` for a
            row per device, ``"stream"`` per device and stream, ``"step"`` per profiler step (work belongs to the step
            that launched it; ``<NA>`` is work outside steps).
        step: Only the work that this profiler step launched.

    Returns:
        A row per group, in order of its keys; empty without device work. Columns: the keys (``device``, ``stream``,
        ``step``; Int64, ``<NA>`` if unknown); ``start_ns``, start of its first work, on the events' clock;
        ``num_work``, its pieces of work; then, int64 ns:

        - ``span_ns``: from its first start to its last end. ``busy_ns``: union of all its work. ``idle_ns``: the rest.
        - ``comp_ns``, ``comm_ns``, ``mem_ns``: union of its computing kernels, of its collectives' kernels
          (``^nccl.*Kernel``), of its copies and sets.
        - ``exposed_comm_ns``: comm outside of comp. ``exposed_mem_ns``: mem outside of comp and comm.
          ``overlap_ns``: comm within comp. ``sum_ns``: plain sum of durations.

        and ``comp_pct``, ``exposed_comm_pct``, ``exposed_mem_pct``, ``idle_pct``: Float64, of the span; together 100;
        ``<NA>`` if the span is 0.

    Raises:
        ValueError: `by` is unknown.
    """
    if by not in (None, *get_args(By)):
        raise invalid_choice("by", by, (None, *get_args(By)))
    return breakdown_of(trace, in_step(trace, device_work(trace), step), by)


def breakdown_of(trace: Trace, work: Work, by: By | None = None) -> pd.DataFrame:
    """`temporal_breakdown` of the pieces of `work`."""
    group, keys = numbered(_keys(trace, work, by)) if by else _one_group(work)
    times = _times(work, group, len(keys))
    shares = {f"{part}_pct": share(times[f"{part}_ns"], times["span_ns"]) for part in _PARTS}
    ids = {name: masked(keys[name].to_numpy()) for name in keys}
    return pd.DataFrame({**ids, **times, **shares})


def _keys(trace: Trace, work: Work, by: By) -> dict[str, Ints]:
    if by == "step":
        return {"step": steps_of(trace, work)}
    keys = {"device": work.device}
    return keys | {"stream": work.stream} if by == "stream" else keys


def _one_group(work: Work) -> tuple[Ints, pd.DataFrame]:
    return np.zeros(len(work.rows), np.int64), pd.DataFrame(index=range(min(len(work.rows), 1)))


def _times(work: Work, group: Ints, num_groups: int) -> dict[str, Any]:
    lanes = Lanes(work.start, work.end, group, num_groups)
    busy = lanes.lengths(lanes.union())
    comp, comm, mem = (lanes.union(work.kind == kind) for kind in (COMPUTE, COMMUNICATION, MEMORY))
    first = np.full(num_groups, np.iinfo(np.int64).max)
    last = np.full(num_groups, np.iinfo(np.int64).min)
    np.minimum.at(first, group, work.start)
    np.maximum.at(last, group, work.end)
    return {
        "start_ns": first,
        "num_work": np.bincount(group, minlength=num_groups),
        "span_ns": last - first,
        "busy_ns": busy,
        "idle_ns": last - first - busy,
        "comp_ns": lanes.lengths(comp),
        "comm_ns": lanes.lengths(comm),
        "mem_ns": lanes.lengths(mem),
        "exposed_comm_ns": lanes.lengths(subtract(comm, comp)),
        "exposed_mem_ns": lanes.lengths(subtract(mem, unite(comp, comm))),
        "overlap_ns": lanes.lengths(intersect(comm, comp)),
        "sum_ns": sums(work.end - work.start, group, num_groups),
    }
