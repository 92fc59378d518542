"""A session: collectors side by side around a block of code, and the one Trace of what they found.

``profile()`` is its everyday form. `runs` keeps the Traces of this process by name.
"""

from __future__ import annotations

import atexit
import inspect
import itertools
import json
import linecache
import sys
import threading
import time
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, Protocol, TypeVar, Unpack

from cudalens.analysis import repaired
from cudalens.api.runs import Runs, runs
from cudalens.device.interrupts import HeldInterrupts, holds_interrupts
from cudalens.device.metrics import DEFAULT_HZ, MetricsCollector
from cudalens.device.stacks import file_label
from cudalens.device.syncs import SyncCollector
from cudalens.errors import ProfilerError
from cudalens.frames import Problem, RunInfo, Trace, empty_frame
from cudalens.frames.merge import join_frames
from cudalens.frames.syncs.build import CLOCK_SKEW_NS, Surroundings, build_syncs
from cudalens.graphs.collector import GraphCollector
from cudalens.profiler import ProfilerCollector, ProfilerOptions, kineto, metadata, ranges
from cudalens.profiler.options import TorchNames, by_our_names
from cudalens.profiler.schedules import Cycles, Schedule, check_schedule, text_of
from cudalens.profiler.steps import steps
from cudalens.sanitizer.collector import RaceCollector
from cudalens.virtual.profile.collector import VirtualCollector

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Collector", "Runs", "Session", "outcome_of", "profile", "runs"]

P = ParamSpec("P")
R = TypeVar("R")

_numbers: Final = itertools.count(1)


class Collector(Protocol):
    """Anything that records between `start` and `stop` and hands over frames.

    Attributes:
        name: What messages call it.
    """

    name: str

    def start(self) -> None:
        """Begin to record. When it raises, nothing is left running."""

    def stop(self) -> None:
        """End recording. Called once after each successful start, also when the block raised."""

    def frames(self) -> dict[str, pd.DataFrame]:
        """What was recorded, by frame name."""


class Session:
    """Runs collectors side by side: starts them in order, stops them in reverse, and merges what they found.

    A collector that fails becomes a `Problem`; nothing that the others found is lost. Only the first one has to start:
    its refusal is raised, before any other has been touched.

    Attributes:
        problems: What failed, as the run info tells it.
        started_ns: When all were running, epoch ns; None before.
        ended_ns: When the first was stopped, epoch ns; None before.
        start_s: Seconds that starting took.
        stop_s: Seconds that stopping took.
        build_s: Seconds that making the frames took.
    """

    def __init__(self, collectors: Sequence[Collector]) -> None:
        self._collectors = list(collectors)
        self._running: list[Collector] = []
        self._stopped: list[Collector] = []
        self.problems: list[Problem] = []
        self.started_ns: int | None = None
        self.ended_ns: int | None = None
        self.start_s = self.stop_s = self.build_s = 0.0

    def start(self) -> None:
        """Start the collectors in order.

        Raises:
            ProfilerError: The first one refused; whatever a failing start raises is passed on likewise.
        """
        begin = time.perf_counter()
        try:
            for collector in self._collectors:
                self._start(collector)
        except BaseException:
            self.stop()
            raise
        self.start_s = time.perf_counter() - begin
        self.started_ns = time.time_ns()

    def _start(self, collector: Collector) -> None:
        try:
            collector.start()
        except Exception as error:
            if collector is self._collectors[0]:
                raise
            self._note(collector, "start", error)
        else:
            self._running.append(collector)

    def stop(self) -> None:
        """Stop the collectors in reverse, every one of them, whatever the others raise."""
        self.ended_ns = time.time_ns()
        begin = time.perf_counter()
        while self._running:
            collector = self._running.pop()
            try:
                collector.stop()
                self._stopped.insert(0, collector)
            except Exception as error:
                self._note(collector, "stop", error)
        self.stop_s = time.perf_counter() - begin

    def frames(self) -> dict[str, pd.DataFrame]:
        """What the collectors found; the first that hands over a frame of a name keeps it, stacks are put together."""
        begin = time.perf_counter()
        merged: dict[str, pd.DataFrame] = {}
        for collector in self._stopped:
            try:
                merged = join_frames(merged, collector.frames())
            except Exception as error:
                self._note(collector, "read", error)
        self.build_s = time.perf_counter() - begin
        return merged

    def _note(self, collector: Collector, act: str, error: Exception) -> None:
        self.problems.append(Problem(f"{collector.name} failed to {act}", 1, f"{type(error).__name__}: {error}"))


