"""What the active virtual device replaces: the clock of events, and the ceilings of a device."""

from __future__ import annotations

import time

from cudalens.frames.info import Ceilings


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


# The ceilings of the active virtual device, for packages that do not import ``virtual``.


def ceilings(index: int) -> Ceilings | None:
    """Return the ceilings of the virtual device of that index; None if devices are real.

    A virtual device replaces this function while it is active. Call it through its module.
    """
    return None
