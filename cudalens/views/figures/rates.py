"""Rates: overlap and each collective of communication, copies, and operators below the roofline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.time.overlap import collectives, communication_overlap
from cudalens.analysis.time.roofline import memcpy_bandwidth, roofline
from cudalens.frames import Ranks, Trace
from cudalens.frames.info import Ceilings
from cudalens.views.figures.style import (
    MAX_BARS,
    MAX_POINTS,
    Mode,
    add_points,
    bars,
    colors_of,
    finished,
    group_color,
    in_short,
    label,
    lanes,
    nothing,
    series_color,
)


def overlap(trace: Trace | Ranks, *, mode: Mode = "auto", step: int | None = None) -> go.Figure:
    """Draw a bar per device of `communication_overlap`."""
    frame = communication_overlap(trace, step=step)
    if not len(frame):
        return nothing("No communication was recorded", trace, mode)
    drawn = go.Figure()
    for column, text, group in (("overlap_ns", "hidden", "kernel"), ("exposed_ns", "exposed", "comm")):
        hover = [f"{text}: {units.duration(ns)}" for ns in frame[column]]
        bars(drawn, lanes(frame), frame[column] / 1e6, text, group_color(group), hover, "ms of communication")
    comm, hidden = int(frame["comm_ns"].sum()), int(frame["overlap_ns"].sum())
    share = units.percent(100 * hidden / comm) if comm else "nothing"
    title = (
        f"Computation hides {share} of {units.duration(comm)} of communication; {units.duration(comm - hidden)} stay"
    )
    return finished(drawn, f"{title} exposed", trace, mode, rows=len(frame))


_GROUPS = ("comm", "kernel", "op", "range", "runtime", "sync")


def each_collective(trace: Trace | Ranks, *, mode: Mode = "auto", step: int | None = None) -> go.Figure:
    """Draw a point per collective of `collectives`; at most 3,000, the longest."""
    frame = collectives(trace, step=step)
    if not len(frame):
        return nothing("No communication was recorded", trace, mode)
    sized = frame[frame["bus_bytes_per_s"].notna() & (frame["num_bytes"] > 0)]
    by_size = len(sized) > 0
    shown = (sized if by_size else frame).nlargest(MAX_POINTS, "dur")
    kind = shown["collective"].astype(object).where(shown["collective"].notna(), shown["name"].astype(object))
    zero = int(shown["ts"].min())
    drawn = go.Figure()
    for i, (name, rows) in enumerate(shown.groupby(pd.Series(_kinds(kind), kind.index), sort=False)):
        x = rows["num_bytes"].to_numpy(float) if by_size else (rows["ts"] - zero) / 1e6
        y = (rows["bus_bytes_per_s"] if by_size else rows["dur"]).to_numpy(float) / (1e9 if by_size else 1e6)
        hover = [
            f"{label(name, 80)}<br>{units.duration(dur)}, {units.duration(exposed)} exposed"
            + ("" if size is pd.NA else f"<br>{units.size(size)}")
            for name, dur, exposed, size in rows[["name", "dur", "exposed_ns", "num_bytes"]].itertuples(index=False)
        ]
        color = group_color(_GROUPS[i % len(_GROUPS)])
        add_points(drawn, x, y, name, hover, color=color, size=8, opacity=0.75)
    drawn.update_xaxes(title_text="bytes" if by_size else "ms after the first", type="log" if by_size else "linear")
    drawn.update_yaxes(title_text="bus bandwidth, GB/s" if by_size else "ms", rangemode="tozero")
    total = f"{units.plural(len(frame), 'collective')}, {units.duration(int(frame['dur'].sum()))}"
    title = f"{total}; their sizes were not recorded"
    if len(sized):
        speed = float((sized["bus_bytes_per_s"] * sized["dur"]).sum() / sized["dur"].sum()) / 1e9
        title = f"{total}; bus bandwidth {speed:.3g} GB/s on average over time"
    return finished(drawn, title, trace, mode)


def _kinds(names: pd.Series) -> list[str]:
    """Labels of collectives, or of their kernels."""
    return [label(name, 30) for name in in_short(names.tolist(), names.str.contains("(", regex=False))]


def copies(trace: Trace | Ranks, *, mode: Mode = "auto", step: int | None = None) -> go.Figure:
    """Draw a bar per row of `memcpy_bandwidth`, with its 5th to 95th percentile."""
    frame = memcpy_bandwidth(trace, step=step).head(MAX_BARS)
    if not len(frame):
        return nothing("No copy was recorded", trace, mode)
    names = [f"{_copy_kind(*row)} · {lane}" for row, lane in zip(_copy_kinds(frame), lanes(frame), strict=True)]
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
    direction, memory = next(iter(_copy_kinds(frame)))
    top = frame.iloc[0]
    at_speed = "" if top["bytes_per_s"] is pd.NA else f" at {top['bytes_per_s'] / 1e9:.3g} GB/s"
    kind, time = _copy_kind(direction, memory), units.duration(int(top["total_ns"]))
    pageable = int(frame.loc[frame["host_memory"] == "pageable", "count"].sum())
    rest = f"; {units.count(pageable)} copies of pageable memory" if pageable else ""
    title = f"Most time goes to {kind}: {time}{at_speed}{rest}"
    return finished(drawn, title, trace, mode, rows=len(frame) + 1)


def _copy_kinds(frame: pd.DataFrame) -> Any:
    return zip(frame["direction"].astype(object), frame["host_memory"].astype(object), strict=True)


def _copy_kind(direction: str, memory: Any) -> str:
    return f"{direction} {memory}" if isinstance(memory, str) else direction


def roofline_plot(
    trace: Trace | Ranks,
    *,
    mode: Mode = "auto",
    ceilings: Ceilings | Mapping[int, Ceilings] | None = None,
    step: int | None = None,
) -> go.Figure:
    """Draw a point per row of `roofline` with known operations and bytes; the area of a point is device time."""
    frame = roofline(trace, ceilings, step=step)
    shown = frame[frame["intensity"].notna() & (frame["gpu_ns"] > 0)].head(MAX_POINTS)
    if not len(shown):
        return nothing("No operator has known operations and bytes; record shapes, or FLOPs", trace, mode)
    drawn = go.Figure()
    biggest = float(shown["gpu_ns"].max())
    dtypes = shown["dtype"].astype(object).where(shown["dtype"].notna(), "unknown dtype")
    for i, (dtype, rows) in enumerate(shown.groupby(dtypes, sort=False)):
        color = series_color(i)
        x, y = rows["intensity"].to_numpy(float), rows["flops_per_s"].to_numpy(float) / 1e12
        size = 6 + 26 * np.sqrt(rows["gpu_ns"] / biggest)
        hover = [
            f"{label(name, 60)} {'' if pd.isna(shapes) else label(shapes, 80)}<br>{units.duration(ns)} in {n:,} calls, "
            f"{flops / 1e12:.3g} TFLOP/s" + ("" if roof is pd.NA else f", {units.percent(roof)} of the roof")
            for name, shapes, ns, n, flops, roof in rows[
                ["name", "shapes", "gpu_ns", "count", "flops_per_s", "roof_pct"]
            ].itertuples(index=False)
        ]
        add_points(drawn, x, y, label(dtype), hover, color=color, size=size, opacity=0.7)
        _roofs(drawn, rows, (float(shown["intensity"].min()), float(shown["intensity"].max())), color, label(dtype))
    drawn.update_xaxes(title_text="FLOPs per byte moved", type="log", exponentformat="none")
    drawn.update_yaxes(title_text="TFLOP/s", type="log", exponentformat="none")
    drawn.update_layout(hoverlabel_bordercolor=colors_of(mode)["line"])
    return finished(drawn, _title(shown), trace, mode)


def _roofs(drawn: go.Figure, rows: pd.DataFrame, span: tuple[float, float], color: str, dtype: str) -> None:
    known = rows[rows["peak_flops_per_s"].notna() & rows["peak_bytes_per_s"].notna()]
    for flops, speed in known[["peak_flops_per_s", "peak_bytes_per_s"]].drop_duplicates().to_numpy(float):
        ridge = flops / speed
        x = sorted({min(span[0], ridge) / 3, ridge, max(span[1], ridge) * 3})
        drawn.add_scatter(
            x=x,
            y=[min(flops, at * speed) / 1e12 for at in x],
            mode="lines",
            line={"color": color, "width": 1.5, "dash": "dash"},
            name=f"roof, {dtype}",
            hovertemplate=f"{flops / 1e12:.4g} TFLOP/s, {speed / 1e12:.3g} TB/s<extra></extra>",
        )


def _title(shown: pd.DataFrame) -> str:
    known = shown[shown["roof_pct"].notna()]
    top = shown.iloc[0]
    if not len(known):
        return f"{top['name']} runs at {top['flops_per_s'] / 1e12:.3g} TFLOP/s; the device's ceilings are not known"
    mean = float((known["roof_pct"] * known["gpu_ns"]).sum() / known["gpu_ns"].sum())
    worst = known.iloc[int(np.argmax((known["gpu_ns"] * (100 - known["roof_pct"]).clip(0)).to_numpy(float)))]
    lost = f"most is lost in {worst['name']}, at {units.percent(float(worst['roof_pct']))}"
    return f"These operators reach {units.percent(mean)} of their roof; {lost}"
