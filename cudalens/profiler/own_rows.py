"""Remove rows of other work than the profiled program's: of cudalens's own threads, and of work before the start."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from cudalens.device.own_threads import own_threads
from cudalens.frames import RUNTIME_CATEGORIES, RawRows, is_category
from cudalens.frames.column_arrays import Bools, integers

_MARGIN_NS: Final = 5_000_000


def without_own_threads(rows: RawRows) -> RawRows:
    """`rows` without those of cudalens's threads; `rows` itself if there are none, which is the usual case."""
    threads = own_threads()
    if not threads or "tid" not in rows.events:
        return rows
    tid = integers(rows.events["tid"])
    ts = np.asarray(rows.events["ts"])
    ours = np.zeros(len(tid), np.bool_)
    for thread in threads:
        # Python calls that start and end a thread may be recorded slightly outside its lifetime.
        mine = (tid == thread.tid) & (ts >= thread.start_ns - _MARGIN_NS)
        ours |= mine if thread.end_ns is None else mine & (ts <= thread.end_ns + _MARGIN_NS)
    if not ours.any():
        return rows
    return selected(rows, ~ours)


def without_earlier_work(rows: RawRows) -> RawRows:
    """`rows` without the device rows before the first work whose call was recorded: they were launched earlier."""
    events = rows.events
    if "device" not in events or "correlation_id" not in events:
        return rows
    on_device = ~np.asarray(events["device"].isna())
    correlation = integers(events["correlation_id"])
    calls = correlation[is_category(events["cat"], RUNTIME_CATEGORIES) & ~on_device & (correlation >= 0)]
    is_launched = on_device & np.isin(correlation, calls)
    ts = np.asarray(events["ts"])
    if not is_launched.any():
        return rows
    is_earlier = on_device & ~is_launched & (ts < ts[is_launched].min())
    return selected(rows, ~is_earlier) if is_earlier.any() else rows


def selected(rows: RawRows, kept: Bools) -> RawRows:
    """The rows `kept` of `rows`."""
    mask = None if rows.async_mask is None else rows.async_mask[kept]
    return replace(rows, events={name: column[kept] for name, column in rows.events.items()}, async_mask=mask)
