"""Why devices were idle, as stacked bars."""

from __future__ import annotations

from typing import Any, Final

import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.time.idle import CAUSES, idle_causes
from cudalens.frames import Ranks, Trace
from cudalens.views.figures.style import Mode, bars, finished, group_color, idle_color, label, lanes, nothing

WORDS: Final = {
    "host": "host was busy",
    "sync": "host had waited for the device",
    "launch": "launch was on its way",
    "dependency": "waited for other work",
    "unknown": "unknown",
}


def cause_color(cause: str, mode: Mode) -> str:
    """The colour of a cause of idle time."""
    groups = {"host": "op", "sync": "sync", "launch": "runtime", "dependency": "range"}
    return group_color(groups[cause]) if cause in groups else idle_color(mode)


def figure(trace: Trace | Ranks, *, mode: Mode = "auto", **options: Any) -> go.Figure:
    """A bar per device or stream of `idle_causes`, whose options it takes."""
    frame = idle_causes(trace, **options)
    if not len(frame):
        return nothing("No gap between pieces of device work", trace, mode)
    frame = frame.assign(lane=lanes(frame))
    names = list(dict.fromkeys(frame["lane"]))
    drawn = go.Figure()
    for cause in CAUSES:
        rows = frame[frame["cause"] == cause].set_index("lane")
        if not len(rows):
            continue
        times = [int(rows["part_ns"].get(name, 0)) for name in names]
        hover = [
            f"{WORDS[cause]}: {units.duration(ns)}{_top(rows, name)}" for ns, name in zip(times, names, strict=True)
        ]
        bars(drawn, names, [ns / 1e6 for ns in times], WORDS[cause], cause_color(cause, mode), hover, "idle, ms")
    return finished(drawn, title_of(frame), trace, mode, rows=len(names))


def _top(rows: Any, name: str) -> str:
    top = rows["top"].get(name)
    return "" if not isinstance(top, str) else f"<br>most: {label(top, 80)}, {units.duration(rows['top_ns'].get(name))}"


def title_of(frame: Any) -> str:
    """The result of `idle_causes` in one line."""
    total = int(frame["part_ns"].sum())
    parts = frame.groupby("cause", observed=True)["part_ns"].sum().sort_values(ascending=False)
    shares = [f"{WORDS[str(cause)]} {units.percent(100 * ns / total)}" for cause, ns in parts.items() if ns]
    return f"{units.duration(total)} idle: {', '.join(shares[:3])}"
