"""Remove rows of cudalens's own threads from a profile."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from cudalens.device.own_threads import own_threads
from cudalens.frames import RawRows
from cudalens.frames.columns import integers

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
    kept = ~ours
    mask = None if rows.async_mask is None else rows.async_mask[kept]
    return replace(rows, events={name: column[kept] for name, column in rows.events.items()}, async_mask=mask)
