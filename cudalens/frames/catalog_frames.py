"""The column catalog: every column of every frame of a Trace; frames that are built and checked by it.

Empty frames, validation and the tables in ``docs/frames.md`` are made from it. There are no sentinels: what is unknown
is missing (``<NA>``), and `Column.missing` is what missing means.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.errors import SchemaError
from cudalens.frames.column_arrays import text_column

_UNITS: Final = {
    "ts": "ns",
    "dur": "ns",
    "ns": "ns",
    "bytes": "bytes",
    "byte": "bytes",
    "pct": "%",
    "celsius": "°C",
    "watts": "W",
    "mhz": "MHz",
}


@dataclass(frozen=True)
class Column:
    """One column of a frame.

    Attributes:
        name: Column name; a suffix carries the unit where it is not nanoseconds.
        dtype: The pandas dtype by name. ``int64`` and ``bool`` are never missing; ``Int64``, ``Int32``, ``Float32``
            (pandas' masked arrays) and ``category`` may be.
        meaning: What the value is.
        missing: What ``<NA>`` means, or "never".
        source: Where a Kineto trace carries it.
        names: The frame whose row numbers the values are ("events"), "stacks" for ids of stacks, or "".
        since: First version of saved files that has it; read from an older file, all its values are missing.
    """

    name: str
    dtype: str
    meaning: str
    missing: str
    source: str
    names: str
    since: int

    @property
    def unit(self) -> str:
        """Physical unit, by the name's suffix; "" for a plain number or text."""
        return _UNITS.get(self.name.rpartition("_")[2], "")


def _read() -> dict[str, tuple[Column, ...]]:
    """Return the columns of each frame, in the order of the file."""
    frames: dict[str, list[Column]] = {}
    with Path(__file__).with_name("column_catalog.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            frame, since = row.pop("frame"), int(row.pop("since"))
            frames.setdefault(frame, []).append(Column(**row, since=since))
    return {frame: tuple(columns) for frame, columns in frames.items()}


#: The columns of each frame, in order.
FRAMES: Final[Mapping[str, tuple[Column, ...]]] = _read()

#: First version of saved files that has a frame; 1 for the others.
FRAMES_SINCE: Final[Mapping[str, int]] = {
    "races": 2,
    "blocks": 3,
    "graphs": 3,
    "metrics": 3,
    "syncs": 3,
    "counters": 6,
    "marks": 7,
}

#: States of a block, by torch's names; older documentation writes active_awaiting_free for the second.
BLOCK_STATES: Final = ("active_allocated", "active_pending_free", "inactive")

#: Uses of a block; missing if unknown.
BLOCK_CATEGORIES: Final = (
    "parameter",
    "gradient",
    "optimizer state",
    "activation",
    "input",
    "temporary",
    "graph pool",
    "workspace",
    "variable",
)

#: Columns of the events that a Kineto trace carries in ``args``, and its names for them; for readers and writers.
KINETO_ARGS: Final[Mapping[str, str]] = {
    c.name: c.source.removeprefix("args.").split(", ")[0] for c in FRAMES["events"] if c.source.startswith("args.")
}


def columns_of(frame: str) -> tuple[Column, ...]:
    """Columns of the frame named `frame`, in order."""
    return FRAMES[frame]


def missing_array(dtype: str, length: int) -> pd.api.extensions.ExtensionArray | np.ndarray:
    """`length` missing values of `dtype` (zeros or False for dtypes that cannot be missing)."""
    if dtype == "category":
        return pd.Categorical.from_codes(np.full(length, -1, np.int8), dtype=_no_texts(), validate=False)
    if dtype in ("int64", "int32", "bool"):
        return np.zeros(length, dtype)
    kind = pd.api.types.pandas_dtype(dtype)
    # Zeros that are never written take no memory: most columns of most traces are entirely missing.
    values, mask = np.zeros(length, kind.numpy_dtype), np.ones(length, bool)
    return kind.construct_array_type()(values, mask)


@cache
def _no_texts() -> pd.CategoricalDtype:
    return pd.CategoricalDtype(pd.Index([], dtype="str"))


def empty_frame(frame: str) -> pd.DataFrame:
    """Return the frame named `frame` with all its columns and no row."""
    return _empty(frame).copy(deep=False)  # there are no values to share


@cache
def _empty(frame: str) -> pd.DataFrame:
    return pd.DataFrame({column.name: missing_array(column.dtype, 0) for column in columns_of(frame)})


def frame_of(frame: str, arrays: Mapping[str, Any]) -> pd.DataFrame:
    """Return the frame named `frame` from arrays of the catalog's dtypes, at least one; absent columns are missing.

    The frame uses the memory of `arrays`.
    """
    n = len(next(iter(arrays.values())))
    columns = {c.name: arrays[c.name] if c.name in arrays else missing_array(c.dtype, n) for c in columns_of(frame)}
    return pd.DataFrame(columns, copy=False)


def frame_of_rows(frame: str, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the frame named `frame` from rows by column; what a row leaves out, or has as None, is missing."""
    return pd.DataFrame({c.name: column_array([row.get(c.name) for row in rows], c.dtype) for c in columns_of(frame)})


def column_array(values: Sequence[Any], dtype: str) -> Any:
    """Plain values as an array of `dtype`; None is missing."""
    if dtype == "category":
        return text_column(None if value is None else str(value) for value in values)
    return np.array(values, dtype) if dtype in ("int64", "int32", "bool") else pd.array(list(values), dtype=dtype)


def check_frame(frame: str, df: pd.DataFrame) -> pd.DataFrame:
    """Return `df` if it has exactly the catalog's columns and dtypes.

    Raises:
        SchemaError: A column is missing, unknown, or has another dtype.
    """
    expected = {column.name: column.dtype for column in columns_of(frame)}
    if faults := list(_faults(expected, df)):
        raise SchemaError(f"frame '{frame}': {'; '.join(faults)}. The catalog is cudalens.frames.catalog_frames.")
    return df


def _faults(expected: Mapping[str, str], df: pd.DataFrame) -> Iterable[str]:
    for name in expected.keys() - set(df.columns):
        yield f"column '{name}' is missing"
    for name in df.columns:
        if name not in expected:
            yield f"column '{name}' is unknown"
        elif str(df[name].dtype) != expected[name]:
            yield f"column '{name}' is {df[name].dtype}, expected {expected[name]}"
