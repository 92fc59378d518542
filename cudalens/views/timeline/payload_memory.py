"""The memory curve's columns: allocator actions in time order, reduced to what a screen can show."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.frames.column_arrays import integers
from cudalens.views.timeline.payload_codec import PayloadWriter
from cudalens.views.timeline.payload_order import Ints, since

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
