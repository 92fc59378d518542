"""The payload's curves, reduced to what a screen can show: allocated memory, and readings of the gauges."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.frames.column_arrays import Ints, integers
from cudalens.views.timeline.payload_codec import PayloadWriter
from cudalens.views.timeline.payload_order import since
from cudalens.views.timeline.readings import GAUGES, device_rows

#: More allocator actions than this are reduced to the lowest and highest allocation of each interval.
MAX_POINTS: Final = 60_000
#: So many are sent where the payload is limited.
FEW_POINTS: Final = 12_000


def add_memory(
    writer: PayloadWriter, memory: pd.DataFrame, t0: int, place: Ints, num_points: int = MAX_POINTS
) -> dict[str, Any]:
    """Add the columns ``mem.*`` of `memory`; returns their part of the header.

    Args:
        writer: The payload.
        memory: The memory frame, m rows in time order.
        t0: Origin of the page's clock, ns.
        place: Position in the payload of each row of the events, shape (n,); -1 for rows that are not sent.
        num_points: More actions than this are reduced.
    """
    device, labels = _devices(memory)
    kept = _thinned(memory, device, len(labels), num_points)
    frame, num = memory.iloc[kept], len(memory)
    action, actions = pd.factorize(frame["action"].astype(object).fillna("unknown"))
    writer.add_ints("mem.ts", np.diff(since(frame["ts"].to_numpy(), t0), prepend=0))
    writer.add_ints("mem.device", device[kept])
    writer.add_ints("mem.action", action)
    writer.add_ints("mem.bytes", frame["num_bytes"].to_numpy())
    for column in ("allocated_bytes", "reserved_bytes"):
        writer.add_ints(f"mem.{column}", _steps(frame[column], device[kept]))
    row = integers(frame["event"])
    known = (row >= 0) & (row < len(place))
    event = np.full(len(row), -1, np.int64)
    event[known] = place[row[known]]
    writer.add_ints("mem.event", np.diff(event, prepend=0))
    return {"devices": labels, "actions": [str(a)[:100] for a in actions], "n": len(kept), "num_actions": num}


def _devices(memory: pd.DataFrame) -> tuple[Ints, list[str]]:
    """Device of each action and the devices' labels: ``cpu``, ``cuda:0``."""
    kind = memory["device_type"].astype(object).fillna("memory").astype(str)
    index = integers(memory["device"])
    pair = pd.factorize(kind)[0].astype(np.int64) << 32 | (index + 1)
    codes, uniques = pd.factorize(pair)
    first = [int(np.argmax(codes == k)) for k in range(len(uniques))]
    labels = [kind.iloc[i] + (f":{index[i]}" if index[i] >= 0 else "") for i in first]
    return codes.astype(np.int64), [label[:100] for label in labels]


def _thinned(memory: pd.DataFrame, device: Ints, num_devices: int, num_points: int) -> Ints:
    """Rows to send: all, or of each device the minimum and maximum in each interval, and the ends."""
    if len(memory) <= num_points:
        return np.arange(len(memory))
    allocated = integers(memory["allocated_bytes"], 0)
    stretches = num_points // (4 * max(num_devices, 1))
    kept = [_extremes(rows := np.flatnonzero(device == k), allocated[rows], stretches) for k in range(num_devices)]
    return np.unique(np.concatenate(kept))


def _extremes(rows: Ints, values: Ints, stretches: int) -> Ints:
    edges = np.unique(np.linspace(0, len(rows), stretches + 1).astype(np.int64))[:-1]
    if not len(rows):
        return rows
    stretch = np.repeat(np.arange(len(edges)), np.diff(edges, append=len(rows)))
    order = np.lexsort((values, stretch))
    last = np.append(edges[1:], len(rows)) - 1
    return np.unique(np.concatenate([rows[edges], rows[order[edges]], rows[order[last]], rows[last]]))


def _steps(column: pd.Series, device: Ints) -> Ints:
    """Value plus one of each action (0: missing) less that of the device's action before."""
    value = integers(column) + 1
    order = np.argsort(device, kind="stable")
    before = np.zeros(len(value), np.int64)
    same = device[order][1:] == device[order][:-1]
    before[order[1:][same]] = value[order[:-1][same]]
    return value - before


#: More readings than this are reduced to the lowest and highest of each gauge in each interval.
MAX_READINGS: Final = 20_000

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
    parts = [(label, _thinned_readings(rows)) for label, rows in device_rows(metrics)]
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


def _thinned_readings(rows: pd.DataFrame) -> pd.DataFrame:
    """Return all rows, or the minimum and maximum of each gauge in each interval, and the ends."""
    if len(rows) <= MAX_READINGS:
        return rows
    stretches = MAX_READINGS // (2 * len(GAUGES))
    stretch = np.arange(len(rows)) * stretches // len(rows)
    kept = [np.array([0, len(rows) - 1])]
    first = np.searchsorted(stretch, np.arange(stretches))
    for gauge in GAUGES:
        order = np.lexsort((_coded(rows[gauge.column], 10), stretch))
        kept += [order[first], order[np.append(first[1:], len(rows)) - 1]]
    return rows.iloc[np.unique(np.concatenate(kept))]
