"""The profiler as a collector: start, stop, and frames from what it recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pandas as pd

from cudalens.frames import (
    GPU_CATEGORIES,
    RUNTIME_CATEGORIES,
    Problem,
    RawRows,
    build_events,
    build_memory,
    categorical,
    is_category,
)
from cudalens.frames.build import no_garbage_collection
from cudalens.frames.column_arrays import integers
from cudalens.frames.limits import Problems
from cudalens.profiler import columns, kineto, launches, own_rows
from cudalens.profiler.kineto import KinetoSession, ProfilerOptions, synchronize
from cudalens.profiler.own_rows import (
    within_window,
    without_earlier_work,
    without_own_dispatch,
    without_own_threads,
)


class Overlay(Protocol):
    """Adds the rows of a device that torch's profiler does not see, on a clock of its own."""

    @property
    def hides_cuda(self) -> bool:
        """Whether what torch calls CUDA now is not a GPU that Kineto could watch."""

    def lay_over(self, host: RawRows) -> RawRows:
        """The rows of the run, from those that torch's profiler recorded; `host` itself if there is nothing to add."""


class ProfilerCollector:
    """Runs torch's profiler between `start` and `stop`.

    Args:
        options: What is recorded.
        overlay: Adds rows that torch's profiler does not record; None for nothing to add.

    Attributes:
        options: What is recorded.
        session: The torch profiler behind it, once started.
        raw: torch's raw results, once stopped.
        uses_cuda: Whether a device's work is recorded.
        device: The kind of that device, as torch names it; None for the host alone.
        problems: What is missing from the frames, once they are built.
        skips_earlier_work: Whether device work that was launched before the start is left out.
        window: Start and end of the measured block, ns on the clock of the events; None if they are not known.
    """

    name = "profiler"

    def __init__(self, options: ProfilerOptions | None = None, overlay: Overlay | None = None) -> None:
        self.options = options or ProfilerOptions()
        self._overlay = overlay
        self.session: KinetoSession | None = None
        self._prepared: KinetoSession | None = None
        self.device: str | None = None
        self.raw: Any = None
        self._rows: tuple[RawRows, dict[int, int], Problems] | None = None
        self.uses_cuda = self.skips_earlier_work = False
        self.window: tuple[int, int] | None = None
        self.problems: tuple[Problem, ...] = ()

    @property
    def _watches_cuda(self) -> bool:
        return self._overlay is None or not self._overlay.hides_cuda

    def prepare(self) -> None:
        """Make the profiler ready, so that `start` is quick; `start`, or `drop`, follows.

        Raises:
            ProfilerBusyError: Another profiler is running; nothing was touched.
            ProfilerError: torch refused.
        """
        session = KinetoSession(self.options, watches_cuda=self._watches_cuda)
        session.prepare()
        self._prepared = session

    def drop(self) -> None:
        """Undo `prepare`; does nothing if nothing is prepared."""
        session, self._prepared = self._prepared, None
        if session is not None and session.is_prepared:
            session.start()
            session.stop()

    def start(self) -> None:
        """Turn the profiler on.

        Raises:
            ProfilerBusyError: Another profiler is running; nothing was touched.
            ProfilerError: torch refused.
        """
        session = KinetoSession(self.options, watches_cuda=self._watches_cuda)
        if self._prepared is not None and self._prepared.device == session.device:
            session, self._prepared = self._prepared, None
        else:  # a virtual device has come or gone since
            self.drop()
        session.start()
        self.session, self.uses_cuda = session, session.uses_cuda
        self.device = session.device

    def settle(self) -> None:
        """Wait for the GPU to finish what the block launched, so that the block's window holds it."""
        if self.device is not None:
            synchronize(self.device)

    def stop(self) -> None:
        """Turn the profiler off and keep its raw results; does nothing when it is not on."""
        session, self.session = self.session, None
        if session is not None:
            self.raw = session.stop()

    def frames(self) -> dict[str, pd.DataFrame]:
        """Return the events, memory and stacks frames of the raw results."""
        rows, threads, damage = self._rows or self._read()
        if self.window is not None:
            rows = within_window(rows, *self.window)
        frames = _frames_of(
            rows, threads, self.options, overlay=self._overlay, skips_earlier_work=self.skips_earlier_work
        )
        missing = _missing(frames["events"]) if self.device == "cuda" else ()
        self.problems = (*missing, *damage.to_tuple())
        return frames

    def release_raw(self) -> None:
        """Read the raw results now, and release them: they take many times the memory of the rows that are kept."""
        self._rows = self._read()
        self.raw = None

    def _read(self) -> tuple[RawRows, dict[int, int], Problems]:
        damage = Problems()
        with no_garbage_collection():
            rows, threads = _read_rows(self.raw, self.options, damage, uses_cuda=self.uses_cuda)
        return rows, threads, damage

    def facts(self) -> dict[str, Any]:
        """Fields of `RunInfo`: the source and the devices."""
        return {"source": self.device or "cpu", "devices": kineto.devices(uses_cuda=self.device == "cuda")}


