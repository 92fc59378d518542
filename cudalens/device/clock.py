"""The clock of events: the epoch, or the clock of the active virtual device."""

from __future__ import annotations

import time


def now_ns() -> int:
    """Return the time on the events' clock, ns. A virtual device replaces this function while it is active.

    Call it as ``clock.now_ns()``.
    """
    return time.time_ns()


def done_ns() -> int | None:
    """When all work that was launched so far ends, on the clock of the active virtual device; None if devices are real.

    A virtual device replaces this function while it is active. Call it as ``clock.done_ns()``.
    """
    return None
