"""Past runs as a table: prints as text, shows as a table in a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

import pandas as pd

from cudalens.analysis import units

_HEADS: Final = ("when (UTC)", "run", "time", "", "GPU busy", "peak memory", "on")
_MAX_ROWS: Final = 20
_CELL: Final = "text-align:left;white-space:nowrap"


@dataclass(frozen=True, repr=False)
class HistoryText:
    """A table of past runs that prints.

    Attributes:
        head: Where they are kept, in a line.
        rows: The last of them, a row of texts each.
    """

    head: str
    rows: tuple[tuple[str, ...], ...]

    def __repr__(self) -> str:
        table = [_HEADS, *self.rows] if self.rows else []
        widths = [max(len(row[k]) for row in table) for k in range(len(_HEADS))] if table else []
        lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in table]
        return "\n".join([self.head, *(line.rstrip() for line in lines)])

    def _repr_html_(self) -> str:
        heads = "".join(f"<th style='text-align:left'>{escape(title)}</th>" for title in _HEADS)
        cells = ("".join(f"<td style='{_CELL}'>{escape(text)}</td>" for text in row) for row in self.rows)
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>" if self.rows else ""
        return f"<p>{escape(self.head)}</p>{table}"


def history_text(table: pd.DataFrame, file: Path | None) -> HistoryText:
    """The last of past runs.

    Args:
        table: As `cudalens.history.table` gives them.
        file: Where they are kept, None for the session alone.
    """
    kept = f"kept in {file}" if file else "of this session (%cudaprofile history on keeps them in a file)"
    number = units.plural(len(table), "run") if len(table) else "no run yet"
    older = f", the last {_MAX_ROWS}" if len(table) > _MAX_ROWS else ""
    rows = table.tail(_MAX_ROWS).to_dict("records")
    return HistoryText(f"{number}{older}, {kept}", tuple(_row({str(k): v for k, v in row.items()}) for row in rows))


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    busy, wall, peak = row["busy_ns"], row["wall_ns"], row["peak_memory_bytes"]
    return (
        f"{row['when']:%Y-%m-%d %H:%M:%S}",
        units.shorten(row["name"], 30),
        units.duration(row["value_ns"]),
        f"a step of {row['num_steps']}" if row["num_steps"] else "",
        "-" if pd.isna(busy) or not wall else units.percent(100 * busy / wall),
        "-" if pd.isna(peak) else units.size(peak),
        units.shorten(row["device"], 40),
    )
