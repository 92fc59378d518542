"""Run collectors side by side around a block of code, and keep the Traces of this process by name."""

from __future__ import annotations

import time
import warnings
from asyncio import CancelledError
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from cudalens.frames import Problem
from cudalens.frames.build import merge_frames
from cudalens.frames.info import Status

if TYPE_CHECKING:
    import pandas as pd

    from cudalens.frames import Trace


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


# The runs of this process: their Traces by name.

#: Default limit of all runs together, bytes: some ten million events.
_MAX_BYTES: Final = 4 << 30


class _Kept(NamedTuple):
    """A run and the bytes of its frames."""

    trace: Trace
    num_bytes: int


class Runs:
    """The Traces of this process by name, oldest first. A name used again replaces its Trace and moves to the end.

    A run stays in memory until ``del runs[name]`` or ``runs.clear()``, or until all runs together have more than
    `max_bytes`: then the oldest are dropped, with a warning that names them. The last run always stays.
    ``profile(keep=False)`` adds none.

    Attributes:
        max_bytes: The most bytes that the frames of all runs may have; None for no limit.
    """

    def __init__(self, max_bytes: int | None = _MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        #: One dict, so that each change of it, by any thread, leaves a valid state: an interrupt may come between
        #: two of them, also between the end of a ``with lock`` and the lock's release.
        self._kept: dict[str, _Kept] = {}

    def add(self, trace: Trace) -> Trace:
        """Keep `trace` under its name, as the last one; returns it.

        Warns:
            UserWarning: Older runs were dropped.
        """
        name = trace.info.name
        kept = _Kept(trace, _num_bytes(trace))
        self._kept.pop(name, None)
        self._kept[name] = kept
        dropped = self._drop_oldest()
        if dropped:
            names = ", ".join(map(repr, dropped[:5])) + (", …" if len(dropped) > 5 else "")
            warnings.warn(
                f"cudalens.runs dropped {len(dropped)} of its oldest runs ({names}): all together had more than "
                f"cudalens.runs.max_bytes = {self.max_bytes:,}. Set it higher, or to None, to keep more.",
                UserWarning,
                stacklevel=2,
            )
        return trace

    def _drop_oldest(self) -> list[str]:
        """Drop the oldest runs, except the last one, until all together keep to `max_bytes`; returns their names."""
        kept = list(self._kept.items())
        excess = 0 if self.max_bytes is None else sum(one.num_bytes for _, one in kept) - self.max_bytes
        dropped: list[str] = []
        for name, one in kept[:-1]:
            if excess <= 0:
                break
            excess -= one.num_bytes
            if self._kept.pop(name, None) is not None:
                dropped.append(name)
        return dropped

    def clear(self) -> None:
        """Forget all runs."""
        self._kept.clear()

    @property
    def last(self) -> Trace:
        """The run that was added last.

        Raises:
            KeyError: There is none yet.
        """
        if not self._kept:
            raise KeyError("there is no run yet; profile something first")
        return self._kept[next(reversed(self._kept))].trace

    def __getitem__(self, name: str) -> Trace:
        try:
            return self._kept[name].trace
        except KeyError:
            known = ", ".join(map(repr, self._kept)) or "none"
            raise KeyError(f"there is no run {name!r}; there are: {known}") from None

    def __delitem__(self, name: str) -> None:
        del self._kept[name]

    def __contains__(self, name: object) -> bool:
        return name in self._kept

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._kept))

    def __len__(self) -> int:
        return len(self._kept)

    def keys(self) -> list[str]:
        """Names, oldest first."""
        return list(self._kept)

    def values(self) -> list[Trace]:
        """Traces, oldest first."""
        return [trace for _, trace in self.items()]

    def items(self) -> list[tuple[str, Trace]]:
        """Names and Traces, oldest first."""
        return [(name, kept.trace) for name, kept in list(self._kept.items())]

    def __repr__(self) -> str:
        if not self._kept:
            return "<cudalens.runs: none yet>"
        lines = [f"  {name!r}: {len(trace):,} events, {trace.info.status}" for name, trace in self.items()]
        return "\n".join([f"<cudalens.runs: {len(lines)}, oldest first>", *lines])


def _num_bytes(trace: Trace) -> int:
    """Bytes of the columns of `trace`; the texts of categories are counted once per column."""
    return sum(int(frame.memory_usage(index=False).sum()) for frame in trace.frames.values())


#: The runs of this process.
runs: Final = Runs()
