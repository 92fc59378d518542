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
from cudalens.frames import RunInfo, Trace, build_events
from cudalens.frames.column_arrays import Ints
from cudalens.frames.lenient_json import text_of
from cudalens.frames.limits import Problems
from cudalens.frames.syncs import build_syncs
from cudalens.traces.chrome.columns import EventColumns
from cudalens.traces.chrome.lanes import Labels, resolve_lanes
from cudalens.traces.chrome.pairs import Pairs
from cudalens.traces.chrome.records import Record
from cudalens.traces.chrome.values import MAX_NS

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
        self, *, source: str, expected: str, base: int = 0, counters: pd.DataFrame | None = None, **facts: Any
    ) -> Trace:
        """Return the Trace.

        Args:
            source: For `RunInfo.source`.
            expected: What a usable file has, for the message.
            base: Time 0 of the file, ns from the epoch.
            counters: The frame ``counters``.
            **facts: Further fields of the run info.

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
        info = self._info(frames["events"], source, facts)
        return Trace(info.replace(build_s=time.perf_counter() - self._began), **frames)

    def _info(self, events: pd.DataFrame, source: str, facts: Mapping[str, Any]) -> RunInfo:
        timed = events[~events["is_instant"]]
        return RunInfo(
            name=text_of(self._path.name.split(".")[0].encode("utf-8", "replace").decode()),
            source=source,
            started_ns=int(timed["ts"].min()) if len(timed) else None,
            ended_ns=int((timed["ts"] + timed["dur"]).max()) if len(timed) else None,
            options={"file_events": self._columns.num_rows},
            problems=self.problems.to_tuple(),
            **facts,
        )
