"""One run of a program: in program order, or with one task delayed until another has run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from cudalens.device import gpu_trace
from cudalens.device.interrupts import defers_interrupts
from cudalens.kernels import Hold, hold
from cudalens.sanitizer.rerun.program import State
from cudalens.sanitizer.rerun.tasks import Task

#: Number of tasks before and after the two accesses that are timed.
WINDOW: Final = 100


class InOrder:
    """Observes a run in program order: each task ends before the next one is issued.

    Args:
        state: Receives what the program creates and writes.

    Attributes:
        tasks: The tasks.
        issued_s: Their times, s on the clock of the host.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.tasks: list[Task] = []
        self.issued_s: list[float] = []

    def writes(self, tensors: Sequence[torch.Tensor]) -> None:
        """Save their contents."""
        self._state.save(tensors)

    def replays(self) -> None:
        """Save all contents."""
        self._state.save_all()

    def makes(self, tensors: Sequence[torch.Tensor]) -> None:
        """They were created by the program."""
        self._state.made(tensors)

    def before(self, task: Task) -> None:
        """Record it."""
        self.tasks.append(task)
        self.issued_s.append(time.perf_counter())

    def after(self, task: Task) -> None:
        """Wait for it."""
        if task.device is not None:
            torch.cuda.synchronize(task.device)


@dataclass(frozen=True, slots=True)
class Aim:
    """The goal of a delayed run: one task runs before another that was issued first.

    Attributes:
        first: The task that is delayed, as in program order.
        second: The task that should run before it.
        nanoseconds: The longest delay.
    """

    first: Task
    second: Task
    nanoseconds: int

    @property
    def seed(self) -> str:
        """Its name in reports."""
        return f"hold:{self.second.number}<{self.first.number}"


@dataclass
class _Times:
    """Events around a task; `end` is None until it has been issued."""

    begin: Any
    end: Any = None


@dataclass
class Delayed:
    """Observes a run, holds a stream before one task, and releases it when another task has ended.

    Everything else runs as in program order: work on streams that do not wait for the held one has ended before the
    next task is issued. So different values in two runs are caused by the hold and by nothing else. The stream is
    released when the second task has ended, at once if that task or the host waits for the held stream, and always at
    the end of the run.

    Attributes:
        state: Receives what the program creates and writes.
        aim: The goal.
        tasks: The issued tasks.
        is_astray: The program ran other tasks than in program order, so nothing was held.
        is_ordered: The second task, or the host before it, waited for the first one.
        is_reversed: The second task ended before the first one started.
    """

    state: State
    aim: Aim
    tasks: list[Task] = field(default_factory=list)
    is_astray: bool = False
    is_ordered: bool = False
    is_reversed: bool = False
    _times: dict[int, _Times] = field(default_factory=dict)
    _bases: dict[int, Any] = field(default_factory=dict)
    _hold: Hold | None = None
    _dependents: DependentStreams | None = None
    _done_before: dict[int, frozenset[int]] = field(default_factory=dict)
    _is_host_looking: bool = False

    def writes(self, tensors: Sequence[torch.Tensor]) -> None:
        """Save their contents, unless a run in program order did."""
        self.state.save(tensors)

    def replays(self) -> None:
        """Save all contents."""
        self.state.save_all()

    def makes(self, tensors: Sequence[torch.Tensor]) -> None:
        """They were created by the program."""
        self.state.made(tensors)

    def before(self, task: Task) -> None:
        """Delay the stream if this is the task to be delayed."""
        if self._is_host_looking:
            self._run_delayed()
        self.tasks.append(task)
        first, second = self.aim.first, self.aim.second
        if task.number == first.number:
            self._begin_hold(task)
        if task.device is None:
            self._done_before[task.number] = frozenset(n for n, times in self._times.items() if _has_ended(times))
        elif first.number - WINDOW <= task.number <= second.number + WINDOW:
            self._times[task.number] = _Times(self._mark(task))

    @defers_interrupts("confirmation")
    def _begin_hold(self, task: Task) -> None:
        if _what(task) != _what(self.aim.first) or task.device is None or task.stream is None:
            self.is_astray = True
            return
        self._base(task.device)
        stream = torch.cuda.current_stream(task.device)
        self._dependents = DependentStreams(task.stream, self._host_waits)
        self._hold = hold(stream, self.aim.nanoseconds)

    def _host_waits(self) -> None:
        """The host is about to wait for the delayed stream: a second task that is not issued yet cannot run first."""
        if self._is_host_looking:
            self._overtaken()
        elif self.is_held:
            self.is_ordered = True
            self.release()

    def after(self, task: Task) -> None:
        """Wait for it, unless it waits for the hold; release the stream if it is the second task."""
        times = self._times.get(task.number)
        if times is not None:
            times.end = self._mark(task)
        if task.number == self.aim.second.number and self.is_held:
            self._overtakes(task)
        elif task.device is not None and not self._is_late(task):
            torch.cuda.current_stream(task.device).synchronize()

    def _overtakes(self, task: Task) -> None:
        self.is_astray = self.is_astray or _what(task) != _what(self.aim.second)
        if task.device is None:  # the host may read until its next observed task
            self._is_host_looking = True
        elif self._is_late(task):
            self._host_waits()
        else:
            torch.cuda.current_stream(task.device).synchronize()
            self._run_delayed()

    def _is_late(self, task: Task) -> bool:
        """Return whether a task waits for the hold."""
        return (
            self.is_held
            and self._dependents is not None
            and task.stream is not None
            and self._dependents.depends(task.stream)
        )

    def _run_delayed(self) -> None:
        """The second task has ended: run the first one, and everything that waits for it."""
        self._overtaken()
        assert self.aim.first.device is not None
        torch.cuda.synchronize(self.aim.first.device)

    def _overtaken(self) -> None:
        """The second task has ended: check whether the first one has not started, and release it."""
        self._is_host_looking = False
        times = self._times.get(self.aim.first.number)
        self.is_reversed = not self.is_astray and self.is_held and times is not None and not times.begin.query()
        self.release()

    @property
    def is_held(self) -> bool:
        """Whether the hold is not released; its time may be over."""
        return self._hold is not None and not self._hold.is_released

    @defers_interrupts("confirmation")
    def release(self) -> None:
        """Release the stream; no effect if none is held."""
        if self._dependents is not None:
            self._dependents.close()
        if self._hold is not None:
            self._hold.release()

    def end(self) -> None:
        """Release the stream at the end of the run."""
        with suppress(RuntimeError):  # CUDA's errors are raised again by the next synchronisation
            if self._is_host_looking and self.is_held:
                self._run_delayed()
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

    def order(self) -> tuple[int, ...]:
        """The numbers of the tasks around the two accesses in the order of their ends, after a synchronisation."""
        ended: dict[int, float] = {}  # ms from the first event of the run on the task's device
        for task in self.tasks:
            times = self._times.get(task.number)
            if times is not None and times.end is not None:
                assert task.device is not None
                ended[task.number] = float(self._bases[task.device].elapsed_time(times.end))
        order = sorted(ended, key=lambda n: (ended[n], n))
        for number, done in sorted(self._done_before.items()):
            places = [order.index(n) for n in done if n in order]
            order.insert(max(places, default=-1) + 1, number)
        return tuple(order)


