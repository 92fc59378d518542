"""Read SQLite exports of Nsight Systems (``nsys export --type sqlite``) into a Trace.

A recording may hold several processes. Each numbers its correlation ids, contexts and (with CUDA_VISIBLE_DEVICES)
devices independently. A Trace identifies a device, a stream and a correlation id by number only.

Tables and columns change with each release (export schema 1.x of 2018 to 3.25 of 2026); values that an export does not
have are missing. The schema is documented at https://docs.nvidia.com/nsight-systems/ (Exporter), including thread ids:
a ``globalTid`` has, from its lowest bits, 24 bits for the thread, 24 for the process, 8 for a virtual machine and 8 for
the host.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pandas as pd

from cudalens.frames import DeviceInfo, Trace, build_memory
from cudalens.frames.column_arrays import Bools, Ints
from cudalens.frames.lenient_json import text_of
from cudalens.frames.limits import Problems
from cudalens.frames.syncs import build_syncs
from cudalens.traces.chrome.values import MAX_NS, MISSING
from cudalens.traces.source import run_info_of
from cudalens.traces.sqlite import activities
from cudalens.traces.sqlite.activities import (
    LAUNCH,
    SHAPE,
    Activities,
    Texts,
    demangler,
    is_time,
    positive,
    refuse_repeats,
)
from cudalens.traces.sqlite.file import Database, Rows

KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
SETS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPHS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
WAITS: Final = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
CALLS: Final = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER")
LIBRARIES: Final = {"CUDNN_EVENTS": "cudnn", "CUBLAS_EVENTS": "cublas"}
OVERHEADS: Final = ("CUPTI_ACTIVITY_KIND_OVERHEAD", "PROFILER_OVERHEAD")
RANGES: Final = "NVTX_EVENTS"
MEMORY: Final = "CUDA_GPU_MEMORY_USAGE_EVENTS"
TABLES: Final = (KERNELS, COPIES, SETS, GRAPHS, WAITS, *CALLS, *LIBRARIES, *OVERHEADS, RANGES, MEMORY, "StringIds")

#: nsys counts CUPTI's kinds from 0 (ENUM_CUDA_MEM_KIND).
_MEMORY_KINDS: Final = {i: activities.MEMORY_KINDS[i + 1] for i in range(7)}
_HOST_KINDS: Final = (0, 1)
_PLACE: Final = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid")
_GRAPH: Final = ("graphId", "graphNodeId")
_NAMES: Final = ("demangledName", "shortName", "mangledName", "name")


def read_nsys(database: Database, problems: Problems) -> Trace:
    """The Trace in an export of nsys."""
    began = time.perf_counter()
    reader = _NsysReader(database, problems)
    reader.read()
    return reader.to_trace(began)


class _NsysReader:
    def __init__(self, database: Database, problems: Problems) -> None:
        self._database, self._problems = database, problems
        self._rows = Activities(problems)
        rows = database.read("StringIds", ["id"], ["value"])
        self._strings: dict[int, str] = dict(zip(rows["id"].tolist(), map(str, rows.objects("value")), strict=True))
        self._session = Session(database)
        self._ids = Identities(database, (KERNELS, COPIES, SETS, GRAPHS), CALLS)

    def read(self) -> None:
        self._add_kernels()
        self._add_copies()
        self._add_graphs()
        self._add_waits()
        for table in CALLS:
            self._add_calls(table)
        for table, cat in LIBRARIES.items():
            self._add_library(table, cat)
        for table in OVERHEADS:
            self._add_overhead(table)
        add_ranges(self._database, RANGES, self._rows, self._strings)

    def _add_kernels(self) -> None:
        rows = self._database.read(KERNELS, [*_PLACE, *_GRAPH, *SHAPE, *LAUNCH, *_NAMES])
        names = Texts.looked_up(rows[_NAMES[0]], self._strings)
        for column in _NAMES[1:]:
            if (names.codes < 0).any() and column in rows:
                names = names.filled(Texts.looked_up(rows[column], self._strings))
        names = names.mapped(demangler(names.values))  # if there is only the mangled name
        names = names.filled(Texts.looked_up(rows[_NAMES[0]], {}, "kernel without a name (string {})"))
        ints = self._place(rows) | {
            "registers": rows["registersPerThread"],
            "shared_memory_bytes": _sum(rows["staticSharedMemory"], rows["dynamicSharedMemory"]),
        }
        shape = [rows[column] for column in SHAPE]
        texts = {"grid": activities.triple(*shape[:3]), "block_dim": activities.triple(*shape[3:])}
        self._rows.add(KERNELS, start=rows["start"], end=rows["end"], cat="kernel", name=names, ints=ints, texts=texts)

    def _add_copies(self) -> None:
        kinds = ["copyKind", "srcKind", "dstKind", "migrationCause"]
        rows = self._database.read(COPIES, [*_PLACE, *_GRAPH, "bytes", *kinds])
        kind, source, target, cause = (rows[name] for name in kinds)
        names = activities.copy_names(kind, source, target, cause, _MEMORY_KINDS)
        ints = self._place(rows) | {"num_bytes": rows["bytes"]}
        self._rows.add(COPIES, start=rows["start"], end=rows["end"], cat="gpu_memcpy", name=names, ints=ints)
        rows = self._database.read(SETS, [*_PLACE, *_GRAPH, "bytes", "memKind"])
        names = activities.memset_names(rows["memKind"], _MEMORY_KINDS)
        ints = self._place(rows) | {"num_bytes": rows["bytes"]}
        self._rows.add(SETS, start=rows["start"], end=rows["end"], cat="gpu_memset", name=names, ints=ints)

    def _add_graphs(self) -> None:
        """Add graphs that nsys recorded as a single row each, without their kernels."""
        rows = self._database.read(GRAPHS, [*_PLACE, "graphId"])
        names = Texts.joined([rows["graphId"]], lambda i: f"CUDA graph {i}" if i != MISSING else "CUDA graph")
        ints = self._place(rows)
        self._rows.add(GRAPHS, start=rows["start"], end=rows["end"], cat="kernel", name=names, ints=ints)

    def _add_waits(self) -> None:
        rows = self._database.read(WAITS, [*_PLACE, "syncType", "eventId"])
        # Waits for the default stream are recorded as kind 2, a wait for an event, but without an event.
        is_stream = (rows["syncType"] == 2) & (rows["eventId"] == activities.NO_ID)
        kinds = np.where(is_stream, 3, rows["syncType"])
        names = Texts.joined([kinds], lambda kind: activities.SYNC_KINDS.get(kind, "Unknown sync"))
        ints = self._place(rows)
        self._rows.add(WAITS, start=rows["start"], end=rows["end"], cat="cuda_sync", name=names, ints=ints)

    def _place(self, rows: Rows) -> dict[str, Ints]:
        """Device, stream and launch of device work."""
        process = process_of(rows["globalPid"])
        device = self._ids.devices(process, rows["deviceId"])
        if unknown := int((device == MISSING).sum()):
            self._problems.add("device work without a device, taken as device 0", "all tables", unknown)
            device = np.where(device == MISSING, 0, device)
        node = rows["graphNodeId"]
        graph = rows["graphId"] if "graphId" in rows else np.where(node == MISSING, MISSING, node >> 32)
        return {
            "device": device,
            "stream": self._ids.streams(process, rows["contextId"], device, rows["streamId"]),
            "correlation_id": self._ids.correlations(process, rows["correlationId"]),
            "graph_id": positive(graph),
            "graph_node_id": positive(node),
        }

    def _add_calls(self, table: str) -> None:
        columns = ["start", "end", "eventClass", "globalTid", "correlationId", "nameId"]
        rows = self._database.read(table, columns)
        thread, ids = rows["globalTid"], rows["correlationId"]
        process = process_of(thread)
        refuse_repeats(self._database.path, table, "correlationId", ids, (process, rows["eventClass"]))
        names = Texts.looked_up(rows["nameId"], self._strings, "call without a name (string {})")
        names = names.mapped(activities.plain_call)
        by_name = names.mapped(lambda name: "cuda_driver" if activities.is_driver_call(name) else "cuda_runtime")
        ints = split_thread(thread) | {"correlation_id": self._ids.correlations(process, ids)}
        texts = {"thread": self._session.threads(thread, self._strings)}
        self._rows.add(table, start=rows["start"], end=rows["end"], cat=by_name, name=names, ints=ints, texts=texts)

    def _add_library(self, table: str, cat: str) -> None:
        rows = self._database.read(table, ["start", "end", "globalTid", "nameId"])
        names = Texts.looked_up(rows["nameId"], self._strings, "call without a name (string {})")
        texts = {"thread": self._session.threads(rows["globalTid"], self._strings)}
        ints = split_thread(rows["globalTid"])
        self._rows.add(table, start=rows["start"], end=rows["end"], cat=cat, name=names, ints=ints, texts=texts)

    def _add_overhead(self, table: str) -> None:
        rows = self._database.read(table, ["start", "end", "globalTid", "nameId", "overheadType"])
        names = Texts.looked_up(rows["nameId"], self._strings, "overhead")
        ints = split_thread(rows["globalTid"])
        self._rows.add(table, start=rows["start"], end=rows["end"], cat="overhead", name=names, ints=ints)

    def to_trace(self, began: float) -> Trace:
        base = self._session.base_ns(self._rows.last_start())
        events = self._rows.to_events(base)
        frames = {"events": events, "memory": build_memory(self._memory(base), events)}
        frames |= build_syncs(frames)
        name = text_of(self._database.path.stem)
        info = run_info_of(name, "file:nsys", events, self._problems, self._rows.num_rows)
        info = info.replace(**session_facts(self._database, self._session, self._ids))
        return Trace(info.replace(build_s=time.perf_counter() - began), **frames)

    def _memory(self, base: int) -> dict[str, Any]:
        """Device memory that the program allocated from the driver; torch's allocator calls these segments."""
        columns = ["start", "globalPid", "deviceId", "address", "bytes", "memKind", "memoryOperationType"]
        rows = self._database.read(MEMORY, columns)
        kept = ~np.isin(rows["memKind"], _HOST_KINDS) & np.isin(rows["memoryOperationType"], (0, 1))
        usable = kept & is_time(rows["start"]) & (rows["bytes"] >= 0)
        if dropped := int((kept & ~usable).sum()):
            self._problems.add("allocation without a usable time or size", MEMORY, dropped)
        taken = {name: rows[name][usable] for name in columns}
        process = process_of(taken["globalPid"])
        device = self._ids.devices(process, taken["deviceId"])
        is_free = taken["memoryOperationType"] == 1
        return {
            "ts": taken["start"] + base,
            "action": np.where(is_free, "segment_free", "segment_alloc").astype(object),
            "device_type": np.full(len(is_free), "cuda", object),
            "device": _as_list(np.where((device >= 0) & (device < 1 << 31), device, MISSING)),
            "addr": _as_list(np.where(taken["address"] < 0, MISSING, taken["address"])),
            "num_bytes": taken["bytes"],
            "pid": _as_list(split_thread(taken["globalPid"])["pid"]),
        }


