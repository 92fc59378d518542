"""The stack table: each distinct call stack once; the ``stack`` column of the events holds its id."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.frames.catalog_frames import column_array, empty_frame, frame_of
from cudalens.frames.column_arrays import text_column

_ENTRY: Final = re.compile(r"^(?P<file>.*)\((?P<line>\d{1,9})\): (?P<function>.*)$", re.DOTALL)

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

    A stack is a tuple of entries, innermost first, each as torch writes it: ``file(line): function``.
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
        files, lines, functions = zip(*map(_parse, codes), strict=True) if codes else ((), (), ())
        return frame_of(
            "stacks",
            {
                "stack": np.repeat(np.arange(len(lengths), dtype=np.int64), lengths),
                "position": np.concatenate([np.arange(k, dtype=np.int32) for k in lengths]),
                "file": text_column(files).take(at),
                "line": column_array(lines, "Int32").take(at),
                "function": text_column(functions).take(at),
            },
        )


@lru_cache(1 << 16)
def _parse(entry: str) -> tuple[str | None, int | None, str]:
    """File, line and function of one entry; an entry of another form is a function."""
    match = _ENTRY.match(entry)
    return (match["file"], int(match["line"]), match["function"]) if match else (None, None, entry)


def entry_text(file: Any, line: Any, function: Any) -> str:
    """Return a row of the stack table as the entry that torch writes."""
    return str(function) if pd.isna(file) or pd.isna(line) else f"{file}({line}): {function}"


@lru_cache(1 << 16)
def user_line(entry: str) -> tuple[str, int] | None:
    """File and line of an entry in the user's code; None for entries of torch, cudalens and wrappers."""
    file, line, _ = _parse(entry)
    return None if file is None or line is None or _NOT_USERS.search(entry) else (file, line)
