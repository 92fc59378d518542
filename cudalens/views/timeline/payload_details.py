"""The payload's columns that a click shows: shapes, grids, sizes, stacks. They are sent within a size limit."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.frames.column_arrays import integers
from cudalens.frames.stacks import ENTRY_COLUMNS, entry_text
from cudalens.views.timeline.payload_codec import PayloadWriter
from cudalens.views.timeline.payload_order import Ints

# In order of use per byte.
TEXTS: Final = ("module", "collective", "process_group", "grid", "block_dim", "shapes", "dtypes")
NUMBERS: Final = (
    "num_bytes",
    "flops",
    "registers",
    "shared_memory_bytes",
    "occupancy_pct",
    "blocks_per_sm",
    "warps_per_sm",
    "graph_id",
    "graph_node_id",
)
IDS: Final = ("correlation_id", "external_id", "sequence_nr", "fwd_tid")
ORDER: Final = (*TEXTS[:5], *NUMBERS[:5], "shapes", "stack", "dtypes", *NUMBERS[5:], *IDS)

_MAX_TEXT: Final = 2000


def add_details(
    writer: PayloadWriter, events: pd.DataFrame, stacks: pd.DataFrame, order: Ints, budget: int | None
) -> dict[str, Any]:
    """Add each detail column that has a value and fits into what is left of `budget` bytes (None: all fit).

    Returns:
        For the header: ``details`` (how each column is coded) and ``dropped`` (which did not fit).
    """
    details: list[dict[str, str]] = []
    dropped: list[str] = []
    for name in ORDER:
        if not events[name].notna().any():
            continue
        columns = _add(writer, name, events[name], order, stacks)
        size = writer.num_bytes(*columns)
        if budget is not None and size > budget:
            writer.drop(*columns)
            dropped.append(name)
            continue
        budget = None if budget is None else budget - size
        details.append({"name": name, "coding": "ids" if name in IDS else "dictionary"})
    return {"details": details, "dropped": dropped}


def _add(writer: PayloadWriter, name: str, column: pd.Series, order: Ints, stacks: pd.DataFrame) -> list[str]:
    """Add one column as codes (0: missing) and values, or as steps of its known values; names of what was added."""
    if name in IDS:
        known = column.notna().to_numpy()[order]
        values = integers(column, 0)[order][known]
        writer.add_ints(f"{name}.known", known.astype(np.int64))
        # Differences of extreme 64-bit ids wrap around, and wrap back when the page adds them up modulo 2**64.
        writer.add_ints(f"{name}.steps", np.diff(values, prepend=0))
        return [f"{name}.known", f"{name}.steps"]
    codes, values = _dictionary(column, order)
    if name == "stack":
        values = _stack_texts(values, stacks)
    writer.add_ints(f"{name}.codes", codes + 1)
    writer.add_texts(f"{name}.values", [_cut(_text(v)) for v in values])
    return [f"{name}.codes", f"{name}.values"]


def _dictionary(column: pd.Series, order: Ints) -> tuple[Ints, list[Any]]:
    """Code of each row in the payload's order (-1: missing) and the values that occur."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes, used = pd.factorize(column.cat.codes.to_numpy()[order].astype(np.int64))
        values = [column.cat.categories[k] if k >= 0 else None for k in used]
    else:
        codes, uniques = pd.factorize(column.array.take(order), use_na_sentinel=False)
        values = [None if pd.isna(v) else v for v in uniques]
    return _without_missing(codes.astype(np.int64), values)


def _without_missing(codes: Ints, values: list[Any]) -> tuple[Ints, list[Any]]:
    place = np.cumsum([v is not None for v in values]) - 1
    place[[k for k, v in enumerate(values) if v is None]] = -1
    return place[codes] if len(codes) else codes, [v for v in values if v is not None]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    number = value.item() if isinstance(value, np.generic) else value
    return f"{number:.7g}" if isinstance(number, float) else str(number)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}… [{len(text):,} characters]"


def _stack_texts(ids: list[Any], stacks: pd.DataFrame) -> list[str]:
    """Return the stack frames of each stack, one a line, innermost first; the id if the table lacks it."""
    wanted = stacks[stacks["stack"].isin(ids)]
    lines: dict[int, list[str]] = {}
    columns = (wanted[name].astype(object) for name in ("stack", *ENTRY_COLUMNS))
    for stack, file, line, first_line, function in zip(*columns, strict=True):
        name = "?" if pd.isna(function) else str(function)
        is_bare = pd.notna(file) and pd.isna(line) and pd.isna(first_line)
        lines.setdefault(stack, []).append(f"{file}: {name}" if is_bare else entry_text(file, line, first_line, name))
    return ["\n".join(lines.get(int(k), [f"stack {k}"])) for k in ids]