def _sum(first: Ints, second: Ints) -> Ints:
    both = np.where(first == MISSING, 0, first) + np.where(second == MISSING, 0, second)
    return np.where((first == MISSING) & (second == MISSING), MISSING, both)


def _as_list(values: Ints) -> list[int | None]:
    return [None if value == MISSING else value for value in values.tolist()]


#: The year 2001 in ns since the epoch: larger times count from the epoch already.
_EPOCH_SINCE: Final = 1_000_000_000_000_000_000
#: ENUM_DIAGNOSTIC_SEVERITY_LEVEL: warnings and errors.
_WARNINGS: Final = (2, 3)
#: Messages about the recording of GPU work are kept whatever their level.
_ABOUT_CUDA: Final = re.compile(r"(?i)\bcupti|\bno cuda events|cuda profiling|driver version")
_MAX_DIAGNOSTICS: Final = 100
#: The current table of GPUs, and the table before nsys 2021.5.
_GPU_TABLES: Final = ("TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU")
_VERSIONS: Final = {"CudaDriverVersion": "cuda_driver", "NvDriverVersion": "nvidia_driver"}


class Session:
    """Facts about the recording as a whole."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.meta = _names_and_values(database, "META_DATA_EXPORT")
        self.system = _names_and_values(database, "TARGET_INFO_SYSTEM_ENV")
        rows = database.read("ThreadNames", ["nameId", "globalTid"])
        self._thread_names = dict(zip(rows["globalTid"].tolist(), rows["nameId"].tolist(), strict=True))

    def base_ns(self, latest: int) -> int:
        """Return the offset from the file's times to the epoch, ns; 0 if unknown. `latest` is the latest time."""
        start = self._database.read("TARGET_INFO_SESSION_START_TIME", ["utcEpochNs"])["utcEpochNs"]
        if self.meta.get("EXPORT_PARAM_TIME_NORMALIZE", "").lower() == "true" or not len(start):
            return 0
        base, latest = int(start[0]), max(latest, 0)
        is_relative = latest < _EPOCH_SINCE and 0 < base < MAX_NS - latest
        return base if is_relative else 0

    def threads(self, thread: Ints, strings: Mapping[int, str]) -> Texts:
        """Names of threads by their global ids."""
        return Texts.joined(
            [thread], lambda t: strings.get(self._thread_names.get(t, MISSING), "") if t != MISSING else ""
        ).mapped(lambda name: name or None)


