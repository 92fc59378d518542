"""Remove escape sequences, controls of direction and excess length from texts of a Trace before they are shown.

The texts may come from a file of unknown origin. `clean` is for a value in a line, `clean_lines` for a whole output.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pandas as pd

_MAX_LINE: Final = 300
#: C0 and C1 except tab and line ends; marks, embeddings, overrides and isolates of direction.
_CONTROLS: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
#: A longer line of a whole text is cut: it can hold a name of any length from a file.
_MAX_TEXT_LINE: Final = 2_000


def clean(value: object, limit: int = _MAX_LINE) -> str:
    """`value` as one line of at most `limit` characters: what cannot be printed is replaced, the end is cut."""
    line = "" if value is None else printable(str(value))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def printable(text: str, keep: str = "") -> str:
    """`text` with spaces for other white space and a replacement character for what cannot be printed.

    Args:
        text: The text.
        keep: Characters that stay.
    """
    if text.isprintable():
        return text
    unknown = "\N{REPLACEMENT CHARACTER}"
    shown = []
    for c in text:
        if c.isprintable() or c in keep:
            shown.append(c)
        else:
            shown.append(" " if c.isspace() else unknown)
    return "".join(shown)


def without_controls(text: str) -> str:
    """`text` with a replacement character for controls: those of terminals and those of direction, but no line end."""
    return text if text.isprintable() else _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def clean_lines(text: str) -> str:
    """`text` for a terminal or a page: no escape sequences, no controls of direction, no line of unbounded length.

    Everything that a verb or a view prints goes through here, whatever file its texts are from.
    """
    return "\n".join(_cut(printable(line, keep="\t")) for line in text.split("\n"))


def _cut(line: str) -> str:
    return line if len(line) <= _MAX_TEXT_LINE else f"{line[: _MAX_TEXT_LINE - 1]}…"


def records(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the rows of `frame` as dicts of plain values; None where missing."""
    columns = [frame[name].astype(object).where(frame[name].notna(), None).tolist() for name in frame.columns]
    for values in zip(*columns, strict=True):
        yield dict(zip(frame.columns, values, strict=True))


def clean_records(frame: pd.DataFrame, raw: Iterable[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield the rows of `frame` as of `records`, with cleaned texts ("" where missing), except in the columns `raw`."""
    texts = [name for name in frame.columns if frame[name].dtype == "category" and name not in raw]
    for row in records(frame):
        yield row | {name: clean(row[name]) for name in texts}


def whole(value: Any) -> int | None:
    """`value` as an int; None where missing."""
    return None if value is None else int(value)
