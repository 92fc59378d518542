"""A roofline plot: FLOP/s of operators against their arithmetic intensity, with the ceilings of the device."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.time.roofline.by_operator import roofline
from cudalens.frames import Ranks, Trace
from cudalens.frames.ceilings import Ceilings
from cudalens.views.figures.style import MAX_POINTS, Mode, colors_of, finished, label, nothing, points, series_color


def figure(
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
        points(drawn, x, y, label(dtype), _hover(rows), color=color, size=size, opacity=0.7)
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


def _hover(rows: pd.DataFrame) -> list[str]:
    return [
        f"{label(name, 60)} {'' if pd.isna(shapes) else label(shapes, 80)}<br>{units.duration(ns)} in {n:,} calls, "
        f"{flops / 1e12:.3g} TFLOP/s" + ("" if roof is pd.NA else f", {units.percent(roof)} of the roof")
        for name, shapes, ns, n, flops, roof in rows[
            ["name", "shapes", "gpu_ns", "count", "flops_per_s", "roof_pct"]
        ].itertuples(index=False)
    ]


def _title(shown: pd.DataFrame) -> str:
    known = shown[shown["roof_pct"].notna()]
    top = shown.iloc[0]
    if not len(known):
        return f"{top['name']} runs at {top['flops_per_s'] / 1e12:.3g} TFLOP/s; the device's ceilings are not known"
    mean = float((known["roof_pct"] * known["gpu_ns"]).sum() / known["gpu_ns"].sum())
    worst = known.iloc[int(np.argmax((known["gpu_ns"] * (100 - known["roof_pct"]).clip(0)).to_numpy(float)))]
    lost = f"most is lost in {worst['name']}, at {units.percent(float(worst['roof_pct']))}"
    return f"These operators reach {units.percent(mean)} of their roof; {lost}"
