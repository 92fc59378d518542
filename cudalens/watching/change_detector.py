"""Find changes of the level of step times while a program runs. No torch."""

from __future__ import annotations

from collections import deque
from math import exp, log
from statistics import median
from typing import Final, NamedTuple

import numpy as np

#: Spreads that one step counts at most.
CLIP: Final = 2.5
#: Spreads that a step may deviate without being evidence of a change.
SLACK: Final = 0.75
#: Sum at which a change is reported.
LIMIT: Final = 20.0
#: A smaller change of the median is not reported.
LEAST_SHARE: Final = 0.05
#: The spread is at least this share of the level.
_LEAST_SPREAD: Final = 0.01
#: Steps before the first decision, and steps that the level is computed from.
NUM_FIRST: Final = 24
_NUM_LEVEL: Final = 128
_REFRESH: Final = 16
#: Steps after which steps without a decision belong to the level.
_MOST_PENDING: Final = 512


class Shift(NamedTuple):
    """A change of the step time.

    Attributes:
        step: The first step after it.
        found_at: The step at which it was found.
        before_ns: Median step time before.
        after_ns: Median step time since.
    """

    step: int
    found_at: int
    before_ns: float
    after_ns: float


class ChangeDetector:
    """Reads step times one by one and reports a change of their level, a few microseconds each.

    A two-sided cumulative sum over the logarithms of step times (E. S. Page, "Continuous inspection schemes",
    Biometrika 41 (1954)), with robust changes: the level and the spread are the median and the median absolute
    deviation of earlier steps, and each step counts at most `CLIP` spreads, so that single slow steps (a checkpoint, a
    collection of garbage) do not add up. The scores are then centred and scaled by their own mean and deviation, so
    that steps of two kinds (every third one longer) are not a change.

    False alarms: fewer than one in 40,000 steps, for independent step times from normal, log-normal, heavy-tailed and
    two-valued distributions; ``tests/unit/watching/test_change_points.py`` measures it. Steps that are slow in bursts,
    because another program uses the machine, are a change of level, and are reported as one.
    """

    def __init__(self) -> None:
        self._level: deque[float] = deque(maxlen=_NUM_LEVEL)
        self._pending: list[tuple[int, float]] = []
        self._sums = [0.0, 0.0]
        self._middle = self._spread = self._mean = 0.0
        self._deviation = 1.0
        self._num_new = 0

    def add(self, step: int, dur_ns: float) -> Shift | None:
        """Return the change that this step makes certain, or None. Times that are not positive are left out."""
        if dur_ns <= 0:
            return None
        value = log(dur_ns)
        if len(self._level) < NUM_FIRST:
            self._level.append(value)
            if len(self._level) == NUM_FIRST:
                self._refresh()
            return None
        score = self._score(value)
        self._sums[0] = max(0.0, self._sums[0] + score - SLACK)
        self._sums[1] = max(0.0, self._sums[1] - score - SLACK)
        self._pending.append((step, value))
        if max(self._sums) >= LIMIT:
            return self._decide(step)
        if not any(self._sums) or len(self._pending) >= _MOST_PENDING:
            self._absorb()
        return None

    def in_pairs(self) -> ChangeDetector:
        """Return a detector of the means of two times each, whose level is that of the steps so far.

        Pairs that overlap are as long as others, and are almost as many as the steps: the level stays known.
        """
        found = ChangeDetector()
        times = np.exp(np.array(self._level))
        found._level += np.log((times[1:] + times[:-1]) / 2).tolist()
        if len(found._level) >= NUM_FIRST:
            found._refresh()
        return found

    @property
    def has_evidence(self) -> bool:
        """Whether the last steps may be the start of a change."""
        return bool(self._pending)

    def _absorb(self) -> None:
        """The steps since the sums were last 0 belong to the level."""
        self._level += (value for _, value in self._pending)
        self._num_new += len(self._pending)
        self._pending.clear()
        if self._num_new >= _REFRESH:
            self._refresh()

    def _decide(self, step: int) -> Shift | None:
        """Return a change, if the medians differ enough; the steps since its start are the new level."""
        at = self._start()
        values = [value for _, value in self._pending[at:]]
        after = median(values)
        found = None
        if abs(exp(after - self._middle) - 1) >= LEAST_SHARE:
            found = Shift(self._pending[at][0], step, exp(self._middle), exp(after))
            self._level.clear()
        self._level += values
        self._pending.clear()
        self._sums = [0.0, 0.0]
        if len(self._level) >= NUM_FIRST:
            self._refresh()
        return found

    def _start(self) -> int:
        """Position in the pending steps at which the sum that reached the limit was last 0."""
        sign = 1.0 if self._sums[0] >= self._sums[1] else -1.0
        total, start = 0.0, 0
        for at, (_, value) in enumerate(self._pending):
            total = max(0.0, total + sign * self._score(value) - SLACK)
            if total == 0.0:
                start = at + 1
        return min(start, len(self._pending) - 1)

    def _refresh(self) -> None:
        self._num_new = 0
        level = np.array(self._level)
        self._middle = float(np.median(level))
        self._spread = max(1.4826 * float(np.median(np.abs(level - self._middle))), _LEAST_SPREAD)
        scores = np.clip((level - self._middle) / self._spread, -CLIP, CLIP)
        self._mean, self._deviation = float(scores.mean()), max(float(scores.std()), 1.0)

    def _score(self, value: float) -> float:
        clipped = max(-CLIP, min(CLIP, (value - self._middle) / self._spread))
        return (clipped - self._mean) / self._deviation
