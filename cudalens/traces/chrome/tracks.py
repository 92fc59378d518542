"""Extra tracks for a Chrome trace: counters of memory, GPU metrics and launch queues, and marks.

Counters (phase C) are on the track of their device. Races and waits are instants of the category `MARK`; a race has an
arrow from its first access to its second. Tracks repeat the contents of the frames for viewers. Our reader skips the
marks and reads the frames from the key ``cudalens`` (see `cudalens.traces.chrome.top_level`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.frames import GPU_ACTIVITIES, Trace, is_category
from cudalens.frames.column_arrays import Ints

Micros = Callable[[Ints], list[Any]]

#: Category of entries that are only for viewers and are not events.
MARK: Final = "cudalens_mark"

RACES: Final = "races"
_ROWS: Final = 20_000
_GAUGES: Final = {
    "gpu_busy_pct": "GPU busy (%)",
    "memory_busy_pct": "memory busy (%)",
    "memory_used_bytes": "memory used (bytes)",
    "temperature_celsius": "temperature (°C)",
    "power_watts": "power (W)",
    "clock_mhz": "clock (MHz)",
    "memory_clock_mhz": "memory clock (MHz)",
}
_MEMORY: Final = {
    "allocated_bytes": "allocated (bytes)",
    "reserved_bytes": "reserved (bytes)",
    "active_bytes": "active (bytes)",
}
_RACE_FACTS: Final = (
    "kind",
    "count",
    "first_op",
    "first_tensor",
    "first_place",
    "first_source",
    "second_op",
    "second_tensor",
    "second_place",
    "second_source",
    "fix",
)
_WAIT_FACTS: Final = ("kind", "op", "call", "place", "source", "expression", "num_bytes", "gpu_dur")


def track_records(trace: Trace, base: int, micros: Micros) -> Iterator[list[dict[str, Any]]]:
    """Yield the extra tracks of `trace`, in slices of records.

    Args:
        trace: The Trace.
        base: Time 0 of the file, ns.
        micros: Converts ns after `base` to the file's microseconds.
    """
    for found in (_memory(trace), _gauges(trace), _queues(trace)):
        for pid, name, ts, values in found:
            for start in range(0, len(ts), _ROWS):
                part = slice(start, start + _ROWS)
                yield _counter(pid, name, micros(ts[part] - base), values[part])
    yield list(_race_marks(trace, base, micros))
    yield list(_wait_marks(trace, base, micros))


Series = tuple[int | str, str, Ints, list[Any]]


def _counter(pid: int | str, name: str, ts: list[Any], values: list[Any]) -> list[dict[str, Any]]:
    where = {"ph": "C", "cat": MARK, "name": name, "pid": pid}
    return [where | {"ts": when, "args": {"value": value}} for when, value in zip(ts, values, strict=True)]


def _memory(trace: Trace) -> Iterator[Series]:
    """Yield the memory of each device's allocator after each of its actions that changed it."""
    memory = trace.memory
    for (kind, device), part in memory.groupby(["device_type", "device"], dropna=False, observed=True, sort=True):
        for column, label in _MEMORY.items():
            pid = "Host" if pd.isna(device) else int(device)
            of = f"{kind} " if isinstance(kind, str) else "host "
            if kind in ("cuda", "hip"):
                of = ""
            yield from _series(pid, f"{of}memory {label}", part["ts"], part[column])


def _gauges(trace: Trace) -> Iterator[Series]:
    """Yield the readings of each GPU."""
    metrics = trace.metrics
    for physical, part in metrics.groupby("physical_index", sort=True):
        device = part["device"].dropna()
        pid = int(device.iloc[0]) if len(device) else f"GPU {physical} (not visible)"
        for column, label in _GAUGES.items():
            yield from _series(pid, label, part["ts"], part[column])


def _series(pid: int | str, name: str, ts: pd.Series, values: pd.Series) -> Iterator[Series]:
    known = values.notna().to_numpy()
    if not known.any():
        return
    value = values.array[known].to_numpy(dtype=values.dtype.numpy_dtype)
    kept = np.append(True, value[1:] != value[:-1])
    kept[-1] = True  # so that the track ends with the last value
    yield pid, name, ts.to_numpy()[known][kept], value[kept].tolist()


