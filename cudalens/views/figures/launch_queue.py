"""The length of each stream's queue over time."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.time.launch import FULL_QUEUE
from cudalens.analysis.time.launch_queue import queue_lengths
from cudalens.frames import Ranks, Trace
from cudalens.views.figures.style import MAX_POINTS, Mode, finished, lanes, nothing, series_color


def figure(trace: Trace | Ranks, *, mode: Mode = "auto", **options: Any) -> go.Figure:
    """A line per stream of `queue_lengths`; of long ones the largest length in each of 1,500 intervals."""
    frame = queue_lengths(trace, **options)
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
    return finished(drawn, _title(int(frame["queue_length"].max())), trace, mode)


def _thinned(ts: Any, length: Any) -> tuple[Any, Any]:
    """The highest and the last length of each interval, so that no peak is lost."""
    if len(ts) <= MAX_POINTS:
        return ts, length
    bucket = (ts - ts[0]) // max((int(ts[-1]) - int(ts[0])) // (MAX_POINTS // 2), 1)
    first = np.flatnonzero(np.append(True, bucket[1:] != bucket[:-1]))
    top = np.maximum.reduceat(length, first)
    last = np.append(first[1:], len(ts)) - 1
    return np.stack([ts[first], ts[last]], 1).ravel(), np.stack([top, length[last]], 1).ravel()


def _title(longest: int) -> str:
    if longest >= FULL_QUEUE:
        return f"Up to {units.count(longest)} pieces of work waited: the host ran ahead until the queue was full"
    ahead = "the host ran ahead of the device" if longest > 1 else "the host never ran ahead of the device"
    return f"At most {units.plural(longest, 'piece')} of work in a queue: {ahead}"
