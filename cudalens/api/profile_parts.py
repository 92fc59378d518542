"""Parts of `profile`: one call of a decorated function, one cycle of a schedule, checks of options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudalens.profiler import kineto
from cudalens.profiler.schedules import check_schedule

if TYPE_CHECKING:
    from cudalens.api.profile import profile
    from cudalens.frames import Trace


class ProfiledCall:
    """One profiled call of a decorated function; sets the Trace of the decorator at its end."""

    def __init__(self, decorator: profile, call: profile) -> None:
        self._decorator, self._call = decorator, call

    def __enter__(self) -> None:
        self._call.__enter__()

    def __exit__(self, *exc: Any) -> None:
        try:
            self._call.__exit__(*exc)
        finally:
            self._decorator._outer = self._call


class ProfiledCycle:
    """One cycle of a schedule: a separate profile, whose Trace is added to those of the schedule."""

    def __init__(self, cycle: profile, traces: list[Trace]) -> None:
        self._profile, self._traces = cycle, traces

    def prepare(self) -> None:
        """Prepare the profiler; nothing is recorded yet."""
        self._profile._recorder.profiler.prepare()

    def drop(self) -> None:
        """Stop recording and discard the data."""
        self._profile._recorder.profiler.drop()
        self._profile._let_go()

    def begin(self) -> None:
        """Begin to record."""
        self._profile.__enter__()

    def mark(self, number: int) -> None:
        """Begin step `number` of the program."""
        self._profile._recorder.steps.step(number)

    def end(self, *exc: Any) -> None:
        """End recording; the Trace is added, then `on_trace` is called."""
        on_trace, self._profile._on_trace = self._profile._on_trace, None
        self._profile.__exit__(*exc)
        self._traces.append(self._profile.trace)
        if on_trace is not None:
            on_trace(self._profile.trace)


def check_device(use_device: str | None, *, cpu_only: bool) -> None:
    """Check the options that choose a device.

    Raises:
        ValueError: There is no such kind of device, or the two contradict each other.
    """
    known = kineto.known_devices()
    if use_device is not None and use_device not in known:
        raise ValueError(f"use_device is {use_device!r}, expected None or one of {', '.join(known)}")
    if cpu_only and use_device not in (None, "cpu"):
        raise ValueError(f"cpu_only=True and use_device={use_device!r} exclude each other; leave one of them out")


def check_called(schedule: object, on_trace: object) -> None:
    """Check the options that are functions.

    Raises:
        TypeError: One cannot be called.
    """
    if schedule is not None:
        check_schedule(schedule)
    if on_trace is not None and not callable(on_trace):
        raise TypeError(f"on_trace is {type(on_trace).__name__}, expected a function that takes a Trace")