def session_facts(database: Database, session: Session, ids: Identities) -> dict[str, Any]:
    """Return the fields of `RunInfo` in the export. Environment variables in it are not read."""
    versions = {name: session.system[key] for key, name in _VERSIONS.items() if session.system.get(key)}
    if version := session.meta.get("EXPORT_PRODUCT_VERSION"):
        versions["nsys"] = version
    if schema := session.meta.get("EXPORT_SCHEMA_VERSION"):
        versions["nsys_schema"] = schema
    extra = {"nsys_diagnostics": messages} if (messages := _diagnostics(database)) else {}
    if ids.renamed_streams:
        extra["renamed_streams"] = json.dumps(ids.renamed_streams)
    return {
        "versions": versions,
        "devices": _devices(database, ids),
        "host": session.system.get("Hostname"),
        "extra": extra,
    }


def _names_and_values(database: Database, table: str) -> dict[str, str]:
    """A table of names and values, without values that are too long."""
    rows = database.read(table, [], ["name", "value"])
    found = zip(rows.objects("name"), rows.objects("value"), strict=True)
    return {text_of(name): text_of(value) for name, value in found if value is not None and len(str(value)) < 200}


def _diagnostics(database: Database) -> str:
    """Warnings and errors of nsys, and its messages about recording CUDA, as a JSON list; "" for none."""
    rows = database.read("DIAGNOSTIC_EVENT", ["severity"], ["text"])
    texts = zip(rows["severity"].tolist(), rows.objects("text"), strict=True)
    known = [(severity, text_of(text)[:500]) for severity, text in texts if text]
    kept = (text for severity, text in known if severity in _WARNINGS or _ABOUT_CUDA.search(text))
    found = list(dict.fromkeys(kept))
    return json.dumps(found[:_MAX_DIAGNOSTICS], ensure_ascii=False) if found else ""


