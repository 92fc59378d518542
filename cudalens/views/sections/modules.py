"""The tree of nn.Modules: GPU time forward and backward, memory at the peak, FLOP/s."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.facts import module_tree
from cudalens.frames import Trace
from cudalens.views.foreign import clean
from cudalens.views.sections.model import Cell, Column, Row, Section, Table, Text
from cudalens.views.sections.pictures import bar

#: More modules than this are not listed: those with the least GPU time are left out first.
MAX_ROWS: Final = 200
_MAX_TEXT: Final = 8
_NUM_OPEN: Final = 12
_INDENT: Final = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} "


def section(trace: Trace) -> Section | None:
    """Return the modules with the modules within them indented; None where none is known."""
    tree = module_tree(trace)
    if tree.empty:
        return None
    tree = tree.assign(device_ns=tree["forward_ns"] + tree["backward_ns"])
    shown = tree[tree["depth"] <= _deepest(tree)][:MAX_ROWS]
    largest = int(max(shown["device_ns"].max(), shown["host_ns"].max() if not shown["device_ns"].any() else 0, 1))
    columns = _columns(tree)
    rows = [_row(row, columns, largest) for row in shown.to_dict("records")]
    table = Table(
        tuple(column for column, _ in columns), rows, len(tree), _MAX_TEXT, _NUM_OPEN, ("module", ""), is_stacked=True
    )
    return Section("modules", "cl-module", title="Modules", facts=_answer(tree), blocks=(table,), is_open=False)


def _deepest(tree: pd.DataFrame) -> int:
    """Return the depth down to which all modules fit."""
    counts = tree["depth"].value_counts().sort_index().cumsum()
    fitting = counts[counts <= MAX_ROWS]
    return int(fitting.index.max()) if len(fitting) else 0


def _columns(tree: pd.DataFrame) -> list[tuple[Column, str]]:
    """Return the columns that have a value, with their names in the frame."""
    known = [
        (Column("module", "name", text_width=50), "name"),
        (Column("GPU", "time", "right"), "device_ns"),
        (Column("forward", "forward", "right"), "forward_ns"),
        (Column("backward", "backward", "right"), "backward_ns"),
        (Column("CPU", "host", "right"), "host_ns"),
        (Column("at peak", "memory", "right"), "peak_bytes"),
        (Column("FLOP/s", "rate", "right"), "flops_per_s"),
    ]
    return [(column, name) for column, name in known if name == "name" or (tree[name].fillna(0) > 0).any()]


def _answer(tree: pd.DataFrame) -> str:
    leaves = tree[~tree.index.isin(tree["parent"].dropna().astype(int))]
    column, side = ("device_ns", "GPU") if leaves["device_ns"].any() else ("host_ns", "CPU")
    first = leaves.loc[leaves[column].idxmax()]
    parts = [f"most {side} time in {clean(first['path'], 60)} ({units.duration(int(first[column]))})"]
    if tree["peak_bytes"].any():
        most = leaves.loc[leaves["peak_bytes"].idxmax()]
        parts.append(f"most memory at the peak: {clean(most['path'], 60)} ({units.size(int(most['peak_bytes']))})")
    return "; ".join(parts)


def _row(row: dict[Any, Any], columns: list[tuple[Column, str]], largest: int) -> Row:
    return Row(tuple(_cell(row, name, largest) for _, name in columns), depth=int(row["depth"]))


def _cell(row: dict[Any, Any], name: str, largest: int) -> Cell:
    value = row[name]
    if name == "name":
        return Text(f"{_INDENT * min(int(row['depth']), 12)}{clean(value, 80)}", "place", full=clean(row["path"]))
    if pd.isna(value) or not value:
        return "-"
    if name == "device_ns":
        return bar("", min(int(value) / largest, 1.0)), f" {units.duration(int(value))}"
    if name == "peak_bytes":
        return units.size(int(value))
    return _rate(float(value)) if name == "flops_per_s" else units.duration(int(value))


def _rate(value: float) -> str:
    for scale, unit in ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.3g} FLOP/s"
