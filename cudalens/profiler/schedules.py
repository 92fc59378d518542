"""Which steps of a long run are recorded: the global step, schedules as in torch.profiler, and recording by them."""

from __future__ import annotations

import enum
import warnings
from collections import defaultdict
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, fields
from typing import Any, Final, Protocol

import torch
from torch.autograd import profiler as torch_profiler

from cudalens.errors import ProfilerError


class Counts(Protocol):
    """The state of a tracker, with the names of torch's own tracker."""

    _step_dict: MutableMapping[str, int]
    _current_step: int


class OwnCounts:
    """Counts of a tracker that shares them with no other."""

    def __init__(self) -> None:
        self._step_dict: MutableMapping[str, int] = defaultdict(int)
        self._current_step = 0


class StepTracker:
    """The global step of several requesters.

    Args:
        move: Called once for each increment of the global step: what moves the real one (torch's, by default).
        counts: Where counts are kept; by default in the tracker alone.
    """

    def __init__(self, move: Callable[[], object] | None = None, counts: Counts | None = None) -> None:
        self._move = move if move is not None else _move_torchs
        self._counts: Counts = counts if counts is not None else OwnCounts()

    @property
    def current(self) -> int:
        """The global step."""
        return self._counts._current_step

    @property
    def requesters(self) -> dict[str, int]:
        """The count of each requester."""
        return dict(self._counts._step_dict)

    def init(self, requester: str) -> None:
        """Let `requester` count from the global step on; also one that counted before."""
        self._counts._step_dict[requester] = self._counts._current_step

    def forget(self, requester: str) -> bool:
        """Leave `requester` out from now on; the global step stays. Whether it was known."""
        return self._counts._step_dict.pop(requester, None) is not None

    def increment(self, requester: str) -> int:
        """Count one step of `requester`, and move the real step where the largest count has grown.

        A requester that was not known counts from the global step on.

        Returns:
            The global step.

        Warns:
            UserWarning: The largest count is ahead of the global step by more than one: a count was set directly.
        """
        counts = self._counts
        if requester not in counts._step_dict:
            self.init(requester)
        counts._step_dict[requester] += 1
        ahead = max(counts._step_dict.values()) - counts._current_step
        if ahead > 1:
            warnings.warn(
                f"the profiler step jumps by {ahead}, from {counts._current_step}; counts are "
                f"{dict(counts._step_dict)}. Was a count set directly? Each requester should count one step at a time.",
                stacklevel=2,
            )
        for _ in range(ahead):
            self._move()
        counts._current_step += max(ahead, 0)
        return counts._current_step


def _move_torchs() -> None:
    """Report a step to Kineto, if this build of torch can: its daemon may wait for one to begin a trace on demand."""
    kineto_step: Callable[[], None] | None = getattr(torch.autograd, "_kineto_step", None)
    if kineto_step is not None:
        kineto_step()


def _shared_counts() -> Counts | None:
    """Return the tracker of torch, if it keeps its counts in the expected attributes."""
    tracker: Any = getattr(torch_profiler, "KinetoStepTracker", None)
    is_known = isinstance(getattr(tracker, "_step_dict", None), dict) and isinstance(
        getattr(tracker, "_current_step", None), int
    )
    return tracker if is_known else None


#: The steps of this process.
steps: Final = StepTracker(counts=_shared_counts())


class Action(enum.Enum):
    """What a profiler does during a step."""

    #: Nothing: the step runs at full speed.
    NONE = "none"
    #: The profiler is made ready, so that its own start is not part of what is recorded; nothing is kept.
    WARMUP = "warmup"
    #: The step is recorded.
    RECORD = "record"
    #: The step is recorded, and is the last of its cycle: a Trace is made when it ends.
    RECORD_AND_SAVE = "record_and_save"


#: From the number of a step to an `Action`, or to torch's ProfilerAction of that name.
Schedule = Callable[[int], Any]


