"""The critical path by name of its parts, as bars."""

from __future__ import annotations

import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.critical_path.path import DEVICE_KINDS, HOST_KINDS, critical_path
from cudalens.frames import Trace
from cudalens.views.figures.style import (
    MAX_BARS,
    Mode,
    bars,
    finished,
    group_color,
    idle_color,
    in_short,
    label,
    nothing,
)


def figure(
    trace: Trace,
    *,
    mode: Mode = "auto",
    step: int | None = None,
    start: int | None = None,
    end: int | None = None,
) -> go.Figure:
    """Draw a bar for each of the 20 names with most time on `critical_path`, and for each delay."""
    path = critical_path(trace, step=step, start=start, end=end)
    if not len(path.frame):
        return nothing("Nothing was recorded that can be on a critical path", trace, mode)
    frame = path.frame.astype({"kind": object, "name": object})
    is_event = frame["kind"].isin([*DEVICE_KINDS, "host"])
    frame["what"] = frame["name"].where(is_event & frame["name"].notna(), frame["kind"])
    frame["group"] = frame["kind"].map(_group_of)
    sums = frame.groupby(["what", "group"], as_index=False).agg(total=("dur_ns", "sum"), pieces=("dur_ns", "size"))
    shown = sums.nlargest(MAX_BARS, "total").reset_index(drop=True)
    drawn = go.Figure()
    colors = {"GPU": group_color("kernel"), "host": group_color("op"), "delays": idle_color(mode)}
    names = [label(name) for name in in_short(shown["what"].tolist(), (shown["group"] == "GPU").tolist())]
    hover = [
        f"{label(row.what, 120)}<br>{units.duration(row.total)} on the path in {units.plural(row.pieces, 'piece')}"
        for row in shown.itertuples()
    ]
    for group, color in colors.items():
        values = (shown["total"] / 1e6).where(shown["group"] == group, 0)
        if values.any():
            bars(drawn, names, values, group, color, hover, "ms on the critical path")
    return finished(drawn, path.verdict.rstrip("."), trace, mode, rows=len(shown))


def _group_of(kind: str) -> str:
    if kind in DEVICE_KINDS:
        return "GPU"
    return "host" if kind in HOST_KINDS else "delays"
