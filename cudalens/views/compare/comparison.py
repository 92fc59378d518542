"""`Comparison`: two runs side by side, to print, to show in a notebook, to write as one offline page."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.compare.measure import Side, numbered_steps
from cudalens.analysis.compare.runs import Change, Comparable, Differences, differences
from cudalens.analysis.summary import measured_window, window_on_clock
from cudalens.frames import Trace
from cudalens.frames.column_arrays import integers
from cudalens.views.compare import changes
from cudalens.views.sections.markup import Node, element
from cudalens.views.sections.model import Picture, Section
from cudalens.views.sections.shown import Shown, write_page
from cudalens.views.timeline import svg
from cudalens.views.timeline.payload_codec import lane_table
from cudalens.views.timeline.svg import LABEL, PLOT, color_codes, joined_pixels


class Comparison(Shown):
    """What changed from one run to another; prints as text, shows as pictures and tables in a notebook.

    Frames are as `cudalens.analysis.differences` defines them.
    """

    def __init__(self, found: Differences) -> None:
        self._found = found

    @property
    def differences(self) -> Differences:
        """All that was found, both sides included."""
        return self._found

    @property
    def change(self) -> Change:
        """How long a step (or a run) took before and after, with its interval."""
        return self._found.whole

    @cached_property
    def verdict(self) -> str:
        """The answer in one line."""
        return changes.comparison_verdict(self._found)

    @property
    def ops(self) -> pd.DataFrame:
        """A row per operator and side (host, device)."""
        return self._found.ops.copy(deep=False)

    @property
    def kernels(self) -> pd.DataFrame:
        """A row per kernel, copy or set and the operator that launched it."""
        return self._found.kernels.copy(deep=False)

    @property
    def modules(self) -> pd.DataFrame:
        """A row per module and side; empty where modules were not recorded."""
        return self._found.modules.copy(deep=False)

    @property
    def memory(self) -> pd.DataFrame:
        """A row per device and kind of peak; empty where memory was not recorded."""
        return self._found.memory.copy(deep=False)

    def figure(self, by: str | None = None, mode: Literal["auto", "light", "dark"] = "auto") -> Any:
        """Return the largest changes as a plotly figure, of ``kernels``, ``ops``, ``modules`` or ``memory``."""
        from cudalens.views.figures.costs import draw_changes

        return draw_changes(self._found, by, mode)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one offline page, light or dark as the reader's system is; returns its path.

        Raises:
            OutputError: The file cannot be written; an existing file is unchanged.
        """
        title = " against ".join(reversed(changes.names(self._found)))
        return write_page(path, title, self._repr_html_())

    @property
    def section(self) -> Section:
        """The verdict, both timelines on one axis, and what changed."""
        picture = compare_timeline(self._found)
        tables = (changes.changes_section(self._found, key) for key in changes.SECTIONS)
        return Section(
            "compare",
            "cc",
            verdict=self.verdict,
            notes=tuple(changes.comparison_notes(self._found)),
            blocks=(*((Picture(picture),) if picture else ()), *(table for table in tables if table is not None)),
        )


def compare(a: Comparable, b: Comparable) -> Comparison:
    """Return what changed from `a` to `b`, as `cudalens.analysis.differences` finds it."""
    return Comparison(differences(a, b))


_MAX_LANES: Final = 5
_MAX_DEPTH: Final = 2
_ROW: Final = 11
_GAP: Final = 6
_HEAD: Final = 20

_NAME_CHARS: Final = 80


@dataclass(frozen=True)
class _Shown:
    """The repeat of one side that is drawn.

    Attributes:
        trace: The Trace that it is in.
        start: Its start, ns.
        end: Its end, ns.
    """

    trace: Trace
    start: int
    end: int


