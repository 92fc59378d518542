"""The timeline as one inline SVG: for saved notebooks, reports before their scripts run, and print.

Bounded: each lane and depth is a row of pixels, each pixel shows the longest event in it and how much of it is busy;
neighbours of one colour are joined. Colours are mid-tones for light and dark pages; lines and text take the colour of
the text around (``currentColor``), so the picture needs no style sheet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis import units
from cudalens.frames import Trace
from cudalens.views import assets
from cudalens.views.races.svg import RED
from cudalens.views.sections.markup import Child, Node, element, svg
from cudalens.views.sections.trust import simulated
from cudalens.views.timeline.marks import race_marks
from cudalens.views.timeline.payload_codec import clipped_times, lane_table, num_enclosing

#: Width of a row in pixels.
PLOT: Final = 602
MAX_RUNS: Final = 3000
LABEL: Final = 150
WIDTH: Final = LABEL + PLOT + 8
_MAX_LANES: Final = 10
_MAX_DEPTH: Final = 6
_ROW: Final = 9
_GAP: Final = 7
_AXIS: Final = 22
#: Opacity of the three levels of how busy a pixel is.
_LEVELS: Final = (0.35, 0.65, 1.0)


@dataclass(frozen=True)
class _Layout:
    """The lanes: first pixel row, number of rows, label."""

    lanes: list[tuple[int, int, str]]
    num_hidden: int

    @property
    def num_rows(self) -> int:
        return sum(depth for _, depth, _ in self.lanes)

    def top(self, lane: int) -> int:
        """Top of the lane in pixels: gaps and rows above it."""
        return lane * _GAP + self.lanes[lane][0] * _ROW + 4


def timeline_svg(trace: Trace, max_runs: int = MAX_RUNS) -> Node | None:
    """Return the timeline of `trace` in at most `max_runs` boxes, some 30 bytes each; None if there is no event."""
    events = trace.events
    if not len(events):
        return None
    _, start, dur, _ = clipped_times(events)
    span = max(int((start + dur).max()), 1)
    lane, table = lane_table(events)
    # Row of each event in its lane: its depth, with the frames that enclose the lane in one row; shape (n,).
    folded = np.maximum(num_enclosing(events, lane, len(table)) - 1, 0)
    depth = np.clip(events["depth"].to_numpy().astype(np.int64) - folded[lane], 0, _MAX_DEPTH - 1)
    layout = _layout(lane, table, depth, events["is_instant"].to_numpy())
    shown = np.flatnonzero((lane < len(layout.lanes)) & (dur > 0))
    first_row = np.array([first for first, _, _ in layout.lanes], np.int64)
    row = first_row[lane[shown]] + depth[shown]
    begin, length = start[shown] / span, dur[shown] / span
    del start, dur, lane, depth  # of a large trace, hundreds of megabytes
    color, palette = color_codes(events)
    runs = joined_pixels(row, begin, length, color[shown], layout.num_rows, max_runs)
    bottom = layout.top(len(layout.lanes) - 1) + layout.lanes[-1][1] * _ROW + _GAP
    height = bottom + _AXIS + (16 if layout.num_hidden else 0)
    badge = simulated(trace.info)
    title = f"Timeline of {trace.info.name}: {units.plural(len(trace), 'event')} in {units.duration(span)}"
    tops = [layout.top(k) + d * _ROW for k, (_, depth, _) in enumerate(layout.lanes) for d in range(depth)]
    nodes: list[Child] = [
        *axis(span, 0, bottom),
        *(lane_label(label, layout.top(k) + _ROW) for k, (_, _, label) in enumerate(layout.lanes)),
        *boxes(runs, tops, palette, _ROW),
        *_races(trace, layout, span, bottom),
    ]
    if badge:
        nodes.append(text(badge, 0, bottom + 13, width=24, font_weight="600"))
    if layout.num_hidden:
        nodes.append(text(f"and {units.plural(layout.num_hidden, 'lane')} more", 0, height - 4, opacity=".7"))
    return chart(height, f"{title} ({badge})" if badge else title, *nodes)


def _layout(lane: NDArray[np.int64], table: list[dict[str, Any]], depth: Any, instant: NDArray[np.bool_]) -> _Layout:
    deepest = np.zeros(len(table), np.int64)
    np.maximum.at(deepest, lane[~instant], depth[~instant])
    lanes, first = [], 0
    for k, entry in enumerate(table[:_MAX_LANES]):
        lanes.append((first, int(deepest[k]) + 1, str(entry["label"])))
        first += int(deepest[k]) + 1
    return _Layout(lanes, max(0, len(table) - _MAX_LANES))


def chart(height: float, title: str, *nodes: Child, **attributes: object) -> Node:
    """Return a picture as wide as its container, at most 860 px."""
    look = {"font-family": "system-ui,sans-serif", "font-size": "11", "fill": "currentColor"}
    style = "width:100%;max-width:860px;height:auto;display:block"
    return svg(WIDTH, height, units.shorten(title, 200), *nodes, style=style, **look, **attributes)


def text(label: str, x: float, y: float, *, width: int = 150, **attributes: object) -> Node:
    """Return a line of text of at most `width` characters."""
    return element("text", units.shorten(label, width), x=f"{x:.1f}".removesuffix(".0"), y=f"{y:.0f}", **attributes)


def lane_label(label: str, y: float) -> Node:
    """Return the name of a lane, shortened, with the full name as a tooltip."""
    return element("text", element("title", units.shorten(label, 200)), units.shorten(label, 24), x=0, y=f"{y:.0f}")


def boxes(runs: Iterable[Any], tops: Sequence[float], palette: list[str], row_height: int) -> list[Node]:
    """Return the runs of `pixels.joined_pixels`, one path per colour and level.

    Args:
        runs: Row, x, width, colour and level of each.
        tops: Top of each row, px.
        palette: The colours.
        row_height: Height of a row with the gap below it, px.
    """
    drawn: dict[tuple[int, int], list[str]] = {}
    for row, x, width, color, level in runs:
        box = f"M{LABEL + x:.4g} {tops[row]:.0f}h{width:.4g}v{row_height - 1}h-{width:.4g}z"
        drawn.setdefault((color, level), []).append(box)
    return [
        element("path", fill=palette[color], fill_opacity=_LEVELS[level], d="".join(parts))
        for (color, level), parts in sorted(drawn.items())
    ]


def axis(span: int, top: float, bottom: float) -> list[Node]:
    """Vertical lines from `top` to `bottom`, px, and times below them; `span` ns are as wide as the plot."""
    step = nice_step(span / 5)
    nodes = []
    for k in range(int(span // step) + 1):
        x = LABEL + PLOT * k * step / span
        anchor = "middle" if k else "start"
        if x > WIDTH - 40:
            anchor = "end"
        line = f"M{x:.1f} {top:.0f}V{bottom:.0f}"
        nodes.append(element("path", d=line, stroke="currentColor", stroke_opacity=".15", fill="none"))
        when = units.duration(k * step) if k else "0"
        nodes.append(text(when, x, bottom + 13, text_anchor=anchor, opacity=".7"))
    return nodes


def nice_step(rough: float) -> float:
    """Return the next of 1, 2, 5 times a power of ten that is at least `rough`."""
    power = 10.0 ** np.floor(np.log10(max(rough, 1.0)))
    return float(next(power * m for m in (1, 2, 5, 10) if power * m >= rough * 0.999))


def _races(trace: Trace, layout: _Layout, span: int, bottom: int) -> list[Node]:
    """Return a red line at each race, and a red edge around the work of its later access; titles name the race."""
    nodes = []
    for race in race_marks(trace):
        x = LABEL + PLOT * race["at"] / span
        edge = None
        if 0 <= race["lane"] < len(layout.lanes):
            width = max(PLOT * race["dur"] / span, 2.0)
            box = f"M{x:.1f} {layout.top(race['lane'])}h{width:.1f}v{_ROW - 1}h-{width:.1f}z"
            edge = element("path", d=box, fill="none", stroke=RED, stroke_width="1.5")
        line = element("path", d=f"M{x:.1f} 0V{bottom}", stroke=RED, stroke_opacity=".7", stroke_dasharray="3 3")
        title = element("title", f"race: {units.shorten(race['title'], 200)}")
        nodes.append(element("g", title, line, edge))
    return nodes


_FEWEST_COLUMNS: Final = 60


def color_codes(events: pd.DataFrame) -> tuple[NDArray[np.int16], list[str]]:
    """Return a colour number for each row, and the colours; the same groups of categories as the live timeline."""
    groups = assets.theme()["groups"]
    number = {group["key"]: k for k, group in enumerate(groups)}
    cats = events["cat"].cat
    by_cat = np.array(
        [number[assets.group_of(str(c))] for c in cats.categories.tolist()] + [number[assets.GROUP_OTHER]], np.int16
    )
    codes = by_cat[cats.codes.to_numpy()]
    names = events["name"].cat
    is_comm = np.array([assets.group_of("kernel", str(n)) == "comm" for n in names.categories.tolist()] + [False])
    codes[(codes == number["kernel"]) & is_comm[names.codes.to_numpy()]] = number["comm"]
    return codes, [group["color"] for group in groups]


def joined_pixels(
    row: NDArray[np.int64],
    start: NDArray[np.float64],
    dur: NDArray[np.float64],
    color: NDArray[np.int16],
    num_rows: int,
    max_runs: int = MAX_RUNS,
) -> list[tuple[int, float, float, int, int]]:
    """Joined pixels as (row, x, width, colour, level); pixels grow until there are few enough of them."""
    order = np.argsort(dur, kind="stable")  # the longest event of a pixel is written last
    row, start, dur, color = row[order], start[order], dur[order], color[order]
    columns = PLOT
    while True:
        code = _pixels(row, start * columns, dur * columns, color, (num_rows, columns))
        if columns < _FEWEST_COLUMNS or int((np.diff(code, axis=1) != 0).sum()) <= max_runs:
            scale = PLOT / columns
            return [(r, x * scale, w * scale, c, level) for r, x, w, c, level in _joined(code)]
        columns //= 2


def _pixels(
    row: NDArray[np.int64],
    x0: NDArray[np.float64],
    width: NDArray[np.float64],
    color: NDArray[np.int16],
    shape: tuple[int, int],
) -> NDArray[np.int64]:
    """3 * colour + level of each pixel, -1 for idle; shape (rows, columns). Events are sorted shortest first."""
    num_rows, columns = shape
    owner = np.full(num_rows * columns, -1, np.int64)
    first = np.minimum(x0.astype(np.int64), columns - 1)
    last = np.minimum((x0 + width).astype(np.int64), columns - 1)
    num_short = int((width <= 1.0).sum())
    short, wide = slice(num_short), slice(num_short, None)
    owner[row[short] * columns + first[short]] = color[short]
    covered = (last - first + 1)[wide]
    spread = np.repeat(np.arange(num_short, len(width)), covered)
    step = np.arange(len(spread)) - np.repeat(np.cumsum(covered) - covered, covered)
    owner[row[spread] * columns + first[spread] + step] = color[spread]
    level = np.digitize(np.minimum(coverage(row, x0, width, shape), 1.0), (0.34, 0.67))
    return np.where(owner < 0, -1, owner * 3 + level).reshape(shape)


def coverage(
    row: NDArray[np.int64], x0: NDArray[np.float64], width: NDArray[np.float64], shape: tuple[int, int]
) -> NDArray[np.float64]:
    """Busy share of each pixel, shape (rows * columns,): the running sum of what each start adds and each end takes."""
    num_rows, columns = shape
    stride = columns + 2
    slope = np.zeros(num_rows * stride)
    for x, sign in ((x0, 1.0), (x0 + width, -1.0)):
        whole = np.minimum(x.astype(np.int64), columns)
        part = np.clip(x - whole, 0.0, 1.0)
        at = row * stride + whole
        slope += np.bincount(at, sign * (1.0 - part), len(slope)) + np.bincount(at + 1, sign * part, len(slope))
    return np.cumsum(slope.reshape(num_rows, stride), axis=1)[:, :columns].ravel()


def _joined(code: NDArray[np.int64]) -> list[tuple[int, int, int, int, int]]:
    """Neighbours of one code in a row as (row, first column, number of columns, colour, level)."""
    runs = []
    for r, line in enumerate(code):
        edges = np.flatnonzero(np.diff(line, prepend=line[0] - 1, append=line[-1] - 1))
        for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            if line[a] >= 0:
                runs.append((r, a, b - a, int(line[a]) // 3, int(line[a]) % 3))
    return runs
