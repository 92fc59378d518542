"""The gauges of GPUs as an inline SVG that stands beneath the picture of the timeline, on the same axis of time."""

from __future__ import annotations

from html import escape
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis import units
from cudalens.frames import Trace
from cudalens.views.sections.badges import simulated as simulated_badge
from cudalens.views.timeline import svg
from cudalens.views.timeline.metrics_text import GAUGES, Gauge, device_rows, metrics_line
from cudalens.views.timeline.payload_order import clipped_times, since

COLORS: Final = ("#2f81d6", "#c26a00", "#8a63d2", "#008c7a", "#c2428b", "#6f8f1f", "#b3402e", "#5f7684")
"""Mid-tones that stand on light and dark ground, one per GPU, in turn."""

_ROW: Final = 34
_GAP: Final = 8
_HEAD: Final = 16
_MAX_COLUMNS: Final = 400
_MAX_POINTS: Final = 1200
"""Of a gauge's lines together."""

_MAX_DEVICES: Final = 8


def metrics_svg(trace: Trace) -> str:
    """The readings of `trace` as an ``<svg>`` element of at most some 60 KB; empty text where there are none."""
    metrics = trace.metrics
    if metrics.empty:
        return ""
    origin, span = _axis(trace)
    parts = [(label, rows) for label, rows in device_rows(metrics)[:_MAX_DEVICES]]
    gauges = [gauge for gauge in GAUGES if metrics[gauge.column].notna().any()]
    height = _HEAD + len(gauges) * (_ROW + _GAP)
    title = f"Readings of the GPUs: {metrics_line(trace)}"
    if simulated := simulated_badge(trace.info):
        title = f"{title} ({simulated})"
    rows = [_row(gauge, k, parts, origin, span) for k, gauge in enumerate(gauges)]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {svg.WIDTH} {height}" role="img" '
        f'style="width:100%;max-width:{svg.WIDTH}px;height:auto;display:block" '
        'font-family="system-ui,sans-serif" font-size="11" fill="currentColor">'
    )
    line = escape(units.shorten(title, 150))
    return f"{head}<title>{escape(title)}</title>{_legend(parts, line)}{''.join(rows)}</svg>"


def _axis(trace: Trace) -> tuple[int, int]:
    """Origin and length of the timeline's picture, ns; of the readings where there is no event."""
    if len(trace.events):
        origin, start, dur, _ = clipped_times(trace.events)
        return origin, max(int((start + dur).max()), 1)
    ts = trace.metrics["ts"]
    return int(ts.iloc[0]), max(int(ts.iloc[-1] - ts.iloc[0]), 1)


def _legend(parts: list[tuple[str, pd.DataFrame]], line: str) -> str:
    if len(parts) == 1:
        return f'<text x="0" y="11" opacity=".8">{line}</text>'
    texts = [
        f'<tspan fill="{COLORS[k % len(COLORS)]}" dx="{8 if k else 0}">{escape(label)}</tspan>'
        for k, (label, _) in enumerate(parts)
    ]
    return f'<text x="0" y="11">{"".join(texts)}</text>'


def _row(gauge: Gauge, number: int, parts: list[tuple[str, pd.DataFrame]], origin: int, span: int) -> str:
    top = _HEAD + number * (_ROW + _GAP)
    values = pd.concat([rows[gauge.column] for _, rows in parts]).astype("Float64")
    largest = float(values.max())
    full = gauge.full or largest or 1.0
    columns = min(_MAX_COLUMNS, _MAX_POINTS // len(parts))
    lines = [
        f'<path d="{path}" fill="none" stroke="{COLORS[k % len(COLORS)]}" stroke-width="1.3"/>'
        for k, (_, rows) in enumerate(parts)
        if (path := _path(rows, gauge.column, (origin, span), (top, full), columns))
    ]
    base = f'<path d="M{svg.LABEL} {top + _ROW}h{svg.PLOT}" stroke="currentColor" stroke-opacity=".2"/>'
    label = (
        f'<text x="0" y="{top + 13}">{escape(gauge.title)}</text>'
        f'<text x="0" y="{top + 27}" opacity=".7">{escape(f"up to {gauge.text(largest)}")}</text>'
    )
    return f"<g>{label}{base}{''.join(lines)}</g>"


def _path(rows: pd.DataFrame, column: str, axis: tuple[int, int], place: tuple[int, float], columns: int) -> str:
    """A line through the readings, of those in each of `columns` of the picture the highest.

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
    x = svg.LABEL + svg.PLOT * highest.index.to_numpy() / columns
    y = place[0] + _ROW - (_ROW - 2) * np.clip(highest.to_numpy() / place[1], 0.0, 1.0)
    points = [f"{a:.0f} {b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    return f"M{'L'.join(points)}" if points else ""
