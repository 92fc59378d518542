"""Waits of the host for the GPU: how long, how often, at which line, and what to write instead."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from cudalens.analysis import SyncSummary, units
from cudalens.analysis.facts import has_notable_waits, wait_groups, wait_summary
from cudalens.frames import Trace
from cudalens.views.sections.markup import bar
from cudalens.views.sections.model import Cell, Column, Note, Row, Section, Table, Text

#: Groups of waits that are shown; the others are counted.
MAX_ROWS: Final = 12

_MAX_TEXT: Final = 8
_MAX_NAME: Final = 48
_COLUMNS: Final = (
    Column("host waited", "time", "right"),
    Column("times", "count", "right"),
    Column("at", "place", text_width=60),
    Column("for", "kind", text_width=32),
    Column("instead", "advice", is_below=True),
)
_NO_PLACE: Final = "not recorded: add --syncs or --stacks (torch: with_stack=True)"
_LEGEND: Final = "Dark: waiting for GPU work. Pale: cost of the call."


def verdict(trace: Trace) -> str:
    """``host waited 12.3 ms for the GPU, 40 times in 3 places: 9.10 ms at In[3]:5 loss.item()``; "" where none matters.

    The waits counted are hidden ones; explicit synchronizations are named after them, or alone.
    """
    if not has_notable_waits(trace):
        return ""
    found = wait_summary(trace)
    if found.worst is None:
        return "no wait for the GPU was seen"
    if not found.num_hidden:
        return f"host waited for the GPU only in explicit synchronizations: {_explicit(found)}"
    where = f" in {units.plural(found.num_places, 'place')}" if found.num_places > 1 else ""
    line = f"host waited {units.duration(found.hidden_ns)} for the GPU, {units.times(found.num_hidden)}{where}"
    is_all = found.num_places == 1 and found.worst["count"] == found.num_hidden
    most = "" if is_all else f"{_known(found.worst['total_ns'])} "
    explicit = f" (and {_explicit(found)}, in explicit synchronizations)" if found.num_explicit else ""
    return f"{line}: {most}{_name(found.worst)}{explicit}"


def section(trace: Trace) -> Section | None:
    """Return the waits by line and kind, longest first; folded where they matter little; None where there was none."""
    groups = wait_groups(trace)
    if groups.empty:
        return None
    largest = int(groups["total_ns"].fillna(0).max()) or 1
    rows = [_row(row, largest) for row in groups[:MAX_ROWS].to_dict("records")]
    table = Table(
        _COLUMNS, rows, len(groups), _MAX_TEXT, more=("place", "cudalens.analysis.syncs(trace)"), is_stacked=True
    )
    legend = Note(_LEGEND, is_in_text=False)
    found = wait_summary(trace)
    heading = []
    if found.num_hidden:
        heading.append(f"{units.duration(found.hidden_ns)} in {units.plural(found.num_hidden, 'hidden wait')}")
    if found.num_explicit:
        explicit = units.plural(found.num_explicit, "explicit synchronization")
        heading.append(f"{units.duration(found.explicit_ns)} in {explicit}")
    return Section(
        "syncs",
        "cl-sync",
        title="Waits for the GPU",
        facts="; ".join(heading),
        blocks=(table, legend) if groups["gpu_ns"].notna().any() else (table,),
        is_open=has_notable_waits(trace),
        is_in_text=has_notable_waits(trace),
    )


def _explicit(found: SyncSummary) -> str:
    return f"{units.duration(found.explicit_ns)}, {units.times(found.num_explicit)}"


def _known(ns: Any) -> str:
    return "an unknown time" if pd.isna(ns) else units.duration(int(ns))


def _name(group: dict[Any, Any]) -> str:
    """``at In[3]:5 loss.item()``, or ``in aten::item`` where no place is known."""
    what = group["expression"] or group["source"]
    if group["place"]:
        return f"at {units.short_place(group['place'])}{f' {units.shorten(what, _MAX_NAME)}' if what else ''}"
    return f"in {units.shorten(group['op'] or group['kind'], _MAX_NAME)}"


def _row(group: dict[Any, Any], largest: int) -> Row:
    total = 0 if pd.isna(group["total_ns"]) else int(group["total_ns"])
    gpu = 0 if pd.isna(group["gpu_ns"]) else min(int(group["gpu_ns"]), total)
    time = bar("", total / largest, gpu / largest), f" {_known(group['total_ns'])}"
    return Row((time, units.count(group["count"]), _place(group), _kind(group), group["advice"]))


def _place(group: dict[Any, Any]) -> Cell:
    code = group["expression"] or group["source"]
    place = group["place"]
    where = Text(units.short_place(place), "place", full=place) if place else _NO_PLACE
    return (where, " ", Text(units.shorten(code, 200), "code")) if code else where


def _kind(group: dict[Any, Any]) -> Cell:
    return (group["kind"], ", ", Text(group["op"], "code")) if group["op"] else group["kind"]
