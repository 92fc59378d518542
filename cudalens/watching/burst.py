"""Short recordings of a watched run: started and stopped between two steps, built into Traces on another thread."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field

from cudalens.api.recorder import Recorder
from cudalens.api.session import OK, Session
from cudalens.device import clock
from cudalens.frames import Trace
from cudalens.profiler import ProfilerOptions, kineto
from cudalens.watching.causes import of_steps


@dataclass
class Recorded:
    """Recorded steps, before and after their frames are built.

    Attributes:
        step: The first recorded step.
        num_steps: How many were recorded.
        ts: Start on the clock of the run, ns.
        clock_ns: Time of these steps on the clock of the run, ns; None if it is not known for all of them.
        step_ns: Mean time of a step, ns.
        is_requested: Whether the user asked for it.
        is_after_change: Whether it is the first after a change.
        recorder: What recorded it; None once the Trace is built.
        trace: The Trace; None before, and where it is in a file.
        num_bytes: Size of its frames, or of its file.
        verdict: Its answer in one line; empty until it is shown.
        parts: Time of each part of a step, ns.
        findings: What costs time in it, a line each; empty until they are shown.
    """

    step: int
    num_steps: int
    ts: int
    clock_ns: int | None = None
    step_ns: int = 0
    is_requested: bool = False
    is_after_change: bool = False
    recorder: Recorder | None = None
    trace: Trace | None = None
    num_bytes: int = 0
    verdict: str = ""
    parts: dict[str, float] = field(default_factory=dict)
    findings: tuple[str, ...] = ()


class Burst:
    """Records some steps with torch's profiler; ends at once if other code wants the profiler.

    Args:
        num_steps: How many to record.
        is_requested: Whether the user asked for it.
        is_after_change: Whether it is the first after a change.

    Attributes:
        is_prepared: Whether the profiler is ready to record.
        is_on: Whether it records.
        recorded: What it records.
    """

    def __init__(self, num_steps: int, *, is_requested: bool, is_after_change: bool) -> None:
        self.recorded = Recorded(-1, num_steps, 0, is_requested=is_requested, is_after_change=is_after_change)
        self.is_prepared = self.is_on = False
        self._times: list[int] = []
        self._recorder = Recorder(ProfilerOptions(), metrics=False, syncs=False)
        self._recorder.profiler.skips_earlier_work = True
        self._session: Session | None = None
        self._room = ExitStack()

    @staticmethod
    def is_possible() -> bool:
        """Return whether no other profiler is running."""
        return not kineto.is_busy()

    def prepare(self) -> None:
        """Make the profiler ready, which can take so long that the device finishes its work.

        Raises:
            ProfilerError: torch's profiler cannot start.
        """
        self._recorder.profiler.prepare()
        self.is_prepared = True
        self._room.enter_context(kineto.ending_for_other_profilers(self.drop))

    def start(self, step: int) -> None:
        """Begin with step `step`.

        Raises:
            ProfilerError: torch's profiler cannot start.
        """
        self._room.close()
        self.recorded.step, self.is_prepared = step, False
        session = self._recorder.new_session()
        session.start()
        self._session, self.is_on = session, True
        self._room.enter_context(kineto.ending_for_other_profilers(self.drop))
        self._recorder.begin()
        self._recorder.session = session
        self.recorded.ts = clock.now_ns()
        self._recorder.steps.step(self.recorded.step)

    def end_step(self, step: int) -> bool:
        """Step `step` has ended; returns whether the recording is complete, and stopped."""
        if step + 1 < self.recorded.step + self.recorded.num_steps:
            self._recorder.steps.step(step + 1)
            return False
        self._stop()
        self.recorded.recorder = self._recorder
        return True

    def has(self, step: int) -> bool:
        """Return whether step `step` is one of those that it records."""
        first = self.recorded.step
        return first >= 0 and 0 <= step - first < self.recorded.num_steps

    def note_time(self, dur: int) -> None:
        """The next of its steps took `dur` ns on the clock of the run."""
        self._times.append(dur)
        if len(self._times) == self.recorded.num_steps:
            self.recorded.clock_ns = sum(self._times)

    def drop(self) -> None:
        """Stop, and discard what was recorded. No effect if it neither records nor is prepared."""
        if self.is_on:
            self._stop()
        elif self.is_prepared:
            self.is_prepared = False
            self._room.close()
            self._recorder.profiler.drop()

    def _stop(self) -> None:
        session, self._session, self.is_on = self._session, None, False
        self._room.close()
        if session is not None:
            self._recorder.stop(session)


def build(recorded: Recorded, name: str) -> Trace:
    """Build the Trace of `recorded`; takes a few hundred milliseconds, on any thread.

    Raises:
        ProfilerError: torch's profiler returned nothing.
    """
    assert recorded.recorder is not None
    trace = of_steps(recorded.recorder.build(f"{name} step {recorded.step}", OK), recorded.clock_ns)
    recorded.recorder, recorded.trace = None, trace
    recorded.num_bytes = sum(int(frame.memory_usage(index=False).sum()) for frame in trace.frames.values())
    return trace