_active: profile | None = None
"""The outermost profile that is running: torch's profiler serves one at a time in a process."""


class profile:  # noqa: N801 - reads as a verb, like torch's
    """Profiles a block, or each call of a function, and makes a `Trace` of it.

    As a context manager an object serves once. As a decorator (also of coroutine functions) it profiles each call on
    its own; `trace` is that of the last call, and the function has the object as its attribute ``profile``.

    Inside a profile of ours on the same thread it becomes a named range of the outer one, records nothing of its own,
    and its `trace` is the outer Trace, once the outer block has ended.

    When the block raises or is interrupted, the Trace is still made (its info tells) and the exception passes on.

    With a `schedule` the block is recorded in cycles: entering begins step 0, each `step()` ends a step and begins the
    next, and each cycle of recorded steps makes a Trace of its own, kept as ``name``, ``name-2`` and so on. A cycle
    that the block's end cuts short makes one as well. Frames are made when a cycle ends, between two steps.

    Args:
        name: Name of the run; by default ``run-<number>``, or the function's name.
        memory: Record every allocation and release.
        shapes: Record input shapes and dtypes of operators.
        stacks: Record the Python stack of operators.
        modules: Record which nn.Modules were running.
        flops: Count floating-point operations by torch's formulas.
        cpu_only: Leave the GPU alone.
        metrics: Read utilization, memory, temperature, power and clocks of the GPUs meanwhile; a number says how often
            in a second (20 by default).
        syncs: Note the line of every wait of the host for the GPU, for ``trace.syncs``.
        keep: Keep the Trace in `cudalens.runs`.
        code: Source of the block, for the run info.
        enabled: False makes it do nothing: the block runs as if it were not there.
        use_device: The kind of device to record, which has to be there: "cuda" (or a virtual one), "xpu", "mtia",
            "hpu", the name of a PrivateUse1 backend; "cpu" for the host alone. None for CUDA where there is a device.
        schedule: Which steps to record: a `cudalens.schedule`, or any callable from the number of a step to an action
            (``torch.profiler.schedule(…)`` is one).
        on_trace: Called with each Trace as soon as it is made.
        experimental_config: torch's ``_ExperimentalConfig``, handed on to Kineto as it is.
        **torchs: `memory`, `shapes`, `stacks`, `modules` and `flops` by torch.profiler's names, ``profile_memory``,
            ``record_shapes``, ``with_stack``, ``with_modules`` and ``with_flops``.

    Raises:
        ProfilerBusyError: On entry, or at a step of a schedule: another profiler is running; it goes on undisturbed.
        ProfilerError: On entry: torch refused, `use_device` is not there, or the object has been used already.
        ValueError: `metrics` is no rate that GPUs can be read at, or `use_device` is no kind of device.
        TypeError: `name` is no text, `schedule` or `on_trace` cannot be called, or there is no such option.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        memory: bool = False,
        shapes: bool = False,
        stacks: bool = False,
        modules: bool = False,
        flops: bool = False,
        cpu_only: bool = False,
        metrics: bool | float = False,
        syncs: bool = False,
        keep: bool = True,
        code: str | None = None,
        enabled: bool = True,
        use_device: str | None = None,
        schedule: Schedule | None = None,
        on_trace: Callable[[Trace], object] | None = None,
        experimental_config: Any = None,
        **torchs: Unpack[TorchNames],
    ) -> None:
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name is {type(name).__name__}, expected text; as a decorator write @cudalens.profile()")
        _check_device(use_device, cpu_only=cpu_only)
        _check_called(schedule, on_trace)
        on = by_our_names(torchs)
        memory, shapes, stacks = memory or "memory" in on, shapes or "shapes" in on, stacks or "stacks" in on
        modules, flops = modules or "modules" in on, flops or "flops" in on
        cpu_only = cpu_only or use_device == "cpu"
        self._name, self._keep, self._code = name, keep, code
        self._enabled, self._schedule, self._on_trace = enabled, schedule, on_trace
        self._options = ProfilerOptions(
            memory, shapes, stacks, modules, flops, cpu_only, use_device, experimental=experimental_config
        )
        self._state: Literal["new", "running", "done"] = "new"
        self._thread = 0
        self._outer: profile | None = None
        self._range: Any = None
        self._session: Session | None = None
        self._virtual = VirtualCollector(memory=memory, host_only=cpu_only, metrics_hz=_modelled_hz(metrics))
        self._collector = ProfilerCollector(self._options, self._virtual)
        self._races, self._graphs = RaceCollector(), GraphCollector()
        self._looks_for_syncs = syncs
        self._syncs = SyncCollector(is_wanted=syncs, now=self._virtual.now_ns)
        self._program_ended_ns: int | None = None
        self._metrics = metrics
        self._readings = MetricsCollector(DEFAULT_HZ if metrics is True else metrics) if metrics else None
        self._steps = ranges.StepRanges()
        self._cycles = Cycles(schedule, self._new_cycle) if schedule is not None else None
        self._whole: profile | None = None
        self._traces: list[Trace] = []
        self._held = HeldInterrupts()
        self._status: Literal["ok", "raised", "interrupted"] = "ok"
        self._error: str | None = None
        self._trace: Trace | None = None

    @property
    def trace(self) -> Trace:
        """What was recorded.

        Raises:
            ProfilerError: The block has not ended yet, or nothing could be recorded.
        """
        if self._outer is not None:
            return self._outer.trace
        if not self._enabled:
            raise ProfilerError("there is no trace: this profile is off (enabled=False), so nothing was recorded.")
        if self._cycles is not None:
            return self._last_of_cycles(self._cycles)
        if self._trace is None and self._state == "done" and self._session is not None:
            self._trace = self._build(self._session)
        if self._trace is None:
            raise ProfilerError("there is no trace yet: it is made when the profiled block ends.")
        return self._trace

    def _last_of_cycles(self, cycles: Cycles) -> Trace:
        if not self._traces:
            raise ProfilerError(
                f"there is no trace yet: {cycles.step + 1} steps have begun, and the schedule "
                f"({text_of(self._schedule) if self._schedule else ''}) has "
                "recorded none of them to its cycle's end. Call step() at the end of each iteration."
            )
        return self._traces[-1]

    def __repr__(self) -> str:
        """Name, and how far it is: ``<cudalens.profile 'train': done, 1 trace>``."""
        how = {"new": "not entered yet", "running": "running", "done": "done"}[self._state]
        what = "off" if not self._enabled else "a range of an outer profile" if self._outer is not None else ""
        num = 0 if what else len(self.traces)
        told = [how, what or (f"{num} trace{'' if num == 1 else 's'}" if self._state != "new" else "")]
        return f"<cudalens.profile {self._name or '(no name)'!r}: {', '.join(filter(None, told))}>"

    @property
    def traces(self) -> list[Trace]:
        """The Traces that there are, oldest first: one for each cycle of a schedule, else at most one."""
        if self._outer is not None:
            return self._outer.traces
        return list(self._traces) if self._cycles is not None else [self._trace] if self._trace is not None else []

    @property
    def wall_ns(self) -> int:
        """Real time that the block took, with the wait for the GPU at its end, ns; also where the device is a model.

        Raises:
            ProfilerError: The block has not run, or not ended, or it is a range of an outer one.
        """
        session = self._session
        if session is None or session.started_ns is None or session.ended_ns is None:
            raise ProfilerError("there is no time yet: it is known when a profiled block of its own has ended.")
        return session.ended_ns - session.started_ns

    @property
    def is_nested(self) -> bool:
        """Whether this one is a range of an outer profile."""
        return self._outer is not None

    def step(self) -> None:
        """End the current step and begin the next.

        Without a schedule the first call begins step 0; with one, step 0 began with the block, as torch counts.

        Raises:
            ProfilerError: The block is not running, or a cycle cannot begin.
        """
        if self._state != "running":
            raise ProfilerError("step() belongs inside the profiled block.")
        if self._outer is not None:
            self._outer.step()
        elif self._enabled:
            self._steps.close()
            ranges.count_step()
            if self._cycles is not None:
                self._cycles.next()
            else:
                self._steps.step()

    def __enter__(self) -> profile:
        global _active
        if self._state != "new":
            raise ProfilerError("a profile object serves once; make another with cudalens.profile().")
        if not self._enabled:
            self._state = "running"
            return self
        self._name = self._name or f"run-{next(_numbers)}"
        outer = _active if self._whole is None else None
        if outer is not None and outer._thread == threading.get_ident() and outer._state == "running":
            self._outer, self._state = outer, "running"
            self._range = ranges.open_range(self._name)
            return self
        if self._cycles is not None:
            return self._enter_cycles(self._cycles)
        readings = [self._readings] if self._readings else []
        session = Session([self._collector, self._virtual, self._races, self._graphs, self._syncs, *readings])
        self._held.install()
        try:
            session.start()
            self._session, self._thread, self._state = session, threading.get_ident(), "running"
            if self._whole is None:
                _active = self
                steps.init(ranges.REQUESTER)
            self._held.deliver()
        except BaseException:
            self._end(session)
            self._held.remove()
            raise
        return self

    def _enter_cycles(self, cycles: Cycles) -> profile:
        global _active
        self._thread, self._state, _active = threading.get_ident(), "running", self
        steps.init(ranges.REQUESTER)
        try:
            cycles.begin()
        except BaseException:
            self._exit_cycles(cycles, None, None, None)
            raise
        return self

    def _exit_cycles(self, cycles: Cycles, *exc: Any) -> None:
        global _active
        try:
            cycles.end(*exc)
        finally:
            self._state = "done"
            if _active is self:
                _active = None
                steps.forget(ranges.REQUESTER)

    def _new_cycle(self) -> _Cycle:
        return _Cycle(self, len(self._traces) + 1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        if self._outer is not None:
            self._state = "done"
            ranges.close_range(self._range)
            return
        if self._cycles is not None and self._state == "running":
            self._exit_cycles(self._cycles, kind, error, trail)
            return
        if not self._enabled:
            self._state = "done"
        if self._session is None or self._state != "running":
            return
        self._status, self._error = outcome_of(error)
        try:
            self._end(self._session)
        finally:
            self._held.remove()
        if self._held.is_pending:
            self._status, self._error = "interrupted", "KeyboardInterrupt"
        try:
            self._trace = self._build(self._session)
            if self._keep:
                runs.add(self._trace)
        finally:
            self._held.deliver()
        if self._on_trace is not None:
            self._on_trace(self._trace)

    def _end(self, session: Session) -> None:
        global _active
        try:
            self._steps.close()
            self._syncs.settle()
            self._program_ended_ns = self._virtual.now_ns()
            self._collector.settle()
            self._virtual.settle()
        finally:
            session.stop()
            self._state = "done"
            if _active is self:
                _active = None
                steps.forget(ranges.REQUESTER)

    def __del__(self) -> None:
        """An interrupt in the few instructions between a block and its end must not leave a profiler running."""
        if not sys.is_finalizing():
            self._let_go()

    def _let_go(self) -> None:
        """End what runs, without a Trace."""
        if getattr(self, "_state", None) == "running" and self._session is not None:
            self._end(self._session)
            self._held.remove()

    def _build(self, session: Session) -> Trace:
        frames = session.frames()
        collector = self._collector
        if "events" not in frames:
            raise ProfilerError(
                "nothing could be recorded: " + "; ".join(f"{p.kind} ({p.where})" for p in session.problems)
            )
        frames |= self._put_together(session, frames)
        rank, world_size = metadata.rank()
        window = {"started_ns": session.started_ns, "ended_ns": session.ended_ns}
        info = RunInfo(
            **(window | collector.facts() | self._virtual.facts()),
            name=self._name or "",
            status=self._status,
            error=self._error,
            build_s=session.build_s,
            start_s=session.start_s,
            stop_s=session.stop_s,
            options=self._options.to_dict()
            | ({"metrics": self._metrics} if self._metrics else {})
            | ({"syncs": True} if self._looks_for_syncs else {})
            | ({"schedule": text_of(self._whole._schedule)} if self._whole and self._whole._schedule else {}),
            versions=metadata.versions(),
            host=metadata.host(),
            rank=rank,
            world_size=world_size,
            num_steps=self._steps.num_steps or None,
            code=self._code,
            problems=(*session.problems, *collector.problems, *self._virtual.problems, *self._unread()),
            judged=self._races.judged,
            extra=_cells(frames) | metadata.threads().to_extra() | self._virtual.extra(),
        )
        return _checked(Trace(info, **frames))

    def _put_together(self, session: Session, frames: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        """The waits for the GPU, from the runtime calls among the events and from what was seen."""
        skew_ns = 0 if self._virtual.facts() else CLOCK_SKEW_NS
        around = Surroundings(file_label, linecache.getline, self._program_ended_ns, skew_ns)
        try:
            return build_syncs(frames, around)
        except Exception as error:  # the rest of the Trace is worth having
            session.problems.append(Problem("waits for the GPU were not found", 1, f"{type(error).__name__}: {error}"))
            return {"syncs": empty_frame("syncs")}

    def _unread(self) -> tuple[Problem, ...]:
        """What could not be read of the GPUs; a virtual device in their place leaves nothing to tell."""
        return () if self._readings is None or self._virtual.facts() else self._readings.problems

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Profile each call of `function`.

        Raises:
            TypeError: `function` is a generator function; its body runs outside of the call. Or there is a schedule,
                whose steps a call does not tell.
        """
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{function.__qualname__} is a generator function; profile the loop that runs it instead.")
        if self._cycles is not None:
            raise TypeError("a schedule needs a loop that calls step(): put the loop into a block of this profile.")
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def profiled(*args: Any, **kwargs: Any) -> Any:
                with self._again(function):
                    return await function(*args, **kwargs)

        else:

            @wraps(function)
            def profiled(*args: Any, **kwargs: Any) -> Any:
                with self._again(function):
                    return function(*args, **kwargs)

        profiled.profile = self  # type: ignore[attr-defined]
        return profiled  # type: ignore[return-value]

    def _again(self, function: Callable[..., Any]) -> _Call:
        return _Call(self, profile(self._name or function.__qualname__, **self._choices()))

    def _choices(self) -> dict[str, Any]:
        return {
            **self._options.to_dict(),
            "metrics": self._metrics,
            "syncs": self._looks_for_syncs,
            "keep": self._keep,
            "code": self._code,
            "enabled": self._enabled,
            "on_trace": self._on_trace,
            "experimental_config": self._options.experimental,
        }


