"""The most expensive device work by name, as bars."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.time.breakdown import kernel_breakdown
from cudalens.frames import Ranks, Trace
from cudalens.views.figures.style import MAX_BARS, Mode, bars, finished, group_color, label, nothing

_GROUPS = {"compute": "kernel", "communication": "comm", "memory": "memory"}


def figure(trace: Trace | Ranks, *, mode: Mode = "auto", step: int | None = None) -> go.Figure:
    """A bar for each of the 20 names with most time of `kernel_breakdown`; of ranks, sums over all."""
    frame = kernel_breakdown(trace, ("name", "kind"), step=step)
    if not len(frame):
        return nothing("No device work was recorded", trace, mode)
    frame = frame.astype({"name": object, "kind": object})
    sums = frame.groupby(["name", "kind"], as_index=False)[["count", "total_ns"]].sum()
    sums = sums.sort_values("total_ns", ascending=False, kind="stable")
    whole, shown = int(sums["total_ns"].sum()), sums.head(MAX_BARS)
    drawn = go.Figure()
    names = [label(name) for name in shown["name"]]
    for kind, group in _GROUPS.items():
        mine = (shown["kind"] == kind).to_numpy()
        if mine.any():
            times = [ns / 1e6 if is_mine else None for ns, is_mine in zip(shown["total_ns"], mine, strict=True)]
            bars(drawn, names, times, kind, group_color(group), _hover(shown, whole), "ms on the device, summed")
    return finished(drawn, _title(sums, whole), trace, mode, rows=len(shown))


def _hover(shown: Any, whole: int) -> list[str]:
    columns = zip(shown["name"], shown["count"], shown["total_ns"], strict=True)
    return [
        f"{label(name, 160)}<br>{units.duration(ns)} in {units.count(n)}, {units.percent(100 * ns / max(whole, 1))}"
        for name, n, ns in columns
    ]


def _title(sums: Any, whole: int) -> str:
    top = sums.iloc[0]
    share = units.percent(100 * top["total_ns"] / max(whole, 1))
    name = units.shorten(str(top["name"]), 50)
    return f"{name} takes {share} of {units.duration(whole)} of device work ({units.plural(len(sums), 'name')})"