def _has_ended(times: _Times) -> bool:
    return times.end is not None and bool(times.end.query())


def warm_up(device: int) -> None:
    """Hold a stream of a device briefly, so that kernels are compiled and loaded before a delayed run.

    Raises:
        KernelError: Streams of the device cannot be held.
    """
    hold(torch.cuda.current_stream(device), 1_000).release()
    torch.cuda.synchronize(device)


def _what(task: Task) -> tuple[str, str, int, bool]:
    return task.name, task.place.filename, task.place.line, task.device is None


def synchronize(devices: Iterable[int]) -> None:
    """Wait for all issued work."""
    for device in devices:
        torch.cuda.synchronize(device)


def attempted(run: Callable[[], Any], stack: ExitStack) -> tuple[Any, Exception | None]:
    """The result of a run, or its exception; an interrupt is raised.

    Args:
        run: Runs the program.
        stack: Closed after the run.
    """
    with stack:
        try:
            return run(), None
        except Exception as error:
            return None, error


class DependentStreams:
    """Tracks a hold through waits of streams for events, and reports when the host is about to wait for it.

    torch's callbacks fire before the host waits. There is none for waits within CUDA (allocation and release of memory,
    pageable copies); these last as long as the hold.

    Args:
        stream: Handle of the held stream.
        release: Called when the host is about to wait for dependent work.
    """

    def __init__(self, stream: int, release: Callable[[], None]) -> None:
        self._release = release
        self._streams, self._events = {stream}, set[int]()
        self._subscription = gpu_trace.subscribe(
            _ignore, quick={kind: function.__get__(self) for kind, function in _QUICK_FUNCTIONS.items()}
        )

    def depends(self, stream: int) -> bool:
        """Return whether a stream waits for the hold."""
        return stream in self._streams

    def close(self) -> None:
        """Stop."""
        self._subscription.close()

    def _recorded(self, event: int, stream: int) -> None:
        if stream in self._streams:
            self._events.add(event)
        else:
            self._events.discard(event)

    def _waited(self, event: int, stream: int) -> None:
        if event in self._events:
            self._streams.add(stream)

    def _deleted(self, event: int) -> None:
        self._events.discard(event)

    def _event_synchronized(self, event: int) -> None:
        if event in self._events:
            self._release()

    def _stream_synchronized(self, stream: int) -> None:
        if stream in self._streams:
            self._release()

    def _device_synchronized(self) -> None:
        self._release()


def _ignore(record: gpu_trace.Record) -> None:
    """All relevant records have quick functions."""


_QUICK_FUNCTIONS: Final = {
    gpu_trace.EventRecorded: DependentStreams._recorded,
    gpu_trace.EventWaited: DependentStreams._waited,
    gpu_trace.EventDeleted: DependentStreams._deleted,
    gpu_trace.EventSynchronized: DependentStreams._event_synchronized,
    gpu_trace.StreamSynchronized: DependentStreams._stream_synchronized,
    gpu_trace.DeviceSynchronized: DependentStreams._device_synchronized,
}
