"""Two snapshots of memory side by side: both curves on one axis, what each wastes, and who holds more or less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis import memory_diff as found_diff
from cudalens.analysis import units
from cudalens.analysis.memory.replay import DeviceReplay, replays
from cudalens.analysis.memory.totals import fragmentation
from cudalens.frames import Trace
from cudalens.frames.snapshots.build import HAS_TIMES
from cudalens.views import assets
from cudalens.views.memory import text as memory_text
from cudalens.views.memory.map import PARTS
from cudalens.views.memory.map_svg import CURVE_HEIGHT, FONT, WIDTH, curve_line, legend
from cudalens.views.sections.markup import Node, element, for_notebooks, svg

BEFORE, AFTER = "#8b96a1", "#2f7fd6"
GROWN, SHRUNK = "#d1443a", "#1a8f5c"
_MAX_ROWS: Final = 25
_BAR_WIDTH: Final = 160
_NAME_WIDTH: Final = 96
_MAX_TITLE: Final = 3000


@dataclass(frozen=True, repr=False)
class MemoryDiff:
    """What two snapshots hold, one against the other; prints as text, shows as pictures and a table in a notebook.

    Attributes:
        before: The first.
        after: The second.
        by: What is told apart: ``stack``, or a column of ``blocks``.
        frame: A row per stack or value, as `cudalens.analysis.memory_diff` defines it.
    """

    before: Trace
    after: Trace
    by: str
    frame: pd.DataFrame

    def __str__(self) -> str:
        """The change in one line, and the largest changes."""
        return memory_text.diff_text(self.before, self.after, self.frame, self.by)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        verdict = element("p", element("strong", str(self).partition("\n")[0]))
        parts = [verdict, self._curves(), *self._bars(), self._table()]
        inner = "".join(part.html() for part in parts if part is not None)
        return f'<div class="cudalens-memory"><style>{assets.style("memory")}</style>{for_notebooks(inner)}</div>'

    def _sides(self) -> tuple[tuple[str, Trace, str], ...]:
        names = _names(self.before, self.after)
        return (names[0], self.before, BEFORE), (names[1], self.after, AFTER)

    def _curves(self) -> Node | None:
        """What was allocated, of the device that held most of each: from the start of each, in one scale."""
        known = [curve for side in self._sides() if (curve := _curve(*side)) is not None]
        if len({curve.is_time for curve in known}) != 1:
            return None  # a history in time and one in actions have no axis in common
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

    def _bars(self) -> list[Node]:
        """Reserved memory by use, all devices together, both in one scale."""
        totals = [(name, fragmentation(trace).sum(numeric_only=True)) for name, trace, _ in self._sides()]
        most = max((float(total.get("reserved_bytes", 0)) for _, total in totals), default=0) or 1.0
        return [_bar(name, total, most) for name, total in totals]

    def _table(self) -> Node | None:
        found = self.frame[(self.frame["delta_bytes"] != 0).to_numpy() | (self.frame["delta_blocks"] != 0).to_numpy()]
        if found.empty:
            return element("p", "Nothing differs.")
        names = _names(self.before, self.after)
        titles = (self.by.replace("_", " "), "", "change", "blocks", *(units.shorten(name, 30) for name in names))
        most = int(found["delta_bytes"].abs().max()) or 1
        rows = [_row(row, self.by, most) for row in found.head(_MAX_ROWS).to_dict("records")]
        left = len(found) - len(rows)
        head = element("thead", element("tr", *(element("th", title, scope="col") for title in titles)))
        note = element("p", f"and {units.count(left)} more that differ", class_="cm-note") if left else None
        table = element("table", head, element("tbody", *rows))
        return element("div", element("div", table, class_="cm-scroll"), note, class_="cm-table")


def memory_diff(before: Trace, after: Trace, *, by: str = "stack") -> MemoryDiff:
    """What `after` holds that `before` did not, to look at; arguments as of `cudalens.analysis.memory_diff`."""
    return MemoryDiff(before, after, by, found_diff(before, after, by=by))


def _names(before: Trace, after: Trace) -> tuple[str, str]:
    """The names of both, which are never the same."""
    first, second = before.info.name, after.info.name
    return (first, second) if first != second else (f"{first} (before)", f"{second} (after)")


@dataclass(frozen=True)
class _Curve:
    """One side's history: of its device that held most; `at` in ns or actions from the start, shape (n,)."""

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


def _bar(name: str, total: pd.Series, most: float) -> Node:
    reserved = int(total.get("reserved_bytes", 0))
    nodes, x = [], 0.0
    for key, label, color in PARTS:
        width = WIDTH * float(total.get(key, 0)) / most
        title = element("title", f"{label}: {units.size(int(total.get(key, 0)))}")
        shape = {"x": f"{x:.1f}", "y": 0, "width": f"{max(width - 1, 0):.1f}", "height": 14, "fill": color}
        nodes.append(element("rect", title, **shape))
        x += width
    told = ", ".join(f"{label} {units.size(int(total.get(key, 0)))}" for key, label, _ in PARTS)
    wasted = int(total.get("internal_bytes", 0)) + int(total.get("external_bytes", 0))
    share = units.percent(100 * wasted / reserved) if reserved else "-"
    line = f"{name}: {units.size(reserved)} reserved, fragmentation {share}: {told}"
    return element("div", svg(WIDTH, 14, line, *nodes, class_="cm-picture"), element("p", line), class_="cm-bar")


def _row(row: dict[Any, Any], by: str, most: int) -> Node:
    key, delta = row[by], int(row["delta_bytes"])
    text = str(key) if isinstance(key, str) or not pd.isna(key) else "not recorded"
    lines = text.split("\n")
    shown = next((line for line in lines if _is_own(line)), lines[0]) if by == "stack" else text
    title = units.shorten(shown, 1000) if by != "stack" else text[:_MAX_TITLE]
    return element(
        "tr",
        element("td", units.shorten(shown, _NAME_WIDTH), title=title),
        element("td", _change(delta, most)),
        element("td", memory_text.signed(delta)),
        element("td", f"{int(row['delta_blocks']):+,}"),
        element("td", units.size(int(row["before_bytes"]))),
        element("td", units.size(int(row["after_bytes"]))),
    )


def _is_own(line: str) -> bool:
    """Whether a line of a stack, ``file:line function``, is Python code that is not a library's."""
    file = line.rpartition(" ")[0].rpartition(":")[0]
    return (file.endswith(".py") or file.startswith(("In[", "<"))) and not memory_text.is_library(file)


def _change(delta: int, most: int) -> Node:
    """A bar to the right of the middle where more is held, to the left where less is."""
    middle = _BAR_WIDTH / 2
    width = max(middle * abs(delta) / most, 1.0) if delta else 0.0
    x = middle if delta > 0 else middle - width
    bar = element("rect", x=f"{x:.1f}", y=1, width=f"{width:.1f}", height=10, fill=GROWN if delta > 0 else SHRUNK)
    axis = element("path", d=f"M{middle:g} 0V12", stroke="currentColor", stroke_opacity=".4")
    return svg(_BAR_WIDTH, 12, memory_text.signed(delta), bar, axis)
