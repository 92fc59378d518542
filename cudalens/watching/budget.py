"""Keep the cost of watching below a share of the loop's time. No torch."""

from __future__ import annotations

import threading
from collections import deque
from statistics import median
from typing import Final

#: Share of the budget that recordings may use; the rest is for what was not foreseen.
USED_SHARE: Final = 0.8
#: Time between two recordings that were not requested, ns.
PAUSE_NS: Final = 2_000_000_000
#: Recordings with a reason may cost this much before the loop has run for long, ns.
START_NS: Final = 500_000_000
#: Time between two recordings that follow a change and are beyond the budget, ns.
FORCED_NS: Final = 60_000_000_000
_NUM_PLAIN: Final = 64


class Budget:
    """The cost of watching so far: what hooks took, and what recordings took.

    A step is disturbed if a recording started, ran or ended in it, or while its frames were built. A recording costs
    what its disturbed steps took longer than the others, or the CPU time of cudalens for it, if that is more. What is
    shown while the loop runs costs its CPU time. All times are real.

    Args:
        share: Share of the loop's time that watching may cost.

    Attributes:
        share: The same.
        hooks_ns: Time in hooks, in steps that are not disturbed.
        recordings_ns: Cost of the complete recordings.
        elapsed_ns: Time of all steps.
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self.hooks_ns = self.recordings_ns = self.elapsed_ns = 0
        self._plain: deque[int] = deque(maxlen=_NUM_PLAIN)
        self._num_new = self._usual_ns = self._last_cost_ns = 0
        self._excess_ns = self._own_ns = 0
        self._thread_ns = self._counted_thread_ns = self._shown_ns = 0
        self._lock = threading.Lock()
        self._last_end_ns: int | None = None
        self._forced_ns: int | None = None
        self._num_disturbed = 0

    @property
    def cost_ns(self) -> int:
        """The cost so far, at least 0, ns."""
        return self.hooks_ns + self.recordings_ns + self._open_ns + self._shown_ns

    @property
    def cost_share(self) -> float:
        """The cost as a share of the time that the loop would have taken without it."""
        plain = self.elapsed_ns - self.cost_ns
        return self.cost_ns / plain if plain > 0 else 0.0

    def add(self, step_ns: int, hook_ns: int, *, is_disturbed: bool, num_steps: int = 1) -> None:
        """Count steps that together took `step_ns`, `hook_ns` of them in hooks."""
        self.elapsed_ns += step_ns
        if is_disturbed:
            self._num_disturbed += 1
            self._excess_ns += step_ns - num_steps * self._usual_ns if self._usual_ns else hook_ns
            self._own_ns += hook_ns
            return
        self.hooks_ns += hook_ns
        self._plain.append(step_ns // num_steps)
        self._num_new += 1
        if self._num_new >= 8 or len(self._plain) < 8 or self._num_disturbed:
            self._usual_ns, self._num_new = int(median(self._plain)), 0
        if self._num_disturbed:
            self._close()

    def _close(self) -> None:
        """The disturbed steps are over: their cost is known."""
        self._last_cost_ns, self._last_end_ns = self._open_ns, self.elapsed_ns
        self.recordings_ns += self._last_cost_ns
        self._counted_thread_ns = self._thread_ns
        self._excess_ns = self._own_ns = self._num_disturbed = 0

    @property
    def _open_ns(self) -> int:
        """What is not counted in `recordings_ns` yet."""
        return max(self._excess_ns, self._own_ns + self._thread_ns - self._counted_thread_ns)

    def add_thread(self, cpu_ns: int) -> None:
        """Count CPU time that building a recording took on another thread, which calls this."""
        self._thread_ns += cpu_ns

    def add_shown(self, cpu_ns: int) -> None:
        """Count CPU time that showing and writing the state took on another thread; any thread may call this."""
        with self._lock:
            self._shown_ns += cpu_ns

    @property
    def usual_ns(self) -> int:
        """Median time of the last steps that were not disturbed, ns; 0 if there is none."""
        return self._usual_ns

    def allows(self) -> bool:
        """Return whether a recording that costs what the last one did stays within the budget.

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
        if self.cost_ns <= USED_SHARE * self.share * self.elapsed_ns + START_NS:
            return True
        if self._forced_ns is not None and self.elapsed_ns - self._forced_ns < FORCED_NS:
            return False
        self._forced_ns = self.elapsed_ns
        return True
