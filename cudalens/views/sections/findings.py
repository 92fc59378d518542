"""Findings as a table: what is at stake, what it is, where, and what to try.

Made once as a tree of elements, for saved notebooks, the report and the live page alike.
"""

from __future__ import annotations

import re
from typing import Any, Final

from cudalens.analysis import Finding, findings, units
from cudalens.frames import Trace
from cudalens.views.sections import findings_text as words
from cudalens.views.sections.markup import Child, Node, element, svg
from cudalens.views.sections.syncs_text import short_place

NUM_OPEN: Final = 3
"""Findings that stand open; the others are folded."""

_BAR_WIDTH, _BAR_HEIGHT = 72, 10
_MAX_TEXT: Final = 400
_HEADS: Final = ("at stake", "finding", "try")
_CODE: Final = re.compile(
    r"(%%?cuda\w+(?: --\w+(?: \w+)?)*|[\w.@]+\([^()]*\)|[A-Z_]{8,}=\S+\w|\btorch(?:\.\w+)+(?: = \w+)?)"
)

_LEGEND: Final = (
    "At stake: an upper bound of what a remedy gains; the time of two findings may be the same. "
    "cudalens.analysis.findings(trace) has the events of each."
)


def section(trace: Trace) -> Node | None:
    """The list with its heading; None where nothing was found."""
    found = findings(trace)
    if not found:
        return None
    largest = max([one.cost_ns or 0 for one in found]) or 1
    rows = [_row(one, largest) for one in found]
    more = rows[NUM_OPEN:]
    modelled = " (modelled times)" if found[0].is_modelled else ""
    return element(
        "details",
        element("summary", element("strong", "Findings"), f": {len(found)}, the dearest first{modelled}"),
        _table(rows[:NUM_OPEN], has_heads=True),
        element("details", element("summary", f"{len(more)} more"), _table(more, has_heads=False)) if more else None,
        element("p", _LEGEND, class_="cl-find-note"),
        class_="cl-findings",
        open=True,
    )


def static_html(trace: Trace) -> str:
    """The list as HTML that stands alone with the style sheet ``findings.css``; "" where nothing was found."""
    node = section(trace)
    return "" if node is None else f'<div class="cudalens-findings">{node.html()}</div>'


def page_tree(trace: Trace) -> list[Any] | None:
    """The list for the live page, as `markup.Node.json` has it; rows carry their dearest event."""
    node = section(trace)
    return None if node is None else node.json()


def _table(rows: list[Node], *, has_heads: bool) -> Node:
    heads = element("tr", *(element("th", title, scope="col") for title in _HEADS))
    return element("table", element("thead", heads) if has_heads else None, element("tbody", *rows))


def _row(found: Finding, largest_ns: int) -> Node:
    where = found.place and element("span", f" {short_place(found.place)}", title=units.shorten(found.place, 1000))
    rank = None if found.rank is None else element("span", f" rank {found.rank}")
    return element(
        "tr",
        element("td", *_stake(found, largest_ns), class_="cl-find-cost"),
        element(
            "td",
            element("strong", units.shorten(found.title, _MAX_TEXT)),
            where or None,
            rank,
            element("b", f" {words.SURENESS[found.confidence]}"),
            element("p", units.shorten(found.what, _MAX_TEXT)),
            class_="cl-find-what",
        ),
        element("td", *_with_code(units.shorten(found.advice, _MAX_TEXT)), class_="cl-find-try"),
        data_event=found.rows[0] if found.rows else None,
    )


def _stake(found: Finding, largest_ns: int) -> list[Child]:
    if found.cost_ns is None:
        return ["-"]
    box = {"x": 0, "y": 0, "height": _BAR_HEIGHT, "rx": 2}
    width = max(1.0, _BAR_WIDTH * found.cost_ns / largest_ns)
    bar = svg(
        _BAR_WIDTH,
        _BAR_HEIGHT,
        units.duration(found.cost_ns),
        element("rect", width=_BAR_WIDTH, fill="currentColor", fill_opacity="0.12", **box),
        element("rect", width=f"{width:.1f}", fill="#d55e00", **box),
    )
    return [bar, element("span", units.duration(found.cost_ns)), element("span", units.percent(found.share_pct))]


def _with_code(advice: str) -> list[Child]:
    """Advice with what is to be typed set as code."""
    parts = _CODE.split(advice)
    return [element("code", part) if number % 2 else part for number, part in enumerate(parts) if part]
