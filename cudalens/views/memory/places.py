"""Find the line of the program in a call stack: the innermost Python line outside of libraries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import pandas as pd

from cudalens.frames import Trace

NATIVE: Final = "native code"
_LIBRARIES: Final = ("site-packages", "dist-packages", "/lib/python", "/torch/", "<frozen")
_CELL: Final = "In["
#: A line as `cudalens.analysis.memory.stacks.stack_texts` writes it. Names of C++ functions may contain spaces.
_LINE: Final = re.compile(r"(.+?):(\d+) (.*)")


class StackFrame(NamedTuple):
    """One stack frame; its function may be unknown."""

    file: str
    line: int
    function: str

    @property
    def place(self) -> str:
        """``train.py:12``."""
        return f"{self.file.replace(chr(92), '/').rpartition('/')[2]}:{self.line}"

    def __str__(self) -> str:
        return f"{self.place} {self.function}".strip()


def own_frame(frames: Iterable[StackFrame]) -> StackFrame | None:
    """The innermost of `frames` (innermost first) in a notebook cell, else in the program, else in any Python file."""
    python = [one for one in frames if one.file.endswith(".py") or one.file.startswith((_CELL, "<"))]
    own = [one for one in python if not any(part in one.file.replace("\\", "/") for part in _LIBRARIES)]
    cells = [one for one in own if one.file.startswith(_CELL)]
    return next(iter(cells or own or python), None)


def label_of_text(stack: str) -> str:
    """``train.py:12 main`` for a stack as text, a line per stack frame; "native code" if no stack frame is Python."""
    found = own_frame(StackFrame(m[1], int(m[2]), m[3]) for line in stack.split("\n") if (m := _LINE.match(line)))
    return NATIVE if found is None else str(found)


def frames_of(trace: Trace, wanted: Sequence[int]) -> dict[int, StackFrame | None]:
    """Return the line of the program in each of the stacks `wanted`, by number; None if no stack frame is Python."""
    entries = trace.stacks[trace.stacks["stack"].isin(wanted).to_numpy()].dropna(subset=["file", "line"])
    frames: dict[int, list[StackFrame]] = {number: [] for number in wanted}
    columns = (entries[name].astype(object) for name in ("stack", "file", "line", "function"))
    for number, file, line, function in zip(*columns, strict=True):
        frames[int(number)].append(StackFrame(str(file), int(line), "" if pd.isna(function) else str(function)))
    return {number: own_frame(found) for number, found in frames.items()}


def place_of(trace: Trace, stack: Any) -> str:
    """Return the line of the program in a call stack, as ``In[4]:12``; "" if there is none."""
    found = None if pd.isna(stack) else frames_of(trace, [int(stack)])[int(stack)]
    return "" if found is None else found.place
