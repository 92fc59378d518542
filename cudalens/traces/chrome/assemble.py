"""Build a Trace from records that another format's reader made, by the rules of Chrome traces.

Devices, streams and threads are found from the labels of processes and lanes as in Chrome JSON, so that the same run in
two formats gives the same rows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from cudalens.errors import TraceFormatError
from cudalens.frames import Trace, build_events
from cudalens.frames.column_arrays import Ints
from cudalens.frames.limits import Problems
from cudalens.frames.syncs import build_syncs
from cudalens.traces.chrome.columns import EventColumns
from cudalens.traces.chrome.lanes import Labels, resolve_lanes
from cudalens.traces.chrome.records import Record
from cudalens.traces.chrome.values import MAX_NS
from cudalens.traces.source import name_of_file, run_info_of

_NO_ARGS: Final = msgspec.Raw(b"{}")


def args_of(values: Mapping[str, Any]) -> msgspec.Raw:
    """Return the args of a record."""
    return msgspec.Raw(msgspec.json.encode(values)) if values else _NO_ARGS


class RecordTrace:
    """Collects records, and builds the Trace.

    Attributes:
        pairs: Takes records of begins and ends.
        problems: Counts damage.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self.problems = Problems()
        self.pairs = Pairs(self.problems)
        self._columns = EventColumns(self.problems)
        self._labels = Labels(self.problems)
        self._began = time.perf_counter()

    def name(self, pid: int | str | None, tid: int | str | None, label: str, *, what: str = "thread_name") -> None:
        """Label a thread, or with ``process_name`` a process."""
        if label:
            self._labels.add(Record(ph="M", name=what, pid=pid, tid=tid, args=args_of({"name": label})), "labels")

    def add(self, records: Sequence[Record], ts: Ints, dur: Ints, where: str, *, is_instant: bool = False) -> None:
        """Append a row per record; rows without a usable time are counted and left out."""
        usable = (ts > -MAX_NS) & (ts < MAX_NS) & (dur >= 0) & (dur < MAX_NS)
        if not usable.all():
            at = np.flatnonzero(usable)
            self.problems.add("event without a usable time", where, len(ts) - len(at))
            records, ts, dur = [records[i] for i in at.tolist()], ts[at], dur[at]
        if records:
            self._columns.add(records, ts, dur, where, is_instant=is_instant)

    def to_trace(
        self,
        *,
        source: str,
        expected: str,
        base: int = 0,
        counters: pd.DataFrame | None = None,
        extra: dict[str, str] | None = None,
    ) -> Trace:
        """Return the Trace.

        Args:
            source: For `RunInfo.source`.
            expected: What a usable file has, for the message.
            base: Time 0 of the file, ns from the epoch.
            counters: The frame ``counters``.
            extra: For `RunInfo.extra`.

        Raises:
            TraceFormatError: A damaged file had no usable event.
        """
        self.pairs.add_to(self._columns)
        has_counters = counters is not None and len(counters) > 0
        if not self._columns.num_rows and len(self.problems) and not has_counters:
            found = f"no usable event; first damage: {self.problems.first()}"
            raise TraceFormatError(self._path, found=found, expected=expected)
        columns = resolve_lanes(self._columns, self._labels, self.problems)
        if len(columns["ts"]) and abs(base) < MAX_NS - int(np.abs(columns["ts"]).max()):
            columns["ts"] = columns["ts"] + base
        frames = {"events": build_events(columns), "stacks": self._columns.stacks.to_frame()}
        frames |= build_syncs(frames)
        if has_counters and counters is not None:
            frames["counters"] = counters.assign(ts=counters["ts"] + base)
        info = run_info_of(name_of_file(self._path), source, frames["events"], self.problems, self._columns.num_rows)
        return Trace(info.replace(build_s=time.perf_counter() - self._began, extra=extra or {}), **frames)


# Match begin and end events to ranges: B and E on one thread, b and e (older: S and F) across threads.

_SYNC: Final = frozenset("BE")
_OPENS: Final = frozenset("BbS")
_LEGACY: Final = frozenset("SF")
#: The phases that `Pairs` accepts. T and p are steps within an asynchronous range; they are not intervals.
PHASES: Final = frozenset("BEbeSFTp")


class Pairs:
    """Collects begins and ends, and matches them once all have been read, since files need not be in time order."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._sync: list[tuple[int, Record]] = []
        self._async: list[tuple[int, Record]] = []

    def add(self, record: Record, ts: int) -> None:
        """Keep one begin or end."""
        if record.ph in _SYNC:
            self._sync.append((ts, record))
        elif record.ph not in "Tp":
            self._async.append((ts, record))

    def add_to(self, events: EventColumns) -> int:
        """Append the matched ranges to `events`, those on threads first; returns the number of asynchronous ones."""
        self._match(self._sync, events)
        before = events.num_rows
        self._match(self._async, events)
        return events.num_rows - before

    def _match(self, found: list[tuple[int, Record]], events: EventColumns) -> None:
        found.sort(key=lambda pair: pair[0])
        open_: dict[object, list[int]] = {}
        closed: dict[int, int] = {}  # position of each begin in `found`, and its length
        for at, (ts, record) in enumerate(found):
            stack = open_.setdefault(_key(record), [])
            if record.ph in _OPENS:
                stack.append(at)
            elif stack:
                began = stack.pop(_opened_by(stack, record, found))
                closed[began] = ts - found[began][0]
            else:
                self._problems.add("end without a begin", f"'{record.name[:60]}' at {ts} ns")
        left = [at for stack in open_.values() for at in stack]
        if left:
            first = found[left[0]][1].name[:60]
            self._problems.add("begin without an end, ended with the trace", f"'{first}'", len(left))
            closed |= {at: found[-1][0] - found[at][0] for at in left}
        if closed:
            # In order of their begins: of two ranges with the same start and end, the first begin is the outer range.
            ts_, dur, records = zip(*((found[at][0], closed[at], found[at][1]) for at in sorted(closed)), strict=True)
            events.add(records, np.array(ts_, np.int64), np.array(dur, np.int64), "begin and end pairs")


def _key(record: Record) -> object:
    """Return the key that the begin and the end of a range share."""
    if record.ph in _SYNC:
        return record.pid, record.tid
    shared, local = record.id, None
    if record.id2:
        shared, local = record.id2.get("global", shared), record.id2.get("local")
    process = record.pid if local is not None else None
    is_named = record.ph in _LEGACY or (shared is None and local is None)
    return record.cat, record.scope, shared, local, process, record.name if is_named else None


def _opened_by(stack: list[int], end: Record, found: list[tuple[int, Record]]) -> int:
    """Position in `stack` of the begin that `end` closes: the innermost; for asynchronous ranges, of the same name."""
    if end.ph not in _SYNC and end.name:
        named = (i for i in range(len(stack) - 1, -1, -1) if found[stack[i]][1].name == end.name)
        return next(named, -1)
    return -1
