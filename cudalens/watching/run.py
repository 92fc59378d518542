"""The record of a watched run: its steps, the changes of their time, recordings; saved as a folder of bounded size."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from cudalens.errors import TraceFormatError
from cudalens.frames.files import atomic_write
from cudalens.frames.trace import Trace

HISTORY_NAME: Final = "watch.json"
_VERSION: Final = 1
_MOST_BYTES: Final = 32_000_000
_MOST_ROWS: Final = 1_000_000
_FILE: Final = re.compile(r"step-\d{1,12}\.cudalens")

#: Columns of the frame of steps that may be unknown; -1 in the file.
_NULLABLE: Final = ("elements", "allocated_bytes", "num_retries", "clock_mhz")
STEP_COLUMNS: Final = (
    "step", "num_steps", "ts", "dur", "max_dur", "data_ns", "elements", "allocated_bytes", "num_retries", "clock_mhz",
    "is_recorded",
)  # fmt: skip


class WatchedChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change of the step time.

    Attributes:
        step: The first step after it.
        ts: Its start, ns on the clock of the run.
        before_ns: Median step time before.
        after_ns: Median step time after.
        found_at: The step at which it was found.
        causes: What changed, most likely first; empty where it is not known (yet).
        kinds: The kinds of these causes.
    """

    step: int
    ts: int
    before_ns: float
    after_ns: float
    found_at: int
    causes: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()


