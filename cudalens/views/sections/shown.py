"""`Shown`, a section as text and as HTML in a notebook, and `write_page`, which writes one offline page."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

import pandas as pd

from cudalens.analysis import units
from cudalens.frames import atomic_write
from cudalens.views.sections.markup import for_notebooks
from cudalens.views.sections.model import Column, Row, Section, Table, clean
from cudalens.views.sections.write_html import to_html
from cudalens.views.sections.write_text import to_text


class Shown:
    """A section that a user prints or displays; a subclass may compute its `section`."""

    def __init__(self, section: Section) -> None:
        self._section = section

    @property
    def section(self) -> Section:
        """What it shows."""
        return self._section

    def __str__(self) -> str:
        """As text of about 100 columns."""
        return to_text(self.section)

    def __repr__(self) -> str:
        """The same as printed."""
        return str(self)

    def _repr_html_(self) -> str:
        return for_notebooks(to_html(self.section, has_style=True))


_PAGE: Final = (
    "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    "<title>{title}</title><style>:root {{ color-scheme: light dark }} body {{ margin: 24px auto; padding: 0 16px; "
    "max-width: 1100px; color: #1b1f24; background: #fff }} @media (prefers-color-scheme: dark) {{ body {{ color: "
    "#e6e9ed; background: #111418 }} }}</style></head><body>{body}</body></html>\n"
)


def write_page(path: str | os.PathLike[str], title: str, body: str) -> Path:
    """Write one offline page; returns its path.

    Args:
        path: The file; an existing one is replaced.
        title: Title of the page, as plain text.
        body: HTML of the view.

    Raises:
        OutputError: The file cannot be written; an existing file is unchanged.
    """
    with atomic_write(path) as file:
        file.write(_PAGE.format(title=escape(clean(title)), body=body).encode("utf-8", "replace"))
    return Path(path)


# Past runs as a table.

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
