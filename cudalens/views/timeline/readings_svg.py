"""The readings of GPUs as an inline SVG below the picture of the timeline, on the same axis of time."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from cudalens.frames import Trace
from cudalens.views.sections.badges import simulated
from cudalens.views.sections.markup import Node, element
from cudalens.views.timeline import svg
from cudalens.views.timeline.payload_order import clipped_times, since
from cudalens.views.timeline.pixels import PLOT
from cudalens.views.timeline.readings import GAUGES, Gauge, device_rows, metrics_line
from cudalens.views.timeline.svg import LABEL

#: Mid-tones for light and dark pages, by the number of the GPU.
_COLORS: Final = ("#2f81d6", "#c26a00", "#8a63d2", "#008c7a", "#c2428b", "#6f8f1f", "#b3402e", "#5f7684")

_ROW: Final = 34
_GAP: Final = 8
_HEAD: Final = 16
_MAX_COLUMNS: Final = 400
#: Points of all lines of a gauge together.
_MAX_POINTS: Final = 1200

_MAX_DEVICES: Final = 8


def metrics_svg(trace: Trace) -> Node | None:
    """Return the readings of `trace`, at most some 60 KB; None where there are none."""
    metrics = trace.metrics
    if metrics.empty:
        return None
    window = _window(trace)
    parts = device_rows(metrics)[:_MAX_DEVICES]
    gauges = [gauge for gauge in GAUGES if metrics[gauge.column].notna().any()]
    badge = simulated(trace.info)
    title = f"Readings of the GPUs: {metrics_line(trace)}{f' ({badge})' if badge else ''}"
    rows = (_row(gauge, _HEAD + k * (_ROW + _GAP), parts, window) for k, gauge in enumerate(gauges))
    return svg.chart(_HEAD + len(gauges) * (_ROW + _GAP), title, _legend(parts, title), *rows)


def _window(trace: Trace) -> tuple[int, int]:
    """Origin and length of the timeline's picture, ns; of the readings where there is no event."""
    if len(trace.events):
        origin, start, dur, _ = clipped_times(trace.events)
        return origin, max(int((start + dur).max()), 1)
    ts = trace.metrics["ts"]
    return int(ts.iloc[0]), max(int(ts.iloc[-1] - ts.iloc[0]), 1)


def _legend(parts: list[tuple[str, pd.DataFrame]], title: str) -> Node:
    if len(parts) == 1:
        return svg.text(title, 0, 11, opacity=".8")
    spans = (element("tspan", label, fill=_color(label), dx=8 if k else 0) for k, (label, _) in enumerate(parts))
    return element("text", *spans, x=0, y=11)


def _color(label: str) -> str:
    """Return the colour of a GPU by its number, as in the page."""
    number = label.replace(":", " ").rpartition(" ")[2]
    return _COLORS[int(number) % len(_COLORS)] if number.isdecimal() else _COLORS[-1]


def _row(gauge: Gauge, top: int, parts: list[tuple[str, pd.DataFrame]], window: tuple[int, int]) -> Node:
    values = pd.concat([rows[gauge.column] for _, rows in parts]).astype("Float64")
    largest = float(values.max())
    place = (top, gauge.full or largest or 1.0)
    columns = min(_MAX_COLUMNS, _MAX_POINTS // len(parts))
    paths = ((label, _path(rows, gauge.column, window, place, columns)) for label, rows in parts)
    lines = (
        element("path", d=path, fill="none", stroke=_color(label), stroke_width="1.3") for label, path in paths if path
    )
    base = element("path", d=f"M{LABEL} {top + _ROW}h{PLOT}", stroke="currentColor", stroke_opacity=".2")
    title = svg.text(gauge.title, 0, top + 13)
    most = svg.text(f"up to {gauge.text(largest)}", 0, top + 27, opacity=".7")
    return element("g", title, most, base, *lines)


def _path(rows: pd.DataFrame, column: str, axis: tuple[int, int], place: tuple[int, float], columns: int) -> str:
    """Return a line through the readings, of those in each of `columns` of the picture the highest.

    Args:
        rows: The readings of one GPU.
        column: Which of them.
        axis: Origin and length of the axis of time, ns.
        place: Top of the row, and the value at it.
        columns: How many points there may be.
    """
    value = rows[column].astype("Float64").array.to_numpy(dtype=np.float64, na_value=np.nan)
    share = np.clip(since(rows["ts"].to_numpy(), axis[0]) / axis[1], 0.0, 1.0)
    known = ~np.isnan(value)
    pixel = (share[known] * columns).astype(np.int64)
    highest = pd.Series(value[known]).groupby(pixel).max()
    x = LABEL + PLOT * highest.index.to_numpy() / columns
    y = place[0] + _ROW - (_ROW - 2) * np.clip(highest.to_numpy() / place[1], 0.0, 1.0)
    points = [f"{a:.0f} {b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    return f"M{'L'.join(points)}" if points else ""