def compare_timeline(found: Differences) -> Node | None:
    """Both timelines from the start of a repeat, in one scale; None where a side has no event."""
    sides = [_shown(side, found.whole.unit == "step") for side in (found.a, found.b)]
    if any(one is None for one in sides):
        return None
    shown = [one for one in sides if one is not None]
    span = max(*(one.end - one.start for one in shown), 1)
    nodes: list[Node] = []
    top = 0.0
    for one, name, letter in zip(shown, changes.names(found), "ab", strict=True):
        length = one.end - one.start
        title = f"{letter}: {units.shorten(name, _NAME_CHARS)}, {units.duration(length)}"
        nodes.append(svg.text(title, 0, top + 13, font_weight="600"))
        drawn, height = _lanes(one, span, top + _HEAD)
        nodes += drawn
        x = LABEL + PLOT * length / span
        end = f"M{x:.1f} {top + _HEAD - 4:.0f}V{top + _HEAD + height:.0f}"
        nodes.append(element("path", d=end, stroke="currentColor", stroke_opacity=".6", stroke_dasharray="3 3"))
        top += _HEAD + height + 10
    nodes += svg.axis(span, _HEAD, top)
    return svg.chart(top + 18, "Timelines of both on one axis, from the start of a repeat", *nodes, class_="cc-picture")


def _shown(side: Side, by_step: bool) -> _Shown | None:
    """Return the repeat nearest to the median length."""
    repeats = [one for trace in side.traces for one in _repeats(trace, by_step)]
    if not repeats:
        return None
    lengths = np.array([one.end - one.start for one in repeats])
    return repeats[int(np.argmin(np.abs(lengths - np.median(lengths))))]


def _repeats(trace: Trace, by_step: bool) -> list[_Shown]:
    events = trace.events
    if not len(events):
        return []
    ts = events["ts"].to_numpy()
    end = ts + events["dur"].to_numpy()
    if by_step:
        rows = numbered_steps(trace)
        return [_Shown(trace, int(ts[row]), int(end[row])) for row in rows.tolist()]
    inside = (events["cat"] != "Trace").to_numpy() & ~events["is_instant"].to_numpy()
    if not inside.any():
        return []
    if trace.info.source.startswith("file:"):
        window = measured_window(trace)
        return [_Shown(trace, window.start, max(window.end, window.start + 1))]
    start, stop = window_on_clock(trace.info, int(ts[inside].min()), int(end[inside].max()))
    return [_Shown(trace, start, max(stop, start + 1))]


def _lanes(one: _Shown, span: int, top: float) -> tuple[list[Node], float]:
    """Return the streams and threads with something in the repeat, and how high they are."""
    events = one.trace.events
    ts = events["ts"].to_numpy()
    dur = events["dur"].to_numpy()
    depth = events["depth"].to_numpy().astype(np.int64)
    lane, table = lane_table(events)
    is_range = events["cat"].isin(["user_annotation", "gpu_user_annotation", "Trace"]).to_numpy()
    rows = np.flatnonzero((ts < one.end) & (ts + dur > one.start) & (dur > 0) & ~is_range)
    # Depth of each row with ranges taken out, since the step covers the whole picture.
    parent = integers(events["parent"])
    above = np.zeros(len(parent), np.int64)
    for level in range(1, int(depth.max(initial=0)) + 1):
        at = np.flatnonzero(depth == level)
        at = at[parent[at] >= 0]
        above[at] = above[parent[at]] + is_range[parent[at]]
    depth = depth - above
    rows = rows[depth[rows] < _MAX_DEPTH]
    used = [number for number in range(len(table)) if (lane[rows] == number).any()]
    nodes: list[Node] = []
    y = top
    color, palette = color_codes(events)
    for number in used[:_MAX_LANES]:
        mine = rows[lane[rows] == number]
        num_rows = int(depth[mine].max()) + 1
        nodes.append(svg.lane_label(str(table[number]["label"]), y + 9))
        start, length = (np.maximum(ts[mine], one.start) - one.start) / span, dur[mine] / span
        length = np.minimum(length, (np.minimum(ts + dur, one.end)[mine] - one.start) / span - start)
        runs = joined_pixels(depth[mine], start, length, color[mine], num_rows)
        nodes += svg.boxes(runs, [y + k * _ROW for k in range(num_rows)], palette, _ROW)
        y += num_rows * _ROW + _GAP
    if len(used) > _MAX_LANES:
        more = units.plural(len(used) - _MAX_LANES, "lane")
        nodes.append(svg.text(f"and {more} more", 0, y + 9, opacity=".7"))
        y += _ROW + _GAP
    return nodes, y - top
