"""Named ranges inside a profile: steps, and profiles within profiles."""

from __future__ import annotations

from typing import Any

from torch.autograd.profiler import record_function

from cudalens.frames.build import STEP_PREFIX


def open_range(name: str) -> Any:
    """Begin a range that shows as a user annotation; give it to `close_range`."""
    range_: Any = record_function(name)
    range_.__enter__()
    return range_


def close_range(range_: Any) -> None:
    """End a range that `open_range` began."""
    range_.__exit__(None, None, None)


class StepTracker:
    """Counts steps and keeps the range of the current one open, named as torch names its own."""

    def __init__(self) -> None:
        self.num_steps = 0
        self._range: Any = None

    def step(self) -> None:
        """End the current step, if there is one, and begin the next."""
        self.close()
        self._range = open_range(f"{STEP_PREFIX}{self.num_steps}")
        self.num_steps += 1

    def close(self) -> None:
        """End the current step, if there is one."""
        range_, self._range = self._range, None
        if range_ is not None:
            close_range(range_)
