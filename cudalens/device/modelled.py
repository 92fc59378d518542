"""The ceilings of the active virtual device, for packages that do not import ``virtual``."""

from __future__ import annotations

from cudalens.frames.ceilings import Ceilings


def ceilings(index: int) -> Ceilings | None:
    """Return the ceilings of the virtual device of that index; None if devices are real.

    A virtual device replaces this function while it is active. Call it through its module.
    """
    return None