@atexit.register
def _end_what_is_open() -> None:
    """Python ends while a profile runs: what records has to stop while the modules that it needs are there."""
    left = _active
    if left is not None and left._state == "running":
        if left._cycles is not None:
            left._cycles.abandon()
        else:
            left._let_go()


class _Call:
    """One profiled call of a decorated function; hands its Trace to the decorator."""

    def __init__(self, decorator: profile, call: profile) -> None:
        self._decorator, self._call = decorator, call

    def __enter__(self) -> None:
        self._call.__enter__()

    def __exit__(self, *exc: Any) -> None:
        try:
            self._call.__exit__(*exc)
        finally:
            self._decorator._outer = self._call


def is_profiling() -> bool:
    """Whether a profile of ours is running, on any thread."""
    return _active is not None


def _checked(trace: Trace) -> Trace:
    """`trace` put right where it can be, with its verdict; as it is, and with a problem, where that fails."""
    try:
        return repaired(trace)
    except Exception as error:  # the Trace is worth having
        problem = Problem("how far to trust it was not checked", 1, f"{type(error).__name__}: {error}")
        return trace.replace(info=trace.info.replace(problems=(*trace.info.problems, problem)))


def _cells(frames: dict[str, pd.DataFrame]) -> dict[str, str]:
    """What the notebook calls the files of its cells, for the files in the stacks; as JSON."""
    files = set(frames["stacks"]["file"].cat.categories) if "stacks" in frames else set()
    labels = {file: label for file in files if (label := file_label(file)) != file}
    return {"cells": json.dumps(labels)} if labels else {}