def _devices(database: Database, ids: Identities) -> tuple[DeviceInfo, ...]:
    """The GPUs, with the device numbers of the events."""
    table = next((table for table in _GPU_TABLES if table in database.tables), _GPU_TABLES[0])
    numbers = ("id", "gpuId", "deviceId", "totalMemory", "smCount", "numMultiprocessors", "computeMajor")
    more = ("computeMinor", "computeCapabilityMajor", "computeCapabilityMinor")
    rows = database.read(table, (*numbers, *more), ["name"])
    found = {}
    for at, name in enumerate(rows.objects("name")):
        device = _device(rows, at, text_of(name))
        found[device.index] = device
    cuda = database.read("TARGET_INFO_CUDA_DEVICE", ["gpuId", "cudaId"])
    pairs = dict(zip(cuda["cudaId"].tolist(), cuda["gpuId"].tolist(), strict=True))
    if not pairs or ids.is_by_gpu:
        return tuple(device for _, device in sorted(found.items()))
    seen = {index: found[gpu] for index, gpu in pairs.items() if gpu in found}
    return tuple(msgspec.structs.replace(device, index=index) for index, device in sorted(seen.items()))


def _device(rows: Rows, at: int, name: str) -> DeviceInfo:
    def fact(*columns: str) -> int | None:
        known = (int(rows[column][at]) for column in columns if column in rows)
        return next((value for value in known if value >= 0), None)

    major, minor = fact("computeMajor", "computeCapabilityMajor"), fact("computeMinor", "computeCapabilityMinor")
    index = fact("id", "gpuId", "deviceId")
    return DeviceInfo(
        index=at if index is None else index,
        name=name,
        capability=None if major is None or minor is None else f"{major}.{minor}",
        total_memory_bytes=fact("totalMemory"),
        num_sms=fact("smCount", "numMultiprocessors"),
    )


