"""What happens at the end of each step of a watched run, on the thread that runs the loop."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from statistics import median
from typing import Final, NamedTuple

from cudalens.device.interrupts import defers_interrupts
from cudalens.errors import CudalensError
from cudalens.watching.burst import Burst, Recorded
from cudalens.watching.change_detector import LEAST_SHARE, ChangeDetector, Shift
from cudalens.watching.readings import AllocatorReadings, Gauges, StepClock, Timed, clock_now, open_clock
from cudalens.watching.steps import Known, StepHistory

#: Steps of a recording at most, and the time that they may take.
MOST_STEPS: Final = 3
BURST_NS: Final = 50_000_000
#: The first recording begins after so many steps: the first ones compile, allocate and load.
FIRST_STEP: Final = 3
#: Steps without a recording in which the host may get as far ahead of the device as it was before, and what is enough.
MOST_LEAD_STEPS: Final = 8
_LEAD_SHARE: Final = 0.9
#: Steps that are timed together at most, so that hooks stay within `_HOOK_SHARE` of the budget; not the first steps.
MOST_TOGETHER: Final = 64
_HOOK_SHARE: Final = 0.5
_NUM_HOOKS: Final = 16
_MOST_NOTES: Final = 8


class _Ended(NamedTuple):
    """A step that has ended, or several; their time may not be known yet."""

    step: int
    num_steps: int
    is_disturbed: bool
    known: Known


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
        self._waiting: deque[_Ended] = deque()
        self._last_ns = time.perf_counter_ns()
        self._is_disturbed = False
        self._num_lead, self._ahead = 0, 0
        self._num_together = self._num_open = 1
        self._hooks: deque[int] = deque(maxlen=_NUM_HOOKS)
        self._open_data_ns = self._hook_ns = 0

    @defers_interrupts("watch")
    def end_step(self, data_ns: int, elements: int | None) -> None:
        """A step ends here.

        Args:
            data_ns: Time that it waited for its DataLoader, ns.
            elements: Elements of its batch; None if unknown.
        """
        began = time.perf_counter_ns()
        self.num_steps += 1
        self._open_data_ns += data_ns
        if self._num_open < self._num_together and self._burst is None and not self.wants_recording:
            self._num_open += 1
            self._hook_ns += time.perf_counter_ns() - began
            return
        num_steps, data_ns = self._num_open, self._open_data_ns // self._num_open
        self._num_open, self._open_data_ns = 1, 0
        self._end_steps(began, num_steps, data_ns, elements)

    def _end_steps(self, began: int, num_steps: int, data_ns: int, elements: int | None) -> None:
        """The last `num_steps` steps, which are timed together, end here."""
        real_ns = began - self._last_ns
        step = self.num_steps - num_steps
        is_building = self.is_building
        is_disturbed = self._is_disturbed or is_building
        allocator = self.allocator
        known = Known(data_ns, elements, allocator.allocated_bytes, allocator.num_retries, self.gauges.clock_mhz)
        self._waiting.append(_Ended(step, num_steps, is_disturbed, known))
        self._take(self._boundary(step))
        allocator.read(step)
        self._is_disturbed = is_building  # it may end within the next step
        self._record(self.num_steps - 1)
        self._last_ns = began
        hook_ns, self._hook_ns = self._hook_ns + time.perf_counter_ns() - began, 0
        self.budget.add(real_ns, hook_ns, num_steps=num_steps, is_disturbed=is_disturbed)
        if not is_disturbed:
            self._adapt(hook_ns)

    def _adapt(self, hook_ns: int) -> None:
        """Time more or fewer steps together, by the time of the last hooks; not while a change is being found."""
        self._hooks.append(hook_ns)
        if len(self._hooks) < _NUM_HOOKS or self._detector.has_evidence or self._burst is not None:
            return
        usual_hook_ns = median(self._hooks)
        wanted = usual_hook_ns / (_HOOK_SHARE * self.budget.share * max(self.budget.usual_ns, 1))
        now = self._num_together
        self._hooks.clear()
        if wanted > now and now < MOST_TOGETHER:
            self._num_together = 2 * now
            # Times by the host's clock contain the hooks, of which there are fewer now: long steps stay as long.
            is_kept = usual_hook_ns < LEAST_SHARE / 2 * self.budget.usual_ns
            self._detector = self._detector.in_pairs() if is_kept else ChangeDetector()
        elif wanted < now / 4 and now > 1:
            self._num_together = now // 2
            self._detector = ChangeDetector()  # how far fewer steps scatter is not known

    def _boundary(self, step: int) -> list[Timed]:
        """Return the steps whose time is known; after a change of the clock, none before the next step."""
        name = clock_now()
        if name != self.clock_name:
            self.clock_name, self._clock = name, open_clock(name)
            self._detector = ChangeDetector()
            self._waiting.clear()
            return []
        return self._clock.boundary(step)

    def _take(self, timed: list[Timed]) -> None:
        for step, ts, dur in timed:
            while self._waiting and self._waiting[0].step < step:
                self._waiting.popleft()
            if not self._waiting or self._waiting[0].step != step:
                continue
            _, num_steps, is_disturbed, known = self._waiting.popleft()
            is_recorded = self._burst is not None and self._burst.has(step)
            dur //= num_steps
            self.history.add(step, ts, dur, known, num_steps=num_steps, is_recorded=is_recorded)
            if self._burst is not None and is_recorded:
                self._burst.note_time(dur)
            if num_steps != self._num_together or (is_disturbed and self.clock_name != "virtual"):
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
            if burst.is_prepared:
                self._num_lead += 1
                self._start_burst(burst, step + 1)
            elif not burst.is_on:  # it made way for another profiler
                self._burst = None
            elif burst.end_step(step):
                self._take(self._clock.ended())
                self._burst = None
                self._clock.skip()
                self._on_recorded(burst.recorded)
            return
        reason = self._reason(step)
        if reason is not None and Burst.is_possible():
            self._prepare(step + 1, reason)

    def _reason(self, step: int) -> str | None:
        """Why the next steps are recorded; None if they are not."""
        if self.is_building or step + 1 < FIRST_STEP:
            return None
        if self.wants_recording:
            return "requested"
        if self._follows_change:
            return "change" if Burst.is_possible() and self.budget.takes_soon() else None
        return "sample" if self.budget.allows() else None

    def _prepare(self, step: int, reason: str) -> None:
        """Make a recording ready, and begin it where the host need not get ahead of the device first."""
        self._is_disturbed = True
        usual = self.budget.usual_ns
        num = max(1, min(MOST_STEPS, BURST_NS // usual)) if usual else 1
        burst = Burst(num, is_requested=reason == "requested", is_after_change=reason == "change")
        self.wants_recording = False
        self._num_lead, self._ahead = 0, self._clock.ahead()
        try:
            burst.prepare()
        except CudalensError as error:
            self.note(f"steps could not be recorded: {error}")
            return
        self._follows_change = self._follows_change and reason != "change"
        self._burst = burst
        self.num_recordings += 1
        self._start_burst(burst, step)

    def _start_burst(self, burst: Burst, step: int) -> None:
        """Record from step `step` on, if the host is as far ahead of the device as without a recording.

        Making the profiler ready takes time, in which the device finishes what is queued. Steps that begin with an
        empty queue would show idle time that the others do not have.
        """
        if self._num_lead < MOST_LEAD_STEPS and self._clock.ahead() < _LEAD_SHARE * self._ahead:
            return
        try:
            burst.start(step)
        except CudalensError as error:
            self._burst = None
            self.note(f"steps could not be recorded: {error}")

    @defers_interrupts("watch")
    def drop_burst(self) -> None:
        """End a recording that is not complete."""
        burst, self._burst = self._burst, None
        if burst is not None:
            burst.drop()

    def pause(self) -> None:
        """Time until the next step ends is not a step: a cell ended, or begins."""
        self.drop_burst()
        self._num_open, self._open_data_ns = 1, 0
        self._last_ns = time.perf_counter_ns()
        self._clock = open_clock(self.clock_name)
        self._waiting.clear()

    def note(self, text: str) -> None:
        """Note what could not be done, once."""
        if text not in self.notes and len(self.notes) < _MOST_NOTES:
            self.notes.append(text)


# Keep the cost of watching below a share of the loop's time. No torch.

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
    what its disturbed steps took longer than the others, or the CPU time of cudalens for it, if that is more. Showing
    the run while it runs (the panel, answers to viewers, files) costs the CPU time of the threads that do so. All times
    are real.

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
