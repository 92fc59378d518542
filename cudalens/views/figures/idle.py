"""Each gap in the devices' work as a point: when, how long, why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.time.idle import CAUSES, idle_time
from cudalens.frames import Ranks, Trace
from cudalens.views.figures.idle_causes import WORDS, cause_color
from cudalens.views.figures.style import MAX_POINTS, Mode, finished, label, lanes, nothing, points


def figure(trace: Trace | Ranks, *, mode: Mode = "auto", **options: Any) -> go.Figure:
    """A point per gap of `idle_time`, whose options it takes; at most 3,000, the longest."""
    frame = idle_time(trace, **options)
    if not len(frame):
        return nothing("No gap between pieces of device work", trace, mode)
    shown = frame.nlargest(MAX_POINTS, "gap_ns")
    zero = int(frame["ts"].min())
    drawn = go.Figure()
    for cause in CAUSES:
        rows = shown[shown["cause"] == cause]
        if len(rows):
            look = {"color": cause_color(cause, mode), "size": 7, "opacity": 0.8}
            points(drawn, (rows["ts"] - zero) / 1e6, rows["gap_ns"] / 1e3, WORDS[cause], _hover(rows), **look)
    drawn.update_xaxes(title_text="ms after the first gap")
    drawn.update_yaxes(title_text="length of the gap, µs", type="log", exponentformat="none")
    return finished(drawn, _title(frame), trace, mode)


def _hover(rows: pd.DataFrame) -> list[str]:
    where = rows["host_line"].astype(object).where(rows["host_line"].notna(), rows["host_op"].astype(object))
    found = []
    for lane, gap, place, following in zip(lanes(rows), rows["gap_ns"], where, rows["next_op"], strict=True):
        text = f"{units.duration(gap)} on {lane}"
        text += f"<br>host in {label(place, 80)}" if isinstance(place, str) else ""
        found.append(text + (f"<br>ended by {label(following, 80)}" if isinstance(following, str) else ""))
    return found


def _title(frame: pd.DataFrame) -> str:
    worst = frame.iloc[int(np.argmax(frame["gap_ns"].to_numpy()))]
    place = next((worst[k] for k in ("host_line", "host_op", "next_op") if isinstance(worst[k], str)), "")
    total = f"{units.duration(int(frame['gap_ns'].sum()))} idle in {units.plural(len(frame), 'gap')}"
    where = f", {units.shorten(place, 50)}" if place else ""
    return f"{total}; the longest {units.duration(worst['gap_ns'])}: {WORDS[str(worst['cause'])]}{where}"
