"""Two snapshots of memory side by side: both curves on one axis, fragmentation, and the holders that changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis import memory_diff as found_diff
from cudalens.analysis import units
from cudalens.analysis.memory.holders import active_blocks
from cudalens.analysis.memory.replay import DeviceReplay, replays
from cudalens.analysis.memory.totals import fragmentation
from cudalens.frames import Trace
from cudalens.frames.snapshots.build import HAS_TIMES
from cudalens.views.compare.changes import signed_size
from cudalens.views.memory.map_svg import CURVE_HEIGHT, FONT, WIDTH, bar_svg, curve_line, legend
from cudalens.views.memory.section import PARTS, part_words
from cudalens.views.memory.words import holder_words, label_of_text
from cudalens.views.sections.markup import Node, element, signed_bar, svg
from cudalens.views.sections.model import Block, Cell, Column, Note, Picture, Row, Section, Table, Text
from cudalens.views.sections.shown import Shown

BEFORE, AFTER = "#8b96a1", "#2f7fd6"
GROWN, SHRUNK = "#d1443a", "#1a8f5c"
_HEAD_CHARS: Final = 18
_MAX_ROWS: Final = 25
_MAX_TEXT: Final = 10
_NAME_WIDTH: Final = 48


@dataclass(frozen=True, repr=False)
class MemoryDiff(Shown):
    """The difference between two snapshots, shown as text, or as pictures and a table in a notebook.

    Attributes:
        before: The first snapshot.
        after: The second snapshot.
        by: The key of a row: ``stack``, ``holder``, or a column of ``blocks``.
        frame: A row per stack or value, as `cudalens.analysis.memory_diff` defines it.
    """

    before: Trace
    after: Trace
    by: str
    frame: pd.DataFrame

    @property
    def section(self) -> Section:
        """The change in one line, both curves, how the reserved memory is used, and the largest changes."""
        names = _names(self.before, self.after)
        sizes = [int(active_blocks(trace)["num_bytes"].sum()) for trace in (self.before, self.after)]
        first, second = (f"{name} ({units.size(size)})" for name, size in zip(names, sizes, strict=True))
        verdict = f"{signed_size(sizes[1] - sizes[0])} from {first} to {second}"
        curves = self._curves()
        pictures = (Picture(curves),) if curves is not None else ()
        return Section("memory", "cm", verdict=verdict, blocks=(*pictures, *self._bars(), self._changes()))

    def _sides(self) -> tuple[tuple[str, Trace, str], ...]:
        names = _names(self.before, self.after)
        return (names[0], self.before, BEFORE), (names[1], self.after, AFTER)

    def _curves(self) -> Node | None:
        """Allocated memory over time, of each side's device with most memory, on the same axes."""
        known = [curve for side in self._sides() if (curve := _curve(*side)) is not None]
        if len({curve.is_time for curve in known}) != 1:
            return None  # a history with times and one without have no common axis
        end = max(int(curve.at.max()) for curve in known) or 1
        most = max(curve.peak for curve in known) or 1
        bottom = CURVE_HEIGHT - 18
        lines = [
            curve_line(one.device, "allocated_bytes", one.color, one.at / end, most, bottom, one.at.max() / end)
            for one in known
        ]
        keys = [(one.color, f"{units.shorten(one.name, 40)}, peak {units.size(one.peak)}") for one in known]
        last = units.duration(end) if known[0].is_time else units.plural(end, "action")
        texts = [
            element("path", d=f"M0 {bottom}H{WIDTH}", stroke="currentColor", stroke_opacity=".3"),
            element("text", "0", x=0, y=CURVE_HEIGHT - 4, opacity=".7"),
            element("text", last, x=WIDTH, y=CURVE_HEIGHT - 4, text_anchor="end", opacity=".7"),
        ]
        label = "Allocated memory of both over time"
        return svg(WIDTH, CURVE_HEIGHT, label, *lines, *texts, *legend(keys, 0, 10), **FONT)

    def _bars(self) -> Iterator[Block]:
        """Reserved memory by use, all devices together, both on the same scale."""
        totals = [(name, fragmentation(trace).sum(numeric_only=True)) for name, trace, _ in self._sides()]
        most = max((float(total.get("reserved_bytes", 0)) for _, total in totals), default=0)
        for name, total in totals:
            line = f"{name}: {units.size(int(total.get('reserved_bytes', 0)))} reserved: {part_words(total)}"
            yield Picture(bar_svg([(float(total.get(key, 0)), color) for key, _, color in PARTS], line, most))
            yield Note(line, "line")

    def _heads(self) -> tuple[str, str]:
        """Headings of the columns of both: their names, unless these are wide."""
        names = _names(self.before, self.after)
        return names if max(map(len, names)) <= _HEAD_CHARS else ("before", "after")

    def _changes(self) -> Block:
        found = self.frame[(self.frame["delta_bytes"] != 0).to_numpy() | (self.frame["delta_blocks"] != 0).to_numpy()]
        if found.empty:
            return Note("Nothing differs.")
        columns = (
            Column(self.by.replace("_", " "), text_width=_NAME_WIDTH, html_width=96),
            Column("", text_width=0),
            *(Column(title, align="right") for title in ("change", "blocks", *self._heads())),
        )
        most = int(found["delta_bytes"].abs().max()) or 1
        rows = [_row(row, self.by, most) for row in found.head(_MAX_ROWS).to_dict("records")]
        return Section("", "cm", blocks=(Table(columns, rows, len(found), _MAX_TEXT, is_stacked=True),))


