"""Time by module, line, range, operator or step, as bars."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.time.attribution import attribution
from cudalens.frames import Ranks, Trace
from cudalens.views.figures.style import MAX_BARS, Mode, bars, finished, group_color, label, nothing


def figure(trace: Trace | Ranks, *, mode: Mode = "auto", by: str = "module") -> go.Figure:
    """Bars of GPU and host time of the 20 most expensive keys of `attribution`; of ranks, sums over all."""
    frame = attribution(trace, by=by)
    frame["key"] = [f"(no {by})" if value != value or value is None else str(value) for value in _plain(frame["key"])]
    sums = frame.groupby("key", as_index=False)[["host_self_ns", "device_self_ns"]].sum()
    if not len(sums):
        return nothing("Nothing was recorded that could be attributed", trace, mode)
    column = "device_self_ns" if sums["device_self_ns"].sum() else "host_self_ns"
    sums = sums.sort_values([column, "host_self_ns"], ascending=False, kind="stable", ignore_index=True)
    shown = sums.head(MAX_BARS)
    names = [label(name[-46:] if len(name) > 46 else name) for name in shown["key"]]
    hover = [
        f"{label(key, 120)}<br>{units.duration(gpu)} on the GPU, {units.duration(host)} on the host, itself"
        for key, host, gpu in shown.itertuples(index=False)
    ]
    drawn = go.Figure()
    if column == "device_self_ns":
        bars(drawn, names, shown["device_self_ns"] / 1e6, "GPU", group_color("kernel"), hover, "ms, self")
    bars(drawn, names, shown["host_self_ns"] / 1e6, "host", group_color("op"), hover, "ms, self")
    drawn = finished(drawn, _title(sums, column), trace, mode, rows=len(shown))
    return drawn.update_layout(barmode="group")


def _plain(keys: Any) -> list[Any]:
    return [None if missing else value for value, missing in zip(keys.tolist(), keys.isna(), strict=True)]


def _title(sums: Any, column: str) -> str:
    where = "the GPU" if column == "device_self_ns" else "the host"
    named = sums[~sums["key"].str.startswith("(no ")]
    top, whole = (named if len(named) else sums).iloc[0], int(sums[column].sum())
    share = units.percent(100 * int(top[column]) / max(whole, 1))
    return f"{units.shorten(str(top['key']), 60)} takes {share} of {units.duration(whole)} on {where}"
