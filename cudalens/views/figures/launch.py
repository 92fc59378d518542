"""Launches: the host's time for the call against the device's time for the work, and the queue of each stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.time.launch import FULL_QUEUE, launch_statistics, queue_lengths
from cudalens.frames import Ranks, Trace
from cudalens.views.figures.style import (
    MAX_POINTS,
    Mode,
    colors_of,
    finished,
    group_color,
    label,
    lanes,
    nothing,
    points,
    series_color,
)


def launches(
    trace: Trace | Ranks,
    *,
    mode: Mode = "auto",
    step: int | None = None,
    call_cutoff_ns: int = 50_000,
    delay_cutoff_ns: int = 100_000,
    full_queue: int = FULL_QUEUE,
) -> go.Figure:
    """Draw a point per launch of `launch_statistics`; at most 3,000, evenly chosen."""
    frame = launch_statistics(
        trace, step=step, call_cutoff_ns=call_cutoff_ns, delay_cutoff_ns=delay_cutoff_ns, full_queue=full_queue
    )
    if not len(frame):
        return nothing("No launch of device work was recorded", trace, mode)
    shown = frame.iloc[np.unique(np.linspace(0, len(frame) - 1, MAX_POINTS).astype(int))]
    short, blocked = shown["is_short"].to_numpy(), shown["is_blocked"].to_numpy()
    drawn = go.Figure()
    _launch_points(drawn, shown[~short & ~blocked], "work takes longer than its launch", group_color("kernel"))
    _launch_points(drawn, shown[short & ~blocked], "launch takes longer than its work", group_color("comm"))
    _launch_points(drawn, shown[blocked], "blocked: the queue was full", group_color("sync"))
    span = [max(int(shown["call_ns"].min()), 100) / 1e3, max(int(shown["call_ns"].max()), 200) / 1e3]
    line = {"color": colors_of(mode)["muted"], "dash": "dot", "width": 1}
    drawn.add_scatter(x=span, y=span, mode="lines", line=line, name="equal", hoverinfo="skip")
    drawn.update_xaxes(title_text="the call on the host, µs", type="log", exponentformat="none")
    drawn.update_yaxes(title_text="its work on the device, µs", type="log", exponentformat="none")
    return finished(drawn, _launch_title(frame), trace, mode)


def _launch_points(drawn: go.Figure, rows: pd.DataFrame, name: str, color: str) -> None:
    if not len(rows):
        return
    hover = [
        f"{label(work, 80)}<br>{label(call)}: {units.duration(call_ns)}, work {units.duration(work_ns)}<br>"
        f"started {units.duration(delay)} after the call; {length} in front of it"
        for work, call, call_ns, work_ns, delay, length in zip(
            *(rows[k] for k in ("work_name", "call", "call_ns", "work_ns", "delay_ns", "queue_length")), strict=True
        )
    ]
    call, work = (np.maximum(rows[column], 100) / 1e3 for column in ("call_ns", "work_ns"))
    points(drawn, call, work, name, hover, color=color, size=6, opacity=0.6)


def _launch_title(frame: pd.DataFrame) -> str:
    short = 100 * frame["is_short"].mean()
    free = frame["latency_ns"].dropna()
    facts = [f"{units.percent(short)} of {units.plural(len(frame), 'launch')} took longer than their work"]
    facts += [f"latency {units.duration(float(free.median()))} (median)"] if len(free) else []
    blocked = int(frame["is_blocked"].sum())
    facts += [f"{units.count(blocked)} blocked on a full queue"] if blocked else []
    return "; ".join(facts)


def queues(trace: Trace | Ranks, *, mode: Mode = "auto") -> go.Figure:
    """Return a line per stream of `queue_lengths`; of long ones the largest length in each of 1,500 intervals."""
    frame = queue_lengths(trace)
    if not len(frame):
        return nothing("No device work was recorded", trace, mode)
    zero = int(frame["ts"].min())
    drawn = go.Figure()
    for i, (name, rows) in enumerate(frame.assign(lane=lanes(frame)).groupby("lane", sort=False)):
        ts, length = _thinned(rows["ts"].to_numpy(), rows["queue_length"].to_numpy())
        drawn.add_scatter(
            x=(ts - zero) / 1e6,
            y=length,
            mode="lines",
            line={"shape": "hv", "width": 1.5, "color": series_color(i)},
            name=name,
            hovertemplate="%{y} in the queue at %{x:.3f} ms<extra>" + name + "</extra>",
        )
    drawn.update_xaxes(title_text="ms after the first launch")
    drawn.update_yaxes(title_text="pieces of work in the queue", rangemode="tozero")
    return finished(drawn, _queue_title(int(frame["queue_length"].max())), trace, mode)


def _thinned(ts: Any, length: Any) -> tuple[Any, Any]:
    """Return the highest and the last length of each interval, so that no peak is lost."""
    if len(ts) <= MAX_POINTS:
        return ts, length
    bucket = (ts - ts[0]) // max((int(ts[-1]) - int(ts[0])) // (MAX_POINTS // 2), 1)
    first = np.flatnonzero(np.append(True, bucket[1:] != bucket[:-1]))
    top = np.maximum.reduceat(length, first)
    last = np.append(first[1:], len(ts)) - 1
    return np.stack([ts[first], ts[last]], 1).ravel(), np.stack([top, length[last]], 1).ravel()


def _queue_title(longest: int) -> str:
    if longest >= FULL_QUEUE:
        return f"Up to {units.count(longest)} pieces of work waited: the host ran ahead until the queue was full"
    ahead = "the host ran ahead of the device" if longest > 1 else "the host never ran ahead of the device"
    return f"At most {units.plural(longest, 'piece')} of work in a queue: {ahead}"
