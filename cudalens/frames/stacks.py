"""The stack table: each distinct call stack once, named by a number in the ``stack`` column of the events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pandas as pd

from cudalens.frames.build import categorical, nullable
from cudalens.frames.schema import empty_frame, missing_array

_ENTRY: Final = re.compile(r"^(?P<file>.*)\((?P<line>\d+)\): (?P<function>.*)$", re.DOTALL)


class StackTable:
    """Collects call stacks while a Trace is built.

    A stack is a tuple of entries, innermost first, each as torch writes it: ``file(line): function``.
    """

    def __init__(self) -> None:
        self._ids: dict[tuple[str, ...], int] = {}

    def add(self, entries: Sequence[str]) -> int:
        """Id of the stack `entries`, innermost first; the same stack has the same id."""
        return self._ids.setdefault(tuple(entries), len(self._ids))

    def to_frame(self) -> pd.DataFrame:
        """The table as the Trace's ``stacks`` frame, a row per stack frame, innermost first."""
        if not self._ids:
            return empty_frame("stacks")
        lengths = [len(entries) for entries in self._ids]
        parsed = [_parse(entry) for entries in self._ids for entry in entries]
        lines = np.array([line if line is not None else 0 for _, line, _ in parsed], np.int32)
        return pd.DataFrame(
            {
                "stack": np.repeat(np.arange(len(lengths), dtype=np.int64), lengths),
                "position": np.concatenate([np.arange(k, dtype=np.int32) for k in lengths]),
                "file": _texts(file for file, _, _ in parsed),
                "line": nullable(lines, np.array([line is None for _, line, _ in parsed])),
                "function": _texts(function for _, _, function in parsed),
                "extra": missing_array("category", len(parsed)),
            }
        )


def _parse(entry: str) -> tuple[str | None, int | None, str]:
    """File, line and function of one entry; an entry of another form is all function."""
    match = _ENTRY.match(entry)
    if match is None or len(match["line"]) > 9:
        return None, None, entry
    return match["file"], int(match["line"]), match["function"]


def _texts(values: Iterable[str | None]) -> pd.Categorical:
    codes, categories = pd.factorize(np.array(list(values), object))
    return categorical(codes, list(categories))
