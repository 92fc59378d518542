"""What changed between two runs, as tables: kernels, operators, modules, memory."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.compare.runs import Differences
from cudalens.analysis.short_names import short_names
from cudalens.views.sections.model import Column, Row, Section, Table, Text
from cudalens.views.sections.pictures import signed_bar

BETTER, WORSE, UNSURE = "#1a8f5c", "#d1443a", "#7d8790"
#: The frames and their titles, in the order in which they are shown.
SECTIONS: Final = {"kernels": "Kernels", "ops": "Operators and calls", "modules": "Modules", "memory": "Memory"}

_NOUNS: Final = {"kernels": "kernel", "ops": "operator or call", "modules": "module", "memory": "peak"}
_WHERE: Final = {"kernels": "operator", "memory": "device"}
_UNCHANGED: Final = "same"
_MAX_ROWS: Final = 25
#: What the names of ranges that autograd makes for each node of the graph begin with.
_AUTOGRAD: Final = "autograd::engine::"
_NUMBERS: Final = ("before", "after", "difference", "interval", "change", "calls")


def changed(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `table` that changed; where noise is not known, all that differ."""
    return table[table["status"] != _UNCHANGED]


def section(found: Differences, key: str) -> Section | None:
    """Return the rows of one frame that changed, most important first; None where none did."""
    table = changed(getattr(found, key))
    if table.empty:
        return None
    most = float(table[_delta(key)].abs().max()) or 1.0
    shown = table.head(_MAX_ROWS).to_dict("records")
    short = _short_names(shown)
    rows = [_row(row, key, most, short) for row in shown]
    columns = (
        Column("name", text_width=48, html_width=96),
        Column(_WHERE.get(key, "where"), text_width=24, html_width=32),
        Column("", text_width=0),
        *(Column(title, title if title == "interval" else "", "right") for title in _NUMBERS),
    )
    drawn = Table(columns, rows, len(table), more=(_NOUNS[key], ""), is_stacked=True)
    return Section("", "cc", title=SECTIONS[key], blocks=(drawn,))


def color_of(delta: float, status: str) -> str:
    """Green for less, red for more, grey for what may be noise."""
    if status == "unknown":
        return UNSURE
    return BETTER if delta < 0 else WORSE


def row_name(row: dict[Any, Any], short: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a row's name, of a kernel that was renamed both names; those in `short` are replaced."""
    names = (row["a_name"], row["b_name"]) if is_renamed(row) else (row["name"],)
    return " → ".join(short.get(str(name), str(name)) for name in names)


def _short_names(rows: list[dict[Any, Any]]) -> dict[str, str]:
    """Return what replaces names of kernels, Python functions and autograd's ranges where they are shown together."""
    names = [str(name) for row in rows for name in (row["name"], row.get("a_name"), row.get("b_name")) if name]
    ranges = {name: name.removeprefix(_AUTOGRAD) for name in names if name.startswith(_AUTOGRAD)}
    return short_names(name for name in names if "<" in name or ".py(" in name) | ranges


def is_renamed(row: dict[Any, Any]) -> bool:
    """Return whether a kernel was matched with one of another name."""
    return row.get("matched_by") == "op"


def signed_duration(ns: float) -> str:
    """Return a difference of times: ``-1.90 ms``, ``+20 µs``, ``0``."""
    if not ns:
        return "0"
    return ("+" if ns > 0 else "-") + units.duration(abs(ns))


def signed_size(num_bytes: float) -> str:
    """Return a difference of sizes: ``-1.90 GiB``, ``+512 B``, ``0``."""
    if not num_bytes:
        return "0"
    return ("+" if num_bytes > 0 else "-") + units.size(abs(num_bytes))


def _delta(key: str) -> str:
    return "delta_bytes" if key == "memory" else "delta_ns"


def _row(row: dict[Any, Any], key: str, most: float, short: Mapping[str, str]) -> Row:
    is_memory = key == "memory"
    unit, show, signed = ("bytes", units.size, signed_size) if is_memory else ("ns", units.duration, signed_duration)
    low, high, delta = row[f"low_{unit}"], row[f"high_{unit}"], row[_delta(key)]
    difference = signed(delta)
    bar = signed_bar(difference, delta / most, color_of(delta, row["status"]))
    interval = "-" if pd.isna(low) else units.interval(signed(low), signed(high))
    change = row["status"] if row["status"] in ("added", "removed") else _change(row["change_pct"])
    where = str(row.get("where", row.get("op", "")))
    calls = "" if is_memory else _calls(row["a_count"], row["b_count"])
    times = (show(row[f"a_{unit}"]), show(row[f"b_{unit}"]), difference)
    name = Text(row_name(row, short), full=row_name(row))
    return Row((name, where, bar, *times, interval, change, calls))


def _change(percent: Any) -> str:
    return "-" if pd.isna(percent) else units.signed_change(float(percent) / 100)


def _calls(before: float, after: float) -> str:
    old, new = units.number(before), units.number(after)
    return old if old == new else f"{old} → {new}"
