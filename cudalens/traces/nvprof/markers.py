"""Read NVTX ranges and marks of an nvprof file: a range has a row for its start and one for its end, with one id."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from cudalens.traces.chrome.values import MISSING, Ints
from cudalens.traces.nsys.ranges import add_texts
from cudalens.traces.sqlite.activities import Activities, Texts
from cudalens.traces.sqlite.file import Database, Rows
from cudalens.traces.sqlite.unique import refuse_repeats

_INSTANT, _START, _END = 1, 2, 4  # CUpti_ActivityFlag
_PROCESS, _THREAD = 1, 2  # CUpti_ActivityObjectKind


def add_markers(database: Database, table: str, rows: Activities, strings: Mapping[int, str]) -> None:
    """Append the ranges and marks in `table`.

    Raises:
        TraceFormatError: Two ranges start, or end, with the same id.
    """
    found = database.read(table, ["flags", "timestamp", "id", "objectKind", "name", "domain"], ["objectId"])
    if not found.num_rows:
        return
    flags, ids = _flags(found), found["id"]
    starts, ends, marks = (np.flatnonzero(flags & flag != 0) for flag in (_START, _END, _INSTANT))
    refuse_repeats(database.path, table, "id of a range's start", np.where(flags & _START != 0, ids, MISSING))
    refuse_repeats(database.path, table, "id of a range's end", np.where(flags & _END != 0, ids, MISSING))
    texts, threads = _texts(found, strings), threads_of(found)
    end_of = _ends(ids, starts, ends, rows, table)
    time = found["timestamp"]
    last = int(time.max())
    end = np.where(end_of >= 0, time[end_of], np.where(time[starts] == MISSING, MISSING, last))
    crosses = (end_of >= 0) & (threads["tid"][end_of] != threads["tid"][starts])
    kept = np.concatenate([starts, marks])
    add_texts(
        rows,
        table,
        texts.take(kept),
        start=time[kept],
        end=np.concatenate([end, time[marks]]),
        ints={name: column[kept] for name, column in threads.items()},
        is_async=np.concatenate([crosses, np.zeros(len(marks), bool)]),
        is_instant=np.concatenate([np.zeros(len(starts), bool), np.ones(len(marks), bool)]),
    )


def _flags(found: Rows) -> Ints:
    """Flags of each row; a row without flags is a start if it has a name, else an end."""
    flags = np.where(found["flags"] == MISSING, 0, found["flags"])
    named = (found["name"] != MISSING) & (found["name"] != 0)
    return np.where(flags & (_INSTANT | _START | _END) != 0, flags, np.where(named, _START, _END))


def _ends(ids: Ints, starts: Ints, ends: Ints, rows: Activities, table: str) -> Ints:
    """Return the row that ends the range of each of `starts`; -1 if there is none."""
    index = pd.Index(ids[ends])
    index = index if index.is_unique else pd.Index(np.arange(0))
    at = index.get_indexer(pd.Index(ids[starts])) if len(index) else np.full(len(starts), -1)
    if unended := int((at < 0).sum()):
        rows.problems.add("range without an end, ended with the trace", table, unended)
    if unopened := len(ends) - len(np.unique(at[at >= 0])):
        rows.problems.add("end without a begin", table, unopened)
    return np.where(at >= 0, ends[at] if len(ends) else -1, -1)


def _texts(found: Rows, strings: Mapping[int, str]) -> Texts:
    """Texts of markers, prefixed with the name of their domain; no prefix for the default domain."""

    def text(name: int, domain: int) -> str:
        own, prefix = strings.get(name), strings.get(domain)
        if own is None:
            return ""
        return own if prefix is None else f"{prefix}:{own}"

    return Texts.joined([found["name"], found["domain"]], text).mapped(lambda text: text or None)


def threads_of(rows: Rows) -> dict[str, Ints]:
    """``pid`` and ``tid`` from a column ``objectId``; the object id of a thread has 4 bytes for each, little-endian."""
    texts, kinds = pd.factorize(np.array([*rows.objects("objectId"), None], object)[:-1]), rows["objectKind"]
    split = [_split(value) for value in texts[1]]
    pid, tid = (np.array([*(pair[i] for pair in split), MISSING], np.int64)[texts[0]] for i in (0, 1))
    is_thread = kinds == _THREAD
    return {
        "pid": np.where(is_thread | (kinds == _PROCESS), pid, MISSING),
        "tid": np.where(is_thread, tid, MISSING),
    }


def _split(value: Any) -> tuple[int, int]:
    if not isinstance(value, bytes) or len(value) < 8:
        return MISSING, MISSING
    pid, tid = struct.unpack_from("<II", value)
    return pid, tid
