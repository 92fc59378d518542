"""Communication that overlaps with computation, and that does not, as bars."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.time.overlap import communication_overlap
from cudalens.frames import Ranks, Trace
from cudalens.views.figures.style import Mode, bars, finished, group_color, lanes, nothing


def figure(trace: Trace | Ranks, *, mode: Mode = "auto", **options: Any) -> go.Figure:
    """A bar per device of `communication_overlap`, whose options it takes."""
    frame = communication_overlap(trace, **options)
    if not len(frame):
        return nothing("No communication was recorded", trace, mode)
    drawn = go.Figure()
    for column, text, group in (("overlap_ns", "hidden", "kernel"), ("exposed_ns", "exposed", "comm")):
        hover = [f"{text}: {units.duration(ns)}" for ns in frame[column]]
        bars(drawn, lanes(frame), frame[column] / 1e6, text, group_color(group), hover, "ms of communication")
    comm, hidden = int(frame["comm_ns"].sum()), int(frame["overlap_ns"].sum())
    share = units.percent(100 * hidden / comm) if comm else "nothing"
    title = (
        f"Computation hides {share} of {units.duration(comm)} of communication; {units.duration(comm - hidden)} stay"
    )
    return finished(drawn, f"{title} exposed", trace, mode, rows=len(frame))
