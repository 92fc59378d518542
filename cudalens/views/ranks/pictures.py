"""Pictures of a job: the rank x step map, the arrivals of one collective, bandwidth by size, and a merged timeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis import units
from cudalens.analysis.ranks.matching import aligned
from cudalens.frames import Ranks
from cudalens.frames.column_arrays import integers
from cudalens.views.sections.markup import ORANGE, Node, element
from cudalens.views.timeline import svg
from cudalens.views.timeline.svg import LABEL, PLOT

BLUE: Final = "#3b82c4"
GREEN: Final = "#1a8f5c"
_MAX_ROWS: Final = 64
_MAX_COLUMNS: Final = 160
_MAX_POINTS: Final = 1_500
#: Excess over the peers that is drawn in full colour, as a share of the step.
_FULL: Final = 0.25


def heat_map(ranks: Ranks) -> Node | None:
    """Return how much longer each rank worked in each step than the median rank, without its communication."""
    steps = ranks.analysis.steps
    if not len(steps):
        return None
    own = (steps["step_ns"] - steps["wait_ns"] - steps["transfer_ns"]).clip(lower=0)
    table = steps.assign(own=own).pivot_table(index="rank", columns="step", values="own")
    excess = (table - table.median()) / max(float(steps["step_ns"].median()), 1)
    values, rows, columns = _pooled(excess)
    height = float(np.clip(320 / len(rows), 5, 16))
    width = PLOT / len(columns)
    nodes = [svg.text(f"step {columns[0]}", LABEL, 12, opacity=".7")]
    if len(columns) > 1:
        nodes.append(svg.text(f"{columns[-1]}", LABEL + PLOT, 12, text_anchor="end", opacity=".7"))
    for i, row in enumerate(rows):
        top = 18 + i * height
        if height >= 9 or i % 4 == 0:
            nodes.append(svg.text(f"rank {row}", 0, top + min(height, 11)))
        nodes += [
            _cell(values[i, k], LABEL + k * width, top, width, height, f"rank {row}, step {columns[k]}")
            for k in np.flatnonzero(~np.isnan(values[i])).tolist()
        ]
    title = f"Work of each rank and step over the median rank; full colour is {units.percent(100 * _FULL)} of a step"
    return svg.chart(24 + height * len(rows), title, *nodes, class_="cr-picture")


def _cell(value: float, x: float, y: float, width: float, height: float, label: str) -> Node:
    words = f"{label}: {'+' if value >= 0 else '-'}{units.percent(100 * abs(value))} of a step"
    color = ORANGE if value > 0 else BLUE
    opacity = f"{max(min(abs(value) / _FULL, 1.0), 0.04):.2f}"
    box = {"x": f"{x:.1f}", "y": f"{y:.1f}", "width": f"{max(width - 0.6, 0.4):.1f}", "height": f"{height - 0.6:.1f}"}
    return element("rect", element("title", words), fill=color, fill_opacity=opacity, **box)


def _pooled(table: pd.DataFrame) -> tuple[NDArray[np.float64], list[str], list[str]]:
    """At most `_MAX_ROWS` and `_MAX_COLUMNS`: of several cells the one that is furthest from 0."""
    values = table.to_numpy(np.float64)
    rows, columns = [str(rank) for rank in table.index], [str(step) for step in table.columns]
    row_of = np.arange(len(rows)) * min(len(rows), _MAX_ROWS) // len(rows)
    column_of = np.arange(len(columns)) * min(len(columns), _MAX_COLUMNS) // len(columns)
    found = np.full((row_of[-1] + 1, column_of[-1] + 1), np.nan)
    order = np.argsort(np.abs(np.nan_to_num(values)), axis=None, kind="stable")
    for flat in order.tolist():
        i, k = divmod(flat, len(columns))
        if not np.isnan(values[i, k]):
            found[row_of[i], column_of[k]] = values[i, k]
    first_row, first_column = np.unique(row_of, return_index=True)[1], np.unique(column_of, return_index=True)[1]
    return found, [rows[i] for i in first_row], [columns[i] for i in first_column]


def arrival_fan(ranks: Ranks, *, match: int | None = None) -> Node | None:
    """When each rank arrived at a collective, and its transfer; by default that with the longest waits."""
    found = ranks.analysis.collectives
    known = found[(found["match"] >= 0).to_numpy() & (found["members"] > 1).to_numpy()]
    if not len(known):
        return None
    if match is None:
        match = int(known.groupby("match")["wait_ns"].sum().astype("int64").idxmax())
    rows = known[(known["match"] == match).to_numpy()].sort_values("arrival_ns")
    if not len(rows):
        return None
    shown = rows if len(rows) <= _MAX_ROWS else pd.concat([rows.head(_MAX_ROWS // 2), rows.tail(_MAX_ROWS // 2)])
    begin = int(shown["arrival_ns"].min())
    end = (shown["arrival_ns"] + shown["dur"]).to_numpy(np.int64) - begin
    span = max(int(end.max()), 1)
    last = int(shown["arrival_ns"].max()) - begin
    height = float(np.clip(320 / len(shown), 5, 16))
    nodes: list[Node] = []
    for i, (rank, at, until) in enumerate(zip(shown["rank"], shown["arrival_ns"] - begin, end, strict=True)):
        top = 6 + i * height
        if height >= 9 or i % 4 == 0:
            nodes.append(svg.text(f"rank {rank}", 0, top + min(height, 11)))
        nodes.append(_bar(int(at), last, span, top, height, BLUE, ".45", f"rank {rank} waits"))
        nodes.append(_bar(max(last, int(at)), int(until), span, top, height, GREEN, "1", f"rank {rank}: transfer"))
    bottom = 6 + height * len(shown)
    nodes += svg.axis(span, 4, bottom)
    group = shown["process_group"].iloc[0]
    name = f"{shown['kind'].iloc[0]}{'' if pd.isna(group) else f' of process group {group}'}"
    step = shown["step"].iloc[0]
    where = "" if pd.isna(step) else f" in step {step}"
    title = f"Arrivals at the {name}{where}: blue waits, green is the transfer"
    return svg.chart(bottom + 20, title, *nodes, class_="cr-picture")


def _bar(a: int, b: int, span: int, top: float, height: float, color: str, opacity: str, label: str) -> Node:
    x, width = LABEL + PLOT * a / span, max(PLOT * (b - a) / span, 0.5 if b > a else 0)
    box = {"x": f"{x:.1f}", "y": f"{top:.1f}", "width": f"{width:.1f}", "height": f"{height - 1.5:.1f}"}
    return element(
        "rect", element("title", f"{label}: {units.duration(b - a)}"), fill=color, fill_opacity=opacity, **box
    )


#: Width of the label of a size.
_LABEL_WIDTH: Final = 60


def bandwidth_scatter(ranks: Ranks) -> Node | None:
    """Size against bus bandwidth of the transfers; the line is the median of each size."""
    found = ranks.analysis.collectives.dropna(subset=["bus_bytes_per_s", "num_bytes"])
    found = found[(found["num_bytes"] > 0).to_numpy(bool) & found["is_last"].to_numpy(bool)]
    if len(found) < 2:
        return None
    found = found.drop_duplicates(["kind", "num_bytes", "bus_bytes_per_s"])
    found = found.iloc[:: max(len(found) // _MAX_POINTS, 1)]
    size = np.log2(integers(found["num_bytes"]).astype(np.float64))
    speed = found["bus_bytes_per_s"].to_numpy(np.float64)
    curves = ranks.transfer_curves
    top = max(float(speed.max()), float(curves["bus_bytes_per_s"].max()) if len(curves) else 0.0)
    low, high = float(size.min()), max(float(size.max()), float(size.min()) + 0.1)
    kinds = list(dict.fromkeys(found["kind"].tolist()))
    colors = (ORANGE, BLUE, GREEN, "#a05195", "#7d8790")
    nodes = [
        element("path", d=f"M{LABEL} 6V206H{LABEL + PLOT}", stroke="currentColor", stroke_opacity=".4", fill="none")
    ]
    for x, y, kind, num_bytes in zip(size, speed, found["kind"], found["num_bytes"], strict=True):
        words = f"{kind}, {units.size(num_bytes)}: {units.size(y)}/s"
        place = {"cx": f"{_x(x, low, high):.1f}", "cy": f"{206 - 196 * y / top:.1f}", "r": 3}
        color = colors[kinds.index(kind) % len(colors)]
        nodes.append(element("circle", element("title", words), fill=color, fill_opacity=".55", **place))
    each = pd.Series(speed).groupby(np.round(size, 2)).median()
    points = " ".join(f"{_x(float(x), low, high):.1f},{206 - 196 * y / top:.1f}" for x, y in each.items())
    nodes.append(element("polyline", points=points, fill="none", stroke="currentColor", stroke_opacity=".5"))
    nodes += [
        _curve(part, low, high, top, colors[kinds.index(kind) % len(colors)])
        for (kind, _), part in curves.groupby(["kind", "group_size"], observed=True)
        if kind in kinds
    ]
    nodes.append(svg.text(f"{units.size(top)}/s", LABEL - 6, 14, text_anchor="end", opacity=".7"))
    exponents = range(int(np.ceil(low)), int(np.floor(high)) + 1, max(int(high - low) // 6, 1))
    labels = [(units.size(2.0**exponent), _x(exponent, low, high)) for exponent in exponents]
    right = LABEL + PLOT
    anchors = ["end" if x > right - _LABEL_WIDTH / 2 else "middle" for _, x in labels]
    nodes += [
        svg.text(label, min(x, right), 220, text_anchor=anchor, opacity=".7")
        for (label, x), anchor in zip(labels, anchors, strict=True)
    ]
    nodes += [svg.text(str(kind), 0, 30 + 14 * i, fill=colors[i]) for i, kind in enumerate(kinds[:5])]
    title = "Bus bandwidth of transfers, from the last arrival to the end, by size of the message"
    if len(curves):
        title += f"; dashed: modelled for {ranks.frames['summary']['gpu'].iloc[0]}, GPUs of one node"
    return svg.chart(228, title, *nodes, class_="cr-picture")


def _x(value: float, low: float, high: float) -> float:
    return LABEL + 8 + (PLOT - 16) * (value - low) / (high - low)


def _curve(part: pd.DataFrame, low: float, high: float, top: float, color: str) -> Node:
    """Return what the model of the GPU reaches, over the sizes that are drawn."""
    size = np.log2(integers(part["num_bytes"]).astype(np.float64))
    inside = (size >= low - 1e-9) & (size <= high + 1e-9)
    speed = part["bus_bytes_per_s"].to_numpy(np.float64)
    pairs = zip(size[inside], speed[inside], strict=True)
    points = " ".join(f"{_x(float(x), low, high):.1f},{206 - 196 * y / top:.1f}" for x, y in pairs)
    return element("polyline", points=points, fill="none", stroke=color, stroke_dasharray="5 3")


def merged_timeline(ranks: Ranks, *, step: int | None = None, chosen: list[int] | None = None) -> Node | None:
    """Compute and communication of some ranks in one step, on the clock of the first rank."""
    pieces, comm = ranks.frames["stretches"], ranks.analysis.collectives
    steps = sorted(set(pieces["step"].tolist()) - {-1})
    if not steps:
        return None
    step = steps[len(steps) // 2] if step is None else step
    chosen = interesting(ranks) if chosen is None else chosen
    pieces = pieces[(pieces["step"] == step).to_numpy() & pieces["rank"].isin(chosen).to_numpy()]
    comm = comm[(comm["step"] == step).fillna(False).to_numpy(bool) & comm["rank"].isin(chosen).to_numpy()]
    if not len(pieces):
        return None
    start = aligned(pieces.rename(columns={"start_ns": "ts"}), ranks.analysis.clocks)
    end = start + (pieces["end_ns"] - pieces["start_ns"]).to_numpy(np.int64)
    begin = int(min(start.min(), comm["arrival_ns"].min() if len(comm) else start.min()))
    stop = int(max(end.max(), (comm["arrival_ns"] + comm["dur"]).max() if len(comm) else end.max()))
    span = max(stop - begin, 1)
    row = {rank: i for i, rank in enumerate(chosen)}
    nodes = [svg.text(f"rank {rank}", 0, 16 + 26 * i) for rank, i in row.items()]
    for rank, a, b, busy in zip(pieces["rank"], start - begin, end - begin, pieces["busy_ns"], strict=True):
        nodes += _compute_bars(int(a), int(b), int(busy), span, 6 + 26 * row[rank], f"rank {rank}")
    columns = (comm["rank"], comm["kind"], comm["arrival_ns"] - begin, comm["dur"], comm["wait_ns"].fillna(0))
    for rank, kind, at, dur, wait in zip(*columns, strict=True):
        top, middle = 17 + 26 * row[rank], int(at) + min(int(wait), int(dur))
        nodes.append(_bar(int(at), middle, span, top, 10, BLUE, ".35", f"rank {rank}: waits in {kind}"))
        nodes.append(_bar(middle, int(at + dur), span, top, 10, GREEN, "1", f"rank {rank}: {kind}"))
    bottom = 8 + 26 * len(chosen)
    nodes += svg.axis(span, 4, bottom)
    title = (
        f"Step {step} of {len(chosen)} ranks: orange computes, as high as the share of the time in which work runs; "
        "blue waits, green transfers"
    )
    return svg.chart(bottom + 20, title, *nodes, class_="cr-picture")


def _compute_bars(a: int, b: int, busy: int, span: int, top: float, rank: str) -> Iterator[Node]:
    """A stretch between communications, pale, and in it the time in which compute runs: its share as height."""
    label = f"{rank}: work runs {units.duration(busy)} between communications in"
    yield _bar(a, b, span, top, 12, ORANGE, ".15", label)
    height = 10.5 * min(busy / max(b - a, 1), 1.0)
    yield _bar(a, b, span, top + 10.5 - height, height + 1.5, ORANGE, ".85", label)


def interesting(ranks: Ranks) -> list[int]:
    """At most 8 ranks: the stragglers, then others at equal distances."""
    slow = [one.rank for one in ranks.analysis.stragglers.found][:4]
    every = list(ranks)
    more = [every[i * (len(every) - 1) // 7] for i in range(8)] if len(every) > 8 else every
    return sorted([*slow, *(rank for rank in dict.fromkeys(more) if rank not in slow)][:8])
