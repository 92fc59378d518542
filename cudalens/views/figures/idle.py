"""Idle time: each gap in the devices' work as a point, the causes of gaps as bars, and shares of the devices' time."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.time.idle import CAUSES, idle_causes, idle_time
from cudalens.analysis.time.temporal import temporal_breakdown
from cudalens.frames import Ranks, Trace
from cudalens.views.figures.style import (
    MAX_BARS,
    MAX_POINTS,
    Mode,
    bars,
    finished,
    group_color,
    idle_color,
    label,
    lanes,
    nothing,
    points,
)

WORDS: Final = {
    "host": "host was busy",
    "sync": "host had waited for the device",
    "launch": "launch was on its way",
    "dependency": "waited for other work",
    "unknown": "unknown",
}


def cause_color(cause: str, mode: Mode) -> str:
    """Return the colour of a cause of idle time."""
    groups = {"host": "op", "sync": "sync", "launch": "runtime", "dependency": "range"}
    return group_color(groups[cause]) if cause in groups else idle_color(mode)


def causes(
    trace: Trace | Ranks,
    *,
    mode: Mode = "auto",
    by: Literal["device", "stream"] = "device",
    min_ns: int = 0,
    step: int | None = None,
) -> go.Figure:
    """Draw a bar per device or stream of `idle_causes`."""
    frame = idle_causes(trace, by, min_ns=min_ns, step=step)
    if not len(frame):
        return nothing("No gap between pieces of device work", trace, mode)
    frame = frame.assign(lane=lanes(frame))
    names = list(dict.fromkeys(frame["lane"]))
    drawn = go.Figure()
    for cause in CAUSES:
        rows = frame[frame["cause"] == cause].set_index("lane")
        if not len(rows):
            continue
        times = [int(rows["part_ns"].get(name, 0)) for name in names]
        hover = [
            f"{WORDS[cause]}: {units.duration(ns)}{_cause_top(rows, name)}"
            for ns, name in zip(times, names, strict=True)
        ]
        bars(drawn, names, [ns / 1e6 for ns in times], WORDS[cause], cause_color(cause, mode), hover, "idle, ms")
    return finished(drawn, _cause_title(frame), trace, mode, rows=len(names))


def _cause_top(rows: Any, name: str) -> str:
    top = rows["top"].get(name)
    return "" if not isinstance(top, str) else f"<br>most: {label(top, 80)}, {units.duration(rows['top_ns'].get(name))}"


def _cause_title(frame: Any) -> str:
    """Return the result of `idle_causes` in one line."""
    total = int(frame["part_ns"].sum())
    parts = frame.groupby("cause", observed=True)["part_ns"].sum().sort_values(ascending=False)
    shares = [f"{WORDS[str(cause)]} {units.percent(100 * ns / total)}" for cause, ns in parts.items() if ns]
    return f"{units.duration(total)} idle: {', '.join(shares[:3])}"


def gaps(
    trace: Trace | Ranks,
    *,
    mode: Mode = "auto",
    by: Literal["device", "stream"] = "device",
    min_ns: int = 0,
    step: int | None = None,
) -> go.Figure:
    """Draw a point per gap of `idle_time`; at most 3,000, the longest."""
    frame = idle_time(trace, by, min_ns=min_ns, step=step)
    if not len(frame):
        return nothing("No gap between pieces of device work", trace, mode)
    shown = frame.nlargest(MAX_POINTS, "gap_ns")
    zero = int(frame["ts"].min())
    drawn = go.Figure()
    for cause in CAUSES:
        rows = shown[shown["cause"] == cause]
        if len(rows):
            look = {"color": cause_color(cause, mode), "size": 7, "opacity": 0.8}
            points(drawn, (rows["ts"] - zero) / 1e6, rows["gap_ns"] / 1e3, WORDS[cause], _gap_hover(rows), **look)
    drawn.update_xaxes(title_text="ms after the first gap")
    drawn.update_yaxes(title_text="length of the gap, µs", type="log", exponentformat="none")
    return finished(drawn, _gap_title(frame), trace, mode)


def _gap_hover(rows: pd.DataFrame) -> list[str]:
    where = rows["host_line"].astype(object).where(rows["host_line"].notna(), rows["host_op"].astype(object))
    found = []
    for lane, gap, place, following in zip(lanes(rows), rows["gap_ns"], where, rows["next_op"], strict=True):
        text = f"{units.duration(gap)} on {lane}"
        text += f"<br>host in {label(place, 80)}" if isinstance(place, str) else ""
        found.append(text + (f"<br>ended by {label(following, 80)}" if isinstance(following, str) else ""))
    return found


def _gap_title(frame: pd.DataFrame) -> str:
    worst = frame.iloc[int(np.argmax(frame["gap_ns"].to_numpy()))]
    place = next((worst[k] for k in ("host_line", "host_op", "next_op") if isinstance(worst[k], str)), "")
    total = f"{units.duration(int(frame['gap_ns'].sum()))} idle in {units.plural(len(frame), 'gap')}"
    where = f", {units.shorten(place, 50)}" if place else ""
    return f"{total}; the longest {units.duration(worst['gap_ns'])}: {WORDS[str(worst['cause'])]}{where}"


_SHARES: Final = (
    ("comp", "computing", "kernel"),
    ("exposed_comm", "communicating, not hidden", "comm"),
    ("exposed_mem", "copying, not hidden", "memory"),
)


def shares(
    trace: Trace | Ranks,
    *,
    mode: Mode = "auto",
    by: Literal["device", "stream", "step"] | None = None,
    step: int | None = None,
) -> go.Figure:
    """Draw a bar per row of `temporal_breakdown`; at most 20, the longest."""
    frame = temporal_breakdown(trace, by, step=step)
    if not len(frame):
        return nothing("No device work was recorded", trace, mode)
    shown = frame.nlargest(MAX_BARS, "span_ns").sort_index()
    drawn = go.Figure()
    names = [name or "all devices" for name in lanes(shown)]
    for part, text, group in (*_SHARES, ("idle", "idle", "")):
        color = group_color(group) if group else idle_color(mode)
        times, shares = shown[f"{part}_ns"].tolist(), shown[f"{part}_pct"].fillna(0).tolist()
        hover = [f"{text}: {units.duration(ns)}, {units.percent(pct)}" for ns, pct in zip(times, shares, strict=True)]
        bars(drawn, names, shares, text, color, hover, "% of the time from first start to last end")
    drawn.update_xaxes(range=[0, 100])
    return finished(drawn, _share_title(frame), trace, mode, rows=len(shown))


def _share_title(frame: Any) -> str:
    span = int(frame["span_ns"].sum())
    parts = {text: int(frame[f"{part}_ns"].sum()) for part, text, _ in (*_SHARES, ("idle", "idle", ""))}
    shares = [f"{text} {units.percent(100 * ns / span)}" for text, ns in parts.items() if ns and span]
    what = "ranks" if "rank" in frame and frame["rank"].is_unique else "rows"
    start = f"{len(frame)} {what}, together {units.duration(span)}" if len(frame) > 1 else f"Of {units.duration(span)}"
    return f"{start}: {', '.join(shares)}"
