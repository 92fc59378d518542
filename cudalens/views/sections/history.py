"""Past runs as a table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd

from cudalens.analysis import units
from cudalens.views.sections.model import Column, Row, Section, Table
from cudalens.views.sections.shown import Shown

_MAX_ROWS: Final = 20
_COLUMNS: Final = (
    Column("when (UTC)"),
    Column("run", text_width=30, html_width=30),
    Column("time", align="right"),
    Column("steps"),
    Column("GPU busy", align="right"),
    Column("peak memory", align="right"),
    Column("on", text_width=40, html_width=40),
)


@dataclass(frozen=True, repr=False)
class History(Shown):
    """A table of past runs that prints.

    Attributes:
        table: As `cudalens.history.table` gives them.
        file: The file that keeps them, None for those of the session.
    """

    table: pd.DataFrame
    file: Path | None

    @property
    def section(self) -> Section:
        """The last runs."""
        kept = f"kept in {self.file}" if self.file else "of this session (%cudaprofile history on keeps them in a file)"
        number = units.plural(len(self.table), "run") if len(self.table) else "no run yet"
        older = f", the last {_MAX_ROWS}" if len(self.table) > _MAX_ROWS else ""
        rows = [_row(row) for row in self.table.tail(_MAX_ROWS).to_dict("records")]
        table = Table(_COLUMNS, rows, max_text=_MAX_ROWS)
        return Section("history", verdict=f"{number}{older}, {kept}", blocks=(table,) if rows else ())


def _row(row: dict[Any, Any]) -> Row:
    busy, wall, peak = row["busy_ns"], row["wall_ns"], row["peak_memory_bytes"]
    cells = (
        f"{row['when']:%Y-%m-%d %H:%M:%S}",
        row["name"],
        units.duration(row["value_ns"]),
        f"a step of {row['num_steps']}" if row["num_steps"] else "",
        "-" if pd.isna(busy) or not wall else units.percent(100 * busy / wall),
        "-" if pd.isna(peak) else units.size(peak),
        row["device"],
    )
    return Row(cells)
