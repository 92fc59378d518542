"""Times of all steps of a run in bounded memory: recent steps one by one, older ones in groups. No torch."""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np

from cudalens.frames.watching.run import STEP_COLUMNS

#: Rows that are kept.
MOST_ROWS: Final = 16_384

_UNKNOWN: Final = -1


class StepHistory:
    """A row per step; once there are `most` rows, neighbours in the older half are joined, so that memory is bounded.

    Args:
        most: Rows that are kept; an even number.
    """

    def __init__(self, most: int = MOST_ROWS) -> None:
        self._most, self._num_rows = most, 0
        self._data = {name: np.zeros(most, np.int64) for name in STEP_COLUMNS}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._num_rows

    def add(self, step: int, ts: int, dur: int, **known: int | None) -> None:
        """Add a step.

        Args:
            step: Its number.
            ts: Its start, ns.
            dur: Its time, ns.
            **known: Other columns of `STEP_COLUMNS`; None where unknown.
        """
        row = {"step": step, "num_steps": 1, "ts": ts, "dur": dur, "max_dur": dur, "data_ns": 0, "is_recorded": 0}
        row |= {name: value for name, value in known.items() if value is not None}
        with self._lock:
            if self._num_rows == self._most:
                self._join()
            for name, values in self._data.items():
                values[self._num_rows] = row.get(name, _UNKNOWN)
            self._num_rows += 1

    def set_last(self, name: str, value: int | None) -> None:
        """Set a column of the last row, if `value` is known."""
        if self._num_rows and value is not None:
            self._data[name][self._num_rows - 1] = value

    def columns(self, since: int = 0) -> dict[str, Any]:
        """Copies of the columns, from row `since` on; on any thread."""
        with self._lock:
            return {name: values[since : self._num_rows].copy() for name, values in self._data.items()}

    def _join(self) -> None:
        """Join neighbouring rows of the older half."""
        half = self._most // 2
        weight = self._data["num_steps"][:half].reshape(-1, 2)
        for name, values in self._data.items():
            pairs = values[:half].reshape(-1, 2)
            joined = _joined(name, pairs, weight)
            values[: half // 2] = joined
        for values in self._data.values():
            values[half // 2 : half // 2 + half] = values[half : self._most].copy()
        self._num_rows = half // 2 + half


def _joined(name: str, pairs: Any, weight: Any) -> Any:
    if name in ("step", "ts"):
        return pairs[:, 0].copy()
    if name in ("max_dur", "is_recorded", "num_retries"):
        return pairs.max(axis=1)
    total = weight.sum(axis=1)
    if name == "num_steps":
        return total
    mean = np.rint((pairs * weight).sum(axis=1) / total).astype(np.int64)
    return np.where((pairs < 0).any(axis=1), _UNKNOWN, mean)
