"""Each collective: its size against its bandwidth, or, where sizes are not known, its time."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.time.overlap import collectives
from cudalens.frames import Ranks, Trace
from cudalens.views.figures.style import MAX_POINTS, Mode, finished, group_color, label, nothing, points

_GROUPS = ("comm", "kernel", "op", "range", "runtime", "sync")


def figure(trace: Trace | Ranks, *, mode: Mode = "auto", **options: Any) -> go.Figure:
    """A point per collective of `collectives`, whose options it takes; at most 3,000, the longest."""
    frame = collectives(trace, **options)
    if not len(frame):
        return nothing("No communication was recorded", trace, mode)
    sized = frame[frame["bus_bytes_per_s"].notna() & (frame["num_bytes"] > 0)]
    by_size = len(sized) > 0
    shown = (sized if by_size else frame).nlargest(MAX_POINTS, "dur")
    kind = shown["collective"].astype(object).where(shown["collective"].notna(), shown["name"].astype(object))
    zero = int(shown["ts"].min())
    drawn = go.Figure()
    for i, (name, rows) in enumerate(shown.groupby(kind.map(lambda text: label(text, 30)), sort=False)):
        x = rows["num_bytes"].to_numpy(float) if by_size else (rows["ts"] - zero) / 1e6
        y = (rows["bus_bytes_per_s"] if by_size else rows["dur"]).to_numpy(float) / (1e9 if by_size else 1e6)
        points(drawn, x, y, name, _hover(rows), color=group_color(_GROUPS[i % len(_GROUPS)]), size=8, opacity=0.75)
    drawn.update_xaxes(title_text="bytes" if by_size else "ms after the first", type="log" if by_size else "linear")
    drawn.update_yaxes(title_text="bus bandwidth, GB/s" if by_size else "ms", rangemode="tozero")
    return finished(drawn, _title(frame, sized), trace, mode)


def _hover(rows: pd.DataFrame) -> list[str]:
    return [
        f"{label(name, 80)}<br>{units.duration(dur)}, {units.duration(exposed)} exposed"
        + ("" if size is pd.NA else f"<br>{units.size(size)}")
        for name, dur, exposed, size in rows[["name", "dur", "exposed_ns", "num_bytes"]].itertuples(index=False)
    ]


def _title(frame: pd.DataFrame, sized: pd.DataFrame) -> str:
    total = f"{units.plural(len(frame), 'collective')}, {units.duration(int(frame['dur'].sum()))}"
    if not len(sized):
        return f"{total}; their sizes were not recorded"
    speed = float((sized["bus_bytes_per_s"] * sized["dur"]).sum() / sized["dur"].sum()) / 1e9
    return f"{total}; bus bandwidth {speed:.3g} GB/s on average over time"
