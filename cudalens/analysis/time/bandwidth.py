"""Rates of copies, by direction."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.ranked import ranked
from cudalens.analysis.time.groups import in_step, measured, numbered, quantiles, share, sums
from cudalens.analysis.time.work import MEMORY, device_work
from cudalens.frames import Trace
from cudalens.frames.column_arrays import Ints, categorical, integers, map_texts, masked, run_ends

#: Host to device, device to host, within a device, from device to device, on the host, a memset, anything else.
DIRECTIONS: Final = ("HtoD", "DtoH", "DtoD", "PtoP", "HtoH", "set", "other")

HOST_MEMORY: Final = ("pinned", "pageable")

_WAY: Final = re.compile(r"\b(?:Memcpy\s+)?([HDPA]to[HDPA])\b", re.IGNORECASE)


@ranked
def memcpy_bandwidth(trace: Trace, *, step: int | None = None) -> pd.DataFrame:
    """Rates of copies and sets, by device and direction.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).
        step: Only what this profiler step launched.

    Returns:
        A row per ``device`` (Int64), ``direction`` (category: HtoD, DtoH, DtoD, PtoP, HtoH, set, other, by Kineto's
        names) and ``host_memory`` (category: pinned, pageable; ``<NA>`` without host memory, or if unknown), by
        ``total_ns`` descending. ``count``; ``total_ns``, sum of durations (int64); ``num_bytes``, sum of the sizes that
        are recorded (Int64, ``<NA>`` if none is); ``num_sized``, copies whose size is recorded and whose duration is
        not 0 (int64); ``bytes_per_s``, the bytes of these over their time; ``p5_bytes_per_s``, ``median_bytes_per_s``,
        ``p95_bytes_per_s``, quantiles of their rates (Float64, ``<NA>`` for none); ``median_bytes``, the size of one
        (Float64); ``share_pct``, of the time of all rows (Float64). A copy within a device reads and writes each byte:
        it counts once here.
    """
    work = in_step(trace, device_work(trace), step)
    at = np.flatnonzero(work.kind == MEMORY)
    direction, memory = _kinds(trace.events["name"].array.take(work.rows[at]))
    group, keys = numbered({"device": work.device[at], "direction": direction, "host_memory": memory})
    n = len(keys)
    dur = (work.end - work.start)[at]
    size = integers(trace.events["num_bytes"])[work.rows[at]]
    sized = np.flatnonzero((size >= 0) & (dur > 0))
    speed = size[sized] / dur[sized] * 1e9
    slow, median, fast = quantiles(speed, group[sized], n, (0.05, 0.5, 0.95))
    moved, spent = (sums(values[sized], group[sized], n) for values in (size, dur))
    has_size = np.bincount(group[size >= 0], minlength=n) > 0
    frame = pd.DataFrame(
        {
            "device": masked(keys["device"].to_numpy()),
            "direction": categorical(keys["direction"].to_numpy(), list(DIRECTIONS)),
            "host_memory": categorical(keys["host_memory"].to_numpy(), list(HOST_MEMORY)),
            "count": np.bincount(group, minlength=n),
            "total_ns": sums(dur, group, n),
            "num_bytes": masked(np.where(has_size, sums(np.maximum(size, 0), group, n), -1)),
            "num_sized": np.bincount(group[sized], minlength=n),
            "bytes_per_s": measured(np.divide(moved * 1e9, spent, out=np.full(n, np.nan), where=spent > 0)),
            "p5_bytes_per_s": measured(slow),
            "median_bytes_per_s": measured(median),
            "p95_bytes_per_s": measured(fast),
            "median_bytes": measured(quantiles(size[size >= 0], group[size >= 0], n, (0.5,))[0]),
            "share_pct": share(sums(dur, group, n), dur.sum()),
        }
    )
    return frame.sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)


@ranked
def copy_rates(trace: Trace) -> pd.DataFrame:
    """Return the rate at which copies and sets of each device and direction run, at each time at which it changes.

    A copy moves its bytes evenly from its start to its end, and the rates of copies that run at the same time add up.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).

    Returns:
        A row per device, direction and time, in order of ``device`` (Int64), ``direction`` (category, as in
        `memcpy_bandwidth`), ``ts`` (int64 ns): ``bytes_per_s`` (float64) from then on, 0 after the last copy. Empty
        without copies of recorded size and positive duration.
    """
    work = device_work(trace)
    size = integers(trace.events["num_bytes"])[work.rows]
    at = np.flatnonzero((work.kind == MEMORY) & (size >= 0) & (work.end > work.start))
    direction, _ = _kinds(trace.events["name"].array.take(work.rows[at]))
    lane, keys = numbered({"device": work.device[at], "direction": direction})
    lane, ts = np.tile(lane, 2), np.concatenate([work.start[at], work.end[at]])
    rate = size[at] / (work.end - work.start)[at] * 1e9
    order = np.lexsort((ts, lane))
    lane, ts = lane[order], ts[order]
    total, running = (np.cumsum(np.concatenate([each, -each])[order]) for each in (rate, np.ones(len(at), np.int64)))
    total = np.where(running > 0, total, 0.0)  # no rounding errors where nothing runs
    last = run_ends(lane, ts)
    return pd.DataFrame(
        {
            "device": masked(keys["device"].to_numpy()[lane[last]]),
            "direction": categorical(keys["direction"].to_numpy()[lane[last]], list(DIRECTIONS)),
            "ts": ts[last],
            "bytes_per_s": total[last],
        }
    )


def _kinds(names: pd.Categorical) -> tuple[Ints, Ints]:
    """Numbers of each name's direction and host memory, -1 for none of the latter."""
    return map_texts(names, _direction, len(DIRECTIONS) - 1), map_texts(names, _host_memory, -1)


def _direction(name: str) -> int:
    if "memset" in name.lower():
        return DIRECTIONS.index("set")
    found = _WAY.search(name)
    way = f"{found[1][0]}to{found[1][-1]}".replace("A", "D") if found else ""
    return DIRECTIONS.index(way) if way in DIRECTIONS else DIRECTIONS.index("other")


def _host_memory(name: str) -> int:
    lower = name.lower()
    return next((i for i, kind in enumerate(HOST_MEMORY) if kind in lower), -1)