_THREAD_BITS: Final = 24
_THREAD_MASK: Final = (1 << _THREAD_BITS) - 1
_CORRELATION_BITS: Final = 32  # size of CUPTI's correlation ids


def process_of(global_id: Ints) -> Ints:
    """The bits of a global id for host, virtual machine and process; `MISSING` is kept."""
    return np.where(global_id == MISSING, MISSING, global_id >> _THREAD_BITS)


def split_thread(global_id: Ints) -> dict[str, Ints]:
    """``pid`` and ``tid`` of global ids of threads."""
    unknown = global_id == MISSING
    pid = np.where(unknown, MISSING, (global_id >> _THREAD_BITS) & _THREAD_MASK)
    return {"pid": pid, "tid": np.where(unknown, MISSING, global_id & _THREAD_MASK)}


class Identities:
    """Assigns different numbers to things that several processes number the same.

    Attributes:
        is_by_gpu: Whether device numbers are those of the machine, since equal numbers of processes are different GPUs.
        renamed_streams: New number of each stream whose number was already in use, by a description of the stream.
    """

    def __init__(self, database: Database, work: Sequence[str], calls: Sequence[str]) -> None:
        self._gpu_of = _gpus(database)
        # Pairs of a process and a device that it used.
        used: set[tuple[int, int]] = set()
        for table in work:
            rows = database.read(table, ["globalPid", "deviceId"], is_distinct=True)
            used.update(zip(process_of(rows["globalPid"]).tolist(), rows["deviceId"].tolist(), strict=True))
        meanings: dict[int, set[int]] = {}
        for process, device in used:
            meanings.setdefault(device, set()).add(self._gpu_of.get((process & _THREAD_MASK, device), device))
        self.is_by_gpu = any(len(gpus) > 1 for gpus in meanings.values())
        self._offset = _offsets(database, calls)
        self._owners: dict[tuple[int, int], dict[tuple[int, int], int]] = {}
        self.renamed_streams: dict[str, int] = {}

    def devices(self, process: Ints, device: Ints) -> Ints:
        """Device numbers that are unique in the file."""
        if not self.is_by_gpu:
            return device
        return _mapped(
            (process, device), lambda p, d: d if d == MISSING else self._gpu_of.get((p & _THREAD_MASK, d), d)
        )

    def correlations(self, process: Ints, ids: Ints) -> Ints:
        """Correlation ids that are unique among processes."""
        if not self._offset:
            return ids
        shift = _mapped((process,), lambda p: self._offset.get(p, 0))
        return np.where((ids == MISSING) | (ids == 0), ids, ids + shift)

    def streams(self, process: Ints, context: Ints, device: Ints, stream: Ints) -> Ints:
        """Stream numbers that are unique among processes and contexts on a device."""
        return _mapped((device, stream, process, context), self._stream)

    def _stream(self, device: int, stream: int, process: int, context: int) -> int:
        if stream in (MISSING, -1, 0xFFFFFFFF):
            return MISSING
        owners = self._owners.setdefault((device, stream), {})
        if (process, context) not in owners:
            owners[process, context] = stream if not owners else self._free_stream(device, stream, process, context)
        return owners[process, context]

    def _free_stream(self, device: int, stream: int, process: int, context: int) -> int:
        number = (len(self.renamed_streams) + 1) << _CORRELATION_BITS | max(stream, 0) & 0xFFFFFFFF
        self.renamed_streams[
            f"device {device}, process {process & _THREAD_MASK}, context {context}, stream {stream}"
        ] = number
        return number


