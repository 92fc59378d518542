"""Builds the ``counters`` frame from values that a reader found."""

from __future__ import annotations

import math
from array import array
from typing import Any

import numpy as np
import pandas as pd

from cudalens.frames.catalog_frames import empty_frame, frame_of
from cudalens.frames.column_arrays import text_column
from cudalens.frames.column_catalog import columns_of

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
