"""Builds and checks frames by the column catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from cudalens.errors import SchemaError
from cudalens.frames.column_arrays import text_column
from cudalens.frames.column_catalog import columns_of


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
        raise SchemaError(f"frame '{frame}': {'; '.join(faults)}. The catalog is cudalens.frames.column_catalog.")
    return df


def _faults(expected: Mapping[str, str], df: pd.DataFrame) -> Iterable[str]:
    for name in expected.keys() - set(df.columns):
        yield f"column '{name}' is missing"
    for name in df.columns:
        if name not in expected:
            yield f"column '{name}' is unknown"
        elif str(df[name].dtype) != expected[name]:
            yield f"column '{name}' is {df[name].dtype}, expected {expected[name]}"