@dataclass(frozen=True)
class schedule:  # noqa: N801 - reads as a verb, like torch's
    """Which steps to record: `skip_first` steps once, then cycles of `wait`, `warmup` and `active` steps.

    Equal, step by step, to ``torch.profiler.schedule`` of the same numbers.

    Attributes:
        wait: Steps of each cycle during which the profiler is off.
        warmup: Steps during which it is being made ready. Without any, the first recorded step pays for that.
        active: Steps that are recorded: they make one Trace.
        repeat: Number of cycles; 0 for as many as there are.
        skip_first: Steps before the first cycle.
        skip_first_wait: Leave the first cycle's wait out.

    Raises:
        ValueError: A number is negative, or no step of a cycle is active.
    """

    wait: int = 0
    warmup: int = 0
    active: int = 1
    repeat: int = 0
    skip_first: int = 0
    skip_first_wait: bool = False

    def __post_init__(self) -> None:
        for name, least in (("wait", 0), ("warmup", 0), ("active", 1), ("repeat", 0), ("skip_first", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"schedule: {name} is {value!r}, expected a number of steps")
            if value < least:
                raise ValueError(f"schedule: {name} is {value}, expected at least {least}")

    def __call__(self, step: int) -> Action:
        """Return what to do during step number `step`, from 0."""
        at = step - self.skip_first
        if at < 0:
            return Action.NONE
        if self.skip_first_wait:
            at += self.wait
        length = self.wait + self.warmup + self.active
        if self.repeat and at >= length * self.repeat:
            return Action.NONE
        at %= length
        if at < self.wait:
            return Action.NONE
        if at < self.wait + self.warmup:
            return Action.WARMUP
        return Action.RECORD if at < length - 1 else Action.RECORD_AND_SAVE

    def __str__(self) -> str:
        """Return the numbers that differ from the defaults, for the run info."""
        changed = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return ", ".join(f"{name}={value}" for name, value in changed.items()) or "active=1"


_NUMBERS: Final = ("wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait")


def check_schedule(plan: object) -> None:
    """Check that `plan` can be called.

    Raises:
        TypeError: It cannot be called.
    """
    if isinstance(plan, type) or not callable(plan):
        what = f"the class {plan.__name__}" if isinstance(plan, type) else type(plan).__name__
        raise TypeError(
            f"schedule is {what}, expected a cudalens.schedule(wait=…, active=…), torch.profiler.schedule(…), or a "
            "function from the number of a step to an action"
        )


def text_of(plan: Schedule) -> str:
    """A schedule as text for the run info; equal schedules have equal texts, as far as can be found out.

    torch.profiler's schedules are functions that hold their numbers; others are shown by their name.
    """
    if isinstance(plan, schedule):
        return str(plan)
    code, cells = getattr(plan, "__code__", None), getattr(plan, "__closure__", None)
    if code is not None and cells and "profiler" in str(getattr(plan, "__module__", "")):
        held = {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True)}
        numbers: dict[str, Any] = {name: held[name] for name in _NUMBERS if isinstance(held.get(name), int)}
        if numbers.get("active", 0) > 0:
            return str(schedule(**(numbers | {"skip_first_wait": bool(numbers.get("skip_first_wait"))})))
    return str(getattr(plan, "__qualname__", type(plan).__qualname__))


def action_of(plan: Schedule, step: int) -> Action:
    """Return the action of `plan` for step number `step`.

    Raises:
        ProfilerError: `plan` returns something else.
    """
    action = plan(step)
    name = str(getattr(action, "name", None))
    if name not in Action.__members__:
        raise ProfilerError(
            f"the schedule returned {action!r} for step {step}; expected one of {', '.join(Action.__members__)} "
            "(cudalens.profiler.Action, or torch.profiler.ProfilerAction)."
        )
    return Action[name]


class Recording(Protocol):
    """One cycle's recording."""

    def prepare(self) -> None:
        """Make ready; nothing is recorded yet."""

    def begin(self) -> None:
        """Begin to record."""

    def mark(self, number: int) -> None:
        """Step number `number` of the program begins."""

    def end(self, *exc: Any) -> None:
        """End recording, with the exception that ended the block or three times None; keep what was recorded."""

    def drop(self) -> None:
        """End what `prepare` or `begin` began, and keep nothing."""


_RECORDS: Final = (Action.RECORD, Action.RECORD_AND_SAVE)


class Cycles:
    """Goes through a schedule: prepares, begins and ends a recording for each cycle, as the steps come.

    Args:
        plan: The schedule.
        make: Makes the recording of the next cycle.

    Attributes:
        step: Number of the step that is running.
        action: What is done during it.
    """

    def __init__(self, plan: Schedule, make: Callable[[], Recording]) -> None:
        self._plan, self._make = plan, make
        self._prepared: Recording | None = None
        self._running: Recording | None = None
        self.step = 0
        self.action = action_of(plan, 0)

    @property
    def is_recording(self) -> bool:
        """Whether a cycle is being recorded."""
        return self._running is not None

    def begin(self) -> None:
        """Begin step 0."""
        self._enter(self.action)

    def next(self) -> None:
        """End the step that is running, and begin the next.

        Raises:
            ProfilerError: The schedule returned something that is no action; nothing has changed.
        """
        coming = action_of(self._plan, self.step + 1)
        before, self.action = self.action, coming
        self.step += 1
        if before is Action.RECORD_AND_SAVE or coming not in _RECORDS:
            self._end(None, None, None)
        self._enter(coming)

    def end(self, *exc: Any) -> None:
        """The block is over: end what is running, and drop what was only made ready."""
        prepared, self._prepared = self._prepared, None
        try:
            if prepared is not None:
                prepared.drop()
        finally:
            self._end(*exc)

    def abandon(self) -> None:
        """Drop the running recording because Python ends; no Trace is made."""
        running, self._running = self._running, None
        if running is not None:
            running.drop()
        self._drop()

    def _enter(self, action: Action) -> None:
        if action is Action.NONE:
            self._drop()
        elif action is Action.WARMUP and self._prepared is None:
            self._prepared = recording = self._make()
            recording.prepare()
        elif action in _RECORDS:
            if self._running is None:
                recording = self._prepared or self._make()
                self._prepared = None
                recording.begin()
                self._running = recording
            self._running.mark(self.step)

    def _drop(self) -> None:
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            prepared.drop()

    def _end(self, *exc: Any) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.end(*exc)
