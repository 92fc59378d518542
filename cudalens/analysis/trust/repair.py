"""Repair a trace where exactly one correction is possible: the offset of the clocks, and duplicate rows of the host.

Device work is never removed, shortened or moved relative to other device work: `cudalens.analysis.device_time` returns
the same before and after, to the nanosecond.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.event_arrays import Ints
from cudalens.analysis.trust.arrays import MISSING, TrustArrays
from cudalens.analysis.trust.check import earlier_repairs, issues, repaired_finding, report_of
from cudalens.analysis.trust.clock import clock_bounds, needed_shift_ns
from cudalens.analysis.trust.host import duplicate_rows
from cudalens.frames import Trace, build_events, nullable
from cudalens.frames.column_arrays import integers
from cudalens.frames.column_catalog import columns_of
from cudalens.frames.syncs.calls import Pending
from cudalens.frames.tree import sort_order

#: Rows on a stream whose times are the host's: CUPTI's marks of waits (in recorded traces they begin and end with the
#: call that made them).
_ON_HOST_CLOCK: Final = ("cuda_sync",)


@dataclass(frozen=True)
class _Plan:
    """A repair.

    Attributes:
        ts: New start of each row, ns; device rows have moved relative to the host's.
        dropped: Duplicate rows of the host, ascending.
        originals: For each of them the row that it repeats.
        rows: The rows that stay, ascending.
        position: New row of each row; of a dropped one, that of its original.
    """

    ts: Ints
    dropped: Ints
    originals: Ints
    rows: Ints
    position: Ints


def repaired(trace: Trace, *, repair: bool = True) -> Trace:
    """`trace` with what can be repaired, and with its verdict in ``info.trust``.

    Repairs: all device rows move together, relative to the host's, by the smallest offset that lets all work start
    after its launch began and end before waits for it were over, if there is one; duplicate rows of the host are
    removed. All rows are then sorted and linked again.

    Args:
        trace: Any Trace; it is not changed.
        repair: False to check it only.

    Returns:
        A Trace. If there is nothing to repair, its frames are those of `trace`; if `trace` has no events and nothing is
        wrong with it, `trace` itself, without a verdict.
    """
    done, found = earlier_repairs(trace), issues(trace)
    repairable = [issue for issue in found if repair and issue.severity == "repairable"]
    if repairable:
        arrays = TrustArrays(trace)
        plan = _plan(arrays)
        trace = _applied(arrays, plan)
        done += [repaired_finding(issue, plan.position) for issue in repairable]
        found = issues(trace)
    if not (len(trace.events) or found or done):  # a memory snapshot, for example: it has no times to check
        return trace
    return trace.replace(info=trace.info.replace(trust=report_of(found, done).trust))


def _plan(arrays: TrustArrays) -> _Plan:
    dropped = duplicate_rows(arrays)
    dropped = dropped[~arrays.is_device[dropped]]
    originals = _originals(arrays, dropped)
    shift = needed_shift_ns(arrays, clock_bounds(arrays)) or 0
    ts = arrays.ts + np.where(arrays.is_device & ~arrays.is_in(*_ON_HOST_CLOCK), shift, 0)
    rows = np.delete(np.arange(len(arrays)), dropped)
    position = np.empty(len(arrays), np.int64)
    position[rows[sort_order(ts[rows], arrays.dur[rows])]] = np.arange(len(rows))
    position[dropped] = position[originals]
    return _Plan(ts, dropped, originals, rows, position)


def _originals(arrays: TrustArrays, dropped: Ints) -> Ints:
    """The row that each of `dropped` repeats: the nearest before it that is not dropped, of its name and lane."""
    if not len(dropped):
        return dropped
    rows = np.flatnonzero(np.isin(arrays.ts, arrays.ts[dropped]) & ~arrays.is_device)
    keys = [arrays.ts[rows], arrays.dur[rows]]
    keys += [arrays.ints(name, rows, missing=MISSING) for name in ("pid", "tid", "correlation_id", "external_id")]
    keys += [arrays.events[name].array.codes[rows] for name in ("name", "cat", "thread")]
    group = pd.DataFrame(dict(enumerate(keys))).groupby(list(range(len(keys))), sort=False).ngroup().to_numpy()
    _, first = np.unique(group, return_index=True)
    return rows[first[group[np.searchsorted(rows, dropped)]]]


def _applied(arrays: TrustArrays, plan: _Plan) -> Trace:
    frames = dict(arrays.trace.frames)
    for name in frames.keys() - {"events"}:
        links = [column.name for column in columns_of(name) if column.names == "events"]
        columns = {link: _linked(integers(frames[name][link]), plan.position) for link in links}
        frames[name] = frames[name].assign(**columns)
    frames["events"] = _events(arrays, plan)
    frames["syncs"] = _with_gpu_times(frames["syncs"], frames["events"])
    return Trace(arrays.trace.info, **frames)


def _events(arrays: TrustArrays, plan: _Plan) -> pd.DataFrame:
    """Return the events frame, built again; parents and forward rows stay, since the host's rows have not moved."""
    rows = plan.rows
    columns = {name: arrays.events[name].array[rows] for name in arrays.events.columns} | {"ts": plan.ts[rows]}
    number = np.full(len(arrays) + 1, -1, np.int64)
    number[rows] = np.arange(len(rows))
    number[plan.dropped] = number[plan.originals]
    events = build_events(columns, async_mask=arrays.is_async[rows], parent=number[arrays.parent[rows]])
    forward = np.empty(len(rows), np.int64)
    forward[plan.position[rows]] = arrays.ints("forward", rows)
    return events.assign(forward=_linked(forward, plan.position))


def _linked(rows: Ints, position: Ints) -> pd.arrays.IntegerArray:
    """Old row numbers, -1 for none, as a column of the new ones."""
    missing = rows < 0
    return nullable(np.where(missing, 0, position[rows] if len(position) else 0), missing)


def _with_gpu_times(syncs: pd.DataFrame, events: pd.DataFrame) -> pd.DataFrame:
    """Return the waits with ``gpu_dur`` computed again from the moved device rows."""
    pending, known = Pending(events), syncs["gpu_dur"].notna() & syncs["dur"].notna()
    if not pending or not known.any():
        return syncs
    start = integers(syncs["ts"][known])
    gpu_dur = syncs["gpu_dur"].copy()
    gpu_dur[known] = pending.gpu_durs(start, start + integers(syncs["dur"][known]))
    return syncs.assign(gpu_dur=gpu_dur)
