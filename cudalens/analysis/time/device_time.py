"""The time of the devices: computing, communicating, copying, or idle."""

from __future__ import annotations

from typing import Final

import pandas as pd

from cudalens.analysis.communication import is_communication
from cudalens.analysis.time.intervals import Intervals, intersect, length, subtract, union, unite
from cudalens.frames import GPU_ACTIVITIES, Trace
from cudalens.frames.column_arrays import is_category

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
    """The time of the devices of `trace` by kind of work, exact in integer nanoseconds.

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
