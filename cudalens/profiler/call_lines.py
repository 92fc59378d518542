"""Read the line at which each call was made from torch's call tree.

torch names a Python function by its first line. The line at which it made a call is with the call: torch's tracer reads
it of the calling frame. Operators that Python's syntax calls (``x * 2``) are no calls for the tracer; they have a line
only if a Python function ran inside them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cudalens.frames import nullable
from cudalens.frames.column_arrays import Bools, Ints


def call_lines(raw: Any, start: Ints, thread: Ints, is_python: Bools) -> Any:
    """Return the column ``call_line`` of events.

    Args:
        raw: torch's `_ProfilerResult`.
        start: Start of each event, ns; shape (n,).
        thread: torch's number of its thread; shape (n,).
        is_python: Whether it is the call of a Python function; shape (n,).
    """
    keys = ["start", "thread", "is_python"]
    found = pd.DataFrame(_lines_of_tree(raw), columns=[*keys, "line"]).drop_duplicates(keys)
    events = pd.DataFrame({"start": start, "thread": thread, "is_python": is_python})
    line = events.merge(found, on=keys, how="left")["line"].fillna(-1).to_numpy(np.int64)
    return nullable(line.astype(np.int32), line <= 0)


def _lines_of_tree(raw: Any) -> dict[str, Any]:
    """Return start, thread and line of each call within a Python function; -1 for a line that is not known."""
    rows: list[list[Any]] = []
    pending: list[tuple[Any, Any, bool]] = [(event, None, False) for event in raw.experimental_event_tree()]
    while pending:
        event, operators, is_within_python = pending.pop()
        caller = getattr(event.extra_fields, "caller", None)
        row = [event.start_time_ns, event.start_tid, caller is not None, -1 if caller is None else caller.line_number]
        if is_within_python:
            rows.append(row)
        if caller is None:
            inside = (row, operators) if is_within_python else None
        else:
            inside, is_within_python = None, True
            while operators is not None:  # they were called by the same line
                operator, operators = operators
                operator[3] = caller.line_number
        pending += [(child, inside, is_within_python) for child in event.children]
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    start, thread, is_python, line = columns
    return {
        "start": np.array(start, np.int64),
        "thread": np.array(thread, np.uint64).view(np.int64),
        "is_python": np.array(is_python, bool),
        "line": np.array(line, np.int64),
    }
