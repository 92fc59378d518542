"""Keep the cost of watching below a share of the loop's time. No torch."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Final

#: Share of the budget that recordings may use; the rest is for what was not foreseen.
USED_SHARE: Final = 0.8
#: Time between two recordings that were not requested, ns.
PAUSE_NS: Final = 2_000_000_000
#: The first recording may cost this much before the loop has run for long, ns.
START_NS: Final = 1_000_000_000
#: Time between two recordings that follow a change and are beyond the budget, ns.
FORCED_NS: Final = 60_000_000_000
_NUM_PLAIN: Final = 64


class Budget:
    """The cost of watching so far: what hooks took, and how much longer disturbed steps took than others.

    A step is disturbed if a recording started, ran or ended in it, or while its frames were built. All times are real.

    Args:
        share: Share of the loop's time that watching may cost.

    Attributes:
        share: The same.
        hooks_ns: Time in hooks, in steps that are not disturbed.
        excess_ns: How much longer the disturbed steps took than the others.
        elapsed_ns: Time of all steps.
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self.hooks_ns = self.excess_ns = self.elapsed_ns = 0
        self._plain: deque[int] = deque(maxlen=_NUM_PLAIN)
        self._usual_ns = 0
        self._last_cost_ns = self._open_cost_ns = 0
        self._last_end_ns: int | None = None
        self._forced_ns: int | None = None
        self._num_disturbed = 0

    @property
    def cost_ns(self) -> int:
        """The cost so far, at least 0, ns."""
        return max(self.hooks_ns + self.excess_ns, 0)

    @property
    def cost_share(self) -> float:
        """The cost as a share of the time that the loop would have taken without it."""
        plain = self.elapsed_ns - self.cost_ns
        return self.cost_ns / plain if plain > 0 else 0.0

    def add(self, step_ns: int, hook_ns: int, *, is_disturbed: bool) -> None:
        """Count a step of `step_ns`, `hook_ns` of them in hooks."""
        self.elapsed_ns += step_ns
        if is_disturbed:
            self._num_disturbed += 1
            more = step_ns - self._usual_ns if self._usual_ns else hook_ns
            self.excess_ns += more
            self._open_cost_ns += more
            return
        self.hooks_ns += hook_ns
        self._plain.append(step_ns)
        if len(self._plain) < 8 or not len(self._plain) % 8 or not self._usual_ns or self._num_disturbed:
            self._usual_ns = int(median(self._plain))
        if self._num_disturbed:
            self._last_cost_ns, self._open_cost_ns, self._num_disturbed = max(self._open_cost_ns, 0), 0, 0
            self._last_end_ns = self.elapsed_ns

    def add_thread(self, cpu_ns: int) -> None:
        """Count CPU time of another thread of cudalens, which the loop might have used."""
        self.hooks_ns += cpu_ns

    @property
    def usual_ns(self) -> int:
        """Median time of the last steps that were not disturbed, ns; 0 if there is none."""
        return self._usual_ns

    def allows(self) -> bool:
        """Whether a recording that costs what the last one did stays within the budget.

        After a recording the answer is no until the first step that is not disturbed: its cost is not known before.
        """
        if self._num_disturbed:
            return False
        if self._last_end_ns is None:
            return True
        if self.elapsed_ns - self._last_end_ns < PAUSE_NS:
            return False
        return self.cost_ns + self._last_cost_ns <= USED_SHARE * self.share * self.elapsed_ns

    def takes_soon(self) -> bool:
        """As `allows`, for a recording with a reason: the cost may come before the time that pays for it.

        Where the budget is used up, one such recording in `FORCED_NS` is allowed, and counted by this call.
        """
        if self.cost_ns <= self.share * self.elapsed_ns + START_NS:
            return True
        if self._forced_ns is not None and self.elapsed_ns - self._forced_ns < FORCED_NS:
            return False
        self._forced_ns = self.elapsed_ns
        return True
