"""Costs: bars of kernels, operators, lines, sequences, the critical path and changes between runs; a flame graph."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.compare.runs import Comparable, Differences, differences
from cudalens.analysis.critical_path.path import DEVICE_KINDS, HOST_KINDS, critical_path
from cudalens.analysis.time.attribution import attribution
from cudalens.analysis.time.call_tree import flame_graph
from cudalens.analysis.time.overlap import kernel_breakdown, op_breakdown
from cudalens.analysis.time.sequences import kernel_sequences
from cudalens.analysis.time.work import is_waiting
from cudalens.errors import invalid_choice
from cudalens.frames import Ranks, Trace
from cudalens.views.assets import color_of
from cudalens.views.compare.changes import BETTER, SECTIONS, UNSURE, WORSE, changed, comparison_verdict, row_name
from cudalens.views.compare.changes import color_of as color_of_change
from cudalens.views.figures.style import (
    MAX_BARS,
    MAX_POINTS,
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
            columns = zip(shown["name"], shown["count"], shown["total_ns"], strict=True)
            hover = [
                f"{label(name, 160)}<br>{units.duration(ns)} in {units.count(n)}, "
                f"{units.percent(100 * ns / max(whole, 1))}"
                for name, n, ns in columns
            ]
            bars(drawn, names, times, kind, group_color(group), hover, "ms on the device, summed")
    return finished(drawn, _kernel_title(sums, brief[0], whole), trace, mode, rows=len(shown))


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
    top, whole = sums.iloc[0], int(sums[column].sum())
    share = units.percent(100 * top[column] / whole) if whole else "0 %"
    return finished(
        drawn,
        f"{units.shorten(str(top['name']), 50)} takes {share} of {units.duration(whole)} on the {where}",
        trace,
        mode,
        rows=len(shown),
    )


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
    where = "the GPU" if column == "device_self_ns" else "the host"
    named = sums[~sums["key"].str.startswith("(no ")]
    top, whole = (named if len(named) else sums).iloc[0], int(sums[column].sum())
    share = units.percent(100 * int(top[column]) / max(whole, 1))
    drawn = finished(
        drawn,
        f"{units.shorten(str(top['key']), 60)} takes {share} of {units.duration(whole)} on {where}",
        trace,
        mode,
        rows=len(shown),
    )
    return drawn.update_layout(barmode="group")


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
    drawn = go.Figure()
    hover = [
        f"{lane}: {units.count(row.count_)} times, kernels {units.duration(row.kernel_ns)}, gaps "
        f"{units.duration(row.gap_ns)}<br>" + "<br>".join(label(name, 90) for name in row.sequence)
        for lane, row in zip(lanes(shown), shown.rename(columns={"count": "count_"}).itertuples(), strict=True)
    ]
    bars(drawn, names, shown["kernel_ns"] / 1e6, "kernels", group_color("kernel"), hover, "ms over all occurrences")
    bars(drawn, names, shown["gap_ns"] / 1e6, "gaps between them", idle_color(mode), hover, "ms over all occurrences")
    first = frame.iloc[0]
    title = (
        f"{units.plural(int(first['length']), 'kernel')} come {units.count(int(first['count']))} times: "
        f"{units.duration(int(first['total_ns']))}, of it {units.duration(int(first['gap_ns']))} gaps between them"
    )
    return finished(drawn, title, trace, mode, rows=len(shown))


def critical_path_bars(
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


_MIN_SHARE = 0.002
#: Characters in the width of a figure in a page of 600 px.
_CHARS = 58
_MIN_TEXT_SHARE = 0.06


def flame_graph_plot(
    trace: Trace | Ranks, *, mode: Mode = "auto", weight: str = "host", per_thread: bool = False, by: str = "tree"
) -> go.Figure:
    """Draw the rectangles of `flame_graph`; those below 0.2 % of the whole are left out."""
    frame = flame_graph(trace, weight=weight, per_thread=per_thread, by=by)
    where = "the GPU" if weight == "device" else "the host"
    if not len(frame):
        return nothing(f"No time on {where} was recorded", trace, mode)
    whole = int(frame.loc[frame["depth"] == 0, "width_ns"].sum())
    shown = frame[frame["width_ns"] >= _MIN_SHARE * whole].nlargest(MAX_POINTS, "width_ns")
    names = shown["name"].astype(object).tolist()
    shares = (shown["width_ns"] / max(whole, 1)).tolist()
    brief = in_short(names, shown["is_device"].tolist())
    drawn = go.Figure()
    cats = ["kernel" if on_device else "cpu_op" for on_device in shown["is_device"]]
    shades = "light" if mode == "auto" else mode
    colors = [color_of(cat, str(name), shades) for cat, name in zip(cats, shown["name"], strict=True)]
    drawn.add_bar(
        x=shown["width_ns"] / 1e6,
        y=shown["depth"],
        base=shown["start_ns"] / 1e6,
        orientation="h",
        width=0.94,
        marker={"color": colors, "line": {"width": 0}},
        text=[
            label(name, int(share * _CHARS)) if share > _MIN_TEXT_SHARE else ""
            for name, share in zip(brief, shares, strict=True)
        ],
        textposition="inside",
        insidetextanchor="start",
        textangle=0,
        constraintext="none",
        customdata=[
            f"{label(name, 120)}<br>{units.duration(width)}, {units.percent(100 * share)} of {where}'s time; "
            f"{units.duration(own)} its own, {count:,} times"
            for name, share, width, own, count in zip(
                names, shares, shown["width_ns"], shown["self_ns"], shown["count"], strict=True
            )
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )
    drawn.update_xaxes(title_text=f"ms on {where}")
    drawn.update_yaxes(visible=False)
    own_ns = frame.groupby(frame["name"].astype(object))["self_ns"].sum()
    works = own_ns[~is_waiting(pd.Categorical(own_ns.index))]
    own_ns = works if len(works) else own_ns
    own_share = units.percent(100 * int(own_ns.max()) / max(whole, 1))
    (costliest,) = in_short([own_ns.idxmax()], [where == "the GPU"])
    title = f"{units.shorten(costliest, 50)} itself takes {own_share} of {units.duration(whole)} on {where}"
    figure_ = finished(drawn, title, trace, mode, rows=int(shown["depth"].max()) + 1)
    return figure_.update_layout(barmode="overlay", margin_l=24)


_MAX_BARS: Final = 20
_LABELS: Final = {BETTER: "less", WORSE: "more", UNSURE: "may be noise"}


def changes(trace: Trace, *, other: Comparable, by: str | None = None, mode: Mode = "auto") -> go.Figure:
    """Return what changed from `trace` to `other`.

    Args:
        trace: The run before.
        other: The run after: a Trace, several, or Ranks.
        by: ``kernels``, ``ops``, ``modules`` or ``memory``; None for kernels where there are any, else operators.
        mode: ``light`` or ``dark``.

    Raises:
        ValueError: `by` or `mode` is none of these.
    """
    return draw_changes(differences(trace, other), by, mode)


def draw_changes(found: Differences, by: str | None = None, mode: Mode = "auto") -> go.Figure:
    """Return the figure of what was `found`; arguments as of `changes`."""
    key = by or ("kernels" if len(found.kernels) else "ops")
    if key not in SECTIONS:
        raise invalid_choice("by", by, SECTIONS)
    title = comparison_verdict(found).partition("; ")[0]
    some = next((t for side in (found.a, found.b) for t in side.traces if t.info.is_simulated), found.b.traces[0])
    rows = changed(getattr(found, key)).head(_MAX_BARS)
    if rows.empty:
        return nothing(title, some, mode)
    unit, scale, axis = ("bytes", 1 << 20, "MiB") if key == "memory" else ("ns", 1e6, f"ms a {found.whole.unit}")
    delta = (rows[f"delta_{unit}"] / scale).tolist()
    names = [row_name(row) for row in rows.to_dict("records")]
    drawn = go.Figure()
    for color, meaning in _LABELS.items():
        at = [k for k, state in enumerate(rows["status"]) if color_of_change(delta[k], state) == color]
        if at:
            drawn.add_bar(
                x=[delta[k] for k in at],
                y=at,
                orientation="h",
                marker={"color": color, "line": {"width": 0}},
                name=meaning,
                customdata=[label(names[k], 200) for k in at],
                hovertemplate="%{customdata}<br>%{x:.3g} " + axis + "<extra></extra>",
            )
    ticks = {"tickvals": list(range(len(names))), "ticktext": [label(name) for name in names]}
    drawn.update_yaxes(tickmode="array", autorange="reversed", automargin=True, **ticks)
    drawn.update_xaxes(title_text=f"difference, {axis}")
    return finished(drawn, title, some, mode, rows=len(names))
