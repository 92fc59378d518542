"""Repeated kernel sequences: their time, and the gaps in them, as bars."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.time.sequences import kernel_sequences
from cudalens.frames import Ranks, Trace
from cudalens.views.figures.style import MAX_BARS, Mode, bars, finished, group_color, idle_color, label, lanes, nothing


def figure(trace: Trace | Ranks, *, mode: Mode = "auto", **options: Any) -> go.Figure:
    """A bar for each of the 20 most expensive rows of `kernel_sequences`, whose options it takes."""
    frame = kernel_sequences(trace, **options)
    if not len(frame):
        return nothing("No sequence of kernels is repeated", trace, mode)
    shown = frame.head(MAX_BARS)
    names = [
        f"{len(names)} kernels, {count:,} times · {label(names[0], 26)}…"
        for names, count in zip(shown["sequence"], shown["count"], strict=True)
    ]
    drawn, hover = go.Figure(), _hover(shown)
    bars(drawn, names, shown["kernel_ns"] / 1e6, "kernels", group_color("kernel"), hover, "ms over all occurrences")
    bars(drawn, names, shown["gap_ns"] / 1e6, "gaps between them", idle_color(mode), hover, "ms over all occurrences")
    top = frame.iloc[0]
    title = (
        f"{units.plural(int(top['length']), 'kernel')} come {units.count(int(top['count']))} times: "
        f"{units.duration(int(top['total_ns']))}, of it {units.duration(int(top['gap_ns']))} gaps between them"
    )
    return finished(drawn, title, trace, mode, rows=len(shown))


def _hover(shown: pd.DataFrame) -> list[str]:
    return [
        f"{lane}: {units.count(row.count_)} times, kernels {units.duration(row.kernel_ns)}, gaps "
        f"{units.duration(row.gap_ns)}<br>" + "<br>".join(label(name, 90) for name in row.sequence)
        for lane, row in zip(lanes(shown), shown.rename(columns={"count": "count_"}).itertuples(), strict=True)
    ]
