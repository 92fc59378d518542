"""The collectors of one profile: start them, stop them, and build the Trace of what they recorded."""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING, Any

from cudalens.analysis import repaired
from cudalens.api.run_info import named_sources, run_info, with_cell_names
from cudalens.api.session import Outcome, Session
from cudalens.device.sampler import DEFAULT_HZ, MetricsCollector
from cudalens.device.stacks import file_label
from cudalens.device.syncs import SyncCollector
from cudalens.errors import ProfilerError
from cudalens.frames import Problem, Trace, empty_frame
from cudalens.frames.info import sources_to_extra
from cudalens.frames.syncs import CLOCK_SKEW_NS, LiveProgram, build_syncs
from cudalens.graphs.collector import GraphCollector
from cudalens.profiler import ProfilerCollector, ProfilerOptions, ranges
from cudalens.profiler.kineto import threads
from cudalens.profiler.ranges import GarbageRanges
from cudalens.sanitizer.live.sanitize import RaceCollector
from cudalens.virtual import context
from cudalens.virtual.profile.collector import VirtualCollector

if TYPE_CHECKING:
    import pandas as pd


class Recorder:
    """Everything that records one profiled block.

    Args:
        options: What torch's profiler records.
        metrics: Whether GPUs are sampled; a number is the rate in Hz.
        syncs: Whether the source line of every wait for the GPU is recorded.

    Attributes:
        profiler: The collector of torch's profiler.
        steps: The ranges of the profiler's steps.
        session: The running or finished session; None before `start` has succeeded.
        virtual: The collector of virtual devices.
    """

    def __init__(self, options: ProfilerOptions, *, metrics: bool | float, syncs: bool) -> None:
        self._options, self._metrics, self._records_syncs = options, metrics, syncs
        modelled_hz = None
        self._samples: MetricsCollector | None = None
        if metrics:
            modelled_hz = 0.0 if metrics is True else float(metrics)
            self._samples = MetricsCollector(DEFAULT_HZ if metrics is True else metrics)
        self.virtual = VirtualCollector(memory=options.memory, host_only=options.cpu_only, metrics_hz=modelled_hz)
        self.profiler = ProfilerCollector(options, self.virtual)
        self._races, self._graphs = RaceCollector(), GraphCollector()
        self._syncs = SyncCollector(is_wanted=syncs, now=self.virtual.now_ns)
        self._garbage = GarbageRanges(lambda: context.active() is None)
        self.steps = ranges.StepRanges()
        self.session: Session | None = None
        self._program_ended_ns: int | None = None

    def new_session(self) -> Session:
        """Return a session of all collectors, not started."""
        samples = [self._samples] if self._samples else []
        return Session([self.profiler, self.virtual, self._races, self._graphs, self._syncs, *samples, self._garbage])

    def begin(self) -> None:
        """The collectors have started, and the program's code begins."""
        self.virtual.skip_host_time()

    def stop(self, session: Session) -> None:
        """Wait for the device, then stop every collector of `session`."""
        try:
            self.virtual.count_host_time()
            self.steps.close()
            self._syncs.settle()
            self.virtual.skip_host_time()
            self._program_ended_ns = self.virtual.now_ns()
            self.profiler.settle()
            self.virtual.settle()
        finally:
            session.stop()

    def build(
        self,
        name: str,
        outcome: Outcome,
        *,
        code: str | None = None,
        schedule: str | None = None,
        metadata: dict[str, str] | None = None,
    ) -> Trace:
        """Return the Trace of the finished session.

        Args:
            name: Name of the run.
            outcome: How the block ended.
            code: Source of the block.
            schedule: The schedule that the block is one cycle of, as text.
            metadata: What the program added, as `RunInfo.extra` holds it.

        Raises:
            ProfilerError: torch's profiler returned nothing.
        """
        session = self.session
        assert session is not None
        if session.started_ns is not None and session.ended_ns is not None:
            self.profiler.window = session.started_ns, session.ended_ns
        frames = session.frames()
        if "events" not in frames:
            problems = "; ".join(f"{problem.kind} ({problem.where})" for problem in session.problems)
            raise ProfilerError(f"nothing could be recorded: {problems}")
        frames |= self._waits(session, frames)
        frames |= with_cell_names(frames)
        window = {"started_ns": session.started_ns, "ended_ns": session.ended_ns}
        options: dict[str, Any] = dict(self._options.to_dict())
        if self._metrics:
            options["metrics"] = self._metrics
        if self._records_syncs:
            options["syncs"] = True
        if schedule:
            options["schedule"] = schedule
        info = run_info(
            name,
            outcome,
            **(window | self.profiler.facts() | self.virtual.facts()),
            build_s=session.build_s,
            start_s=session.start_s,
            stop_s=session.stop_s,
            options=options,
            num_steps=self.steps.num_steps or None,
            code=code,
            problems=(*session.problems, *self.profiler.problems, *self.virtual.problems, *self._unread()),
            judged=self._races.judged,
            extra=threads().to_extra()
            | self.virtual.extra()
            | sources_to_extra(named_sources(frames))
            | (metadata or {}),
        )
        return _checked(Trace(info, **frames))

    def _waits(self, session: Session, frames: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        """Return the ``syncs`` frame, from the runtime calls among the events and from the recorded source lines."""
        skew_ns = 0 if self.virtual.facts() else CLOCK_SKEW_NS
        around = LiveProgram(file_label, linecache.getline, self._program_ended_ns, skew_ns, self._syncs.own_work)
        try:
            return build_syncs(frames, around)
        except Exception as error:  # the rest of the Trace is kept
            session.problems.append(Problem("waits for the GPU were not found", 1, f"{type(error).__name__}: {error}"))
            return {"syncs": empty_frame("syncs")}

    def _unread(self) -> tuple[Problem, ...]:
        """Problems of reading the real GPUs; none where a virtual device replaces them."""
        return () if self._samples is None or self.virtual.facts() else self._samples.problems


def _checked(trace: Trace) -> Trace:
    """`trace`, checked and repaired; unchanged and with a problem where the check fails."""
    try:
        return repaired(trace)
    except Exception as error:  # the Trace is kept
        problem = Problem("how far to trust it was not checked", 1, f"{type(error).__name__}: {error}")
        return trace.replace(info=trace.info.replace(problems=(*trace.info.problems, problem)))
