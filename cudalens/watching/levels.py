"""The present step time of a watched run: of the steps since the last change, also one that is not decided yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

#: Steps that the present time is the median of, at most, and rows that are looked at.
_NUM_RECENT: Final = 200
_MOST_ROWS: Final = 2048
#: Rows of steps on either side of a change that is not decided yet, at least.
_LEAST_AFTER: Final = 4
_LEAST_BEFORE: Final = 8
#: Such a change is at least this factor. `ChangeDetector` decides about smaller ones.
_LEAST_FACTOR: Final = 1.2
#: Most of the steps on one side of it are slower than most of the steps on the other side, in percent.
_FEW: Final = 10


class Level(NamedTuple):
    """A step time.

    Attributes:
        step_ns: Median of the last steps.
        since: The first of them, if the steps before took another time.
        before_ns: The median of those; None if they took the same time.
    """

    step_ns: float
    since: int
    before_ns: float | None


def present_level(columns: Mapping[str, Any], since: int = 0) -> Level | None:
    """Return the step time of a run now, without the steps that were recorded.

    Where steps are timed together, `ChangeDetector` needs hundreds of them to be certain of a change. Until then a
    median of all steps may be a time that no recent step has.

    Args:
        columns: Of the run.
        since: The step of the last change that was found.

    Returns:
        The step time, or None if no step has one.
    """
    step = np.asarray(columns["step"])
    is_used = step >= since if np.any(step >= since) else step == step[-1:]
    is_plain = is_used & (np.asarray(columns["is_recorded"]) == 0)
    rows = np.flatnonzero(is_plain if np.any(is_plain) else is_used)[-_MOST_ROWS:]
    if not len(rows):
        return None
    dur, num_steps = np.asarray(columns["dur"])[rows], np.asarray(columns["num_steps"])[rows]
    start = _start_of_change(dur)
    if start is None:
        return Level(_median(dur, num_steps), since, None)
    before_ns = _median(dur[:start], num_steps[:start])
    return Level(_median(dur[start:], num_steps[start:]), int(step[rows[start]]), before_ns)


def _start_of_change(dur: Any) -> int | None:
    """The row with which another step time begins; None if there is none."""
    num_after = len(dur) - _LEAST_BEFORE
    while num_after >= _LEAST_AFTER:
        earlier, later = dur[:-num_after], dur[-num_after:]
        middle = np.sqrt(np.median(earlier) * np.median(later))
        is_slower = bool(np.median(later) > np.median(earlier))
        slow, fast = (later, earlier) if is_slower else (earlier, later)
        least_slow = np.percentile(slow, _FEW, method="lower")
        is_apart = least_slow > np.percentile(fast, 100 - _FEW, method="higher")
        if is_apart and np.median(slow) >= _LEAST_FACTOR * np.median(fast):
            start = len(dur) - num_after
            while (dur[start] > middle) != is_slower:
                start += 1
            while start > 0 and (dur[start - 1] > middle) == is_slower:
                start -= 1
            return start if start >= _LEAST_BEFORE else None
        num_after = num_after * 3 // 4
    return None


def _median(dur: Any, num_steps: Any) -> float:
    """The median of the last steps; a row has the mean time of several steps."""
    counts = np.clip(num_steps[-_NUM_RECENT:], 1, _NUM_RECENT)
    return float(np.median(np.repeat(dur[-_NUM_RECENT:], counts)[-_NUM_RECENT:]))
