"""`query`: rows and columns of a frame of a Trace, filtered and sorted."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np
import pandas as pd

from cudalens.analysis.queries.grammar import rows_where
from cudalens.errors import TraceError
from cudalens.frames import Trace


def query(
    trace: Trace,
    frame: str = "events",
    *,
    where: str = "",
    columns: Sequence[str] = (),
    sort: str = "",
    limit: int | None = None,
) -> pd.DataFrame:
    """Rows of a frame of `trace`.

    Args:
        trace: Any Trace.
        frame: Name of the frame, such as ``events`` or ``memory``.
        where: Only rows on which this holds, such as ``dur > 1e6 and "gemm" in name``; the language is defined in
            `cudalens.analysis.queries.grammar`.
        columns: Only these; all by default.
        sort: A column by which rows are sorted; descending after a minus, as in ``-dur``.
        limit: At most so many rows; None for all.

    Returns:
        The rows; their index is the row in the frame.

    Raises:
        TraceError: There is no such frame or column, or `where` is not an expression of the language.
    """
    found = trace.frames.get(frame)
    if found is None:
        raise TraceError(f"there is no frame {frame!r}; expected one of {', '.join(trace.frames)}.")
    _check(found, frame, [*columns, *([sort.removeprefix("-")] if sort else [])])
    rows = np.flatnonzero(rows_where(found, where)) if where.strip() else np.arange(len(found))
    if sort:
        column = found[sort.removeprefix("-")].iloc[rows].reset_index(drop=True)
        rows = rows[column.sort_values(ascending=not sort.startswith("-"), kind="stable").index.to_numpy()]
    return found.iloc[rows[:limit]][list(columns) or list(found.columns)]


def _check(frame: pd.DataFrame, name: str, columns: Sequence[str]) -> None:
    for column in columns:
        if column not in frame:
            close = get_close_matches(column, map(str, frame.columns), 1)
            hint = f"did you mean {close[0]}?" if close else f"expected some of {', '.join(map(str, frame.columns))}."
            raise TraceError(f"frame {name} has no column {column!r}; {hint}")