class _Cycle:
    """One cycle of a schedule: a profile of its own, whose Trace is the whole one's next."""

    def __init__(self, whole: profile, number: int) -> None:
        name = whole._name if number == 1 else f"{whole._name}-{number}"
        self._whole, self._profile = whole, profile(name, **whole._choices())
        self._profile._whole = whole

    def prepare(self) -> None:
        self._profile._collector.prepare()

    def drop(self) -> None:
        self._profile._collector.drop()
        self._profile._let_go()

    def begin(self) -> None:
        self._profile.__enter__()

    def mark(self, number: int) -> None:
        self._profile._steps.step(number)

    def end(self, *exc: Any) -> None:
        on_trace, self._profile._on_trace = self._profile._on_trace, None
        self._profile.__exit__(*exc)
        self._whole._traces.append(self._profile.trace)
        if on_trace is not None:
            on_trace(self._profile.trace)


def _check_device(use_device: str | None, *, cpu_only: bool) -> None:
    known = kineto.known_devices()
    if use_device is not None and use_device not in known:
        raise ValueError(f"use_device is {use_device!r}, expected None or one of {', '.join(known)}")
    if cpu_only and use_device not in (None, "cpu"):
        raise ValueError(f"cpu_only=True and use_device={use_device!r} exclude each other; leave one of them out")


def _check_called(schedule: object, on_trace: object) -> None:
    if schedule is not None:
        check_schedule(schedule)
    if on_trace is not None and not callable(on_trace):
        raise TypeError(f"on_trace is {type(on_trace).__name__}, expected a function that takes a Trace")


def _modelled_hz(metrics: bool | float) -> float | None:
    """What `metrics` asks of a virtual device: without a number it reads as often as a picture shows."""
    return None if not metrics else 0.0 if metrics is True else float(metrics)


def outcome_of(error: BaseException | None) -> tuple[Literal["ok", "raised", "interrupted"], str | None]:
    """How a block ended, and its exception in one line, as the run info tells them."""
    if error is None:
        return "ok", None
    # An ipykernel interrupts a cell that awaits by cancelling it.
    is_interrupt = isinstance(error, KeyboardInterrupt | CancelledError)
    status: Literal["raised", "interrupted"] = "interrupted" if is_interrupt else "raised"
    text = str(error).strip().partition("\n")[0]
    return status, f"{type(error).__name__}: {text}" if text else type(error).__name__


for _critical in (profile.__enter__, profile.__exit__, _Call.__enter__, _Call.__exit__):
    holds_interrupts(_critical)