class WatchedRecording(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Steps that the profiler recorded.

    Attributes:
        step: The first recorded step.
        num_steps: How many were recorded.
        ts: Its start, ns on the clock of the run.
        step_ns: Mean time of these steps, under the profiler.
        reason: Why it is kept.
        verdict: Its answer in one line.
        parts: Time of each part of a step, ns.
        findings: What costs time in it, a line each.
    """

    step: int
    num_steps: int
    ts: int
    step_ns: float
    reason: str
    verdict: str = ""
    parts: dict[str, float] = {}
    findings: tuple[str, ...] = ()

    @property
    def filename(self) -> str:
        """Name of its file in a folder."""
        return f"step-{self.step}.cudalens"


class WatchFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Facts of a watched run.

    Attributes:
        name: Name of the run.
        status: ``running``, ``ok``, ``raised`` or ``interrupted``.
        started_ns: When watching began, epoch ns.
        written_ns: When this was written, epoch ns.
        num_steps: Steps so far.
        source: How steps are found: ``optimizer``, ``dataloader``, ``module``, ``program``, or ``none``.
        clock: ``host``, ``device`` (CUDA events) or ``virtual: SPEC``, whose times are simulated.
        budget: Share of the time that watching may cost.
        cost: Share that it did cost, measured.
        num_recordings: Recordings that were made; not all are kept.
        rank: Rank of the process in a job; None without one.
        pid: Its process.
        gauges: Last readings of the GPU, by name.
        notes: What could not be done, a sentence each.
    """

    name: str
    status: str
    started_ns: int
    written_ns: int
    num_steps: int
    source: str
    clock: str
    budget: float
    cost: float
    num_recordings: int
    rank: int | None = None
    pid: int = 0
    gauges: dict[str, float | str] = {}
    notes: tuple[str, ...] = ()


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    facts: WatchFacts
    steps: dict[str, list[int]]
    changes: tuple[WatchedChange, ...]
    recordings: tuple[WatchedRecording, ...]


@dataclass(frozen=True)
class WatchedRun:
    """All that is known of a watched run.

    Attributes:
        facts: What ran, and what watching cost.
        columns: Integer columns of the steps, by name, as `STEP_COLUMNS`.
        changes: Changes of the step time, oldest first.
        recordings: The recordings that are kept, oldest first.
        traces: The Traces of the recordings that are in memory, by first step.
        folder: Where the other Traces are; None if there are none.
    """

    facts: WatchFacts
    columns: Mapping[str, Any]
    changes: tuple[WatchedChange, ...] = ()
    recordings: tuple[WatchedRecording, ...] = ()
    traces: Mapping[int, Trace] = field(default_factory=dict)
    folder: Path | None = None

    def steps(self) -> pd.DataFrame:
        """A row per step; older steps, and steps that are too short to be timed one by one, in groups of ``num_steps``.

        Columns: ``step``, number of the first; ``num_steps``; ``ts``, start, ns; ``dur`` and ``max_dur``, mean and
        longest time (of steps that were timed together their mean), ns; ``data_ns``, time waiting for a DataLoader, ns;
        ``elements`` of the batch and ``allocated_bytes``, ``num_retries`` of the allocator so far and ``clock_mhz`` of
        the GPU (Int64, missing where unknown); ``is_recorded``: the profiler ran.
        """
        found: dict[str, Any] = {name: np.asarray(self.columns[name], np.int64) for name in STEP_COLUMNS}
        for name in _NULLABLE:
            found[name] = pd.arrays.IntegerArray(found[name], found[name] < 0)
        found["is_recorded"] = found["is_recorded"] > 0
        return pd.DataFrame(found)

    def trace(self, recording: WatchedRecording) -> Trace:
        """Return the Trace of one recording.

        Raises:
            TraceFormatError: Its file is missing or damaged.
        """
        if recording.step in self.traces:
            return self.traces[recording.step]
        if self.folder is None:
            raise TraceFormatError(recording.filename, found="no Trace", expected="a recording that is kept")
        return Trace.load(self.folder / recording.filename)


def write_history(run: WatchedRun, folder: Path) -> None:
    """Write facts, steps, changes and the list of recordings to `folder`; the Traces are files of their own.

    Raises:
        OutputError: The file cannot be written; an existing one is unchanged.
    """
    with atomic_write(folder / HISTORY_NAME) as file:
        file.write(encode_history(run))


def is_watched(path: str | os.PathLike[str]) -> bool:
    """Return whether `path` is a folder with the history of a watched run."""
    return (Path(path) / HISTORY_NAME).is_file()


def read_watched(folder: str | os.PathLike[str]) -> WatchedRun:
    """Read the folder of a watched run; the Traces of its recordings are read on use.

    Raises:
        TraceFormatError: There is no history in it, or it is damaged.
    """
    path = Path(folder) / HISTORY_NAME
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise TraceFormatError(path, found=error.strerror or "an error", expected="the history of a run") from error
    if len(data) > _MOST_BYTES:
        raise TraceFormatError(path, found="more than 32 MB", expected="the history of a run")
    return decode_history(data, Path(folder), path)


def encode_history(run: WatchedRun) -> bytes:
    """Return the history as bytes, without Traces."""
    steps = {name: [int(value) for value in run.columns[name]] for name in STEP_COLUMNS}
    return msgspec.json.encode(_File(_VERSION, run.facts, steps, run.changes, run.recordings))


def decode_history(data: bytes, folder: Path | None, path: str | os.PathLike[str] = HISTORY_NAME) -> WatchedRun:
    """Return the run of a history.

    Raises:
        TraceFormatError: It is damaged.
    """
    try:
        found = msgspec.json.decode(data, type=_File)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TraceFormatError(path, found=str(error), expected="the history of a run") from None
    lengths = {len(values) for values in found.steps.values()}
    if set(found.steps) != set(STEP_COLUMNS) or len(lengths) != 1 or max(lengths) > _MOST_ROWS:
        raise TraceFormatError(path, found="other columns of steps", expected=", ".join(STEP_COLUMNS))
    if found.version != _VERSION:
        raise TraceFormatError(path, found=f"version {found.version}", expected=f"version {_VERSION}")
    kept = tuple(one for one in found.recordings if one.step >= 0 and _FILE.fullmatch(one.filename))
    try:
        columns = {name: np.array(values, np.int64) for name, values in found.steps.items()}
    except OverflowError:
        raise TraceFormatError(path, found="a number beyond 64 bits", expected="integers") from None
    return WatchedRun(found.facts, columns, found.changes, kept, folder=folder)
