"""The stack table: each distinct call stack once; the ``stack`` column of the events holds its id."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pandas as pd

from cudalens.frames.catalog_frames import column_array, empty_frame, frame_of
from cudalens.frames.column_arrays import text_column

#: ``file(line): function`` as torch writes it; ``(4, def 3)`` if the line that ran and the first line of the function
#: are known, ``(def 3)`` if only the first line is.
_ENTRY: Final = re.compile(
    r"^(?P<file>.*)\((?:(?P<line>\d{1,9})|(?:(?P<line_of>\d{1,9}), )?def (?P<first>\d{1,9}))\): (?P<function>.*)$",
    re.DOTALL,
)
#: The name that torch gives to the call of a Python function: the line is its first one, wherever it is at work.
_FUNCTION: Final = re.compile(r"^(?P<file>.*)\((?P<first>\d{1,9})\): (?P<function>.*)$", re.DOTALL)

#: A regular expression of the files of cudalens, wherever it is installed or cloned. torch shortens paths by the
#: entries of ``sys.path``, so that some begin with the package.
OWN_FILES: Final = (
    r"(?:^|[/\\])cudalens[/\\](?:analysis|api|commands|device|fixes|frames|gpus|graphs|kernels|magics|memory|profiler"
    r"|report|sanitizer|traces|views|virtual|watching)[/\\]"
)
#: Entries of torch, of cudalens and of wrappers.
_NOT_USERS: Final = re.compile(
    rf"^(?:torch[/\\]|<built-in |<frozen |nn\.Module: |\[)|[/\\]torch[/\\]|{OWN_FILES}"
    r"|(?:^|[/\\])(?:contextlib|functools|threading)\.py"
)


class StackTable:
    """Collects call stacks while a Trace is built.

    A stack is a tuple of entries, innermost first, each ``file(line): function`` as torch writes it, or as
    `function_entry` does.
    """

    def __init__(self) -> None:
        self._ids: dict[tuple[str, ...], int] = {}

    def add(self, entries: Sequence[str]) -> int:
        """Id of the stack `entries`, innermost first; the same stack has the same id."""
        return self._ids.setdefault(tuple(entries), len(self._ids))

    def to_frame(self) -> pd.DataFrame:
        """Return the table as the Trace's ``stacks`` frame, a row per stack frame, innermost first."""
        if not self._ids:
            return empty_frame("stacks")
        lengths = [len(entries) for entries in self._ids]
        entries = list(chain.from_iterable(self._ids))
        codes = {entry: code for code, entry in enumerate(dict.fromkeys(entries))}
        at = np.fromiter(map(codes.__getitem__, entries), np.int64, len(entries))
        files, lines, first_lines, functions = zip(*map(_parse, codes), strict=True) if codes else ((), (), (), ())
        return frame_of(
            "stacks",
            {
                "stack": np.repeat(np.arange(len(lengths), dtype=np.int64), lengths),
                "position": np.concatenate([np.arange(k, dtype=np.int32) for k in lengths]),
                "file": text_column(files).take(at),
                "line": column_array(lines, "Int32").take(at),
                "first_line": column_array(first_lines, "Int32").take(at),
                "function": text_column(functions).take(at),
            },
        )


def function_entry(name: str, line: int = -1) -> str:
    """Return the entry of a call of a Python function.

    torch's tracer knows the line at which a function begins, and the line of a call that it makes.

    Args:
        name: As torch names the call: ``file(first line): function``. Other names are entries as they are.
        line: The line that ran; -1 if it is not known.
    """
    match = _FUNCTION.match(name)
    if match is None:
        return name
    lines = f"def {match['first']}" if line < 0 else f"{line}, def {match['first']}"
    return f"{match['file']}({lines}): {match['function']}"


@lru_cache(1 << 16)
def _parse(entry: str) -> tuple[str | None, int | None, int | None, str]:
    """File, line, first line and function of one entry; an entry of another form is a function."""
    match = _ENTRY.match(entry)
    if match is None:
        return None, None, None, entry
    line, first = match["line"] or match["line_of"], match["first"]
    return match["file"], int(line) if line else None, int(first) if first else None, match["function"]


def entry_text(file: Any, line: Any, first_line: Any, function: Any) -> str:
    """Return a row of the stack table as an entry."""
    if pd.isna(file) or (pd.isna(line) and pd.isna(first_line)):
        return str(function)
    lines = [] if pd.isna(line) else [str(line)]
    if not pd.isna(first_line):
        lines.append(f"def {first_line}")
    return f"{file}({', '.join(lines)}): {function}"


#: Columns of the stack table that make an entry, in the order of `entry_text`.
ENTRY_COLUMNS: Final = ("file", "line", "first_line", "function")


class _Column(Protocol):
    """Integers by row: an array, or a view of one."""

    def __getitem__(self, row: int, /) -> Any: ...


def enclosing_entries(
    row: int, parent: _Column, is_python: _Column, call_line: _Column, name: Callable[[int], str]
) -> list[str]:
    """Return the Python calls around a row and the row itself as entries, innermost first.

    Args:
        row: A row of the events.
        parent: Row around each row, -1 for none.
        is_python: Whether each row is the call of a Python function.
        call_line: The column ``call_line`` of the events, -1 where it is missing.
        name: Returns the name of a row.
    """
    entries, line = [], -1
    while row >= 0:
        if is_python[row]:
            entries.append(function_entry(name(row), line))
        line = int(call_line[row])
        row = int(parent[row])
    return entries


def torchs_text(entry: str) -> str:
    """Return an entry as torch writes it: with the first line of the function, where it is known."""
    file, _, first, function = _parse(entry)
    return entry if first is None else f"{file}({first}): {function}"


class Place(NamedTuple):
    """A place in the user's code.

    Attributes:
        file: The source file, or the label of a notebook's cell.
        line: The line that ran; None if only the function is known.
        function: The function that ran.
    """

    file: str
    line: int | None
    function: str

    def text(self) -> str:
        """Return ``train.py:12``; ``forward (train.py)`` without a line, and ``In[3]`` for the code of a cell."""
        if self.line is not None:
            return f"{self.file}:{self.line}"
        return self.file if self.function.startswith(("<module>", "<cell line")) else f"{self.function} ({self.file})"


@lru_cache(1 << 16)
def user_place(entry: str) -> Place | None:
    """Return the place of an entry in the user's code; None for entries of torch, cudalens and wrappers."""
    file, line, first, function = _parse(entry)
    if file is None or (line is None and first is None) or _NOT_USERS.search(entry):
        return None
    return Place(file, line, function)
