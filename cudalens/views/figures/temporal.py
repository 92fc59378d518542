"""Shares of the devices' time: computing, communicating, copying, idle, as stacked bars."""

from __future__ import annotations

from typing import Any, Final

import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.time.temporal import temporal_breakdown
from cudalens.frames import Ranks, Trace
from cudalens.views.figures.style import MAX_BARS, Mode, bars, finished, group_color, idle_color, lanes, nothing

_PARTS: Final = (
    ("comp", "computing", "kernel"),
    ("exposed_comm", "communicating, not hidden", "comm"),
    ("exposed_mem", "copying, not hidden", "memory"),
)


def figure(trace: Trace | Ranks, *, mode: Mode = "auto", **options: Any) -> go.Figure:
    """A bar per row of `temporal_breakdown`, whose options it takes; at most 20, the longest."""
    frame = temporal_breakdown(trace, **options)
    if not len(frame):
        return nothing("No device work was recorded", trace, mode)
    shown = frame.nlargest(MAX_BARS, "span_ns").sort_index()
    drawn = go.Figure()
    names = [name or "all devices" for name in lanes(shown)]
    for part, text, group in (*_PARTS, ("idle", "idle", "")):
        color = group_color(group) if group else idle_color(mode)
        times, shares = shown[f"{part}_ns"].tolist(), shown[f"{part}_pct"].fillna(0).tolist()
        hover = [f"{text}: {units.duration(ns)}, {units.percent(pct)}" for ns, pct in zip(times, shares, strict=True)]
        bars(drawn, names, shares, text, color, hover, "% of the time from first start to last end")
    drawn.update_xaxes(range=[0, 100])
    return finished(drawn, _title(frame), trace, mode, rows=len(shown))


def _title(frame: Any) -> str:
    span = int(frame["span_ns"].sum())
    parts = {text: int(frame[f"{part}_ns"].sum()) for part, text, _ in (*_PARTS, ("idle", "idle", ""))}
    shares = [f"{text} {units.percent(100 * ns / span)}" for text, ns in parts.items() if ns and span]
    what = "ranks" if "rank" in frame and frame["rank"].is_unique else "rows"
    start = f"{len(frame)} {what}, together {units.duration(span)}" if len(frame) > 1 else f"Of {units.duration(span)}"
    return f"{start}: {', '.join(shares)}"
