"""Record Python's long garbage collections as ranges, through ``gc.callbacks``."""

from __future__ import annotations

import gc
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from cudalens.device.interrupts import defers_interrupts
from cudalens.profiler.ranges import close_range, open_range

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

#: Name of the ranges, which `cudalens.analysis.findings` looks for.
RANGE: Final = "Python garbage collection"

#: Collections of younger generations take microseconds and are frequent; only the oldest visits all objects.
OLDEST: Final = 2


class GarbageRanges:
    """Opens a range around each collection of the oldest generation between `start` and `stop`.

    Args:
        is_wanted: Whether the host's time is real; on a modelled host a collection takes no time.
    """

    name = "garbage collection ranges"

    def __init__(self, is_wanted: Callable[[], bool]) -> None:
        self._is_wanted = is_wanted
        self._open: dict[int, Any] = {}

    def start(self) -> None:
        """Add the callback."""
        gc.callbacks.append(self._on_collection)

    def stop(self) -> None:
        """Remove the callback, and close a range that is open."""
        with suppress(ValueError):
            gc.callbacks.remove(self._on_collection)
        while self._open:
            close_range(self._open.popitem()[1])

    def frames(self) -> dict[str, pd.DataFrame]:
        """Nothing: the ranges are among the profiler's events."""
        return {}

    @defers_interrupts  # Python ignores exceptions of these callbacks, an interrupt as well
    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        thread = threading.get_ident()
        if phase == "start" and info["generation"] == OLDEST and self._is_wanted():
            self._open[thread] = open_range(RANGE)
        elif phase == "stop" and thread in self._open:
            close_range(self._open.pop(thread))
