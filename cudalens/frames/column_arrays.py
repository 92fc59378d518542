"""Arrays from the columns of a frame, and columns from arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

#: Codes that are compared one by one, which is faster than a lookup by position.
_FEW: Final = 8


def nullable(values: NDArray[Any], mask: Bools) -> pd.arrays.IntegerArray | pd.arrays.FloatingArray:
    """`values` as pandas' masked array, missing where `mask` is True. Shapes (n,) and (n,); neither is copied."""
    kind = pd.arrays.FloatingArray if values.dtype.kind == "f" else pd.arrays.IntegerArray
    return kind(values, mask)


def masked(values: NDArray[Any]) -> pd.arrays.IntegerArray:
    """Integers as pandas' masked array in which negative ones are missing."""
    missing = values < 0
    return pd.arrays.IntegerArray(np.where(missing, 0, values).astype(values.dtype, copy=False), missing)


def integers(column: Any, missing: int = -1) -> Ints:
    """Return a nullable integer column (Series or array) as int64, with `missing` for what is missing; shape (n,)."""
    return getattr(column, "array", column).to_numpy(dtype=np.int64, na_value=missing)


def addresses(column: Any, missing: int = 0) -> NDArray[np.uint64]:
    """A nullable column of addresses (Series or array) as uint64, with `missing` for what is missing; shape (n,)."""
    return getattr(column, "array", column).to_numpy(dtype=np.uint64, na_value=missing)


def categorical(codes: NDArray[np.integer], categories: list[str]) -> pd.Categorical:
    """Return a categorical of unique text `categories`; code -1 is missing."""
    return pd.Categorical.from_codes(codes, categories=pd.Index(categories, dtype="str"))


def text_column(values: Iterable[str | None]) -> pd.Categorical:
    """Return a categorical of texts in order of appearance; None is missing."""
    codes, texts = pd.factorize(np.array([*values, None], object)[:-1])
    return categorical(codes, list(texts))


def is_category(cat: pd.Categorical, names: Iterable[str]) -> Bools:
    """True for each row whose category is one of `names`."""
    by_code = np.array([*map(set(names).__contains__, cat.categories.tolist()), False])
    found = np.flatnonzero(by_code).tolist()
    rows: Bools = np.zeros(len(cat), bool)
    if len(found) > _FEW:
        rows = by_code.take(cat.codes)
    else:
        for code in found:
            rows |= cat.codes == code
    return rows


def map_texts(column: pd.Categorical, function: Callable[[str], Any], missing: Any) -> NDArray[Any]:
    """`function` of each row's text, `missing` where there is none; called once per category in use. Shape (n,)."""
    codes, num = column.codes, len(column.categories)
    is_used = np.zeros(num + 1, bool)
    is_used[codes] = True
    used = np.flatnonzero(is_used[:num])
    found = np.array([*map(function, column.categories.take(used).tolist()), missing])
    place = np.full(num + 1, len(used))
    place[used] = np.arange(len(used))
    return found[place].take(codes)


def has_prefix(column: pd.Categorical, prefix: str) -> Bools:
    """True for each row whose text begins with `prefix`; shape (n,)."""
    starts = column.categories.str.startswith(prefix)
    return np.append(np.asarray(starts, bool), False)[column.codes]


def combined(*keys: NDArray[Any]) -> Ints:
    """Return a dense number for each distinct combination of `keys`, in order of appearance; shape (n,)."""
    code, size = np.zeros(len(keys[0]), np.int64), 1
    for key in keys:
        codes, distinct = pd.factorize(key)
        if size > (1 << 62) // (len(distinct) + 1):
            code, size = pd.factorize(code)[0].astype(np.int64), len(code) + 1
        code = code * (len(distinct) + 1) + codes + 1
        size *= len(distinct) + 1
    return pd.factorize(code)[0].astype(np.int64)


def run_starts(*keys: NDArray[Any]) -> Bools:
    """True for each row that differs from the row before it in any of `keys`, and for the first; shape (n,)."""
    starts = np.zeros(len(keys[0]), bool)
    starts[:1] = True
    for key in keys:
        starts[1:] |= key[1:] != key[:-1]
    return starts


def run_ends(*keys: NDArray[Any]) -> Bools:
    """True for each row that differs from the row after it in any of `keys`, and for the last; shape (n,)."""
    return np.append(run_starts(*keys)[1:], True)[: len(keys[0])]


def positions(values: NDArray[Any], wanted: NDArray[Any]) -> Ints:
    """Position in `values` of the first that equals each of `wanted`, -1 for none; shape (len(wanted),)."""
    order = np.argsort(values, kind="stable")
    at = np.searchsorted(values[order], wanted)
    found = np.full(len(wanted), -1, np.int64)
    hit = np.flatnonzero(at < len(values))
    hit = hit[values[order[at[hit]]] == wanted[hit]]
    found[hit] = order[at[hit]]
    return found
