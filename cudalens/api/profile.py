"""`profile`: run a block of code, or each call of a function, under the profiler and make a Trace of it."""

from __future__ import annotations

import atexit
import inspect
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterable
from functools import wraps
from types import TracebackType
from typing import Any, Final, Literal, ParamSpec, TypeVar

import torch

from cudalens import virtual
from cudalens.api.recorder import Recorder
from cudalens.api.run_info import UserMetadata
from cudalens.api.session import Outcome, Session, runs
from cudalens.api.torch_names import TorchNames
from cudalens.device.interrupts import DeferredInterrupts, defers_interrupts
from cudalens.errors import ProfilerError
from cudalens.frames import Trace
from cudalens.profiler import ProfilerOptions, kineto, ranges
from cudalens.profiler.schedules import Cycles, Schedule, check_schedule, steps, text_of

P = ParamSpec("P")
R = TypeVar("R")

_run_numbers: Final = itertools.count(1)
_STATES: Final = {"new": "not entered yet", "running": "running", "done": "done"}


#: The outermost running profile: torch's profiler allows one at a time in a process.
_active: profile | None = None


class profile(TorchNames):  # noqa: N801 - reads as a verb, like torch's
    """Profile a block, or each call of a function, and make a `Trace` of it.

    As a context manager an object can be used only once. As a decorator (also of coroutine functions) it profiles each
    call separately; `trace` is that of the last call, and the function has the object as its attribute ``profile``.

    Inside another `cudalens.profile` on the same thread it is a named range of the outer one and records nothing;
    its `trace` is the outer Trace, once the outer block has ended.

    If the block raises or is interrupted, the Trace is still made, with the status in its info, and the exception
    propagates.

    With a `schedule` the block is recorded in cycles: entering begins step 0, each `step()` ends a step and begins the
    next, and each cycle of recorded steps makes its own Trace, kept as ``name``, ``name-2`` and so on. This includes a
    cycle that the end of the block cuts short. Frames are made when a cycle ends, between two steps.

    Args:
        name: Name of the run; by default ``run-<number>``, or the function's name.
        memory: Record every allocation and release.
        shapes: Record input shapes and dtypes of operators.
        stacks: Record the Python stack of operators.
        modules: Record which nn.Modules were running.
        flops: Count floating-point operations by torch's formulas.
        cpu_only: Do not record the GPU.
        metrics: Sample utilization, memory, temperature, power and clocks of the GPUs during the block; a number is the
            sampling rate in Hz (20 by default).
        syncs: Record the source line of every wait of the host for the GPU, for ``trace.syncs``.
        keep: Keep the Trace in `cudalens.runs`.
        code: Source of the block, for the run info.
        enabled: False to do nothing.
        use_device: The kind of device to record, which must be available: "cuda" (real or virtual), "xpu", "mtia",
            "hpu", the name of a PrivateUse1 backend, or "cpu" for the host only. None for CUDA if there is a device.
        schedule: Which steps to record: a `cudalens.schedule`, or any callable from the number of a step to an action
            (``torch.profiler.schedule(…)`` is one).
        on_trace: Called with each Trace as soon as it is made.
        experimental_config: torch's ``_ExperimentalConfig``, passed to Kineto unchanged.
        custom_trace_id_callback: Called once for each Trace; the text that it returns is the metadata ``trace_id``.
        record_shapes: torch.profiler's name of `shapes`.
        profile_memory: torch.profiler's name of `memory`.
        with_stack: torch.profiler's name of `stacks`.
        with_modules: torch.profiler's name of `modules`.
        with_flops: torch.profiler's name of `flops`.

    Raises:
        ProfilerBusyError: On entry, or at a step of a schedule: another profiler is running; it is not affected.
        ProfilerError: On entry: torch refused, `use_device` is not available, or the object has been used already.
        ValueError: `metrics` is not a possible sampling rate, or `use_device` is not a kind of device.
        TypeError: `name` is not text, or `schedule` or `on_trace` is not callable.
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
        custom_trace_id_callback: Callable[[], str] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        with_flops: bool = False,
    ) -> None:
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name is {type(name).__name__}, expected text; as a decorator write @cudalens.profile()")
        known_devices = kineto.known_devices()
        if use_device is not None and use_device not in known_devices:
            raise ValueError(f"use_device is {use_device!r}, expected None or one of {', '.join(known_devices)}")
        if cpu_only and use_device not in (None, "cpu"):
            raise ValueError(f"cpu_only=True and use_device={use_device!r} exclude each other; leave one of them out")
        if schedule is not None:
            check_schedule(schedule)
        if on_trace is not None and not callable(on_trace):
            raise TypeError(f"on_trace is {type(on_trace).__name__}, expected a function that takes a Trace")
        self._name, self._keep, self._code = name, keep, code
        self._enabled, self._schedule, self._on_trace = enabled, schedule, on_trace
        self._options = ProfilerOptions(
            memory=memory or profile_memory,
            shapes=shapes or record_shapes,
            stacks=stacks or with_stack,
            modules=modules or with_modules,
            flops=flops or with_flops,
            cpu_only=cpu_only or use_device == "cpu",
            use_device=use_device,
            experimental=experimental_config,
        )
        self._trace_id, self._metadata = custom_trace_id_callback, UserMetadata()
        self._state: Literal["new", "running", "done"] = "new"
        self._thread = 0
        self._process_id = os.getpid()
        self._outer: profile | None = None
        self._last_call: profile | None = None  # of the decorated function
        self._range: Any = None
        self._metrics, self._syncs = metrics, syncs
        self._recorder = Recorder(self._options, metrics=metrics, syncs=syncs)
        self._cycles = Cycles(schedule, self._make_cycle) if schedule is not None else None
        self._cycle_of: profile | None = None  # of a cycle: the profile whose schedule it belongs to
        self._traces: list[Trace] = []
        self._interrupts = DeferredInterrupts("profile")
        self._outcome = Outcome()
        self._trace: Trace | None = None

    @property
    def trace(self) -> Trace:
        """The recorded Trace.

        Raises:
            ProfilerError: The block has not ended yet, or nothing could be recorded.
        """
        if (other := self._outer or self._last_call) is not None:
            return other.trace
        if not self._enabled:
            raise ProfilerError("there is no trace: this profile is off (enabled=False), so nothing was recorded.")
        if self._cycles is not None:
            if not self._traces:
                schedule = text_of(self._schedule) if self._schedule else ""
                raise ProfilerError(
                    f"there is no trace yet: {self._cycles.step + 1} steps have begun, and the schedule ({schedule}) "
                    "has recorded none of them to its cycle's end. Call step() at the end of each iteration."
                )
            return self._traces[-1]
        if self._trace is None and self._state == "done" and self._recorder.session is not None:
            self._trace = self._build_trace()
        if self._trace is None:
            raise ProfilerError("there is no trace yet: it is made when the profiled block ends.")
        return self._trace

    def __repr__(self) -> str:
        """Name and state: ``<cudalens.profile 'train': done, 1 trace>``."""
        state = "a decorator" if self._last_call is not None else _STATES[self._state]
        parts = [state]
        if not self._enabled:
            parts.append("off")
        elif self._outer is not None:
            parts.append("a range of an outer profile")
        elif self._state != "new" or self._last_call is not None:
            num_traces = len(self.traces)
            parts.append(f"{num_traces} trace{'s' * (num_traces != 1)}")
        return f"<cudalens.profile {self._name or '(no name)'!r}: {', '.join(parts)}>"

    @property
    def traces(self) -> list[Trace]:
        """The Traces made so far, oldest first: one for each cycle of a schedule, else at most one."""
        if (other := self._outer or self._last_call) is not None:
            return other.traces
        if self._cycles is not None:
            return list(self._traces)
        return [self._trace] if self._trace is not None else []

    @property
    def wall_ns(self) -> int:
        """Real time of the block including the wait for the GPU at its end, ns, also on a virtual device.

        Raises:
            ProfilerError: The block has not ended, or it is a range of an outer profile.
        """
        if self._last_call is not None:
            return self._last_call.wall_ns
        session = self._recorder.session
        if session is None or session.started_ns is None or session.ended_ns is None:
            raise ProfilerError("there is no time yet: it is known when a profiled block of its own has ended.")
        return session.ended_ns - session.started_ns

    @property
    def is_nested(self) -> bool:
        """Whether this profile is a range of an outer profile."""
        return (self._last_call or self)._outer is not None

    @property
    def _is_inherited(self) -> bool:
        """Whether this is the copy of a running profile in a forked child: only the parent's records."""
        return self._state == "running" and self._process_id != os.getpid()

    def step(self) -> None:
        """End the current step and begin the next.

        Without a schedule the first call begins step 0; with one, step 0 began with the block, as torch counts.

        Raises:
            ProfilerError: The block is not running, or a cycle cannot begin.
        """
        if self._state != "running":
            raise ProfilerError("step() belongs inside the profiled block.")
        if self._is_inherited:
            return
        if self._outer is not None:
            self._outer.step()
        elif self._enabled:
            self._recorder.steps.close()
            ranges.count_step()
            if self._cycles is not None:
                self._cycles.next()
                self._interrupts.deliver()  # those of a cycle that ended or began
            else:
                self._recorder.steps.step()

    def add_metadata(self, key: str, value: str) -> None:
        """Keep the text `value` with the Trace: in ``info.extra["metadata"]``, and in the files of `to_chrome`.

        Raises:
            TypeError: `key` or `value` is not text.
        """
        (self._outer or self)._metadata.add(key, value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Keep the JSON text `value` with the Trace, before or inside the block.

        Raises:
            TypeError: `key` or `value` is not text.
            ValueError: `value` is not JSON.
        """
        (self._outer or self)._metadata.add_json(key, value)

    preset_metadata_json = add_metadata_json

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Switch recording of some of `torch.profiler.ProfilerActivity` on or off.

        Raises:
            ProfilerError: Nothing is recorded now, this build of torch does not support it, or the device is virtual.
        """
        if not self._enabled:
            return
        wanted = set(activities)
        if virtual.active() is not None and torch.profiler.ProfilerActivity.CUDA in wanted:
            raise ProfilerError("a virtual device's work is recorded throughout; cpu_only=True leaves it out.")
        kineto.toggle(enable, wanted)

    def __enter__(self) -> profile:
        global _active
        if self._state != "new":
            raise ProfilerError("a profile object can be used only once; make another with cudalens.profile().")
        self._last_call = None
        self._process_id = os.getpid()
        if not self._enabled:
            self._state = "running"
            return self
        self._name = self._name or f"run-{next(_run_numbers)}"
        if _active is not None and _active._is_inherited:
            _active._forget()
        outer = _active if self._cycle_of is None else None
        if outer is not None and outer._thread == threading.get_ident() and outer._state == "running":
            self._outer, self._state = outer, "running"
            self._range = ranges.open_range(self._name)
            return self
        if self._cycles is not None:
            return self._enter_cycles(self._cycles)
        if self._trace_id is not None:
            self._metadata.add("trace_id", self._trace_id())
        session = self._recorder.new_session()
        self._interrupts.install()
        try:
            session.start()
            self._recorder.begin()
            # Only now: `trace` and `_abandon` take a session of the recorder as one that has started.
            self._recorder.session, self._thread, self._state = session, threading.get_ident(), "running"
            if self._cycle_of is None:
                _active = self
                steps.init(ranges.REQUESTER)
            return self._interrupts.deliver(self)
        except BaseException:
            self._stop_recording(session)
            self._interrupts.remove()
            raise

    def _enter_cycles(self, cycles: Cycles) -> profile:
        global _active
        self._interrupts.install()
        try:
            self._thread, self._state, _active = threading.get_ident(), "running", self
            steps.init(ranges.REQUESTER)
            cycles.begin()
            return self._interrupts.deliver(self)
        except BaseException:
            self._exit_cycles(cycles, None, None, None)
            raise

    def _exit_cycles(self, cycles: Cycles, *exc: Any) -> None:
        global _active
        try:
            cycles.end(*exc)
        finally:
            self._state = "done"
            if _active is self:
                _active = None
                steps.forget(ranges.REQUESTER)
            self._interrupts.remove()

    def _make_cycle(self) -> _Cycle:
        number = len(self._traces) + 1
        cycle = profile(self._name if number == 1 else f"{self._name}-{number}", **self._options_of_copies())
        cycle._cycle_of = self
        return _Cycle(cycle, self._traces)

    # A running profile ends in one of four ways, whichever comes first:
    #
    # - `_stop_recording` stops the collectors; `__exit__` then makes the Trace.
    # - `_exit_cycles` ends the block of a schedule, and with it the cycle that is running.
    # - `_abandon` stops the collectors, and no Trace is made: the object is garbage, or the process exits.
    # - `_forget` only forgets the profile, in a forked child: the recording is the parent's.

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        if self._is_inherited:
            self._forget()
            return
        if self._outer is not None:
            self._state = "done"
            ranges.close_range(self._range)
            return
        if self._cycles is not None and self._state == "running":
            try:
                self._exit_cycles(self._cycles, kind, error, trail)
            finally:
                self._interrupts.deliver()
            return
        if not self._enabled:
            self._state = "done"
        if self._recorder.session is None or self._state != "running":
            return
        self._outcome = Outcome.of(error)
        try:
            self._stop_recording(self._recorder.session)
        finally:
            self._interrupts.remove()
        if self._interrupts.is_pending:
            self._outcome = Outcome.of(KeyboardInterrupt())
        try:
            self._trace = self._build_trace()
            if self._keep:
                runs.add(self._trace)
        finally:
            self._interrupts.deliver()
        if self._on_trace is not None:
            self._on_trace(self._trace)

    def _stop_recording(self, session: Session) -> None:
        global _active
        try:
            self._recorder.stop(session)
        finally:
            self._state = "done"
            if _active is self:
                _active = None
                steps.forget(ranges.REQUESTER)

    def __del__(self) -> None:
        """Stop the profiler if an interrupt came between the block and `__exit__`."""
        if not sys.is_finalizing():
            self._abandon()

    def _abandon(self) -> None:
        """Stop the collectors without making a Trace."""
        if getattr(self, "_process_id", None) != os.getpid():
            return
        if getattr(self, "_state", None) == "running" and self._recorder.session is not None:
            self._stop_recording(self._recorder.session)
            self._interrupts.remove()

    def _forget(self) -> None:
        """End in a forked child, without stopping torch's profiler: the recording is the parent's."""
        global _active
        self._state = "done"
        self._interrupts.remove()
        if _active is self:
            _active = None
            steps.forget(ranges.REQUESTER)

    def _build_trace(self) -> Trace:
        schedule, metadata = None, UserMetadata(self._metadata)
        if self._cycle_of is not None:
            schedule = text_of(self._cycle_of._schedule) if self._cycle_of._schedule else None
            metadata = UserMetadata({**self._cycle_of._metadata, **self._metadata})
        return self._recorder.build(
            self._name or "", self._outcome, code=self._code, schedule=schedule, metadata=metadata.to_extra()
        )

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Profile each call of `function`.

        Raises:
            TypeError: `function` is a generator function, whose body runs outside the call; or there is a schedule,
                which needs calls of `step`.
        """
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{function.__qualname__} is a generator function; profile the loop that runs it instead.")
        if self._cycles is not None:
            raise TypeError("a schedule needs a loop that calls step(): put the loop into a block of this profile.")
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def profiled(*args: Any, **kwargs: Any) -> Any:
                with self._profile_of_call(function):
                    return await function(*args, **kwargs)

        else:

            @wraps(function)
            def profiled(*args: Any, **kwargs: Any) -> Any:
                with self._profile_of_call(function):
                    return function(*args, **kwargs)

        profiled.profile = self  # type: ignore[attr-defined]
        return profiled  # type: ignore[return-value]

    def _profile_of_call(self, function: Callable[..., Any]) -> _Call:
        call = profile(self._name or function.__qualname__, **self._options_of_copies())
        call._metadata |= self._metadata
        return _Call(self, call)

    def _options_of_copies(self) -> dict[str, Any]:
        """Return the options of the profiles of single cycles and calls."""
        return {
            **self._options.to_dict(),
            "metrics": self._metrics,
            "syncs": self._syncs,
            "keep": self._keep,
            "code": self._code,
            "enabled": self._enabled,
            "on_trace": self._on_trace,
            "experimental_config": self._options.experimental,
            "custom_trace_id_callback": self._trace_id,
        }


class _Call:
    """One call of a decorated function: its Trace becomes that of the decorator."""

    def __init__(self, decorator: profile, call: profile) -> None:
        self._decorator, self._call = decorator, call

    def __enter__(self) -> None:
        self._call.__enter__()

    def __exit__(self, *exc: Any) -> None:
        try:
            self._call.__exit__(*exc)
        finally:
            self._decorator._last_call = self._call


class _Cycle:
    """One cycle of a schedule, as `Cycles` runs it: its Trace is added to those of the schedule."""

    def __init__(self, cycle: profile, traces: list[Trace]) -> None:
        self._profile, self._traces = cycle, traces

    def prepare(self) -> None:
        self._profile._recorder.profiler.prepare()

    def drop(self) -> None:
        self._profile._recorder.profiler.drop()
        self._profile._abandon()

    def begin(self) -> None:
        self._profile.__enter__()

    def mark(self, number: int) -> None:
        self._profile._recorder.steps.step(number)

    def end(self, *exc: Any) -> None:
        # on_trace must find the Trace in `traces`, so it is called here, after the Trace was added.
        on_trace, self._profile._on_trace = self._profile._on_trace, None
        self._profile.__exit__(*exc)
        self._traces.append(self._profile.trace)
        if on_trace is not None:
            on_trace(self._profile.trace)


@atexit.register
def _stop_at_exit() -> None:
    """Stop a running profile while the modules that it needs still exist."""
    if _active is None or _active._state != "running" or _active._is_inherited:
        return
    if _active._cycles is not None:
        _active._cycles.abandon()
    else:
        _active._abandon()


def active() -> profile | None:
    """Return the outermost `cudalens.profile` that is running, on any thread, or None."""
    return _active


# The critical sections of a profile: Ctrl-C while one of them runs is raised when it has ended.
for _critical in (profile.__enter__, profile.__exit__, _Call.__enter__, _Call.__exit__):
    defers_interrupts("profile")(_critical)
