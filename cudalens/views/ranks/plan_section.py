"""The view of `cudalens.plan`: the layouts of a job, the fastest that fits first."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis import units
from cudalens.views.foreign import clean
from cudalens.views.sections.model import Column, Note, Row, Section, Table, Text

_MAX_ERROR: Final = 160


def plan_section(layouts: pd.DataFrame, arguments: list[str], gpus: str) -> Section:
    """Return the answer and a table of the layouts."""
    has_cost = bool(layouts["cost"].notna().any())
    columns = (
        Column("layout"),
        Column("step", key="number", align="right"),
        Column("exposed", key="number", align="right"),
        Column("needs", key="number", align="right"),
        Column("fits"),
        Column("GPU seconds", key="number", align="right"),
        *((Column("cost", key="number", align="right"),) if has_cost else ()),
    )
    rows = layouts.to_dict("records")
    table = Table(
        columns,
        [Row(_cells(row, arguments, has_cost=has_cost)) for row in rows],
        more=("layout", ".layouts"),
        is_stacked=True,
    )
    errors = [f"{_name(row, arguments)}: {clean(str(row['error']))[:_MAX_ERROR]}" for row in rows if _failed(row)]
    notes = [Note(text) for text in errors]
    note = Note("Simulated: no GPU was used. Exposed: share of a step in which GPUs only communicate or wait.")
    return Section(
        "fit", "cf", verdict=verdict(layouts, arguments, gpus), badge="simulated", blocks=(table, *notes, note)
    )


def verdict(layouts: pd.DataFrame, arguments: list[str], gpus: str) -> str:
    """Return the answer in one line: the fastest layout that fits."""
    rows = layouts.to_dict("records")
    fitting = [row for row in rows if row["fits"]]
    if not fitting:
        return f"None of {units.plural(len(rows), 'layout')} fits on {gpus}."
    best = fitting[0]
    what = "for the whole program" if pd.isna(best["exposed_pct"]) else "a step"  # shares are of steps
    return f"{_name(best, arguments)} is the fastest layout that fits on {gpus}: {_step(best)} {what}."


def _name(row: dict[Any, Any], arguments: list[str]) -> str:
    return " x ".join(f"{name} {row[name]}" for name in arguments)


def _failed(row: dict[Any, Any]) -> bool:
    return isinstance(row["error"], str)


def _step(row: dict[Any, Any]) -> str:
    error_pct = (row["step_high_ns"] / max(row["step_ns"], 1) - 1) * 100
    return f"{units.duration(row['step_ns'])} ± {error_pct:.0f} %"


def _cells(row: dict[Any, Any], arguments: list[str], *, has_cost: bool) -> tuple[Any, ...]:
    if _failed(row):
        return (_name(row, arguments), "-", "-", "-", "cannot run", "-", *("-" for _ in range(has_cost)))
    exposed = "-" if pd.isna(row["exposed_pct"]) else f"{row['exposed_pct']:.0f} %"
    fits = Text("yes", "strong") if row["fits"] else "no"
    cost = (np.format_float_positional(row["cost"], precision=2, fractional=False, trim="-"),) if has_cost else ()
    return (
        _name(row, arguments),
        _step(row),
        exposed,
        units.size(row["total_bytes"]),
        fits,
        f"{row['gpu_seconds']:.3g}",
        *cost,
    )
