"""GPU readings as text: the gauges, and a run's power, temperature, memory and clocks in one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pandas as pd

from cudalens.analysis import units
from cudalens.frames import Trace


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
