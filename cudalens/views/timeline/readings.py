"""GPU readings as text, and as an inline SVG below the picture of the timeline, on the same axis of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis import units
from cudalens.frames import Trace
from cudalens.views.sections.markup import Node, element
from cudalens.views.sections.trust import simulated
from cudalens.views.timeline import svg
from cudalens.views.timeline.payload_codec import clipped_times, since
from cudalens.views.timeline.svg import LABEL, PLOT


@dataclass(frozen=True, slots=True)
class Gauge:
    """One quantity that is read.

    Attributes:
        column: Its column in the frame ``metrics``.
        title: Its name.
        unit: Its unit, as written after a number.
        full: Its maximum, or None if unknown.
    """

    column: str
    title: str
    unit: str
    full: float | None = None

    def text(self, value: float | None) -> str:
        """Return a value as text: ``87 %``, ``3.20 GiB``, ``412 W``."""
        if value is None or pd.isna(value):
            return "-"
        if self.column.endswith("_bytes"):
            return units.size(value)
        return units.percent(value) if self.unit == "%" else f"{value:,.0f} {self.unit}"


#: The gauges, from top to bottom.
GAUGES: Final = (
    Gauge("gpu_busy_pct", "GPU busy", "%", 100.0),
    Gauge("memory_used_bytes", "Memory", "B"),
    Gauge("power_watts", "Power", "W"),
    Gauge("temperature_celsius", "Temperature", "°C"),
    Gauge("clock_mhz", "Clock", "MHz"),
)


def metrics_verdict(trace: Trace) -> str:
    """``up to 412 W and 65 °C; clocks throttled by power cap in 40 % of the readings``; "" without readings."""
    metrics = trace.metrics
    power, heat = metrics["power_watts"].max(), metrics["temperature_celsius"].max()
    known = [GAUGES[2].text(power)] if pd.notna(power) else []
    known += [GAUGES[3].text(heat)] if pd.notna(heat) else []
    parts = [f"up to {' and '.join(known)}"] if known else []
    return "; ".join([*parts, *_slowed(metrics)])


def metrics_line(trace: Trace) -> str:
    """Return all readings in one line: means, peaks, and their number."""
    metrics = trace.metrics
    if metrics.empty:
        return ""
    who = "GPUs" if metrics["physical_index"].nunique(dropna=False) > 1 else "GPU"
    busy, memory = metrics["gpu_busy_pct"].mean(), metrics["memory_used_bytes"].max()
    parts = [
        f"{who} busy {units.percent(float(busy))} on average" if pd.notna(busy) else "",
        f"at most {units.size(float(memory))} in use" if pd.notna(memory) else "",
        metrics_verdict(trace),
        _count(metrics),
    ]
    return "; ".join(part for part in parts if part)


def _slowed(metrics: pd.DataFrame) -> list[str]:
    reasons = metrics["slowed_by"].astype(object)
    slowed = reasons[reasons.notna() & (reasons != "")]
    if slowed.empty:
        return []
    share = 100 * len(slowed) / len(metrics)
    return [f"clocks throttled by {slowed.mode().iloc[0]} in {units.percent(share)} of the readings"]


def _count(metrics: pd.DataFrame) -> str:
    num_devices = metrics["physical_index"].nunique(dropna=False)
    each = len(metrics) // max(num_devices, 1)
    return f"{units.plural(each, 'reading')} of {units.plural(num_devices, 'GPU')}"


def device_rows(metrics: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return the readings of each GPU with its label: ``cuda:0``, or ``GPU 3`` for one that the program did not see."""
    return [(label, metrics[mask]) for label, mask in _devices(metrics)]


def _devices(metrics: pd.DataFrame) -> list[tuple[str, pd.Series]]:
    pairs = metrics[["device", "physical_index"]].drop_duplicates().sort_values(["device", "physical_index"])
    found: dict[str, pd.Series] = {}
    for device, number in pairs.itertuples(index=False):
        unseen = pd.isna(device)
        mine = (
            metrics["device"].isna() & (metrics["physical_index"] == number) if unseen else metrics["device"] == device
        )
        found[f"GPU {number}" if unseen else f"cuda:{device}"] = mine.fillna(False).astype(bool)
    return list(found.items())


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
