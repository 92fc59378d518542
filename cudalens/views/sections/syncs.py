"""Waits for the GPU as a table: how long, how often, at which line, and what to write instead.

Made once as a tree of elements, for saved notebooks, the report and the live page alike.
"""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from cudalens.analysis import summarize_syncs, syncs, units
from cudalens.frames import Trace
from cudalens.views.races.text import times
from cudalens.views.sections import syncs_text as words
from cudalens.views.sections.markup import Node, element, svg

MAX_ROWS: Final = 12
"""Groups of waits that are shown; the others are counted."""

_BAR_WIDTH, _BAR_HEIGHT = 72, 10
_MAX_TEXT: Final = 200
_HEADS: Final = ("host waited", "times", "at", "for", "instead")


def section(trace: Trace) -> Node | None:
    """The table with its heading; None where there was no wait."""
    groups = syncs(trace)
    if groups.empty:
        return None
    largest = int(groups["total_ns"].fillna(0).max()) or 1
    shown = groups.head(MAX_ROWS).to_dict("records")
    rows = [_row({str(name): value for name, value in group.items()}, largest) for group in shown]
    head = element("thead", element("tr", *(element("th", title, scope="col") for title in _HEADS)))
    rest = len(groups) - len(shown)
    more = element(
        "p", f"and {units.plural(rest, 'other place')}: cudalens.analysis.syncs(trace)", class_="cl-sync-note"
    )
    return element(
        "details",
        element("summary", element("strong", "Waits for the GPU"), f": {_heading(groups)}"),
        element("table", head, element("tbody", *rows)),
        element("p", _LEGEND, class_="cl-sync-note") if groups["gpu_ns"].notna().any() else None,
        more if rest else None,
        class_="cl-syncs",
        open=words.is_notable(trace),
    )


_LEGEND: Final = "Solid: the GPU was at work meanwhile. Pale: it was not, and the call itself took the time."


def static_html(trace: Trace) -> str:
    """The table as HTML that stands alone with the style sheet ``syncs.css``; "" where there was no wait."""
    node = section(trace)
    return "" if node is None else f'<div class="cudalens-syncs">{node.html()}</div>'


def page_tree(trace: Trace) -> list[Any] | None:
    """The table for the live page, as `markup.Node.json` has it."""
    node = section(trace)
    return None if node is None else node.json()


def _heading(groups: pd.DataFrame) -> str:
    found = summarize_syncs(groups)
    hidden = f"{units.duration(found.hidden_ns)} hidden, {times(found.num_hidden)}" if found.num_hidden else ""
    asked = f"{units.duration(found.explicit_ns)} asked for, {times(found.num_explicit)}" if found.num_explicit else ""
    return "; ".join(part for part in (hidden, asked) if part)


def _row(group: dict[str, Any], largest: int) -> Node:
    total = None if pd.isna(group["total_ns"]) else int(group["total_ns"])
    code = group["expression"] or group["source"]
    place = words.short_place(group["place"]) if group["place"] else "not recorded"
    where = element("span", place, title=units.shorten(group["place"], 1000) if group["place"] else None)
    return element(
        "tr",
        element("td", _bar(total or 0, group["gpu_ns"], largest), f" {units.duration(total)}", class_="cl-sync-time"),
        element("td", units.count(group["count"]), class_="cl-sync-count"),
        element("td", where, element("code", units.shorten(code, _MAX_TEXT)) if code else None, class_="cl-sync-place"),
        element(
            "td",
            element("span", group["kind"]),
            element("code", units.shorten(group["op"], _MAX_TEXT)) if group["op"] else None,
            class_="cl-sync-kind",
        ),
        element("td", group["advice"], class_="cl-sync-advice"),
    )


def _bar(total_ns: int, gpu_ns: Any, largest_ns: int) -> Node:
    width = _BAR_WIDTH * total_ns / largest_ns
    known = 0 if pd.isna(gpu_ns) else min(int(gpu_ns), total_ns)
    box = {"x": 0, "y": 0, "height": _BAR_HEIGHT, "rx": 2, "fill": "#d55e00"}
    return svg(
        _BAR_WIDTH,
        _BAR_HEIGHT,
        units.duration(total_ns),
        element("rect", width=f"{max(width, 1):.1f}", fill_opacity="0.35", **box),
        element("rect", width=f"{_BAR_WIDTH * known / largest_ns:.1f}", **box) if known else None,
    )
