"""The rows of a comparison: costs of both sides, the interval of each difference, and what it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis.compare.measure import Key
from cudalens.analysis.compare.welch import half_width, run_values
from cudalens.analysis.event_arrays import Floats

#: Level of the interval of each row: there are many rows, and each can be wrong.
ROW_LEVEL: Final = 0.99
#: A row that changed by less than this share of itself counts as unchanged, however narrow its interval is.
LEAST_SHARE: Final = 0.01
#: Share of the repeats from which on a row of one side alone is not a coincidence.
_OFTEN: Final = 0.25


@dataclass(frozen=True)
class Rows:
    """Costs and calls of rows in each repeat.

    Attributes:
        old: Of the first side, shape (2, rows, n).
        new: Of the second, shape (2, rows, m).
        old_runs: Number of repeats of each run of the first side.
        new_runs: Those of the second.
        unit: ``ns`` or ``bytes``.
        limit: Why nothing is claimed beyond these runs; "" where differences are claimed.
    """

    old: Floats
    new: Floats
    old_runs: tuple[int, ...]
    new_runs: tuple[int, ...]
    unit: str
    limit: str

    @property
    def has_runs(self) -> bool:
        """Whether both sides have several runs."""
        return min(len(self.old_runs), len(self.new_runs)) > 1

    @cached_property
    def middles(self) -> tuple[Floats, Floats]:
        """The costs of each side, shape (rows,)."""
        if self.has_runs:
            old, new = run_values(self.old[0], self.old_runs), run_values(self.new[0], self.new_runs)
            return old.mean(axis=1), new.mean(axis=1)
        return np.median(self.old[0], axis=1), np.median(self.new[0], axis=1)

    @cached_property
    def half_width(self) -> Floats | None:
        """Half of the interval of each difference; None if a side has one repeat."""
        if min(self.old.shape[2], self.new.shape[2]) < 2:
            return None
        old, new = run_values(self.old[0], self.old_runs), run_values(self.new[0], self.new_runs)
        return half_width(old, new, ROW_LEVEL)


def row_table(
    names: tuple[str, str], keys: Sequence[Key], rows: Rows, texts: Mapping[str, Sequence[str | None]] | None = None
) -> pd.DataFrame:
    """Return the rows of `keys`, largest difference first; of equal differences, most expensive first."""
    (before, after), unit = rows.middles, rows.unit
    delta, known = after - before, before != 0
    change = np.divide(100 * delta, before, out=np.zeros(len(before)), where=known)
    columns: dict[str, Any] = {name: pd.array([key[k] for key in keys], dtype="str") for k, name in enumerate(names)}
    columns |= {f"a_{unit}": before, f"b_{unit}": after, f"delta_{unit}": delta}
    columns["change_pct"] = pd.arrays.FloatingArray(change, ~known)
    for end, sign in (("low", -1), ("high", 1)):
        width = np.zeros(len(delta)) if rows.half_width is None else rows.half_width
        is_unknown = np.full(len(delta), rows.half_width is None)
        columns[f"{end}_{unit}"] = pd.arrays.FloatingArray(delta + sign * width, is_unknown)
    columns["status"] = pd.array(_statuses(rows, delta), dtype="str")
    columns |= {name: pd.array(values, dtype="str") for name, values in (texts or {}).items()}
    if unit == "ns":
        columns |= {"a_count": rows.old[1].mean(axis=1), "b_count": rows.new[1].mean(axis=1)}
    order = np.lexsort((-np.maximum(before, after), -np.abs(delta)))
    return pd.DataFrame(columns).iloc[order].reset_index(drop=True)


def _statuses(rows: Rows, delta: Floats) -> list[str]:
    fewer, more = ("faster", "slower") if rows.unit == "ns" else ("less", "more")
    found = np.where(delta < 0, fewer, more).astype(object)
    width = rows.half_width
    if rows.limit or width is None:
        found[:] = "unknown"
    middle = np.maximum(*rows.middles)
    found[(delta == 0) | (np.abs(delta) < LEAST_SHARE * middle)] = "same"
    if width is None:
        found[delta != 0] = "unknown"
    else:
        found[np.abs(delta) <= width] = "same"
    had, has = ((values[0] > 0).mean(axis=1) for values in (rows.old, rows.new))
    found[(had == 0) & (has >= _OFTEN)], found[(has == 0) & (had >= _OFTEN)] = "added", "removed"
    return found.tolist()
