"""Run collectors side by side around a block of code and merge their frames."""

from __future__ import annotations

import time
from asyncio import CancelledError
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from cudalens.frames import Problem
from cudalens.frames.build import merge_frames
from cudalens.frames.info import Status

if TYPE_CHECKING:
    import pandas as pd


class Outcome(NamedTuple):
    """How a block of code ended.

    Attributes:
        status: ``ok``, ``raised`` or ``interrupted``.
        error: The exception's type and the first line of its message, or None.
    """

    status: Status = "ok"
    error: str | None = None

    @classmethod
    def of(cls, error: BaseException | None) -> Outcome:
        """Return the outcome of a block that ended with `error`, or with None.

        A cancelled coroutine counts as interrupted: ipykernel interrupts a cell that awaits by cancelling it.
        """
        if error is None:
            return cls()
        is_interrupt = isinstance(error, KeyboardInterrupt | CancelledError)
        text = str(error).strip().partition("\n")[0]
        line = f"{type(error).__name__}: {text}" if text else type(error).__name__
        return cls("interrupted" if is_interrupt else "raised", line)


#: The outcome of a block that ended without an exception.
OK: Final = Outcome()


class Collector(Protocol):
    """Anything that records between `start` and `stop` and returns frames.

    Attributes:
        name: What messages call it.
    """

    name: str

    def start(self) -> None:
        """Begin to record. If it raises, nothing is left running."""

    def stop(self) -> None:
        """End recording. Called once after each successful start, also when the block raised."""

    def frames(self) -> dict[str, pd.DataFrame]:
        """Return what was recorded, by frame name."""


class Session:
    """Runs collectors side by side: starts them in order, stops them in reverse, and merges what they found.

    A collector that fails becomes a `Problem`, and the frames of the others are kept. Only the first collector must
    start: its exception is raised before any other collector is started.

    Attributes:
        problems: What failed, for the run info.
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
            ProfilerError: The first collector did not start. Any other exception of a failing start passes through.
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
        """Stop every collector, in reverse order. An exception of one does not keep the others from stopping."""
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
        """Return the merged frames: the first collector with a frame of a name provides it; stacks are concatenated."""
        begin = time.perf_counter()
        merged: dict[str, pd.DataFrame] = {}
        for collector in self._stopped:
            try:
                merged = merge_frames(merged, collector.frames())
            except Exception as error:
                self._note(collector, "read", error)
        self.build_s = time.perf_counter() - begin
        return merged

    def _note(self, collector: Collector, act: str, error: Exception) -> None:
        self.problems.append(Problem(f"{collector.name} failed to {act}", 1, f"{type(error).__name__}: {error}"))
