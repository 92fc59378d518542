"""The operators with most device time (or host time, where there is none), as bars."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.time.breakdown import op_breakdown
from cudalens.frames import Ranks, Trace
from cudalens.views.figures.style import MAX_BARS, Mode, bars, finished, group_color, label, nothing


def figure(trace: Trace | Ranks, *, mode: Mode = "auto", **options: Any) -> go.Figure:
    """A bar for each of the 20 most expensive operators of `op_breakdown`, whose options it takes; of ranks, sums."""
    frame = op_breakdown(trace, **options).astype({"name": object})
    frame["name"] = frame["name"].where(frame["name"].notna(), "(no operator)")
    sums = frame.groupby("name", as_index=False)[["count", "gpu_self_ns", "host_self_ns"]].sum()
    if not len(sums):
        return nothing("No operator was recorded", trace, mode)
    on_device = bool(sums["gpu_self_ns"].sum())
    column, where = ("gpu_self_ns", "device") if on_device else ("host_self_ns", "host")
    sums = sums.sort_values(column, ascending=False, kind="stable")
    shown = sums.head(MAX_BARS)
    names = [label(name) for name in shown["name"]]
    hover = [
        f"{label(name, 120)}<br>{units.duration(gpu)} on the device, {units.duration(host)} on the host in {n:,} calls"
        for name, n, gpu, host in shown[["name", "count", "gpu_self_ns", "host_self_ns"]].itertuples(index=False)
    ]
    drawn = go.Figure()
    color = group_color("kernel" if on_device else "op")
    bars(drawn, names, shown[column] / 1e6, f"self time on the {where}", color, hover, f"ms on the {where}, self")
    return finished(drawn, _title(sums, column, where), trace, mode, rows=len(shown))


def _title(sums: Any, column: str, where: str) -> str:
    top, whole = sums.iloc[0], int(sums[column].sum())
    share = units.percent(100 * top[column] / whole) if whole else "0 %"
    return f"{units.shorten(str(top['name']), 50)} takes {share} of {units.duration(whole)} on the {where}"
