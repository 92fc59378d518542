"""The clock of events: the epoch, or the clock of the virtual device that stands in for a real one."""

from __future__ import annotations

import time


def now_ns() -> int:
    """The time on the events' clock, ns. A virtual device replaces this function while it is in place.

    Call it as ``clock.now_ns()``.
    """
    return time.time_ns()
