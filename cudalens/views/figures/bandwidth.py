"""How fast copies were in each direction, as bars."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.time.bandwidth import memcpy_bandwidth
from cudalens.frames import Ranks, Trace
from cudalens.views.figures.style import MAX_BARS, Mode, bars, finished, group_color, lanes, nothing


def figure(trace: Trace | Ranks, *, mode: Mode = "auto", **options: Any) -> go.Figure:
    """A bar per row of `memcpy_bandwidth`, whose options it takes, with its 5th to 95th percentile."""
    frame = memcpy_bandwidth(trace, **options).head(MAX_BARS)
    if not len(frame):
        return nothing("No copy was recorded", trace, mode)
    names = [f"{_kind(*row)} · {lane}" for row, lane in zip(_kinds(frame), lanes(frame), strict=True)]
    speed = frame["bytes_per_s"].to_numpy(float, na_value=0.0) / 1e9
    hover = [
        f"{name}<br>{units.count(n)} in {units.duration(ns)}, {units.size(size if size is not pd.NA else None)}"
        for name, n, ns, size in zip(names, frame["count"], frame["total_ns"], frame["num_bytes"], strict=True)
    ]
    drawn = go.Figure()
    bars(drawn, names, speed, "bytes over time", group_color("memory"), hover, "GB/s")
    low, median, high = (frame[f"{q}_bytes_per_s"].to_numpy(float, na_value=0.0) / 1e9 for q in ("p5", "median", "p95"))
    drawn.add_scatter(
        x=median,
        y=list(range(len(names))),
        mode="markers",
        name="median of single copies, 5th to 95th percentile",
        marker={"color": group_color("sync"), "size": 8, "symbol": "diamond"},
        error_x={"type": "data", "symmetric": False, "array": high - median, "arrayminus": median - low},
        hovertemplate="median %{x:.3g} GB/s<extra></extra>",
    )
    return finished(drawn, _title(frame), trace, mode, rows=len(frame) + 1)


def _kinds(frame: pd.DataFrame) -> Any:
    return zip(frame["direction"].astype(object), frame["host_memory"].astype(object), strict=True)


def _kind(direction: str, memory: Any) -> str:
    return f"{direction} {memory}" if isinstance(memory, str) else direction


def _title(frame: pd.DataFrame) -> str:
    direction, memory = next(iter(_kinds(frame)))
    top = frame.iloc[0]
    speed = "" if top["bytes_per_s"] is pd.NA else f" at {top['bytes_per_s'] / 1e9:.3g} GB/s"
    kind, time = _kind(direction, memory), units.duration(int(top["total_ns"]))
    pageable = int(frame.loc[frame["host_memory"] == "pageable", "count"].sum())
    rest = f"; {units.count(pageable)} copies of pageable memory" if pageable else ""
    return f"Most time goes to {kind}: {time}{speed}{rest}"
