"""Read Chrome trace JSON, as Kineto (torch.profiler) and others write it, into a Trace.

Layouts of 2021 to 2026, from CUDA, ROCm, XPU and MTIA devices or none: complete events, begin and end pairs,
asynchronous ranges, instants, counters and metadata. Flows are not read: correlation ids hold the same links more
reliably.

Readers of other formats build their Traces here too, from records of the same kind: devices, streams and threads are
found from the labels of processes and lanes, so that the same run in two formats gives the same rows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
import numpy as np
import pandas as pd

from cudalens.errors import TraceFormatError
from cudalens.frames import Trace, build_events, build_memory
from cudalens.frames.column_arrays import Ints
from cudalens.frames.limits import Limit, Problems
from cudalens.frames.syncs import build_syncs
from cudalens.traces.chrome.columns import EventColumns
from cudalens.traces.chrome.counters import Allocations, Counters
from cudalens.traces.chrome.lanes import Labels, resolve_lanes
from cudalens.traces.chrome.records import Batch, Record
from cudalens.traces.chrome.stream import EventStream
from cudalens.traces.chrome.top_level import KEY, run_info, with_extra_frames
from cudalens.traces.chrome.values import COUNTED, MARK, MAX_NS, MISSING
from cudalens.traces.source import Source, name_of_file, run_info_of

#: Phases of object life cycles, memory dumps and Chrome's own marks, which are skipped.
_IGNORED: Final = frozenset("NODPvVRc(),")
_INSTANTS: Final = frozenset("iIn")
#: Problems of entries of which nothing is kept.
_LOST: Final = (
    "event without a usable ts",
    "event without ph",
    "counter without",
    "unknown phase",
    "entry that is not an event",
    "event nested too deeply",
    "event that is not JSON",
)
_MAX_LOST: Final = 100_000
_MIN_SHARE_LOST: Final = 1.01


def read_chrome(
    path: str | os.PathLike[str], file: BinaryIO, limit: Limit, on_progress: Callable[[int], object] | None
) -> Trace:
    """Return the Trace in `file`, a Chrome trace in JSON, plain or gzip.

    Raises:
        TraceFormatError: The file holds no trace, or nothing in it can be used.
    """
    began = time.perf_counter()
    reader = _Reader(path, Source(file, limit, on_progress))
    reader.read()
    return reader.to_trace(began)


class _Reader:
    def __init__(self, path: str | os.PathLike[str], source: Source) -> None:
        self._path = path
        self._source = source
        self._problems = Problems()
        self._stream = EventStream(path, source, self._problems)
        self._columns = EventColumns(self._problems)
        self._allocations = Allocations(self._problems)
        self._pairs = Pairs(self._problems)
        self._counters = Counters(self._problems)
        self._labels = Labels(self._problems)
        self._num_empty = 0

    def read(self) -> None:
        for batch in self._stream.batches():
            first = self._stream.num_entries - batch.num_entries
            where = f"events {first} to {self._stream.num_entries - 1}"
            self._take_complete(batch, where)
            self._counters.add([(record, ts) for record, ts in batch.others if record.ph == "C"], where)
            for record, ts in batch.others:
                if record.ph not in _IGNORED and not self._is_filler(record, ts):
                    self._take_other(record, ts, record.ph, where)
            # With so few events among many entries, reading the rest, slow as it is, is not worth it.
            num_lost = self._problems.count(*_LOST)
            if num_lost > _MAX_LOST and self._stream.num_entries < num_lost * _MIN_SHARE_LOST:
                self._problems.add("nearly all entries are not events: the rest is not read", where)
                return

    def _is_filler(self, record: Record, ts: int) -> bool:
        """Return whether `record` is the empty object with which XLA and TensorFlow end their lists."""
        if record.ph or record.name or ts != MISSING or record.pid is not None or bytes(record.args) != b"{}":
            return False
        self._num_empty += 1
        return self._num_empty == 1

    def _take_complete(self, batch: Batch, where: str) -> None:
        records, ts, dur = batch.records, batch.ts, batch.dur
        if batch.scanned is not None:
            if len(ts):
                self._columns.add_scanned(batch.scanned, self._checked(dur, where))
            self._allocations.add_scanned(batch.scanned.allocations)
            return
        if len(ts) and int(ts.min()) == MISSING:
            at = np.flatnonzero(ts != MISSING)
            self._problems.add("event without a usable ts", where, len(ts) - len(at))
            records, ts, dur = [records[i] for i in at.tolist()], ts[at], dur[at]
        if records:
            self._columns.add(records, ts, self._checked(dur, where), where)
            if self._columns.has_category(COUNTED):
                self._counters.add_ranges(records, ts)

    def _checked(self, dur: Ints, where: str) -> Ints:
        if int(dur.min()) >= 0:
            return dur
        unknown = dur == MISSING
        if unknown.any():
            self._problems.add("event without dur", where, int(unknown.sum()))
        if (negative := int(((dur < 0) & ~unknown).sum())) > 0:
            self._problems.add("negative dur", where, negative)
        return np.maximum(dur, 0)

    def _take_other(self, record: Record, ts: int, ph: str, where: str) -> None:
        if ph == "M":
            self._labels.add(record, where)
        elif ph == "C":
            return  # taken together
        elif record.cat == MARK:
            return  # drawn by to_chrome for viewers; the frame itself is under `KEY`
        elif ph not in _INSTANTS and ph not in PAIR_PHASES:
            self._problems.add(f"unknown phase {ph[:8]!r}" if ph else "event without ph", where)
        elif ts == MISSING:
            self._problems.add("event without a usable ts", where)
        elif ph in PAIR_PHASES:
            self._pairs.add(record, ts)
        elif not self._allocations.take(record, ts, where):
            self._columns.add([record], np.array([ts]), np.zeros(1, np.int64), where, is_instant=True)

    def to_trace(self, began: float) -> Trace:
        num_plain = self._columns.num_rows
        num_async = self._pairs.add_to(self._columns)
        self._refuse_useless()
        columns = resolve_lanes(self._columns, self._labels, self._problems)
        async_mask = np.arange(len(columns["ts"])) >= len(columns["ts"]) - num_async
        assert num_plain + num_async <= len(columns["ts"])
        # Shift the columns to the epoch if the file has a base time.
        base = self._stream.metadata.get("baseTimeNanoseconds", 0)
        if isinstance(base, str) and base.isascii() and base.isdigit() and len(base) < 20:
            base = int(base)
        latest = int(columns["ts"].max(initial=0))
        if not isinstance(base, int) or isinstance(base, bool) or not 0 <= base < MAX_NS - latest:
            self._problems.add("unusable 'baseTimeNanoseconds'", "after the events")
            base = 0
        else:
            columns["ts"] += base
        events = build_events(columns, async_mask=async_mask if num_async else None, consume=True)
        memory = build_memory(self._allocations.to_columns(base), events)
        frames = {"events": events, "memory": memory, "stacks": self._columns.stacks.to_frame()}
        frames["counters"] = self._counters.to_frame(base)
        frames |= build_syncs(frames)
        stored = None
        if KEY in (around := self._stream.metadata):
            frames, stored = with_extra_frames(self._path, frames, around[KEY], self._problems)
        info = run_info(Path(self._path), self._stream, events, self._problems)
        judged = None if stored is None else stored.judged
        return Trace(info.replace(build_s=time.perf_counter() - began, judged=judged), **frames)

    def _refuse_useless(self) -> None:
        """Raise if a damaged file holds nothing usable; an empty list of events is an empty Trace."""
        if self._columns.num_rows or len(self._allocations) or len(self._counters) or not len(self._problems):
            return
        raise TraceFormatError(
            self._path,
            position=f"byte {self._source.num_bytes}",
            found=f"no usable event among {self._stream.num_entries} entries; first damage: {self._problems.first()}",
            expected="a list of trace events (objects with 'ph' and 'ts')",
        )


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
PAIR_PHASES: Final = frozenset("BEbeSFTp")


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
                # It closes the innermost begin; for asynchronous ranges, that of the same name.
                opened = -1
                if record.ph not in _SYNC and record.name:
                    named = (i for i in range(len(stack) - 1, -1, -1) if found[stack[i]][1].name == record.name)
                    opened = next(named, -1)
                began = stack.pop(opened)
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
