"""One run: in the program's order, waiting after each task, or with one task held until another has overtaken it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from cudalens.device.interrupts import defers_interrupts
from cudalens.kernels import Hold, hold
from cudalens.sanitizer.rerun.program import State
from cudalens.sanitizer.rerun.stream_dependencies import Behind
from cudalens.sanitizer.rerun.tasks import Task

#: Tasks before and after the two accesses whose times are taken.
WINDOW: Final = 100


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
    """The device's clock around a task; `end` is None until it has been issued."""

    begin: Any
    end: Any = None


@dataclass
class Steered:
    """Listens to a run, holds a stream before one task, and lets it go when another has ended.

    All else comes as in the program's order: what is issued on streams that do not wait for the held one has ended
    before the next task is issued. So two runs in which values differ differ by what the hold made late, and by nothing
    else. The stream is let go when the second task has ended, at once where that one or the host waits for the held
    stream, and always when the run is over.

    Attributes:
        state: Learns what the program makes and writes.
        aim: What is steered toward.
        tasks: What was issued.
        is_astray: The program did not do what it did in its own order, so that nothing was held.
        is_ordered: The second task, or the host before it, waited for the first one.
        is_turned: The second task came first: it had ended when the first was yet to begin.
    """

    state: State
    aim: Aim
    tasks: list[Task] = field(default_factory=list)
    is_astray: bool = False
    is_ordered: bool = False
    is_turned: bool = False
    _times: dict[int, _Times] = field(default_factory=dict)
    _bases: dict[int, Any] = field(default_factory=dict)
    _hold: Hold | None = None
    _behind: Behind | None = None
    _done_before: dict[int, frozenset[int]] = field(default_factory=dict)
    _is_host_looking: bool = False

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
        if self._is_host_looking:
            self._let_overtaken_go()
        self.tasks.append(task)
        first, second = self.aim.first, self.aim.second
        if task.number == first.number:
            self._begin_hold(task)
        if task.device is None:
            self._done_before[task.number] = frozenset(n for n, times in self._times.items() if _has_ended(times))
        elif first.number - WINDOW <= task.number <= second.number + WINDOW:
            self._times[task.number] = _Times(self._mark(task))

    @defers_interrupts
    def _begin_hold(self, task: Task) -> None:
        if _what(task) != _what(self.aim.first) or task.device is None or task.stream is None:
            self.is_astray = True
            return
        self._base(task.device)
        stream = torch.cuda.current_stream(task.device)
        self._behind = Behind(task.stream, self._host_waits)
        self._hold = hold(stream, self.aim.nanoseconds)

    def _host_waits(self) -> None:
        """The host is about to wait for the held stream: if the second task has not come yet, it cannot come first."""
        if self._is_host_looking:
            self._overtaken()
        elif self.is_held:
            self.is_ordered = True
            self.release()

    def after(self, task: Task) -> None:
        """Wait for it, if it does not wait for the hold; let the stream go, where it is the one to overtake."""
        times = self._times.get(task.number)
        if times is not None:
            times.end = self._mark(task)
        if task.number == self.aim.second.number and self.is_held:
            self._overtakes(task)
        elif task.device is not None and not self._is_late(task):
            torch.cuda.current_stream(task.device).synchronize()

    def _overtakes(self, task: Task) -> None:
        self.is_astray = self.is_astray or _what(task) != _what(self.aim.second)
        if task.device is None:  # the host may look at what it got for as long as it does nothing else that we see
            self._is_host_looking = True
        elif self._is_late(task):
            self._host_waits()
        else:
            torch.cuda.current_stream(task.device).synchronize()
            self._let_overtaken_go()

    def _is_late(self, task: Task) -> bool:
        """Whether a task waits for the hold."""
        return (
            self.is_held
            and self._behind is not None
            and task.stream is not None
            and self._behind.is_behind(task.stream)
        )

    def _let_overtaken_go(self) -> None:
        """The second task is over: the first one comes now, and all that was late with it."""
        self._overtaken()
        assert self.aim.first.device is not None
        torch.cuda.synchronize(self.aim.first.device)

    def _overtaken(self) -> None:
        """The second task is over: see whether the first one is yet to begin, and let it go."""
        self._is_host_looking = False
        times = self._times.get(self.aim.first.number)
        self.is_turned = not self.is_astray and self.is_held and times is not None and not times.begin.query()
        self.release()

    @property
    def is_held(self) -> bool:
        """Whether the stream is held, by us at least: the time may be over."""
        return self._hold is not None and not self._hold.is_released

    @defers_interrupts
    def release(self) -> None:
        """Let the stream go; harmless where none is held."""
        if self._behind is not None:
            self._behind.close()
        if self._hold is not None:
            self._hold.release()

    def end(self) -> None:
        """The run is over, in whatever way: let the stream go."""
        with suppress(RuntimeError):  # CUDA's own errors come again when the run is waited for
            if self._is_host_looking and self.is_held:
                self._let_overtaken_go()
        self.release()

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

    def _ended_ms(self, task: Task) -> float:
        """When a task ended, ms from the run's first mark on its device."""
        assert task.device is not None
        return float(self._bases[task.device].elapsed_time(self._times[task.number].end))

    def order(self) -> tuple[int, ...]:
        """The numbers of the tasks around the two accesses in the order in which they ended. Asked when all has."""
        timed = [task for task in self.tasks if task.number in self._times and self._times[task.number].end is not None]
        ended = {task.number: self._ended_ms(task) for task in timed}
        order = sorted(ended, key=lambda n: (ended[n], n))
        for number, done in sorted(self._done_before.items()):
            places = [order.index(n) for n in done if n in order]
            order.insert(max(places, default=-1) + 1, number)
        return tuple(order)


def _has_ended(times: _Times) -> bool:
    return times.end is not None and bool(times.end.query())


def warm_up(device: int) -> None:
    """Hold a stream of a device for a moment: what that needs is compiled and loaded before a run is steered.

    Raises:
        KernelError: No stream can be held there.
    """
    hold(torch.cuda.current_stream(device), 1_000).release()
    torch.cuda.synchronize(device)


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
