"""Times of all steps of a run in bounded memory: recent steps one by one, older ones in groups. No torch."""

from __future__ import annotations

import threading
from typing import Any, Final, NamedTuple

import numpy as np

from cudalens.watching.run import STEP_COLUMNS

#: Rows that are kept.
MOST_ROWS: Final = 16_384

_UNKNOWN: Final = -1
#: Rows that are collected before they are written into the columns together, which takes less time a step.
_MOST_NEW: Final = 256


class Known(NamedTuple):
    """What is known of a step besides its time: columns of `STEP_COLUMNS`, in their order; None where unknown."""

    data_ns: int | None = 0
    elements: int | None = None
    allocated_bytes: int | None = None
    num_retries: int | None = None
    clock_mhz: int | None = None


UNKNOWN: Final = Known()


class StepHistory:
    """A row per step; once there are `most` rows, neighbours in the older half are joined, so that memory is bounded.

    Args:
        most: Rows that are kept; a multiple of 4.
    """

    def __init__(self, most: int = MOST_ROWS) -> None:
        self._most, self._num_rows = most, 0
        self._data = {name: np.zeros(most, np.int64) for name in STEP_COLUMNS}
        self._new: list[tuple[int, ...]] = []
        self._most_new = min(_MOST_NEW, most // 4)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._num_rows + len(self._new)

    def add(
        self, step: int, ts: int, dur: int, known: Known = UNKNOWN, *, num_steps: int = 1, is_recorded: bool = False
    ) -> None:
        """Add a step, or several that were timed together.

        Args:
            step: The number of the first.
            ts: Its start, ns.
            dur: Time of a step, ns.
            known: What else is known of them.
            num_steps: How many they are.
            is_recorded: Whether the profiler ran.
        """
        row = (
            step,
            num_steps,
            ts,
            dur,
            dur,
            *(_UNKNOWN if value is None else value for value in known),
            int(is_recorded),
        )
        with self._lock:
            self._new.append(row)
            if len(self._new) >= self._most_new:
                self._flush()

    def set_last(self, name: str, value: int | None) -> None:
        """Set a column of the last row, if `value` is known."""
        with self._lock:
            self._flush()
            if self._num_rows and value is not None:
                self._data[name][self._num_rows - 1] = value

    def columns(self, since: int = 0) -> dict[str, Any]:
        """Copies of the columns, from row `since` on; on any thread."""
        with self._lock:
            self._flush()
            return {name: values[since : self._num_rows].copy() for name, values in self._data.items()}

    def _flush(self) -> None:
        """Write the new rows into the columns."""
        if not self._new:
            return
        if self._num_rows + len(self._new) > self._most:
            self._join()
        end = self._num_rows + len(self._new)
        for name, values in zip(STEP_COLUMNS, zip(*self._new, strict=True), strict=True):
            self._data[name][self._num_rows : end] = values
        self._num_rows = end
        self._new.clear()

    def _join(self) -> None:
        """Join neighbouring rows of the older half."""
        half = self._num_rows // 4 * 2
        weight = self._data["num_steps"][:half].reshape(-1, 2)
        for name, values in self._data.items():
            pairs = values[:half].reshape(-1, 2)
            joined = _joined(name, pairs, weight)
            values[: half // 2] = joined
        num_kept = self._num_rows - half
        for values in self._data.values():
            values[half // 2 : half // 2 + num_kept] = values[half : self._num_rows].copy()
        self._num_rows = half // 2 + num_kept


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
