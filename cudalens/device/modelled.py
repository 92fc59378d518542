"""What a virtual device can do at most, asked from below it."""

from __future__ import annotations

from cudalens.frames.ceilings import Ceilings


def ceilings(index: int) -> Ceilings | None:
    """The ceilings of the virtual device of that index; None where devices are real.

    A virtual device replaces this function while it is in place. Call it with its module.
    """
    return None
