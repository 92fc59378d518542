"""The largest costs by name, as bars: kernels, operators, modules, lines, ranges, repeated sequences."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.time.attribution import attribution
from cudalens.analysis.time.breakdown import kernel_breakdown, op_breakdown
from cudalens.analysis.time.sequences import kernel_sequences
from cudalens.frames import Ranks, Trace
from cudalens.views.figures.style import (
    MAX_BARS,
    Mode,
    bars,
    finished,
    group_color,
    idle_color,
    in_short,
    label,
    lanes,
    nothing,
)

_GROUPS = {"compute": "kernel", "communication": "comm", "memory": "memory"}


def kernels(trace: Trace | Ranks, *, mode: Mode = "auto", step: int | None = None) -> go.Figure:
    """Return a bar for each of the 20 names with most time of `kernel_breakdown`; of ranks, sums over all."""
    frame = kernel_breakdown(trace, ("name", "kind"), step=step)
    if not len(frame):
        return nothing("No device work was recorded", trace, mode)
    frame = frame.astype({"name": object, "kind": object})
    sums = frame.groupby(["name", "kind"], as_index=False)[["count", "total_ns"]].sum()
    sums = sums.sort_values("total_ns", ascending=False, kind="stable")
    whole, shown = int(sums["total_ns"].sum()), sums.head(MAX_BARS)
    drawn = go.Figure()
    brief = in_short(shown["name"].tolist(), [True] * len(shown))
    names = [label(name) for name in brief]
    for kind, group in _GROUPS.items():
        mine = (shown["kind"] == kind).to_numpy()
        if mine.any():
            times = [ns / 1e6 if is_mine else None for ns, is_mine in zip(shown["total_ns"], mine, strict=True)]
            bars(drawn, names, times, kind, group_color(group), _kernel_hover(shown, whole), "ms on the device, summed")
    return finished(drawn, _kernel_title(sums, brief[0], whole), trace, mode, rows=len(shown))


def _kernel_hover(shown: Any, whole: int) -> list[str]:
    columns = zip(shown["name"], shown["count"], shown["total_ns"], strict=True)
    return [
        f"{label(name, 160)}<br>{units.duration(ns)} in {units.count(n)}, {units.percent(100 * ns / max(whole, 1))}"
        for name, n, ns in columns
    ]


def _kernel_title(sums: Any, name: str, whole: int) -> str:
    share = units.percent(100 * sums["total_ns"].iloc[0] / max(whole, 1))
    name = units.shorten(name, 50)
    return f"{name} takes {share} of {units.duration(whole)} of device work ({units.plural(len(sums), 'name')})"


def operators(trace: Trace | Ranks, *, mode: Mode = "auto", step: int | None = None) -> go.Figure:
    """Return a bar for each of the 20 most expensive operators of `op_breakdown`; of ranks, sums over all."""
    frame = op_breakdown(trace, step=step).astype({"name": object})
    frame["name"] = frame["name"].where(frame["name"].notna(), "(no operator)")
    sums = frame.groupby("name", as_index=False)[["count", "gpu_self_ns", "host_self_ns"]].sum()
    if not len(sums):
        return nothing("No operator was recorded", trace, mode)
    on_device = bool(sums["gpu_self_ns"].sum())
    column, where = ("gpu_self_ns", "device") if on_device else ("host_self_ns", "host")
    sums = sums.sort_values(column, ascending=False, kind="stable")
    shown = sums.head(MAX_BARS)
    names = [label(name) for name in shown["name"]]
    hover = [
        f"{label(name, 120)}<br>{units.duration(gpu)} on the device, {units.duration(host)} on the host in {n:,} calls"
        for name, n, gpu, host in shown[["name", "count", "gpu_self_ns", "host_self_ns"]].itertuples(index=False)
    ]
    drawn = go.Figure()
    color = group_color("kernel" if on_device else "op")
    bars(drawn, names, shown[column] / 1e6, f"self time on the {where}", color, hover, f"ms on the {where}, self")
    return finished(drawn, _op_title(sums, column, where), trace, mode, rows=len(shown))


def _op_title(sums: Any, column: str, where: str) -> str:
    top, whole = sums.iloc[0], int(sums[column].sum())
    share = units.percent(100 * top[column] / whole) if whole else "0 %"
    return f"{units.shorten(str(top['name']), 50)} takes {share} of {units.duration(whole)} on the {where}"


def attributed(trace: Trace | Ranks, *, mode: Mode = "auto", by: str = "module") -> go.Figure:
    """Bars of GPU and host time of the 20 most expensive keys of `attribution`; of ranks, sums over all."""
    frame = attribution(trace, by=by)
    keys = frame["key"].astype(object)
    frame["key"] = keys.map(str).where(keys.notna(), f"(no {by})")
    sums = frame.groupby("key", as_index=False)[["host_self_ns", "device_self_ns"]].sum()
    if not len(sums):
        return nothing("Nothing was recorded that could be attributed", trace, mode)
    column = "device_self_ns" if sums["device_self_ns"].sum() else "host_self_ns"
    sums = sums.sort_values([column, "host_self_ns"], ascending=False, kind="stable", ignore_index=True)
    shown = sums.head(MAX_BARS)
    names = [label(_end(name)) for name in shown["key"]]
    hover = [
        f"{label(key, 120)}<br>{units.duration(gpu)} on the GPU, {units.duration(host)} on the host, itself"
        for key, host, gpu in shown.itertuples(index=False)
    ]
    drawn = go.Figure()
    if column == "device_self_ns":
        bars(drawn, names, shown["device_self_ns"] / 1e6, "GPU", group_color("kernel"), hover, "ms, self")
    bars(drawn, names, shown["host_self_ns"] / 1e6, "host", group_color("op"), hover, "ms, self")
    drawn = finished(drawn, _attribution_title(sums, column), trace, mode, rows=len(shown))
    return drawn.update_layout(barmode="group")


def _attribution_title(sums: Any, column: str) -> str:
    where = "the GPU" if column == "device_self_ns" else "the host"
    named = sums[~sums["key"].str.startswith("(no ")]
    top, whole = (named if len(named) else sums).iloc[0], int(sums[column].sum())
    share = units.percent(100 * int(top[column]) / max(whole, 1))
    return f"{units.shorten(str(top['key']), 60)} takes {share} of {units.duration(whole)} on {where}"


def _end(path: str, width: int = 46) -> str:
    """Return the last parts of a dotted path that fit; what differs is at its end."""
    if len(path) <= width:
        return path
    kept = path[1 - width :]
    parts = kept.partition(".")[2]
    return f"…{parts if 2 * len(parts) > width else kept}"


def sequences(
    trace: Trace | Ranks,
    *,
    mode: Mode = "auto",
    length: int | tuple[int, int] = (2, 16),
    min_count: int = 2,
    max_gap_ns: int = 1_000_000,
    top: int = 50,
    step: int | None = None,
) -> go.Figure:
    """Draw a bar for each of the 20 most expensive rows of `kernel_sequences`."""
    frame = kernel_sequences(trace, length, min_count=min_count, max_gap_ns=max_gap_ns, top=top, step=step)
    if not len(frame):
        return nothing("No sequence of kernels is repeated", trace, mode)
    shown = frame.head(MAX_BARS)
    first_kernels = in_short([kernels[0] for kernels in shown["sequence"]], [True] * len(shown))
    names = [
        f"{len(names)} kernels, {count:,} times · {label(name, 26)}…"
        for names, count, name in zip(shown["sequence"], shown["count"], first_kernels, strict=True)
    ]
    drawn, hover = go.Figure(), _sequence_hover(shown)
    bars(drawn, names, shown["kernel_ns"] / 1e6, "kernels", group_color("kernel"), hover, "ms over all occurrences")
    bars(drawn, names, shown["gap_ns"] / 1e6, "gaps between them", idle_color(mode), hover, "ms over all occurrences")
    first = frame.iloc[0]
    title = (
        f"{units.plural(int(first['length']), 'kernel')} come {units.count(int(first['count']))} times: "
        f"{units.duration(int(first['total_ns']))}, of it {units.duration(int(first['gap_ns']))} gaps between them"
    )
    return finished(drawn, title, trace, mode, rows=len(shown))


def _sequence_hover(shown: pd.DataFrame) -> list[str]:
    return [
        f"{lane}: {units.count(row.count_)} times, kernels {units.duration(row.kernel_ns)}, gaps "
        f"{units.duration(row.gap_ns)}<br>" + "<br>".join(label(name, 90) for name in row.sequence)
        for lane, row in zip(lanes(shown), shown.rename(columns={"count": "count_"}).itertuples(), strict=True)
    ]
