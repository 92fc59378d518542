"""Read SQLite exports of Nsight Systems (``nsys export --type sqlite``) into a Trace.

Tables and columns change with each release (export schema 1.x of 2018 to 3.25 of 2026); values that an export does not
have are missing. The schema is documented at https://docs.nvidia.com/nsight-systems/ (Exporter), including thread ids:
a ``globalTid`` has, from its lowest bits, 24 bits for the thread, 24 for the process, 8 for a virtual machine and 8 for
the host.
"""

from __future__ import annotations

import time
from typing import Any, Final

import numpy as np

from cudalens.frames import Trace, build_events, build_memory
from cudalens.frames.limits import Problems
from cudalens.frames.syncs.build import build_syncs
from cudalens.traces.chrome.values import MISSING, Ints
from cudalens.traces.nsys.ids import Identities, process_of, split_thread
from cudalens.traces.nsys.metadata import Session, run_info
from cudalens.traces.nsys.ranges import add_ranges
from cudalens.traces.sqlite import cupti
from cudalens.traces.sqlite.activities import Activities, Texts, is_time, positive
from cudalens.traces.sqlite.demangle import demangler
from cudalens.traces.sqlite.file import Database, Rows
from cudalens.traces.sqlite.unique import refuse_repeats

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
_MEMORY_KINDS: Final = {i: cupti.MEMORY_KINDS[i + 1] for i in range(7)}
_HOST_KINDS: Final = (0, 1)
_PLACE: Final = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid")
_GRAPH: Final = ("graphId", "graphNodeId")
_SHAPE: Final = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
_LAUNCH: Final = ("registersPerThread", "staticSharedMemory", "dynamicSharedMemory")
_NAMES: Final = ("demangledName", "shortName", "mangledName", "name")


def read_nsys(database: Database, problems: Problems) -> Trace:
    """The Trace in an export of nsys."""
    began = time.perf_counter()
    reader = _Reader(database, problems)
    reader.read()
    return reader.to_trace(began)


class _Reader:
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
        rows = self._database.read(KERNELS, [*_PLACE, *_GRAPH, *_SHAPE, *_LAUNCH, *_NAMES])
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
        shape = [rows[column] for column in _SHAPE]
        texts = {"grid": cupti.triple(*shape[:3]), "block_dim": cupti.triple(*shape[3:])}
        self._add_work(KERNELS, rows, "kernel", names, ints, texts)

    def _add_copies(self) -> None:
        rows = self._database.read(COPIES, [*_PLACE, *_GRAPH, "bytes", "copyKind", "srcKind", "dstKind"])
        names = cupti.copy_names(rows["copyKind"], rows["srcKind"], rows["dstKind"], _MEMORY_KINDS)
        self._add_work(COPIES, rows, "gpu_memcpy", names, self._place(rows) | {"num_bytes": rows["bytes"]})
        rows = self._database.read(SETS, [*_PLACE, *_GRAPH, "bytes", "memKind"])
        names = cupti.memset_names(rows["memKind"], _MEMORY_KINDS)
        self._add_work(SETS, rows, "gpu_memset", names, self._place(rows) | {"num_bytes": rows["bytes"]})

    def _add_graphs(self) -> None:
        """Add graphs that nsys recorded as a single row each, without their kernels."""
        rows = self._database.read(GRAPHS, [*_PLACE, "graphId"])
        names = Texts.joined([rows["graphId"]], lambda i: f"CUDA graph {i}" if i != MISSING else "CUDA graph")
        self._add_work(GRAPHS, rows, "kernel", names, self._place(rows))

    def _add_waits(self) -> None:
        rows = self._database.read(WAITS, [*_PLACE, "syncType", "eventId"])
        # Waits for the default stream are recorded as kind 2, a wait for an event, but without an event.
        is_stream = (rows["syncType"] == 2) & (rows["eventId"] == cupti.NO_ID)
        kinds = np.where(is_stream, 3, rows["syncType"])
        names = Texts.joined([kinds], lambda kind: cupti.SYNC_KINDS.get(kind, "Unknown sync"))
        self._add_work(WAITS, rows, "cuda_sync", names, self._place(rows))

    def _add_work(
        self,
        table: str,
        rows: Rows,
        cat: str,
        names: Texts,
        ints: dict[str, Ints],
        texts: dict[str, Texts] | None = None,
    ) -> None:
        start, end = rows["start"], rows["end"]
        self._rows.add(table, start=start, end=end, cat=cat, name=names, ints=ints, texts=texts)

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
        names = names.mapped(cupti.plain_call)
        by_name = names.mapped(lambda name: "cuda_driver" if cupti.is_driver_call(name) else "cuda_runtime")
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
        columns, is_async = self._rows.to_columns()
        num_rows = self._rows.num_rows
        del self._rows
        base = self._session.base_ns(columns["ts"])
        columns["ts"] = columns["ts"] + base
        events = build_events(columns, async_mask=is_async if is_async.any() else None)
        del columns
        frames = {"events": events, "memory": build_memory(self._memory(base), events)}
        frames |= build_syncs(frames)
        info = run_info(self._database, self._session, self._ids, self._strings, events, self._problems)
        build_s = time.perf_counter() - began
        return Trace(info.replace(build_s=build_s, options={"file_events": num_rows}), **frames)

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
    total: Ints = np.where((first == MISSING) & (second == MISSING), MISSING, both)
    return total


def _as_list(values: Ints) -> list[int | None]:
    return [None if value == MISSING else value for value in values.tolist()]
