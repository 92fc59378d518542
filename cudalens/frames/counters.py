"""Builds the frames of values over time: ``counters``, ``marks`` and ``metrics``, from values that a reader found."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from cudalens.frames.catalog_frames import check_frame, column_array, columns_of, empty_frame, frame_of
from cudalens.frames.column_arrays import text_column

_LIMIT = 1 << 62


class CounterValues:
    """Collects values of counters."""

    def __init__(self) -> None:
        self._ts, self._values, self._codes = array("q"), array("d"), array("q")
        self._code_of: dict[tuple[str, str | None, str | None, str | None], int] = {}

    def __len__(self) -> int:
        return len(self._ts)

    def add(
        self,
        ts: int,
        name: str,
        value: Any,
        *,
        series: str | None = None,
        process: str | None = None,
        unit: str | None = None,
    ) -> bool:
        """Keep one value; return False and keep nothing if it is not a number or its time is out of range."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not -_LIMIT < ts < _LIMIT:
            return False
        try:
            number = float(value)
        except OverflowError:
            return False
        self._ts.append(ts)
        self._values.append(number if math.isfinite(number) else math.nan)
        self._codes.append(self._code_of.setdefault((name, series, process, unit), len(self._code_of)))
        return True

    def to_frame(self, base: int = 0) -> pd.DataFrame:
        """Return the frame, by time; `base`, in ns, is added to the times."""
        if not self._ts:
            return empty_frame("counters")
        ts = np.array(self._ts, np.int64)
        order = np.argsort(ts, kind="stable")
        values = np.array(self._values, np.float64)[order]
        unknown = np.isnan(values)
        codes = np.array(self._codes, np.int64)[order]
        texts = dict(zip(("name", "series", "process", "unit"), zip(*self._code_of, strict=True), strict=True))
        arrays: dict[str, Any] = {name: text_column(column).take(codes) for name, column in texts.items()}
        arrays["ts"] = ts[order] + base
        arrays["value"] = pd.arrays.FloatingArray(np.where(unknown, 0, values), unknown)
        return frame_of("counters", {c.name: arrays[c.name] for c in columns_of("counters")})


#: Longest note that is kept, in characters.
MAX_NOTE = 500


def marks_frame(rows: Iterable[tuple[int, int, str]]) -> pd.DataFrame:
    """Return the marks `rows`, each a start in ns, a length in ns and a note, by time."""
    ordered = sorted(rows, key=lambda row: row[:2])
    ts, dur = (np.array([row[k] for row in ordered], np.int64) for k in (0, 1))
    notes = pd.Categorical([row[2][:MAX_NOTE].encode("utf-8", "replace").decode() for row in ordered])
    return check_frame("marks", pd.DataFrame({"ts": ts, "dur": dur, "note": notes}))


def metrics_frame(readings: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """Return the frame ``metrics``.

    Args:
        readings: By column of the catalog, a value per reading, None if unknown; absent columns are missing. In any
            order.

    Returns:
        The frame, in order of time, then of the device's number.
    """
    arrays = {c.name: column_array(readings[c.name], c.dtype) for c in columns_of("metrics") if c.name in readings}
    return frame_of("metrics", arrays).sort_values(["ts", "physical_index"], kind="stable", ignore_index=True)
