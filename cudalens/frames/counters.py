"""Builds the frames of values over time: ``counters``, ``marks`` and ``metrics``, from values that a reader found."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.frames.catalog_frames import check_frame, column_array, columns_of, empty_frame, frame_of
from cudalens.frames.column_arrays import text_column
from cudalens.frames.info import Problem

_LIMIT = 1 << 62


class CounterValues:
    """Collects values of counters."""

    def __init__(self) -> None:
        self._ts, self._values, self._codes = array("q"), array("d"), array("q")
        self._code_of: dict[tuple[str, str | None, str | None, str | None], int] = {}

    def __len__(self) -> int:
        return len(self._ts)

    def add(
        self,
        ts: int,
        name: str,
        value: Any,
        *,
        series: str | None = None,
        process: str | None = None,
        unit: str | None = None,
    ) -> bool:
        """Keep one value; return False and keep nothing if it is not a number or its time is out of range."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not -_LIMIT < ts < _LIMIT:
            return False
        try:
            number = float(value)
        except OverflowError:
            return False
        self._ts.append(ts)
        self._values.append(number if math.isfinite(number) else math.nan)
        self._codes.append(self._code_of.setdefault((name, series, process, unit), len(self._code_of)))
        return True

    def to_frame(self, base: int = 0) -> pd.DataFrame:
        """Return the frame, by time; `base`, in ns, is added to the times."""
        if not self._ts:
            return empty_frame("counters")
        ts = np.array(self._ts, np.int64)
        order = np.argsort(ts, kind="stable")
        values = np.array(self._values, np.float64)[order]
        unknown = np.isnan(values)
        codes = np.array(self._codes, np.int64)[order]
        texts = dict(zip(("name", "series", "process", "unit"), zip(*self._code_of, strict=True), strict=True))
        arrays: dict[str, Any] = {name: text_column(column).take(codes) for name, column in texts.items()}
        arrays["ts"] = ts[order] + base
        arrays["value"] = pd.arrays.FloatingArray(np.where(unknown, 0, values), unknown)
        return frame_of("counters", {c.name: arrays[c.name] for c in columns_of("counters")})


#: Longest note that is kept, in characters.
MAX_NOTE = 500


def marks_frame(rows: Iterable[tuple[int, int, str]]) -> pd.DataFrame:
    """Return the marks `rows`, each a start in ns, a length in ns and a note, by time."""
    ordered = sorted(rows, key=lambda row: row[:2])
    ts, dur = (np.array([row[k] for row in ordered], np.int64) for k in (0, 1))
    notes = pd.Categorical([row[2][:MAX_NOTE].encode("utf-8", "replace").decode() for row in ordered])
    return check_frame("marks", pd.DataFrame({"ts": ts, "dur": dur, "note": notes}))


def metrics_frame(readings: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """Return the frame ``metrics``.

    Args:
        readings: By column of the catalog, a value per reading, None if unknown; absent columns are missing. In any
            order.

    Returns:
        The frame, in order of time, then of the device's number.
    """
    arrays = {c.name: column_array(readings[c.name], c.dtype) for c in columns_of("metrics") if c.name in readings}
    return frame_of("metrics", arrays).sort_values(["ts", "physical_index"], kind="stable", ignore_index=True)


# Records of collectives that torch's FlightRecorder wrote, by rank.

#: Name of the group of all ranks: torch numbers process groups as texts, in order of creation.
DEFAULT_GROUP: Final = "0"
#: How a process ended that raised no exception.
EXITED: Final = "exit"


@dataclass(frozen=True, slots=True)
class CallFrame:
    """A frame of a Python stack.

    Attributes:
        filename: The source file.
        line: Its line, from 1.
        name: The function.
    """

    filename: str
    line: int
    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """One collective, send or receive that one rank entered.

    Attributes:
        group: Name of the process group, the same on all ranks.
        description: Description of the group, as ``default_pg``.
        seq: Number of the collective in its group, from 1, the same on all ranks. Of a send or receive: its number
            among those from `pair[0]` to `pair[1]` in this dump, from 1.
        part: Number of the call among those with the same `seq`, from 0; coalesced collectives share a `seq`.
        op: What it is, as ``all_reduce``.
        backend: ``gloo``, ``nccl``; "" where unknown.
        input_sizes: Shapes of the inputs.
        output_sizes: Shapes of the outputs.
        input_dtypes: Types of the inputs, as the recorder spells them (``Float``).
        is_finished: Whether the recorder saw it end. A collective that raised counts as finished.
        created_ns: Time of the call in ns since 1970 on the clock of the rank's host.
        stack: The Python stack of the call, innermost first; empty where it was not recorded.
        pair: The rank that sends and the rank that receives; None for a collective.
        batch: Number on its rank of the sends and receives that were started together; 0 for a collective.
    """

    group: str
    description: str
    seq: int
    part: int
    op: str
    backend: str
    input_sizes: tuple[tuple[int, ...], ...]
    output_sizes: tuple[tuple[int, ...], ...]
    input_dtypes: tuple[str, ...]
    is_finished: bool
    created_ns: int
    stack: tuple[CallFrame, ...]
    pair: tuple[int, int] | None = None
    batch: int = 0

    @property
    def lane(self) -> str:
        """The group, and for a send or receive its direction: calls of one lane have comparable numbers."""
        return self.group if self.pair is None else f"{self.group} {self.pair[0]}->{self.pair[1]}"

    @property
    def other(self) -> Call:
        """For a send the receive that it needs, and the other way around; a collective itself."""
        if self.pair is None:
            return self
        return replace(self, op="recv" if self.op == "send" else "send", stack=())


@dataclass(frozen=True, slots=True)
class ThreadStack:
    """The Python stack of one thread when a dump was written.

    Attributes:
        name: Name of the thread.
        stack: Its frames, innermost first.
    """

    name: str
    stack: tuple[CallFrame, ...]


@dataclass(frozen=True, slots=True)
class RankDump:
    """What one rank wrote at one time.

    Attributes:
        calls: The collectives, sends and receives that it entered, in order; old ones may be missing. gloo records no
            sends and receives; of these, only the one in which the main thread is.
        groups: Ranks of each process group, by name, where the dump states them.
        written_ns: When it was written, in ns since 1970 on the clock of the rank's host; None where unknown.
        threads: Python stacks of its threads, the main thread first; empty where they were not written.
        ending: How the process ended, if it wrote the dump then: ``exit``, or the exception in one line; "" else.
        has_all: Whether `calls` has all sends and receives since the start: then their numbers are equal on both ranks.
    """

    calls: tuple[Call, ...]
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    written_ns: int | None = None
    threads: tuple[ThreadStack, ...] = ()
    ending: str = ""
    has_all: bool = False


@dataclass(frozen=True, slots=True)
class FlightRecords:
    """Dumps of the ranks of one job.

    Attributes:
        dumps: The dumps of each rank in order of time. A rank that started and wrote no dump has an empty tuple.
        world_size: Number of ranks of the job; None where no file states it.
        problems: What is wrong with the files.
    """

    dumps: Mapping[int, tuple[RankDump, ...]]
    world_size: int | None = None
    problems: tuple[Problem, ...] = ()
