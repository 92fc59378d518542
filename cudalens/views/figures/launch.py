"""Launches: the host's time for the call against the device's time for the work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.time.launch import launch_statistics
from cudalens.frames import Ranks, Trace
from cudalens.views.figures.style import MAX_POINTS, Mode, colors_of, finished, group_color, label, nothing, points


def figure(trace: Trace | Ranks, *, mode: Mode = "auto", **options: Any) -> go.Figure:
    """A point per launch of `launch_statistics`, whose options it takes; at most 3,000, evenly chosen."""
    frame = launch_statistics(trace, **options)
    if not len(frame):
        return nothing("No launch of device work was recorded", trace, mode)
    shown = frame.iloc[np.unique(np.linspace(0, len(frame) - 1, MAX_POINTS).astype(int))]
    short, blocked = shown["is_short"].to_numpy(), shown["is_blocked"].to_numpy()
    drawn = go.Figure()
    _points(drawn, shown[~short & ~blocked], "work takes longer than its launch", group_color("kernel"))
    _points(drawn, shown[short & ~blocked], "launch takes longer than its work", group_color("comm"))
    _points(drawn, shown[blocked], "blocked: the queue was full", group_color("sync"))
    span = [max(int(shown["call_ns"].min()), 100) / 1e3, max(int(shown["call_ns"].max()), 200) / 1e3]
    line = {"color": colors_of(mode)["muted"], "dash": "dot", "width": 1}
    drawn.add_scatter(x=span, y=span, mode="lines", line=line, name="equal", hoverinfo="skip")
    drawn.update_xaxes(title_text="the call on the host, µs", type="log", exponentformat="none")
    drawn.update_yaxes(title_text="its work on the device, µs", type="log", exponentformat="none")
    return finished(drawn, _title(frame), trace, mode)


def _points(drawn: go.Figure, rows: pd.DataFrame, name: str, color: str) -> None:
    if not len(rows):
        return
    hover = [
        f"{label(work, 80)}<br>{label(call)}: {units.duration(call_ns)}, work {units.duration(work_ns)}<br>"
        f"started {units.duration(delay)} after the call; {length} in front of it"
        for work, call, call_ns, work_ns, delay, length in zip(
            *(rows[k] for k in ("work_name", "call", "call_ns", "work_ns", "delay_ns", "queue_length")), strict=True
        )
    ]
    call, work = (np.maximum(rows[column], 100) / 1e3 for column in ("call_ns", "work_ns"))
    points(drawn, call, work, name, hover, color=color, size=6, opacity=0.6)


def _title(frame: pd.DataFrame) -> str:
    short = 100 * frame["is_short"].mean()
    free = frame["latency_ns"].dropna()
    facts = [f"{units.percent(short)} of {units.plural(len(frame), 'launch')} took longer than their work"]
    facts += [f"latency {units.duration(float(free.median()))} (median)"] if len(free) else []
    blocked = int(frame["is_blocked"].sum())
    facts += [f"{units.count(blocked)} blocked on a full queue"] if blocked else []
    return "; ".join(facts)
