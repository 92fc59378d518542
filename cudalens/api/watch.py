"""`watch`: follow a running loop: step times, short recordings, what changed. `step`: end a step of what records."""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

import pandas as pd

from cudalens.analysis.findings import findings
from cudalens.api import profile as profiles
from cudalens.api.session import OK, Outcome
from cudalens.device.interrupts import DeferredInterrupts, defers_interrupts
from cudalens.errors import WatchError
from cudalens.frames import Trace, store
from cudalens.views.sections.verdict import verdict
from cudalens.watching.burst import Recorded, build
from cudalens.watching.causes import step_parts
from cudalens.watching.change_detector import Shift
from cudalens.watching.changes import Changes
from cudalens.watching.loop import Budget, WatchLoop
from cudalens.watching.run import WatchedRecording, WatchedRun, WatchFacts, encode_history
from cudalens.watching.step_finder import Source, StepFinder
from cudalens.watching.worker import RecordingStore, WatchFolder, WatchServer, WatchWorker

if TYPE_CHECKING:
    from cudalens.watching.record import WatchRecord


DEFAULT_BUDGET: Final = 0.02
_MOST_BUDGET: Final = 0.5
_MOST_FINDINGS: Final = 3
_numbers: Final = itertools.count(1)

#: The watch that is on: hooks and torch's profiler belong to the whole process.
_active: Watch | None = None


def watch(
    name: str | None = None,
    *,
    budget: float = DEFAULT_BUDGET,
    folder: str | os.PathLike[str] | None = None,
    seed: int = 0,
) -> Watch:
    """Follow a loop while it runs: times of all steps, recordings of some, and what changed.

    Use it as a context manager, on the thread that runs the loop::

        with cudalens.watch() as w:
            for _ in range(20):
                torch.ones(8, 8).sum()
                w.step()  # not needed where an optimizer, a DataLoader or a module is called
        print(w.summary())

    Steps are found without a change of the code: steps of optimizers, else batches of a DataLoader, else calls of the
    outermost nn.Module, else calls of ``w.step()``. Some steps are recorded by torch's profiler, at most three at a
    time and at most 50 ms, as often as the budget allows. Steps are not recorded while another profiler runs.

    Times are those of the GPU (CUDA events), of the virtual device, or of the host. Memory, files and cost are bounded.

    Args:
        name: Name of the run; by default ``watch-<number>``.
        budget: Share of the loop's time that watching may cost, 0.001 to 0.5.
        folder: Also write the history and the recordings that are kept there, for `cudalens.load`; created if absent.
            Ranks of a job (``RANK`` is set) may share it: each writes into a folder of its own in it.
        seed: Of the random sample of recordings.

    Raises:
        ValueError: `budget` is out of range.
        OutputError: The folder cannot be created.
    """
    if not 0.001 <= budget <= _MOST_BUDGET:
        raise ValueError(f"budget is {budget!r}, expected a share of 0.001 to {_MOST_BUDGET}, such as 0.02 for 2 %")
    written = None
    if folder is not None:
        rank = _rank_of_process()
        written = WatchFolder(Path(folder) if rank is None else Path(folder) / f"rank-{rank}")
    return Watch(name or f"watch-{next(_numbers)}", budget, written, seed)


def active() -> Watch | None:
    """Return the watch that is on, or None."""
    return _active