def build_frames(
    raw: Any,
    options: ProfilerOptions,
    problems: Problems,
    *,
    uses_cuda: bool,
    overlay: Overlay | None = None,
    skips_earlier_work: bool = False,
) -> dict[str, pd.DataFrame]:
    """Frames from torch's raw results: the one step between the profiler and a Trace.

    Args:
        raw: torch's `_ProfilerResult`.
        options: What the run recorded.
        problems: Where values that cannot be used are counted; all others are kept.
        uses_cuda: Whether GPU work was recorded.
        overlay: Adds rows that torch's profiler does not record; None for nothing to add.
        skips_earlier_work: Leave out device work that was launched before the profiler started.
    """
    with no_garbage_collection():
        rows, threads = _read_rows(raw, options, problems, uses_cuda=uses_cuda)
    return _frames_of(rows, threads, options, overlay=overlay, skips_earlier_work=skips_earlier_work)


def _read_rows(
    raw: Any, options: ProfilerOptions, problems: Problems, *, uses_cuda: bool
) -> tuple[RawRows, dict[int, int]]:
    """Return the rows of torch's raw results, and the numbers of their threads."""
    found = columns.read(raw, options, problems, uses_cuda=uses_cuda)
    if uses_cuda:
        found.columns |= launches.launch_columns(raw, found.columns, problems)
    rows = RawRows(found.columns, found.is_async, launches.memory_columns(raw, found.memory, problems))
    return without_own_dispatch(without_own_threads(rows)), found.thread_numbers


def _frames_of(
    rows: RawRows,
    thread_numbers: dict[int, int],
    options: ProfilerOptions,
    *,
    overlay: Overlay | None,
    skips_earlier_work: bool,
) -> dict[str, pd.DataFrame]:
    with no_garbage_collection():
        if skips_earlier_work:
            rows = without_earlier_work(rows)
        if overlay is not None:
            rows = _labelled(overlay.lay_over(rows))
        events = build_events(
            rows.events, async_mask=rows.async_mask, parent=rows.parent, thread_numbers=thread_numbers
        )
        frames = {"events": events}
        frames |= own_rows.python_columns(events, options, thread_numbers)
        if rows.memory is not None:
            frames["memory"] = build_memory(rows.memory, events)
    return frames


def _labelled(rows: RawRows) -> RawRows:
    """`rows` with the label of its thread on rows that have only the number of the thread, as those of an overlay."""
    if "tid" not in rows.events or "thread" not in rows.events:  # nothing was recorded
        return rows
    tid = integers(rows.events["tid"])
    labels: pd.Categorical = rows.events["thread"]
    codes = labels.codes.astype(np.int32)
    named, bare = np.flatnonzero((codes >= 0) & (tid >= 0)), np.flatnonzero((codes < 0) & (tid >= 0))
    threads, first = np.unique(tid[named], return_index=True)
    if not len(threads) or not len(bare):
        return rows
    at = np.minimum(np.searchsorted(threads, tid[bare]), len(threads) - 1)
    codes[bare] = np.where(threads[at] == tid[bare], codes[named[first[at]]], -1)
    return replace(rows, events=rows.events | {"thread": categorical(codes, list(labels.categories))})


def _missing(events: pd.DataFrame) -> tuple[Problem, ...]:
    """The problem of a CUDA run without a single row from CUPTI: the stop itself synchronizes, which leaves one."""
    if is_category(events["cat"].array, (*GPU_CATEGORIES, *RUNTIME_CATEGORIES)).any():
        return ()
    where = "CUPTI gave nothing; another tool (nsys, ncu, another profiler) may hold it. The CPU part is complete"
    return (Problem("no GPU activity was recorded", 1, where),)
