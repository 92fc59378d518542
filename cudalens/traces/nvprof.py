"""Read nvprof's SQLite files (``nvprof -o FILE``: ``.nvvp``, ``.prof``) into a Trace.

Its tables are CUPTI's activity records, one table per kind. Names are in a table of strings; kernel names are mangled.
Times count from the epoch. API calls have CUPTI's callback ids in place of names (`api_names.call_name`).
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.frames import OVERHEAD_KINDS, DeviceInfo, Trace
from cudalens.frames.column_arrays import Ints
from cudalens.frames.lenient_json import text_of
from cudalens.frames.limits import Problems
from cudalens.frames.syncs import build_syncs
from cudalens.traces.chrome.values import MISSING
from cudalens.traces.nsys import add_texts
from cudalens.traces.source import run_info_of
from cudalens.traces.sqlite import activities
from cudalens.traces.sqlite.activities import LAUNCH, SHAPE, Activities, Texts, demangler, positive, refuse_repeats
from cudalens.traces.sqlite.file import Database, Rows

_KIND: Final = "CUPTI_ACTIVITY_KIND_"
KERNELS: Final = (f"{_KIND}CONCURRENT_KERNEL", f"{_KIND}KERNEL", f"{_KIND}CDP_KERNEL")
COPIES: Final = (f"{_KIND}MEMCPY", f"{_KIND}MEMCPY2")
SETS: Final = f"{_KIND}MEMSET"
WAITS: Final = f"{_KIND}SYNCHRONIZATION"
CALLS: Final = {f"{_KIND}RUNTIME": "runtime", f"{_KIND}DRIVER": "driver"}
OVERHEAD: Final = f"{_KIND}OVERHEAD"
MARKERS: Final = f"{_KIND}MARKER"
STRINGS: Final = "StringTable"
TABLES: Final = (*KERNELS, *COPIES, SETS, WAITS, *CALLS, OVERHEAD, MARKERS, STRINGS)

_PLACE: Final = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "graphId", "graphNodeId")


def read_nvprof(database: Database, problems: Problems) -> Trace:
    """Return the Trace in a file of nvprof."""
    began = time.perf_counter()
    reader = _NvprofReader(database, problems)
    reader.read()
    return reader.to_trace(began)


class _NvprofReader:
    def __init__(self, database: Database, problems: Problems) -> None:
        self._database, self._problems = database, problems
        self._rows = Activities(problems)
        rows = database.read(STRINGS, ["_id_"], ["value"])
        ids, values = rows["_id_"].tolist(), map(str, rows.objects("value"))
        self._strings: dict[int, str] = {i: value for i, value in zip(ids, values, strict=True) if i != 0}
        contexts = database.read(f"{_KIND}CONTEXT", ["contextId", "deviceId"])
        self._device_of = dict(zip(contexts["contextId"].tolist(), contexts["deviceId"].tolist(), strict=True))

    def read(self) -> None:
        for table in KERNELS:
            self._add_kernels(table)
        for table in COPIES:
            self._add_copies(table)
        self._add_sets()
        self._add_waits()
        for table, kind in CALLS.items():
            self._add_calls(table, kind)
        self._add_overhead()
        add_markers(self._database, MARKERS, self._rows, self._strings)

    def _add_kernels(self, table: str) -> None:
        rows = self._database.read(table, [*_PLACE, *SHAPE, *LAUNCH, "name"])
        names = Texts.looked_up(rows["name"], self._strings, "kernel without a name (string {})")
        names = names.mapped(demangler(names.values))
        shared = [np.where(rows[column] == MISSING, 0, rows[column]) for column in LAUNCH[1:]]
        ints = {"registers": rows[LAUNCH[0]]}
        if LAUNCH[1] in rows or LAUNCH[2] in rows:
            ints["shared_memory_bytes"] = shared[0] + shared[1]
        shape = [rows[column] for column in SHAPE]
        texts = {"grid": activities.triple(*shape[:3]), "block_dim": activities.triple(*shape[3:])}
        self._add_device_work(table, rows, "kernel", names, ints, texts)

    def _add_copies(self, table: str) -> None:
        kinds = ["copyKind", "srcKind", "dstKind", "migrationCause"]
        rows = self._database.read(table, [*_PLACE, "bytes", *kinds])
        kind, source, target, cause = (rows[name] for name in kinds)
        names = activities.copy_names(kind, source, target, cause, activities.MEMORY_KINDS)
        self._add_device_work(table, rows, "gpu_memcpy", names, {"num_bytes": rows["bytes"]})

    def _add_sets(self) -> None:
        rows = self._database.read(SETS, [*_PLACE, "bytes", "memoryKind"])
        names = activities.memset_names(rows["memoryKind"], activities.MEMORY_KINDS)
        self._add_device_work(SETS, rows, "gpu_memset", names, {"num_bytes": rows["bytes"]})

    def _add_waits(self) -> None:
        rows = self._database.read(WAITS, [*_PLACE, "type"])
        names = Texts.joined([rows["type"]], lambda kind: activities.SYNC_KINDS.get(kind, "Unknown sync"))
        self._add_device_work(WAITS, rows, "cuda_sync", names, {})

    def _add_device_work(
        self,
        table: str,
        rows: Rows,
        cat: str,
        names: Texts,
        ints: dict[str, Ints],
        texts: dict[str, Texts] | None = None,
    ) -> None:
        start, end = self._timed(rows)
        place = self._place(rows)
        self._rows.add(table, start=start, end=end, cat=cat, name=names, ints=ints | place, texts=texts)

    def _timed(self, rows: Rows) -> tuple[Ints, Ints]:
        """Starts and ends; CUPTI writes 0 for both if it could not measure them."""
        start, end = rows["start"], rows["end"]
        unknown = (start == 0) & (end == 0)
        return np.where(unknown, MISSING, start), end

    def _place(self, rows: Rows) -> dict[str, Ints]:
        device = rows["deviceId"]
        if "deviceId" not in rows:
            contexts, context_of = np.unique(rows["contextId"], return_inverse=True)
            known = [self._device_of.get(context, MISSING) for context in contexts.tolist()]
            device = np.array(known, np.int64)[context_of] if known else device
        if unknown := int((device == MISSING).sum()):
            self._problems.add("device work without a device, taken as device 0", "all tables", unknown)
            device = np.where(device == MISSING, 0, device)
        stream = rows["streamId"]
        return {
            "device": device,
            "stream": np.where((stream < 0) | (stream == activities.NO_ID), MISSING, stream),
            "correlation_id": rows["correlationId"],
            "graph_id": positive(rows["graphId"]),
            "graph_node_id": positive(rows["graphNodeId"]),
        }

    def _add_calls(self, table: str, kind: str) -> None:
        rows = self._database.read(table, ["cbid", "start", "end", "processId", "threadId", "correlationId"])
        refuse_repeats(self._database.path, table, "correlationId", rows["correlationId"], (rows["processId"],))
        names = Texts.joined([rows["cbid"]], lambda number: activities.call_name(kind, number))
        start, end = self._timed(rows)
        # Unsigned values of 32-bit ids that nvprof writes as signed.
        ids = rows["threadId"]
        tid = np.where((ids < 0) & (ids >= -(1 << 31)), ids + (1 << 32), ids)
        ints = {"pid": rows["processId"], "tid": tid, "correlation_id": rows["correlationId"]}
        self._rows.add(table, start=start, end=end, cat=f"cuda_{kind}", name=names, ints=ints)

    def _add_overhead(self) -> None:
        rows = self._database.read(OVERHEAD, ["start", "end", "overheadKind", "objectKind"], ["objectId"])
        names = Texts.joined([rows["overheadKind"]], lambda kind: OVERHEAD_KINDS.get(kind, "overhead"))
        start, end = self._timed(rows)
        self._rows.add(OVERHEAD, start=start, end=end, cat="overhead", name=names, ints=threads_of(rows))

    def to_trace(self, began: float) -> Trace:
        events = self._rows.to_events()
        frames: dict[str, pd.DataFrame] = {"events": events}
        frames |= build_syncs(frames)
        version = self._database.read("Version", ["version"])["version"]
        versions = {"nvprof_schema": str(int(version[0]))} if len(version) and version[0] != MISSING else {}
        name = text_of(self._database.path.stem)
        info = run_info_of(name, "file:nvprof", events, self._problems, self._rows.num_rows)
        info = info.replace(versions=versions, devices=self._devices(), build_s=time.perf_counter() - began)
        return Trace(info, **frames)

    def _devices(self) -> tuple[DeviceInfo, ...]:
        columns = ("id", "name", "globalMemorySize", "numMultiprocessors", "computeCapabilityMajor")
        rows = self._database.read(f"{_KIND}DEVICE", (*columns, "computeCapabilityMinor"))
        found: dict[int, DeviceInfo] = {}
        for at, index in enumerate(rows["id"].tolist()):
            facts = {name: int(rows[name][at]) for name in (*columns, "computeCapabilityMinor")}
            major, minor = facts["computeCapabilityMajor"], facts["computeCapabilityMinor"]
            if 0 <= index < 1 << 31:
                found[index] = DeviceInfo(
                    index=index,
                    name=self._strings.get(facts["name"], ""),
                    capability=f"{major}.{minor}" if major >= 0 and minor >= 0 else None,
                    total_memory_bytes=facts["globalMemorySize"] if facts["globalMemorySize"] >= 0 else None,
                    num_sms=facts["numMultiprocessors"] if facts["numMultiprocessors"] >= 0 else None,
                )
        return tuple(device for _, device in sorted(found.items()))


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
