"""Read the JSON of rocprofv3 (``--output-format json``) into a Trace.

The list ``rocprofiler-sdk-tool`` has an entry per process: agents, kernel symbols, names of operations, and
``buffer_records`` with a list per kind of record. Times count from the machine's start.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from cudalens.errors import TraceFormatError
from cudalens.frames import DeviceInfo, Trace
from cudalens.frames.column_arrays import Ints
from cudalens.frames.lenient_json import SYNTAX_ERRORS, decoder, text_of
from cudalens.frames.limits import Problems
from cudalens.frames.syncs import build_syncs
from cudalens.traces.chrome.values import MISSING
from cudalens.traces.source import name_of_file, run_info_of
from cudalens.traces.sqlite import activities
from cudalens.traces.sqlite.activities import Activities, Texts, call_category, copy_name, demangler

KEY: Final = "rocprofiler-sdk-tool"
_EXPECTED: Final = "the JSON of rocprofv3 (rocprofv3 --output-format json)"
_KERNELS: Final = "kernel_dispatch"
_COPIES: Final = "memory_copy"
#: Kinds of records that are not ranges of the host.
_OTHERS: Final = ("memory_allocation", "scratch_memory", "counter_collection", "pc_sample", "page_migration", "ompt")
_GPU: Final = 2


class _Id(msgspec.Struct):
    handle: int | None = None


class _Ids(msgspec.Struct):
    internal: int | None = None


class _Size(msgspec.Struct):
    x: int = 0
    y: int = 0
    z: int = 0


class _Dispatch(msgspec.Struct):
    agent_id: _Id = msgspec.field(default_factory=_Id)
    queue_id: _Id = msgspec.field(default_factory=_Id)
    kernel_id: int | None = None
    group_segment_size: int | None = None
    workgroup_size: _Size = msgspec.field(default_factory=_Size)
    grid_size: _Size = msgspec.field(default_factory=_Size)


class _Record(msgspec.Struct):
    kind: int | str = -1
    operation: int | str = -1
    correlation_id: _Ids = msgspec.field(default_factory=_Ids)
    start_timestamp: int | None = None
    end_timestamp: int | None = None
    thread_id: int | None = None
    dispatch_info: _Dispatch = msgspec.field(default_factory=_Dispatch)
    stream_id: _Id = msgspec.field(default_factory=_Id)
    dst_agent_id: _Id = msgspec.field(default_factory=_Id)
    src_agent_id: _Id = msgspec.field(default_factory=_Id)
    bytes: int | None = None


class _Agent(msgspec.Struct):
    id: _Id = msgspec.field(default_factory=_Id)
    type: int | str | None = None
    name: str = ""
    product_name: str = ""
    cu_count: int | None = None
    logical_node_type_id: int | None = None


class _Symbol(msgspec.Struct):
    kernel_id: int | None = None
    kernel_name: str = ""
    formatted_kernel_name: str = ""


class _Kind(msgspec.Struct):
    kind: str = ""
    operations: list[str] = []


class _Marker(msgspec.Struct):
    key: int | None = None
    value: str = ""


class _Strings(msgspec.Struct):
    buffer_records: list[_Kind] = []
    marker_api: list[_Marker] = []


class _Metadata(msgspec.Struct):
    pid: int | None = None


class _Process(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    agents: list[_Agent] = []
    kernel_symbols: list[_Symbol] = []
    strings: _Strings = msgspec.field(default_factory=_Strings)
    buffer_records: dict[str, msgspec.Raw] = {}


def read_tool_json(path: Path, text: bytes) -> Trace:
    """Return the Trace in `text`.

    Raises:
        TraceFormatError: It is no JSON, or its records have other types.
    """
    began = time.perf_counter()
    problems = Problems()
    rows, devices = Activities(problems), dict[int, DeviceInfo]()
    for process in _processes(path, text):
        _Reader(process, rows, devices).read()
    events = rows.to_events()
    if not len(events) and len(problems):
        raise TraceFormatError(path, found=f"no usable event; first damage: {problems.first()}", expected=_EXPECTED)
    info = run_info_of(name_of_file(path), "file:rocprofv3", events, problems, rows.num_rows)
    gpus = tuple(device for _, device in sorted(devices.items()))
    info = info.replace(devices=gpus, build_s=time.perf_counter() - began)
    return Trace(info, events=events, **build_syncs({"events": events}))


def _processes(path: Path, text: bytes) -> list[_Process]:
    try:
        raw = decoder(dict[str, msgspec.Raw]).decode(text).get(KEY, msgspec.Raw(b"[]"))
        if bytes(raw).lstrip().startswith(b"{"):
            return [decoder(_Process).decode(raw)]
        return decoder(list[_Process]).decode(raw)
    except SYNTAX_ERRORS as error:
        raise TraceFormatError(path, found=f"a damaged file ({text_of(error)[:200]})", expected=_EXPECTED) from error


class _Reader:
    def __init__(self, process: _Process, rows: Activities, devices: dict[int, DeviceInfo]) -> None:
        self._process, self._rows = process, rows
        self._kinds = process.strings.buffer_records
        self._markers = {marker.key: marker.value for marker in process.strings.marker_api}
        self._symbols = {
            i if symbol.kernel_id is None else symbol.kernel_id: symbol.formatted_kernel_name or symbol.kernel_name
            for i, symbol in enumerate(process.kernel_symbols)
        }
        self._device_of: dict[int, int] = {}
        for agent in process.agents:
            if agent.type in (_GPU, "GPU") and agent.id.handle is not None:
                index = agent.logical_node_type_id
                device = index if index is not None and 0 <= index < 1 << 31 else len(self._device_of)
                self._device_of[agent.id.handle] = device
                num_sms = agent.cu_count if 0 < (agent.cu_count or 0) < 1 << 31 else None
                devices[device] = DeviceInfo(index=device, name=agent.product_name or agent.name, num_sms=num_sms)

    def read(self) -> None:
        """Read the records of each kind."""
        for name, raw in self._process.buffer_records.items():
            if name.startswith(_OTHERS):
                continue
            records = self._records(name, raw)
            if name == _KERNELS:
                self._add_kernels(records)
            elif name == _COPIES:
                self._add_copies(records)
            else:
                self._add_calls(name, records)

    def _records(self, name: str, raw: msgspec.Raw) -> list[_Record]:
        try:
            return decoder(list[_Record]).decode(raw)
        except SYNTAX_ERRORS as error:
            self._rows.problems.add("records that cannot be read", f"'{name[:60]}': {text_of(error)[:120]}")
            return []

    def _add_kernels(self, records: Sequence[_Record]) -> None:
        infos = [record.dispatch_info for record in records]
        names = Texts.looked_up(_ints(info.kernel_id for info in infos), self._symbols, "kernel without a name ({})")
        names = names.mapped(demangler(names.values))
        blocks = [_ints(getattr(info.workgroup_size, axis) for info in infos) for axis in "xyz"]
        threads = [_ints(getattr(info.grid_size, axis) for info in infos) for axis in "xyz"]
        grid = [np.where(b > 0, -(-t // np.maximum(b, 1)), t) for t, b in zip(threads, blocks, strict=True)]
        queue = _ints(info.queue_id.handle for info in infos)
        self._add_work(
            _KERNELS,
            records,
            "kernel",
            names,
            [info.agent_id.handle for info in infos],
            {"shared_memory_bytes": _ints(info.group_segment_size for info in infos), "queue": queue},
            {"block_dim": activities.triple(*blocks), "grid": activities.triple(*grid)},
        )

    def _add_copies(self, records: Sequence[_Record]) -> None:
        names = Texts.of([copy_name(self._operation(record)) for record in records])
        agents = [
            record.dst_agent_id.handle if record.dst_agent_id.handle in self._device_of else record.src_agent_id.handle
            for record in records
        ]
        self._add_work(
            _COPIES, records, "gpu_memcpy", names, agents, {"num_bytes": _ints(record.bytes for record in records)}
        )

    def _add_work(
        self,
        where: str,
        records: Sequence[_Record],
        cat: str,
        names: Texts,
        agents: Sequence[int | None],
        ints: dict[str, Ints],
        texts: Mapping[str, Texts] | None = None,
    ) -> None:
        device = _ints(None if agent is None else self._device_of.get(agent) for agent in agents)
        if unknown := int((device == MISSING).sum()):
            self._rows.problems.add("device work without a device, taken as device 0", where, unknown)
            device = np.where(device == MISSING, 0, device)
        stream = _ints(record.stream_id.handle for record in records)
        queue = ints.pop("queue", stream)
        place = {"device": device, "stream": np.where(stream == MISSING, queue, stream)}
        self._add(where, records, cat, names, ints | place, texts)

    def _add_calls(self, name: str, records: Sequence[_Record]) -> None:
        kinds = Texts.of([self._kind(record, name) for record in records])
        cats = kinds.mapped(call_category)
        names = Texts.of([self._name(record) for record in records])
        ints = {
            "pid": _ints([self._process.metadata.pid]).repeat(len(records)),
            "tid": _ints(record.thread_id for record in records),
        }
        self._add(name, records, cats, names, ints, None)

    def _add(
        self,
        where: str,
        records: Sequence[_Record],
        cat: str | Texts,
        names: Texts,
        ints: Mapping[str, Ints],
        texts: Mapping[str, Texts] | None,
    ) -> None:
        start = _ints(record.start_timestamp for record in records)
        end = _ints(record.end_timestamp for record in records)
        correlation = _ints(record.correlation_id.internal for record in records)
        ints = {**ints, "correlation_id": np.where(correlation == 0, MISSING, correlation)}
        self._rows.add(where, start=start, end=end, cat=cat, name=names, ints=ints, texts=texts)

    def _kind(self, record: _Record, otherwise: str) -> str:
        if isinstance(record.kind, str):
            return record.kind
        return self._kinds[record.kind].kind if 0 <= record.kind < len(self._kinds) else otherwise

    def _operation(self, record: _Record) -> str:
        if isinstance(record.operation, str):
            return record.operation
        kind = record.kind if isinstance(record.kind, int) else -1
        known = self._kinds[kind].operations if 0 <= kind < len(self._kinds) else []
        return known[record.operation] if 0 <= record.operation < len(known) else f"operation {record.operation}"

    def _name(self, record: _Record) -> str:
        """Return the text of a marker, else the name of the operation."""
        return self._markers.get(record.correlation_id.internal) or self._operation(record)


def _ints(values: Iterable[int | None]) -> Ints:
    """Integers, with `MISSING` for None and for numbers beyond 64 bits."""
    return np.array([MISSING if v is None or not -(1 << 63) < v < 1 << 63 else v for v in values], np.int64)
