"""Collections that grow batch by batch: codes, arrays, and columns that only some rows have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cudalens.traces.chrome.values import Ints

_INT32_LIMIT: Final = 1 << 31


class Codes(dict[Any, int]):
    """Assigns the next number to each new key."""

    def __missing__(self, key: Any) -> int:
        code = self[key] = len(self)
        return code

    def of(self, keys: Iterable[Any]) -> list[int]:
        """Return the codes of `keys`, -1 for None; faster than one by one where most are new."""
        return [-1 if key is None else self.setdefault(key, len(self)) for key in keys]


class CachedCodes(dict[Any, int]):
    """Codes by a key that is cheap to look up; `make` computes the code of a new key."""

    def __init__(self, make: Callable[[Any], int]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: Any) -> int:
        code = self[key] = self._make(key)
        return code


class SparseColumn:
    """A column that only some rows have: row numbers and values."""

    def __init__(self) -> None:
        self._rows: list[Ints] = []
        self._values: list[NDArray[Any]] = []

    def add(self, rows: Ints, values: NDArray[Any]) -> None:
        """Keep `values` for `rows`."""
        if len(rows):
            self._rows.append(rows.astype(np.int32))
            self._values.append(_narrow(values))

    def to_arrays(self, n: int, dtype: Any, fill: Any) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
        """Return the column over `n` rows and the mask of its missing rows; None if no row has a value."""
        if not self._rows:
            return None
        values = np.full(n, fill, dtype) if fill else np.zeros(n, dtype)  # takes no memory where nothing is written
        missing = np.ones(n, bool)
        while self._rows:  # frees each part after use
            rows = self._rows.pop()
            values[rows] = self._values.pop()
            missing[rows] = False
        return values, missing


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """`values` in four bytes each if they fit: most ids do, and a long file has many."""
    fits = values.dtype == np.int64 and values.min() >= -_INT32_LIMIT and values.max() < _INT32_LIMIT
    return values.astype(np.int32) if fits else values


class GrowingArray:
    """An array that grows at its end, in time linear in its length."""

    def __init__(self, dtype: Any) -> None:
        self._values = np.empty(64, dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> NDArray[Any]:
        """The array, of which the caller may replace values; shape (len(self),)."""
        return self._values[: self._size]

    def extend(self, values: Sequence[Any] | NDArray[Any]) -> None:
        """Append `values`."""
        size = self._size + len(values)
        if size > len(self._values):
            grown = np.empty(max(size, 2 * len(self._values)), self._values.dtype)
            grown[: self._size] = self.values
            self._values = grown
        self._values[self._size : size] = values
        self._size = size
