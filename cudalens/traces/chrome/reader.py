"""Read Chrome trace JSON, as Kineto (torch.profiler) and others write it, into a Trace.

Layouts of 2021 to 2026, from CUDA, ROCm, XPU and MTIA devices or none: complete events, begin and end pairs,
asynchronous ranges, instants, counters and metadata. Flows are not read: correlation ids hold the same links more
reliably.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from cudalens.errors import TraceFormatError
from cudalens.frames import Trace, build_events, build_memory
from cudalens.frames.column_arrays import Ints
from cudalens.frames.limits import Limit, Problems
from cudalens.frames.syncs import build_syncs
from cudalens.traces.chrome.assemble import PHASES as PAIR_PHASES
from cudalens.traces.chrome.assemble import Pairs
from cudalens.traces.chrome.columns import EventColumns
from cudalens.traces.chrome.counters import Allocations, Counters
from cudalens.traces.chrome.lanes import Labels, resolve_lanes
from cudalens.traces.chrome.records import Batch, Record
from cudalens.traces.chrome.stream import EventStream
from cudalens.traces.chrome.top_level import KEY, run_info, with_extra_frames
from cudalens.traces.chrome.tracks import MARK
from cudalens.traces.chrome.values import COUNTED, MAX_NS, MISSING
from cudalens.traces.source import Source

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
            if self._is_useless():
                self._problems.add("nearly all entries are not events: the rest is not read", where)
                return

    def _is_useless(self) -> bool:
        """Return whether so few of many entries are events that reading the rest, slow as it is, is not worth it."""
        num_lost = self._problems.count(*_LOST)
        return num_lost > _MAX_LOST and self._stream.num_entries < num_lost * _MIN_SHARE_LOST

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
        base = self._shift(columns)
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

    def _shift(self, columns: dict[str, Any]) -> int:
        """Shift `columns` to the epoch if the file has a base time; returns the shift, ns."""
        base = self._stream.metadata.get("baseTimeNanoseconds", 0)
        if isinstance(base, str) and base.isascii() and base.isdigit() and len(base) < 20:
            base = int(base)
        latest = int(columns["ts"].max(initial=0))
        if not isinstance(base, int) or isinstance(base, bool) or not 0 <= base < MAX_NS - latest:
            self._problems.add("unusable 'baseTimeNanoseconds'", "after the events")
            return 0
        columns["ts"] += base
        return base
