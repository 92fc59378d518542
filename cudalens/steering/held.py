"""One run: in the program's order, waiting after each task, or with one task held until another has overtaken it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from cudalens.kernels import Hold, hold
from cudalens.steering.program import State
from cudalens.steering.tasks import Task

WINDOW: Final = 100
"""Tasks before and after the two accesses whose times are taken."""


class InOrder:
    """Listens to a run in the program's order: each task ends before the next one is issued.

    Args:
        state: Learns what the program makes and writes.

    Attributes:
        tasks: What was done.
        issued_s: When, s on the host's clock.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.tasks: list[Task] = []
        self.issued_s: list[float] = []

    def writes(self, tensors: Sequence[torch.Tensor]) -> None:
        """Keep what they hold."""
        self._state.save(tensors)

    def replays(self) -> None:
        """Keep what anything holds."""
        self._state.save_all()

    def makes(self, tensors: Sequence[torch.Tensor]) -> None:
        """They are the program's own."""
        self._state.made(tensors)

    def before(self, task: Task) -> None:
        """Note it."""
        self.tasks.append(task)
        self.issued_s.append(time.perf_counter())

    def after(self, task: Task) -> None:
        """Wait for it."""
        if task.device is not None:
            torch.cuda.synchronize(task.device)


@dataclass(frozen=True, slots=True)
class Aim:
    """What a run is steered toward: that one task comes before another that was issued first.

    Attributes:
        first: The task that is held, as in the program's order.
        second: The one that shall overtake it.
        nanoseconds: For how long at most.
    """

    first: Task
    second: Task
    nanoseconds: int

    @property
    def seed(self) -> str:
        """What a report calls it."""
        return f"hold:{self.second.number}<{self.first.number}"


@dataclass
class _Times:
    """The device's clock around a task."""

    begin: Any
    end: Any


@dataclass
class Steered:
    """Listens to a run, holds a stream before one task, and lets it go when another has ended.

    Attributes:
        state: Learns what the program makes and writes.
        aim: What is steered toward.
        tasks: What was issued.
        is_astray: The program did not do what it did in its own order, so that nothing was held.
    """

    state: State
    aim: Aim
    tasks: list[Task] = field(default_factory=list)
    is_astray: bool = False
    _times: dict[int, _Times] = field(default_factory=dict)
    _bases: dict[int, Any] = field(default_factory=dict)
    _held: Hold | None = None
    _done_before: dict[int, frozenset[int]] = field(default_factory=dict)
    _has_overtaken: bool = False

    def writes(self, tensors: Sequence[torch.Tensor]) -> None:
        """Keep what they hold, if no run in the program's order wrote them."""
        self.state.save(tensors)

    def replays(self) -> None:
        """Keep what anything holds."""
        self.state.save_all()

    def makes(self, tensors: Sequence[torch.Tensor]) -> None:
        """They are the program's own."""
        self.state.made(tensors)

    def before(self, task: Task) -> None:
        """Hold the stream, where this is the task to be held."""
        self.tasks.append(task)
        first, second = self.aim.first, self.aim.second
        if task.number == first.number:
            self._hold(task)
        if task.device is None:
            self._done_before[task.number] = frozenset(n for n, times in self._times.items() if times.end.query())
        elif first.number - WINDOW <= task.number <= second.number + WINDOW:
            self._times[task.number] = _Times(self._mark(task), None)
        if task.number == second.number and task.device is None and self._held is not None:
            self._has_overtaken = not self._times[first.number].begin.query()

    def _hold(self, task: Task) -> None:
        if _what(task) != _what(self.aim.first) or task.device is None:
            self.is_astray = True
            return
        self._base(task.device)
        self._held = hold(torch.cuda.current_stream(task.device), self.aim.nanoseconds)

    def after(self, task: Task) -> None:
        """Let the stream go, where this is the task that was to overtake."""
        times = self._times.get(task.number)
        if times is not None:
            times.end = self._mark(task)
        if task.number == self.aim.second.number and self._held is not None:
            self.is_astray = self.is_astray or _what(task) != _what(self.aim.second)
            if times is not None:
                times.end.synchronize()
            self.release()

    def release(self) -> None:
        """Let the stream go; harmless where none is held."""
        if self._held is not None:
            self._held.release()

    def _mark(self, task: Task) -> Any:
        assert task.device is not None
        self._base(task.device)
        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(task.device))
        return event

    def _base(self, device: int) -> None:
        if device not in self._bases:
            base: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            base.record(torch.cuda.current_stream(device))
            self._bases[device] = base

    @property
    def is_turned(self) -> bool:
        """Whether the second task came first: it had ended when the first began. Asked when all has ended."""
        first, second = self.aim.first, self.aim.second
        if self.is_astray or self._held is None or first.number not in self._times:
            return False
        if second.device is None:
            return self._has_overtaken
        if second.number not in self._times:
            return False
        return self.span_ms(second)[1] <= self.span_ms(first)[0]

    def span_ms(self, task: Task) -> tuple[float, float]:
        """When a task began and ended, ms from the run's first mark on its device."""
        assert task.device is not None
        times, base = self._times[task.number], self._bases[task.device]
        return float(base.elapsed_time(times.begin)), float(base.elapsed_time(times.end))

    def order(self) -> tuple[int, ...]:
        """The numbers of the tasks around the two accesses in the order in which they ended."""
        timed = [task for task in self.tasks if task.number in self._times and self._times[task.number].end is not None]
        ended = {task.number: self.span_ms(task)[1] for task in timed}
        order = sorted(ended, key=lambda n: (ended[n], n))
        for number, done in sorted(self._done_before.items()):
            places = [order.index(n) for n in done if n in order]
            order.insert(max(places, default=-1) + 1, number)
        return tuple(order)


def _what(task: Task) -> tuple[str, str, int, bool]:
    return task.name, task.place.filename, task.place.line, task.device is None


def synchronize(devices: Iterable[int]) -> None:
    """Wait for all that was issued."""
    for device in devices:
        torch.cuda.synchronize(device)


def attempted(run: Callable[[], Any], stack: ExitStack) -> tuple[Any, Exception | None]:
    """What a run returns, and what it raises; an interrupt goes on.

    Args:
        run: Runs the program.
        stack: What ends when it has.
    """
    with stack:
        try:
            return run(), None
        except Exception as error:
            return None, error
