"""A picture of the timeline as one inline SVG: for saved notebooks, reports before their scripts run, and paper.

Bounded: each lane and depth is a row of pixels, each pixel shows the longest event in it and how much of it is busy;
neighbours of one colour are joined. Foreign text is escaped. Colours are mid-tones that stand on light and dark ground,
lines and text take the colour of the text around (``currentColor``), so the picture needs no style sheet.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis import units
from cudalens.frames import Trace
from cudalens.views import theme
from cudalens.views.races.svg import RED
from cudalens.views.sections.badges import simulated as simulated_badge
from cudalens.views.timeline.payload_order import clipped_times, lane_table
from cudalens.views.timeline.race_marks import race_marks

WIDTH: Final = 960
LABEL: Final = 150
PLOT: Final = WIDTH - LABEL - 8
_MAX_LANES: Final = 10
_MAX_DEPTH: Final = 6
_ROW: Final = 9
_GAP: Final = 7
_AXIS: Final = 22
_MAX_RUNS: Final = 3000
_FEWEST_COLUMNS: Final = 60
LEVELS: Final = (0.35, 0.65, 1.0)


@dataclass(frozen=True)
class _Layout:
    """Where each lane stands: first pixel row, number of rows, label."""

    lanes: list[tuple[int, int, str]]
    num_hidden: int

    @property
    def num_rows(self) -> int:
        return sum(depth for _, depth, _ in self.lanes)

    def top(self, lane: int) -> int:
        """Top of the lane in pixels: gaps and rows above it."""
        return lane * _GAP + self.lanes[lane][0] * _ROW + 4


def timeline_svg(trace: Trace) -> str:
    """The timeline of `trace` as an ``<svg>`` element of at most some 100 KB; empty text where there is no event."""
    events = trace.events
    if not len(events):
        return ""
    _, start, dur, _ = clipped_times(events)
    span = max(int((start + dur).max()), 1)
    lane, table = lane_table(events)
    depth = np.minimum(events["depth"].to_numpy().astype(np.int64), _MAX_DEPTH - 1)
    layout = _layout(lane, table, depth, events["is_instant"].to_numpy())
    shown = np.flatnonzero((lane < len(layout.lanes)) & (dur > 0))
    first_row = np.array([first for first, _, _ in layout.lanes], np.int64)
    row = first_row[lane[shown]] + depth[shown]
    color, palette = color_codes(events)
    runs = joined_pixels(row, start[shown] / span, dur[shown] / span, color[shown], layout.num_rows)
    return _document(trace, layout, runs, palette, span)


def _layout(lane: NDArray[np.int64], table: list[dict[str, Any]], depth: Any, instant: NDArray[np.bool_]) -> _Layout:
    deepest = np.zeros(len(table), np.int64)
    np.maximum.at(deepest, lane[~instant], depth[~instant])
    lanes, first = [], 0
    for k, entry in enumerate(table[:_MAX_LANES]):
        lanes.append((first, int(deepest[k]) + 1, str(entry["label"])))
        first += int(deepest[k]) + 1
    return _Layout(lanes, max(0, len(table) - _MAX_LANES))


def color_codes(events: pd.DataFrame) -> tuple[NDArray[np.int64], list[str]]:
    """A colour number for each row, and the colours; the same groups of categories as the live timeline."""
    groups = theme.theme()["groups"]
    number = {group["key"]: k for k, group in enumerate(groups)}
    cats = events["cat"].cat
    by_cat = np.array([number[theme.group_of(str(c))] for c in cats.categories.tolist()] + [number[theme.GROUP_OTHER]])
    codes = by_cat[cats.codes.to_numpy()]
    names = events["name"].cat
    is_comm = np.array([theme.group_of("kernel", str(n)) == "comm" for n in names.categories.tolist()] + [False])
    codes[(codes == number["kernel"]) & is_comm[names.codes.to_numpy()]] = number["comm"]
    return codes.astype(np.int64), [group["color"] for group in groups]


def joined_pixels(
    row: NDArray[np.int64],
    start: NDArray[np.float64],
    dur: NDArray[np.float64],
    color: NDArray[np.int64],
    num_rows: int,
) -> list[tuple[int, float, float, int, int]]:
    """Joined pixels as (row, x, width, colour, level); pixels grow until there are few enough of them."""
    order = np.argsort(dur, kind="stable")  # the longest event of a pixel is written last
    row, start, dur, color = row[order], start[order], dur[order], color[order]
    columns = PLOT
    while True:
        code = _pixels(row, start * columns, dur * columns, color, (num_rows, columns))
        if columns < _FEWEST_COLUMNS or int((np.diff(code, axis=1) != 0).sum()) <= _MAX_RUNS:
            scale = PLOT / columns
            return [(r, x * scale, w * scale, c, level) for r, x, w, c, level in _joined(code)]
        columns //= 2


def _pixels(
    row: NDArray[np.int64],
    x0: NDArray[np.float64],
    width: NDArray[np.float64],
    color: NDArray[np.int64],
    shape: tuple[int, int],
) -> NDArray[np.int64]:
    """3 * colour + level of each pixel, -1 where nothing ran; shape (rows, columns). Events come shortest first."""
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
    level = np.digitize(np.minimum(_coverage(row, x0, width, shape), 1.0), (0.34, 0.67))
    return np.where(owner < 0, -1, owner * 3 + level).reshape(shape)


def _coverage(
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
    filled: NDArray[np.float64] = np.cumsum(slope.reshape(num_rows, stride), axis=1)[:, :columns].ravel()
    return filled


def _joined(code: NDArray[np.int64]) -> list[tuple[int, int, int, int, int]]:
    """Neighbours of one code in a row as (row, first column, number of columns, colour, level)."""
    runs = []
    for r, line in enumerate(code):
        edges = np.flatnonzero(np.diff(line, prepend=line[0] - 1, append=line[-1] - 1))
        for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            if line[a] >= 0:
                runs.append((r, a, b - a, int(line[a]) // 3, int(line[a]) % 3))
    return runs


def _document(trace: Trace, layout: _Layout, runs: Any, palette: list[str], span: int) -> str:
    bottom = layout.top(len(layout.lanes) - 1) + layout.lanes[-1][1] * _ROW + _GAP
    height = bottom + _AXIS + (16 if layout.num_hidden else 0)
    title = f"Timeline of {trace.info.name}: {units.plural(len(trace), 'event')} in {units.duration(span)}"
    simulated = simulated_badge(trace.info)
    if simulated:
        title = f"{title} ({simulated})"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'style="width:100%;max-width:{WIDTH}px;height:auto;display:block" '
        f'font-family="system-ui,sans-serif" font-size="11" fill="currentColor">',
        f"<title>{_text(title, 200)}</title>",
        *_axis(span, bottom),
        *_labels(layout),
        *_paths(layout, runs, palette),
        *_races(trace, layout, span, bottom),
    ]
    if simulated:
        parts.append(f'<text x="0" y="{bottom + 13}" font-weight="600">{_text(simulated, 24)}</text>')
    if layout.num_hidden:
        parts.append(
            f'<text x="0" y="{height - 4}" opacity=".7">and {units.plural(layout.num_hidden, "lane")} more</text>'
        )
    return "".join([*parts, "</svg>"])


def _labels(layout: _Layout) -> list[str]:
    labels = []
    for k, (_, _, label) in enumerate(layout.lanes):
        y = layout.top(k) + _ROW
        labels.append(f'<text x="0" y="{y}"><title>{_text(label, 200)}</title>{_text(label, 24)}</text>')
    return labels


def _paths(layout: _Layout, runs: Any, palette: list[str]) -> list[str]:
    """One path per colour and level."""
    tops = [layout.top(k) + d * _ROW for k, (_, depth, _) in enumerate(layout.lanes) for d in range(depth)]
    drawn: dict[tuple[int, int], list[str]] = {}
    for row, x, width, color, level in runs:
        box = f"M{LABEL + x:.4g} {tops[row]}h{width:.4g}v{_ROW - 1}h-{width:.4g}z"
        drawn.setdefault((color, level), []).append(box)
    return [
        f'<path fill="{palette[color]}" fill-opacity="{LEVELS[level]}" d="{"".join(boxes)}"/>'
        for (color, level), boxes in sorted(drawn.items())
    ]


def _races(trace: Trace, layout: _Layout, span: int, bottom: int) -> list[str]:
    """A red line at each race, and a red edge around the work of its later access; titles say which race."""
    parts = []
    for race in race_marks(trace):
        x = LABEL + PLOT * race["at"] / span
        edge = ""
        if 0 <= race["lane"] < len(layout.lanes):
            width = max(PLOT * race["dur"] / span, 2.0)
            box = f"M{x:.1f} {layout.top(race['lane'])}h{width:.1f}v{_ROW - 1}h-{width:.1f}z"
            edge = f'<path d="{box}" fill="none" stroke="{RED}" stroke-width="1.5"/>'
        line = f'<path d="M{x:.1f} 0V{bottom}" stroke="{RED}" stroke-opacity=".7" stroke-dasharray="3 3"/>'
        parts.append(f"<g><title>race: {_text(race['title'], 200)}</title>{line}{edge}</g>")
    return parts


def _axis(span: int, bottom: int) -> list[str]:
    step = nice_step(span / 5)
    lines = []
    for k in range(int(span // step) + 1):
        x = LABEL + PLOT * k * step / span
        anchor = "end" if x > WIDTH - 40 else "middle" if k else "start"
        lines.append(f'<path d="M{x:.1f} 0V{bottom}" stroke="currentColor" stroke-opacity=".15" fill="none"/>')
        when = units.duration(k * step) if k else "0"
        lines.append(f'<text x="{x:.1f}" y="{bottom + 13}" text-anchor="{anchor}" opacity=".7">{when}</text>')
    return lines


def nice_step(rough: float) -> float:
    """The next of 1, 2, 5 times a power of ten that is at least `rough`."""
    power = 10.0 ** np.floor(np.log10(max(rough, 1.0)))
    return float(next(power * m for m in (1, 2, 5, 10) if power * m >= rough * 0.999))


def _text(text: str, width: int) -> str:
    return escape(units.shorten(text, width), quote=True)
