"""A flame graph: the width of a rectangle is its time, callers are below callees."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.time.call_tree import flame_graph
from cudalens.analysis.time.work import is_waiting
from cudalens.frames import Ranks, Trace
from cudalens.views.figures.style import MAX_POINTS, Mode, finished, in_short, label, nothing
from cudalens.views.theme import color_of

_MIN_SHARE = 0.002
#: Characters in the width of a figure in a page of 600 px.
_CHARS = 58
_MIN_TEXT_SHARE = 0.06


def figure(
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
    drawn.add_bar(
        x=shown["width_ns"] / 1e6,
        y=shown["depth"],
        base=shown["start_ns"] / 1e6,
        orientation="h",
        width=0.94,
        marker={"color": _colors(shown, mode), "line": {"width": 0}},
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
    figure_ = finished(drawn, _title(frame, whole, where), trace, mode, rows=int(shown["depth"].max()) + 1)
    return figure_.update_layout(barmode="overlay", margin_l=24)


def _colors(shown: Any, mode: Mode) -> list[str]:
    cats = ["kernel" if on_device else "cpu_op" for on_device in shown["is_device"]]
    shades = "light" if mode == "auto" else mode
    return [color_of(cat, str(name), shades) for cat, name in zip(cats, shown["name"], strict=True)]


def _title(frame: Any, whole: int, where: str) -> str:
    own = frame.groupby(frame["name"].astype(object))["self_ns"].sum()
    works = own[~is_waiting(pd.Categorical(own.index))]
    own = works if len(works) else own
    share = units.percent(100 * int(own.max()) / max(whole, 1))
    (name,) = in_short([own.idxmax()], [where == "the GPU"])
    return f"{units.shorten(name, 50)} itself takes {share} of {units.duration(whole)} on {where}"
