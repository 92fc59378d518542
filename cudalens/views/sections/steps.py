"""Steps of the profiler side by side; steps that took much longer are marked."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.facts import step_costs
from cudalens.frames import Trace
from cudalens.views.sections.model import Cell, Column, Row, Section, Table, Text
from cudalens.views.sections.pictures import bar

MAX_ROWS: Final = 100
_MAX_TEXT: Final = 8
_NUM_OPEN: Final = 10
_COLUMNS: Final = (
    Column("step", "step"),
    Column("time", "time", "right"),
    Column("against the median", "extra", "right"),
    Column("GPU", "device", "right"),
    Column("CPU", "host", "right"),
    Column("launched", "count", "right"),
)


def section(trace: Trace) -> Section | None:
    """Return the steps in order; None where there are fewer than two."""
    steps = step_costs(trace)
    if len(steps) < 2:
        return None
    largest = max(int(steps["dur_ns"].max()), 1)
    shown = steps[:MAX_ROWS]
    rows = [_row(row, largest) for row in shown.to_dict("records")]
    table = Table(_COLUMNS, rows, len(steps), _MAX_TEXT, _NUM_OPEN, ("step", ""), is_stacked=True)
    odd = bool(steps["is_outlier"].any())
    return Section(
        "steps", "cl-step", title="Steps", facts=_answer(steps), blocks=(table,), is_open=False, is_in_text=odd
    )


def _answer(steps: pd.DataFrame) -> str:
    median = f"{units.plural(len(steps), 'step')}, median {units.duration(int(steps['dur_ns'].median()))}"
    odd = steps[steps["is_outlier"]]
    if odd.empty:
        return median
    worst = odd.loc[odd["extra_ns"].idxmax()]
    more = "" if len(odd) == 1 else f" and {len(odd) - 1} more"
    return f"{median}; step {worst['step']}{more} took {units.duration(int(worst['extra_ns']))} longer"


def _row(row: dict[Any, Any], largest: int) -> Row:
    number: Cell = units.count(int(row["step"]))
    if row["is_outlier"]:
        number = (f"{number} ", Text("outlier", "strong"))
    extra = int(row["extra_ns"])
    sign = "-" if extra < 0 else "+"
    time = bar("", int(row["dur_ns"]) / largest), f" {units.duration(int(row['dur_ns']))}"
    cells = (
        units.duration(int(row["device_ns"])),
        units.duration(int(row["host_ns"])),
        units.count(int(row["num_works"])),
    )
    return Row((number, time, f"{sign}{units.duration(abs(extra))}", *cells), event=int(row["row"]))