def _mapped(columns: tuple[Ints, ...], change: Any) -> Ints:
    """`change` applied to each distinct row of `columns`, in order of first occurrence."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes, uniques = pd.factorize(column)
        key = pd.factorize(key * max(len(uniques), 1) + codes)[0].astype(np.int64)
    if not len(key):
        return key
    first = np.unique(key, return_index=True)[1]
    values = np.array([change(*row) for row in zip(*(c[first].tolist() for c in columns), strict=True)], np.int64)
    return values[key]


def _gpus(database: Database) -> dict[tuple[int, int], int]:
    """Number of the GPU of each process (by pid) and device number."""
    rows = database.read("TARGET_INFO_CUDA_DEVICE", ["gpuId", "cudaId", "pid"])
    found = zip(rows["pid"].tolist(), rows["cudaId"].tolist(), rows["gpuId"].tolist(), strict=True)
    return {(pid, cuda): gpu for pid, cuda, gpu in found if MISSING not in (pid, cuda, gpu) and 0 <= gpu < 1 << 31}


def _offsets(database: Database, tables: Sequence[str]) -> dict[int, int]:
    """The offset that makes the correlation ids of each process unique; empty for one process.

    Different ids for the calls of two processes are not enough: a launch that was not recorded may have the id of
    another process's call, which would then be linked to the wrong work.
    """
    threads = [database.read(table, ["globalTid"], is_distinct=True)["globalTid"] for table in tables]
    processes = np.unique(process_of(np.concatenate(threads))) if threads else np.empty(0, np.int64)
    if len(processes) < 2:
        return {}
    return {p: i << _CORRELATION_BITS for i, p in enumerate(processes.tolist())}


_MARKS: Final = (34, 65)  # ENUM_NSYS_EVENT_TYPE: NvtxMark, and the mark of the textual protocol
_PUSH_POP: Final = (59, 70)
_START_END: Final = (60, 71)
_DOMAIN: Final = 75  # its text is the domain's name
_COLUMNS: Final = ("start", "end", "eventType", "globalTid", "endGlobalTid", "textId", "domainId")


def add_ranges(database: Database, table: str, rows: Activities, strings: Mapping[int, str]) -> None:
    """Append the ranges and marks in `table`."""
    found = database.read(table, _COLUMNS, ["text"])
    if not found.num_rows:
        return
    texts = Texts.of(found.objects("text")).filled(Texts.looked_up(found["textId"], strings))
    kind, end = found["eventType"], found["end"]
    is_mark = np.isin(kind, _MARKS)
    is_range = np.isin(kind, (*_PUSH_POP, *_START_END)) | ((kind == MISSING) & (end != MISSING))
    names = _with_domains(found, texts, strings)
    end = _closed(found, is_range, rows)
    kept = np.flatnonzero(is_mark | is_range)
    thread = found["globalTid"]
    crosses = (found["endGlobalTid"] != MISSING) & (found["endGlobalTid"] != 0) & (found["endGlobalTid"] != thread)
    add_texts(
        rows,
        table,
        names.take(kept),
        start=found["start"][kept],
        end=np.where(is_mark, found["start"], end)[kept],
        ints={name: column[kept] for name, column in split_thread(thread).items()},
        is_async=(np.isin(kind, _START_END) | (crosses & is_range))[kept],
        is_instant=is_mark[kept],
    )


def add_texts(
    rows: Activities,
    where: str,
    texts: Texts,
    *,
    start: Ints,
    end: Ints,
    ints: dict[str, Ints],
    is_async: Bools,
    is_instant: Bools,
) -> None:
    """Append ranges with their `texts`, each distinct text parsed once (`nvtx_text.parse`)."""
    parsed = [parse(text) for text in texts.values]
    texts = texts.filled(Texts.same("range without a name", len(texts.codes)))
    parsed.append(OpText("range without a name"))
    ints = ints | {
        "sequence_nr": _taken([op.sequence_nr for op in parsed], texts),
        "external_id": _taken([op.op_id for op in parsed], texts),
    }
    rows.add(
        where,
        start=start,
        end=end,
        name=Texts(texts.codes, [op.name for op in parsed]),
        cat=Texts(texts.codes, [op.cat for op in parsed]),
        ints=ints,
        texts={"shapes": Texts(texts.codes, [op.shapes or "" for op in parsed]).mapped(lambda text: text or None)},
        is_async=is_async,
        is_instant=is_instant,
    )


def _taken(values: list[int | None], texts: Texts) -> Ints:
    return np.array([MISSING if value is None else value for value in values], np.int64)[texts.codes]


def _closed(found: Rows, is_range: Bools, rows: Activities) -> Ints:
    """The ends of ranges; a range without a recorded end ends with the trace."""
    start, end = found["start"], found["end"]
    is_open = is_range & (end == MISSING) & (start != MISSING)
    if not is_open.any():
        return end
    rows.problems.add("range without an end, ended with the trace", "NVTX_EVENTS", int(is_open.sum()))
    last = max(int(end.max()), int(start.max()))
    return np.where(is_open, last, end)


def _with_domains(found: Rows, texts: Texts, strings: Mapping[int, str]) -> Texts:
    """Texts prefixed with the name of their domain, as in nsys's own tables; no prefix for the default domain."""
    domain, process = found["domainId"], process_of(found["globalTid"])
    at = np.flatnonzero((found["eventType"] == _DOMAIN) & (texts.codes >= 0))
    names = {
        (p, d): texts.values[code]
        for p, d, code in zip(process[at].tolist(), domain[at].tolist(), texts.codes[at].tolist(), strict=True)
        if d != 0
    }
    if not names:
        return texts
    values = texts.values

    def full_name(process: int, domain: int, code: int) -> str:
        if code < 0:
            return ""
        return f"{names[process, domain]}:{values[code]}" if (process, domain) in names else values[code]

    return Texts.joined([process, domain, texts.codes], full_name).mapped(lambda text: text or None)


