"""The columns of the gauges below the timeline: readings in time order, reduced to what a screen can show."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.views.timeline.payload_codec import PayloadWriter
from cudalens.views.timeline.payload_order import Ints, since
from cudalens.views.timeline.readings import GAUGES, device_rows

#: More readings than this are reduced to the lowest and highest of each gauge in each interval.
MAX_POINTS: Final = 20_000

#: Numbers are sent as integers: tenths of these units, whole ones of the others.
_SCALES: Final = {"%": 10, "W": 10, "°C": 10}

_MAX_REASONS: Final = 100


def add_metrics(writer: PayloadWriter, metrics: pd.DataFrame, t0: int) -> dict[str, Any]:
    """Add the columns ``met.*`` of `metrics`; returns their part of the header.

    A value is sent as itself plus one, in units of its gauge's ``scale``; 0 is a missing value.

    Args:
        writer: The payload.
        metrics: The metrics frame, in time order.
        t0: Origin of the page's clock, ns.
    """
    parts = [(label, _thinned(rows)) for label, rows in device_rows(metrics)]
    texts = ["", *sorted({str(text) for text in metrics["slowed_by"].dropna() if text})[:_MAX_REASONS]]
    for k, (_, rows) in enumerate(parts):
        writer.add_ints(f"met.{k}.ts", np.diff(since(rows["ts"].to_numpy(), t0), prepend=0))
        for gauge in GAUGES:
            writer.add_ints(f"met.{k}.{gauge.column}", _coded(rows[gauge.column], _SCALES.get(gauge.unit, 1)))
        slowed = [texts.index(text) if text in texts else 0 for text in rows["slowed_by"].astype(object)]
        writer.add_ints(f"met.{k}.slowed_by", np.array(slowed, np.int64))
    gauges = [
        {"column": g.column, "title": g.title, "unit": g.unit, "full": g.full, "scale": _SCALES.get(g.unit, 1)}
        for g in GAUGES
    ]
    return {"devices": [label for label, _ in parts], "gauges": gauges, "reasons": [text[:200] for text in texts]}


def _coded(column: pd.Series, scale: int) -> Ints:
    value = column.astype("Float64").array.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isnan(value), 0, np.rint(np.nan_to_num(value) * scale) + 1).astype(np.int64)


def _thinned(rows: pd.DataFrame) -> pd.DataFrame:
    """Return all rows, or the minimum and maximum of each gauge in each interval, and the ends."""
    if len(rows) <= MAX_POINTS:
        return rows
    stretches = MAX_POINTS // (2 * len(GAUGES))
    stretch = np.arange(len(rows)) * stretches // len(rows)
    kept = [np.array([0, len(rows) - 1])]
    first = np.searchsorted(stretch, np.arange(stretches))
    for gauge in GAUGES:
        order = np.lexsort((_coded(rows[gauge.column], 10), stretch))
        kept += [order[first], order[np.append(first[1:], len(rows)) - 1]]
    return rows.iloc[np.unique(np.concatenate(kept))]