class Watch:
    """A watched run; made by `watch`.

    Its end has three methods. `stop` is called on the loop's thread outside of hooks, and also removes the hooks.
    `request_stop` is called on any thread, and lets the end of the current step stop. Hooks cannot be removed there,
    because torch may be iterating over them: `_end` stops everything else.

    Attributes:
        name: Name of the run.
    """

    def __init__(self, name: str, budget: float, folder: WatchFolder | None, seed: int) -> None:
        self.name = name
        self._budget = Budget(budget)
        self._folder, self._store = folder, RecordingStore[Recorded](seed=seed)
        self._changes = Changes()
        self._loop = WatchLoop(self._budget, self._queue_recording, self._add_change)
        self._finder = StepFinder(self._end_step)
        self._worker = WatchWorker(self._publish, self._note_failure, self._budget.add_thread, self._budget.add_shown)
        self._server = WatchServer(
            {
                "state": lambda: encode_history(self.run),
                "trace": self._last_trace_bytes,
                "record": self._answer_record,
                "stop": self._answer_stop,
            },
            self._budget.add_shown,
        )
        self._interrupts = DeferredInterrupts("watch")
        self._outcome = Outcome("ok")
        self._state = "new"
        self._started_ns = time.time_ns()
        self._lock = threading.Lock()
        self._listeners: list[Callable[[Watch], object]] = []
        self._stop_requested = False

    @property
    def is_on(self) -> bool:
        """Whether it watches."""
        return self._state == "running"

    @property
    def is_building(self) -> bool:
        """Whether the frames of a recording are being built; nothing is recorded then."""
        return self._loop.is_building

    @defers_interrupts("watch")
    def start(self) -> Watch:
        """Begin to watch the calling thread. An interrupt during the start is raised after it, and undoes it.

        Raises:
            WatchError: Another watch is on, or this one has been used.
        """
        global _active
        if self._state != "new":
            raise WatchError("a watch can be used only once; make another with cudalens.watch().")
        if _active is not None:
            raise WatchError(f"{_active.name!r} is already watching this process; stop it first.")
        self._interrupts.install()
        try:
            self._state, _active, self._started_ns = "running", self, time.time_ns()
            self._loop.gauges.start()
            self._worker.start()
            if (problem := self._server.start()) is not None:
                self._loop.note(problem)
            self._loop.pause()
            self._finder.start()
            return self._interrupts.deliver(self)
        except BaseException:
            self.stop()
            raise

    @defers_interrupts("watch")
    def stop(self, error: BaseException | None = None) -> None:
        """End watching; can be called twice.

        Args:
            error: The exception that ended the loop, for the status of the run.
        """
        self._finder.stop()
        if self._state == "running":
            self._end(error)
        self._interrupts.remove()
        self._interrupts.deliver()

    @defers_interrupts("watch")  # `stop` defers them already; `_end_step`, which calls it too, does not
    def _end(self, error: BaseException | None) -> None:
        global _active
        self._finder.ignore()
        self._loop.drop_burst()  # a burst is a short recording of a few steps: the one that runs is discarded
        self._loop.gauges.stop()
        self._outcome, self._state = (OK if error is None else Outcome.of(error)), "done"
        if _active is self:
            _active = None
        self._server.stop()
        self._worker.stop()

    def step(self) -> None:
        """End a step, in loops in which steps are not found; then only these are steps.

        No effect once watching has ended: a viewer may end it while the loop goes on.

        Raises:
            WatchError: The watch has not begun.
        """
        if self._state == "new":
            raise WatchError("step() was called before the watch began; call it inside of `with cudalens.watch()`.")
        if self._state == "running":
            self._finder.mark()

    def record(self) -> None:
        """Record the next steps, also beyond the budget. May be called from any thread."""
        self._loop.wants_recording = True

    def request_stop(self) -> None:
        """Stop at the end of the current step. May be called from any thread."""
        self._stop_requested = True

    def pause(self) -> None:
        """End a cell of a notebook: the time until `resume` is not part of a step."""
        self._loop.pause()
        self._interrupts.remove()
        self._interrupts.deliver()

    def resume(self) -> None:
        """Begin a cell of a notebook. Each cell has its own handler of interrupts."""
        self._interrupts.install()
        self._loop.pause()  # again: the time since the last cell is not part of a step, either

    def on_tick(self, listener: Callable[[Watch], object]) -> None:
        """Call `listener` twice a second on a thread of cudalens, and at the end."""
        self._listeners.append(listener)

    @property
    def steps(self) -> pd.DataFrame:
        """A row per step, as `cudalens.watching.run.WatchedRun.steps` defines it."""
        return self._read_run(with_verdicts=False).steps()

    @property
    def traces(self) -> list[Trace]:
        """The Traces of the recordings that are kept, oldest first."""
        run = self._read_run(with_verdicts=False)
        return [run.trace(recording) for recording in run.recordings]

    @property
    def changes(self) -> pd.DataFrame:
        """A row per change of the step time, as `cudalens.watching.run.WatchedChange` defines its columns."""
        names = ("step", "ts", "before_ns", "after_ns", "found_at", "causes")
        rows = [[getattr(change, name) for name in names] for change in self._changes.found]
        return pd.DataFrame(rows, columns=names)

    @property
    def cost(self) -> float:
        """What watching has cost, as a share of the time that the loop would have taken without it."""
        return self._budget.cost_share

    def summary(self) -> WatchRecord:
        """The run so far: prints as text, shows as pictures and tables in a notebook; ``to_html`` writes a page."""
        from cudalens.watching.record import WatchRecord

        return WatchRecord(self.run)

    @property
    def run(self) -> WatchedRun:
        """The run so far, with verdicts and findings of its recordings."""
        return self._read_run(with_verdicts=True)

    def _read_run(self, *, with_verdicts: bool) -> WatchedRun:
        """Return the run so far; without verdicts, those (and findings) that were not computed yet may be missing."""
        with self._lock:
            kept, reasons, changes = self._store.kept, self._store.reasons(), self._changes.found
            traces = {recorded.step: recorded.trace for recorded in kept if recorded.trace is not None}
        recordings = []
        for recorded in kept:
            if with_verdicts:
                _add_verdict(recorded)
            recordings.append(
                WatchedRecording(
                    recorded.step,
                    recorded.num_steps,
                    recorded.ts,
                    recorded.step_ns,
                    reasons.get(id(recorded), "sample"),
                    recorded.verdict,
                    dict(recorded.parts),
                    recorded.findings,
                )
            )
        folder = self._folder.path if self._folder is not None else None
        return WatchedRun(self._facts(), self._loop.history.columns(), changes, tuple(recordings), traces, folder)

    def _facts(self) -> WatchFacts:
        loop = self._loop
        notes = [*loop.notes, *(self._folder.notes if self._folder is not None else ())]
        return WatchFacts(
            name=self.name,
            status="running" if self.is_on else self._outcome.status,
            started_ns=self._started_ns,
            written_ns=time.time_ns(),
            num_steps=loop.num_steps,
            source=self._finder.source,
            clock=loop.clock_name,
            budget=self._budget.share,
            cost=self._budget.cost_share,
            num_recordings=loop.num_recordings,
            rank=_rank_of_process(),
            pid=os.getpid(),
            gauges=dict(loop.gauges.values),
            notes=tuple(notes),
        )

    def _end_step(self, source: Source) -> None:
        """Handle the end of a step, on the loop's thread. An error of cudalens ends watching, not the loop."""
        try:
            self._loop.end_step(self._finder.take_data(), self._finder.elements)
        except Exception as error:
            self._loop.note(f"watching ended: {type(error).__name__}: {error}")
            self._stop_requested = True
        self._interrupts.deliver()
        if self._stop_requested:
            self._end(None)

    def _queue_recording(self, recorded: Recorded) -> None:
        """Let the worker's thread build the frames of a recording."""

        def allow_recordings() -> None:
            self._loop.is_building = False

        self._loop.is_building = True
        self._worker.add(partial(self._build_recording, recorded))
        # A job of its own, because the CPU time of the first job is counted when it ends: the next recording is allowed
        # only once the cost of this one is known.
        self._worker.add(allow_recordings)

    def _build_recording(self, recorded: Recorded) -> None:
        """Build a recording, on the worker's thread."""
        trace = build(recorded, self.name)
        recorded.parts = step_parts(trace)
        recorded.step_ns = round(sum(recorded.parts.values()))
        if self._folder is not None:
            _add_verdict(recorded)  # its Trace is then in a file
        with self._lock:
            dropped = self._store.add(recorded)
            self._changes.add_recording(recorded, self._loop.history)
        if self._folder is not None:
            self._folder.keep(self._store.kept, dropped)

    def _add_change(self, shift: Shift) -> None:
        with self._lock:
            self._changes.add(shift, self._loop.history)

    def _publish(self) -> None:
        if self._folder is not None:
            self._folder.write(lambda: self.run, is_last=not self.is_on)
        for listener in list(self._listeners):
            listener(self)

    def _last_trace_bytes(self) -> bytes:
        """Return the file of the last recording; empty if there is none."""
        run = self._read_run(with_verdicts=False)
        if not run.recordings:
            return b""
        trace, file = run.trace(run.recordings[-1]), BytesIO()
        store.write(trace.info, dict(trace.frames), file)
        return file.getvalue()

    def _answer_record(self) -> bytes:
        self.record()
        return b"1"

    def _answer_stop(self) -> bytes:
        self.request_stop()
        return b"1"

    def _note_failure(self, error: Exception) -> None:
        self._loop.note(f"a recording could not be read: {type(error).__name__}: {error}")

    def _forget(self) -> None:
        """In a forked child: remove the hooks, and use no thread of the parent."""
        self._state = "done"
        self._finder.stop()
        self._worker.forget()
        self._server.forget()
        self._loop.gauges.forget()

    @defers_interrupts("watch")
    def __enter__(self) -> Watch:
        return self.start()

    @defers_interrupts("watch")
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        self.stop(error)

    def __repr__(self) -> str:
        """Name and state."""
        return f"<cudalens.watch {self.name!r}: {self._state}, {self._loop.num_steps:,} steps>"