def _queues(trace: Trace) -> Iterator[Series]:
    """Number of launched kernels and copies that had not begun, by device, at each change."""
    events = trace.events
    is_work = is_category(events["cat"].array, GPU_ACTIVITIES)
    rows = np.flatnonzero(is_work & events["launch"].notna().to_numpy() & events["device"].notna().to_numpy())
    device = events["device"].array[rows].to_numpy(dtype=np.int64)
    ts = events["ts"].to_numpy()
    launched = ts[events["launch"].array[rows].to_numpy(dtype=np.int64)]
    began = np.maximum(ts[rows], launched)
    for pid in np.unique(device).tolist():
        of = device == pid
        when = np.concatenate([launched[of], began[of]])
        change = np.repeat([1, -1], int(of.sum()))
        order = np.argsort(when, kind="stable")
        length, when = np.cumsum(change[order]), when[order]
        last = np.append(when[1:] != when[:-1], True)
        yield int(pid), "launch queue (launched, not begun)", when[last], length[last].tolist()


def _race_marks(trace: Trace, base: int, micros: Micros) -> Iterator[dict[str, Any]]:
    """Both accesses of each race that is not suppressed, on the race lane of its device, and an arrow between them.

    The second access is at the time at which the race was found. The frame has no time for the first access, so it is
    drawn next to the second.
    """
    races = trace.races
    races = races[~races["is_suppressed"] & races["ts"].notna()]
    if not len(races):
        return
    when = micros(races["ts"].to_numpy(dtype=np.int64) - base)
    columns = zip(*(_plain(races[name]) for name in ("first_device", "second_device", *_SIDE)), strict=True)
    for number, (ts, facts, row) in enumerate(zip(when, _facts(races, _RACE_FACTS), columns, strict=True)):
        devices, streams = row[:2], row[2:4]
        for side, device, stream in zip(("first", "second"), devices, streams, strict=True):
            where = {"pid": "Host" if device is None else device, "tid": _lane(stream)}
            name = f"race, {side} access: {facts.get(f'{side}_op', 'unknown op')}"
            mark = {"cat": MARK, "ts": ts} | where
            yield {"ph": "i", "name": name, "s": "t", "args": facts} | mark
            arrow = {"ph": "s"} if side == "first" else {"ph": "f", "bp": "e"}
            yield arrow | {"name": "race", "id": number + 1} | mark


_SIDE: Final = ("first_stream_name", "second_stream_name")


def _lane(stream: Any) -> str:
    return f"{RACES}: {stream}" if isinstance(stream, str) and stream else RACES


def _wait_marks(trace: Trace, base: int, micros: Micros) -> Iterator[dict[str, Any]]:
    """Yield an instant on the waiting thread where each wait for the GPU began."""
    syncs = trace.syncs
    if not len(syncs):
        return
    when = micros(syncs["ts"].to_numpy() - base)
    lanes = zip(_plain(syncs["pid"]), _plain(syncs["tid"]), strict=True)
    for ts, facts, (pid, tid) in zip(when, _facts(syncs, _WAIT_FACTS), lanes, strict=True):
        name = f"wait for the GPU: {facts.get('expression') or facts.get('op') or facts.get('kind')}"
        where = {} if tid is None else {"tid": tid}
        yield {"ph": "i", "cat": MARK, "name": name, "pid": "Host" if pid is None else pid, "ts": ts, "s": "t"} | (
            where | {"args": facts}
        )


def _facts(frame: pd.DataFrame, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the known values of the columns `names`, for each row."""
    columns = [_plain(frame[name]) for name in names]
    return [
        {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for row in zip(*columns, strict=True)
    ]


def _plain(column: pd.Series) -> list[Any]:
    """Return a column as plain Python values, None where missing."""
    values = column.astype(object)
    return [None if gone else value for value, gone in zip(values.tolist(), column.isna().tolist(), strict=True)]
