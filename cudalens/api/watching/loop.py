"""What happens at the end of each step of a watched run, on the thread that runs the loop."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from cudalens.analysis.watching.change_points import ChangeDetector, Shift
from cudalens.api.watching.burst import Burst, Recorded
from cudalens.device.interrupts import defers_interrupts
from cudalens.errors import CudalensError
from cudalens.watching.budget import Budget
from cudalens.watching.clocks import StepClock, Timed, clock_now, open_clock
from cudalens.watching.readings import AllocatorReadings, Gauges
from cudalens.watching.steps import StepHistory

#: Steps of a recording at most, and the time that they may take.
MOST_STEPS: Final = 3
BURST_NS: Final = 50_000_000
#: The first recording begins after so many steps: the first ones compile, allocate and load.
FIRST_STEP: Final = 3
_MOST_NOTES: Final = 8


class WatchLoop:
    """Times steps, finds changes, and records some steps, on the thread that runs the loop.

    Args:
        budget: What watching may cost.
        on_recorded: Called with each complete recording; its frames are not built.
        on_shift: Called with each change of the step time.

    Attributes:
        num_steps: Steps so far.
        history: Their times.
        clock_name: Which clock measures them.
        is_building: Set while frames are built on another thread: steps are then slower.
        wants_recording: Set to record the next steps.
        notes: What could not be done.
    """

    def __init__(
        self, budget: Budget, on_recorded: Callable[[Recorded], None], on_shift: Callable[[Shift], None]
    ) -> None:
        self.budget, self._on_recorded, self._on_shift = budget, on_recorded, on_shift
        self.num_steps = self.num_recordings = 0
        self.history, self.allocator, self.gauges = StepHistory(), AllocatorReadings(), Gauges()
        self.clock_name = clock_now()
        self.is_building = self.wants_recording = False
        self.notes: list[str] = []
        self._clock: StepClock = open_clock(self.clock_name)
        self._detector = ChangeDetector()
        self._burst: Burst | None = None
        self._follows_change = False
        self._waiting: deque[tuple[int, bool, dict[str, Any]]] = deque()
        self._last_ns = time.perf_counter_ns()
        self._is_disturbed = False

    @defers_interrupts
    def end_step(self, data_ns: int, elements: int | None) -> None:
        """A step ends here.

        Args:
            data_ns: Time that it waited for its DataLoader, ns.
            elements: Elements of its batch; None if unknown.
        """
        began = time.perf_counter_ns()
        real_ns = began - self._last_ns
        step = self.num_steps
        self.num_steps += 1
        is_disturbed = self._is_disturbed or self.is_building
        known = {
            "data_ns": data_ns,
            "elements": elements,
            "allocated_bytes": self.allocator.allocated_bytes,
            "num_retries": self.allocator.num_retries,
            "clock_mhz": self.gauges.clock_mhz,
        }
        self._waiting.append((step, is_disturbed, known))
        self._take(self._boundary(step))
        self.allocator.read(step)
        self._is_disturbed = False
        self._record(step)
        self._last_ns = began
        self.budget.add(real_ns, time.perf_counter_ns() - began, is_disturbed=is_disturbed)

    def _boundary(self, step: int) -> list[Timed]:
        """The steps whose time is known; after a change of the clock, none before the next step."""
        name = clock_now()
        if name != self.clock_name:
            self.clock_name, self._clock = name, open_clock(name)
            self._detector = ChangeDetector()
            self._waiting.clear()
            return []
        return self._clock.boundary(step)

    def _take(self, timed: list[Timed]) -> None:
        for step, ts, dur in timed:
            while self._waiting and self._waiting[0][0] < step:
                self._waiting.popleft()
            if not self._waiting or self._waiting[0][0] != step:
                continue
            _, is_disturbed, known = self._waiting.popleft()
            self.history.add(step, ts, dur, **known, is_recorded=int(is_disturbed and self._burst is not None))
            if is_disturbed and self.clock_name != "virtual":
                continue
            shift = self._detector.add(step, dur)
            if shift is not None:
                self._found(step, shift)

    def _found(self, step: int, shift: Shift) -> None:
        """The step time has changed: read the counters that may be the cause."""
        self.allocator.read(step, is_now=True)
        self.gauges.read()
        self.history.set_last("num_retries", self.allocator.num_retries)
        self.history.set_last("clock_mhz", self.gauges.clock_mhz)
        self._follows_change = True
        self._on_shift(shift)

    def _record(self, step: int) -> None:
        """Go on with a recording, or begin one."""
        burst = self._burst
        if burst is not None:
            self._is_disturbed = True
            if not burst.is_on:  # it made way for another profiler
                self._burst = None
            elif burst.end_step(step):
                self._burst = None
                self._clock.skip()
                self._on_recorded(burst.recorded)
            return
        reason = self._reason(step)
        if reason is not None and Burst.is_possible():
            self._begin(step + 1, reason)

    def _reason(self, step: int) -> str | None:
        """Why the next steps are recorded; None if they are not."""
        if self.is_building or step + 1 < FIRST_STEP:
            return None
        if self.wants_recording:
            return "requested"
        if self._follows_change:
            return "change" if Burst.is_possible() and self.budget.takes_soon() else None
        return "sample" if self.budget.allows() else None

    def _begin(self, step: int, reason: str) -> None:
        self._is_disturbed = True
        usual = self.budget.usual_ns
        num = max(1, min(MOST_STEPS, BURST_NS // usual)) if usual else 1
        burst = Burst(step, num, is_requested=reason == "requested", is_after_change=reason == "change")
        try:
            burst.start()
        except CudalensError as error:
            self.note(f"steps could not be recorded: {error}")
            return
        finally:
            self.wants_recording = False
        self._follows_change = self._follows_change and reason != "change"
        self._burst = burst
        self.num_recordings += 1

    @defers_interrupts
    def drop_burst(self) -> None:
        """End a recording that is not complete."""
        burst, self._burst = self._burst, None
        if burst is not None:
            burst.drop()

    def pause(self) -> None:
        """Time until the next step ends is not a step: a cell ended, or begins."""
        self.drop_burst()
        self._last_ns = time.perf_counter_ns()
        self._clock = open_clock(self.clock_name)
        self._waiting.clear()

    def note(self, text: str) -> None:
        """Note what could not be done, once."""
        if text not in self.notes and len(self.notes) < _MOST_NOTES:
            self.notes.append(text)