def _add_verdict(recorded: Recorded) -> None:
    """Add the verdict and the findings to a recording. This takes tens of milliseconds: only once they are shown."""
    if recorded.verdict or recorded.trace is None:
        return
    try:
        recorded.findings = tuple(str(finding) for finding in findings(recorded.trace, most=_MOST_FINDINGS))
        recorded.verdict = verdict(recorded.trace)
    except Exception as error:  # what shows the run goes on, a viewer's thread for example
        recorded.verdict = f"the recording could not be read: {type(error).__name__}: {error}"


def _rank_of_process() -> int | None:
    text = os.environ.get("RANK", "")
    return int(text) if text.isdecimal() else None


def _after_fork() -> None:
    global _active
    inherited, _active = _active, None
    if inherited is not None:
        inherited._forget()


@atexit.register
def _stop_at_exit() -> None:
    if _active is not None:
        _active.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# `step`: end a step of what is recorded, where no object of it is at hand.


def step() -> None:
    """End a step of the profile and of the watch that are on.

    In a cell with a magic there is no object to call::

        %%cudawatch
        for _ in range(20):
            torch.ones(8, 8).sum()
            cudalens.step()

    It calls `profile.step` of the outermost profile and `Watch.step`. No effect where nothing is on, so that the line
    can stay in a loop.

    Raises:
        ProfilerError: A cycle of the profile's schedule cannot begin.
    """
    if (running := profiles.active()) is not None:
        running.step()
    if (watching := active()) is not None:
        watching.step()