def memory_diff(before: Trace, after: Trace, *, by: str = "stack") -> MemoryDiff:
    """Return the difference of `after` and `before` for display; arguments as of `cudalens.analysis.memory_diff`.

    Where no stack was recorded, the difference by stack would be one row that hides what grew and what shrank: the
    variables that hold the memory are compared instead, if they are known.
    """
    if by == "stack" and not any(active_blocks(trace)["stack"].notna().any() for trace in (before, after)):
        has_names = all(trace.blocks["names"].notna().any() for trace in (before, after))
        by = "holder" if has_names else by
    return MemoryDiff(before, after, by, found_diff(before, after, by=by))


def _names(before: Trace, after: Trace) -> tuple[str, str]:
    """Return the names of both, made distinct."""
    first, second = before.info.name, after.info.name
    return (first, second) if first != second else (f"{first} (before)", f"{second} (after)")


@dataclass(frozen=True)
class _Curve:
    """One side's history, of its device with most memory; `at` in ns or actions from the start, shape (n,)."""

    name: str
    color: str
    device: DeviceReplay
    at: NDArray[np.int64]
    is_time: bool

    @property
    def peak(self) -> int:
        return self.device.peak("allocated_bytes")


def _curve(name: str, trace: Trace, color: str) -> _Curve | None:
    devices = [one for one in replays(trace) if len(one.rows)]
    if not devices:
        return None
    one = max(devices, key=lambda each: each.peak("allocated_bytes"))
    is_time = bool(trace.info.options.get(HAS_TIMES, True))
    ts = trace.memory["ts"].to_numpy()
    at = ts[one.rows] - ts[0] if is_time else one.rows + 1
    return _Curve(name, color, one, at.astype(np.int64), is_time)


def _row(row: dict[Any, Any], by: str, most: int) -> Row:
    delta = int(row["delta_bytes"])
    change = signed_size(delta)
    bar = signed_bar(change, delta / most, GROWN if delta > 0 else SHRUNK)
    sides = (units.size(int(row[f"{side}_bytes"])) for side in ("before", "after"))
    return Row((_key_cell(row[by], by), bar, change, f"{int(row['delta_blocks']):+,}", *sides))


def _key_cell(key: Any, by: str) -> Cell:
    """Return a key of the diff; for a call stack its line of the program, with the whole stack as a tooltip."""
    if by == "holder":
        return holder_words(key)
    if not isinstance(key, str):
        return "not recorded" if pd.isna(key) else str(key)
    return Text(label_of_text(key), full=key) if by == "stack" else key
