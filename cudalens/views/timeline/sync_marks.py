"""Marks of waits for the GPU in the timeline, each on its longest runtime call."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.facts import wait_groups
from cudalens.frames import Trace
from cudalens.views.sections.waits import MAX_ROWS
from cudalens.views.timeline.payload_order import clipped_times, lane_table

#: At most so many waits are marked, longest first.
MAX_MARKS: Final = 200


def sync_marks(trace: Trace) -> list[dict[str, Any]]:
    """Return a mark for each of the longest waits whose runtime call is known.

    Returns:
        For each ``group`` (row of the table of waits, -1 beyond it), ``title``, ``at`` (ns from the payload's origin),
        ``lane`` and ``dur`` of the runtime call.
    """
    events, waits = trace.events, trace.syncs
    waits = waits[waits["event"].notna()]
    if not len(events) or not len(waits):
        return []
    waits = waits.sort_values("dur", ascending=False, kind="stable").head(MAX_MARKS)
    rows = waits["event"].to_numpy(dtype=np.int64)
    _, start, dur, _ = clipped_times(events)
    lane, _ = lane_table(events)
    table = zip(rows.tolist(), _groups(trace, waits), _titles(waits), strict=True)
    return [
        {"group": group, "title": title, "at": int(start[row]), "lane": int(lane[row]), "dur": int(dur[row])}
        for row, group, title in table
    ]


def _groups(trace: Trace, waits: pd.DataFrame) -> list[int]:
    """Return the row of the table that each wait is part of."""
    names = ["place", "source", "expression", "kind", "op"]
    known = {
        tuple(row): number
        for number, row in enumerate(wait_groups(trace)[names].head(MAX_ROWS).itertuples(index=False))
    }
    plain = waits[names].astype(object)
    keys = plain.where(plain.notna(), None).itertuples(index=False)
    return [known.get(tuple(key), -1) for key in keys]


def _titles(waits: pd.DataFrame) -> list[str]:
    columns = (waits[name].astype(object) for name in ("kind", "expression", "dur"))
    return [
        units.shorten(f"wait: {kind if pd.isna(expression) else expression} ({units.duration(dur)})", 200)
        for kind, expression, dur in zip(*columns, strict=True)
    ]