# The text that torch's ``emit_nvtx`` gives an NVTX range.

_TAIL: Final = re.compile(
    r"^(?P<name>.+?)"
    r"(?:, stashed seq ?= ?(?P<stashed>\d{1,18}))?"
    r"(?:, seq ?= ?(?P<seq>\d{1,18}))?"
    r"(?:, op_id ?= ?(?P<op_id>\d{1,18}))?"
    r"(?:, sizes ?= ?(?P<sizes>\[(?:\[[\d, -]*+\](?:, ?)?)*+\]))?"
    r"(?:, input_op_ids ?= ?\[[()\d, ]*+\])?\Z",
    re.DOTALL,
)
_MAX_LENGTH: Final = 1 << 16
_OPERATOR: Final = re.compile(r"[A-Za-z_]\w*(?:::\w+)+(?:\.\w+)?(?:: [\w:]+)?\Z")
#: Prefixes of ranges that torch opens with `record_function`, which are not operators.
_RANGES: Final = ("FSDP::", "FSDP2::", "nccl:", "c10d::", "gloo:", "ProfilerStep#", "Optimizer.", "DataParallel")


class OpText(NamedTuple):
    """The parsed text of a range.

    Attributes:
        name: The operator, or the range's own name.
        cat: ``cpu_op`` or ``user_annotation``.
        sequence_nr: Autograd's sequence number; that of the forward for a backward operator; None if unknown.
        op_id: torch's number of the call, or None.
        shapes: Input shapes as JSON text, or None.
    """

    name: str
    cat: str = "user_annotation"
    sequence_nr: int | None = None
    op_id: int | None = None
    shapes: str | None = None


def parse(text: str) -> OpText:
    """Parse an NVTX range's text; a text that ``emit_nvtx`` did not write is a user annotation.

    The current format is ``aten::mm, seq = 12, op_id = 40, sizes = [[2, 3], [3, 4]], input_op_ids = [(38,0), (39,0)]``
    (``getNvtxStr`` in torch/csrc/profiler/util.cpp), where each part may be absent. Earlier versions write
    ``mm, seq = 12, sizes = [[2, 3]]`` and ``MmBackward, stashed seq=12, seq=13``.
    """
    if ", " not in text or len(text) > _MAX_LENGTH or (found := _TAIL.match(text)) is None:
        return OpText(text)
    name, stashed, seq, op_id, sizes = found.groups()
    seq = stashed or seq
    if seq is op_id is sizes is None:
        return OpText(text)
    # Ranges of `record_function` have texts that are similar to those of operators.
    is_operator = seq is not None or sizes is not None or _OPERATOR.match(name) is not None
    if name.startswith(_RANGES):
        is_operator = False
    return OpText(
        name,
        "cpu_op" if is_operator else "user_annotation",
        None if seq is None else int(seq),
        None if op_id is None else int(op_id),
        sizes.replace(" ", "") if sizes else None,
    )
