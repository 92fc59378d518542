"""Read SQLite databases of AMD's profilers into a Trace: rocprofv3 (rocpd, ROCm 7) and RPD (rocmProfileData).

The schema is ``rocpd_tables.sql`` of rocprofiler-sdk. Tables end in the id of their process (``rocpd_region_0000a1…``);
one file may have several. Times are in the rows, or in a table of their own (schema of 2026). Times count from the
machine's start.

``rocpd_api`` has the host's calls, ``rocpd_op`` the work of the GPUs, and ``rocpd_api_ops`` which call made which work.
Times count from the machine's start.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from cudalens.frames import DeviceInfo, Trace
from cudalens.frames.build import CounterValues
from cudalens.frames.column_arrays import Ints
from cudalens.frames.lenient_json import SYNTAX_ERRORS, decoder, text_of
from cudalens.frames.limits import Problems
from cudalens.frames.syncs import build_syncs
from cudalens.traces.chrome.values import MISSING
from cudalens.traces.source import run_info_of
from cudalens.traces.sqlite import activities
from cudalens.traces.sqlite.activities import Activities, Texts, call_category, copy_name, demangler
from cudalens.traces.sqlite.file import Database, Rows

_TABLE: Final = re.compile(r"(rocpd_(?:info_)?[a-z]+(?:_[a-z]+)?)((?:_[0-9a-fA-F]{8}[0-9a-fA-F_]{0,40})?)")
_SHAPE: Final = (
    "workgroup_size_x",
    "workgroup_size_y",
    "workgroup_size_z",
    "grid_size_x",
    "grid_size_y",
    "grid_size_z",
)
_TIMES: Final = ("start", "end", "start_id", "end_id", "track_id", "pid", "tid", "event_id")
_STREAMS: Final = ("agent_id", "queue_id", "stream_id")


def is_rocpd(tables: Mapping[str, Any]) -> bool:
    """Return whether `tables` are those of rocprofv3."""
    return any(table.startswith(("rocpd_kernel_dispatch", "rocpd_region", "rocpd_info_")) for table in tables)


def read_rocpd(database: Database, problems: Problems) -> Trace:
    """Return the Trace in a database of rocprofv3."""
    began = time.perf_counter()
    rows, devices, counters = Activities(problems), dict[int, DeviceInfo](), CounterValues()
    for names in _processes(database.tables).values():
        part = _Process(database, names, rows, devices)
        part.read()
        part.add_counters(counters)
    events = rows.to_events()
    frames = {"events": events, "counters": counters.to_frame()}
    frames |= build_syncs({"events": events})
    info = run_info_of(text_of(database.path.stem), "file:rocpd", events, problems, rows.num_rows)
    gpus = tuple(device for _, device in sorted(devices.items()))
    return Trace(info.replace(devices=gpus, build_s=time.perf_counter() - began), **frames)


def _processes(tables: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the tables of each process, by their plain names."""
    found: dict[str, dict[str, str]] = {}
    for table in sorted(tables):
        if match := _TABLE.fullmatch(table):
            found.setdefault(match[2], {})[match[1]] = table
    return found


class _Process:
    def __init__(
        self, database: Database, names: Mapping[str, str], rows: Activities, devices: dict[int, DeviceInfo]
    ) -> None:
        self._database, self._names, self._rows, self._devices = database, names, rows, devices
        self._strings = self._texts("rocpd_string", "string")
        self._times = self._integers("rocpd_timestamp", "value")
        tracks = self._read("rocpd_track", ["id", "pid", "tid", *_STREAMS])
        self._tracks = {column: _lookup(tracks["id"], tracks[column]) for column in ("pid", "tid", *_STREAMS)}
        self._pids = self._integers("rocpd_info_process", "pid")
        self._tids = self._integers("rocpd_info_thread", "tid")
        events = self._read("rocpd_event", ["id", "stack_id", "category_id"], ["extdata"])
        self._correlations = _lookup(events["id"], events["stack_id"])
        self._categories = _lookup(events["id"], events["category_id"])
        self._messages = dict(zip(events["id"].tolist(), map(_message, events.objects("extdata")), strict=True))
        self._device_of = self._agents()

    def _read(self, table: str, ints: list[str], objects: list[str] | None = None) -> Rows:
        return self._database.read(self._names.get(table, table), ints, objects or [])

    def _integers(self, table: str, column: str) -> dict[int, int]:
        rows = self._read(table, ["id", column])
        return _lookup(rows["id"], rows[column])

    def _texts(self, table: str, column: str) -> dict[int, str]:
        rows = self._read(table, ["id"], [column])
        values = zip(rows["id"].tolist(), rows.objects(column), strict=True)
        return {number: text_of(value) for number, value in values if value is not None}

    def _agents(self) -> dict[int, int]:
        """Device number of each agent that is a GPU."""
        rows = self._read(
            "rocpd_info_agent", ["id", "type_index", "logical_index"], ["type", "product_name", "name", "extdata"]
        )
        found: dict[int, int] = {}
        columns = zip(rows["id"].tolist(), rows["type_index"].tolist(), rows.objects("type"), strict=True)
        for at, (agent, index, kind) in enumerate(columns):
            if kind == "GPU":
                device = index if 0 <= index < 1 << 31 else len(found)
                found[agent] = device
                name = rows.objects("product_name")[at] or rows.objects("name")[at]
                facts = _object(rows.objects("extdata")[at])
                sms = facts.get("cu_count")
                self._devices[device] = DeviceInfo(
                    index=device, name=text_of(name), num_sms=sms if isinstance(sms, int) else None
                )
        return found

    def read(self) -> None:
        """Read the kernels, copies and host ranges."""
        self._add_kernels()
        self._add_copies()
        self._add_regions()

    def _add_kernels(self) -> None:
        rows = self._read("rocpd_kernel_dispatch", [*_TIMES, *_STREAMS, *_SHAPE, "kernel_id", "group_segment_size"])
        symbols = self._texts("rocpd_info_kernel_symbol", "display_name")
        symbols = self._texts("rocpd_info_kernel_symbol", "kernel_name") | symbols
        names = Texts.looked_up(rows["kernel_id"], symbols, "kernel without a name (symbol {})")
        names = names.mapped(demangler(names.values))
        blocks, threads = [rows[column] for column in _SHAPE[:3]], [rows[column] for column in _SHAPE[3:]]
        texts = {"block_dim": activities.triple(*blocks), "grid": activities.triple(*map(_blocks, threads, blocks))}
        self._add_work(
            "rocpd_kernel_dispatch", rows, "kernel", names, {"shared_memory_bytes": rows["group_segment_size"]}, texts
        )

    def _add_copies(self) -> None:
        rows = self._read("rocpd_memory_copy", [*_TIMES, *_STREAMS, "name_id", "size", "dst_agent_id", "src_agent_id"])
        names = Texts.looked_up(rows["name_id"], self._strings, "copy without a name (string {})").mapped(copy_name)
        agents = [self._looked_up(rows[column], self._device_of) for column in ("dst_agent_id", "src_agent_id")]
        device = np.where(agents[0] != MISSING, agents[0], agents[1])
        self._add_work("rocpd_memory_copy", rows, "gpu_memcpy", names, {"num_bytes": rows["size"]}, device=device)

    def _add_work(
        self,
        table: str,
        rows: Rows,
        cat: str,
        names: Texts,
        ints: Mapping[str, Ints],
        texts: Mapping[str, Texts] | None = None,
        device: Ints | None = None,
    ) -> None:
        if device is None:
            device = self._looked_up(self._of_track(rows, "agent_id"), self._device_of)
        if unknown := int((device == MISSING).sum()):
            self._rows.problems.add("device work without a device, taken as device 0", table, unknown)
            device = np.where(device == MISSING, 0, device)
        stream, queue = self._of_track(rows, "stream_id"), self._of_track(rows, "queue_id")
        place = {
            "device": device,
            "stream": np.where(stream == MISSING, queue, stream),
            "correlation_id": self._looked_up(rows["event_id"], self._correlations),
        }
        start, end = self._time(rows, "start"), self._time(rows, "end")
        self._rows.add(table, start=start, end=end, cat=cat, name=names, ints={**ints, **place}, texts=texts)

    def _add_regions(self) -> None:
        rows = self._read("rocpd_region", [*_TIMES, "name_id"])
        events = rows["event_id"]
        cats = Texts.looked_up(self._looked_up(events, self._categories), self._strings, "unknown").mapped(
            call_category
        )
        names = self._marked(Texts.looked_up(rows["name_id"], self._strings, "range {}"), cats, events)
        ints = {
            "pid": self._looked_up(self._of_track(rows, "pid"), self._pids),
            "tid": self._looked_up(self._of_track(rows, "tid"), self._tids),
            "correlation_id": self._looked_up(events, self._correlations),
        }
        start, end = self._time(rows, "start"), self._time(rows, "end")
        is_mark = (start == end) & (start != MISSING)
        self._rows.add("rocpd_region", start=start, end=end, cat=cats, name=names, ints=ints, is_instant=is_mark)

    def _marked(self, names: Texts, cats: Texts, events: Ints) -> Texts:
        """`names`, with the program's own text for its markers."""
        if "user_annotation" not in cats.values:
            return names
        marks = {event: text for event, text in self._messages.items() if text}
        messages = Texts.looked_up(events, marks)
        codes = np.where(cats.codes == cats.values.index("user_annotation"), messages.codes, -1)
        return Texts(codes, messages.values).filled(names)

    def add_counters(self, counters: CounterValues) -> None:
        """Add the values of hardware counters, each at the start of the kernel that it is of."""
        rows = self._read("rocpd_pmc_event", ["event_id", "pmc_id"], ["value"])
        if not rows.num_rows:
            return
        kernels = self._read("rocpd_kernel_dispatch", [*_TIMES])
        starts = _lookup(kernels["event_id"], self._time(kernels, "start"))
        names, units = self._texts("rocpd_info_pmc", "symbol"), self._texts("rocpd_info_pmc", "units")
        found = zip(rows["event_id"].tolist(), rows["pmc_id"].tolist(), rows.objects("value"), strict=True)
        for event, pmc, value in found:
            if event in starts:
                counters.add(starts[event], names.get(pmc, f"counter {pmc}"), value, unit=units.get(pmc) or None)

    def _time(self, rows: Rows, column: str) -> Ints:
        return rows[column] if column in rows else self._looked_up(rows[f"{column}_id"], self._times)

    def _of_track(self, rows: Rows, column: str) -> Ints:
        return rows[column] if column in rows else self._looked_up(rows["track_id"], self._tracks[column])

    def _looked_up(self, keys: Ints, values: Mapping[int, int]) -> Ints:
        distinct, at = np.unique(keys, return_inverse=True)
        found = np.array([values.get(key, MISSING) for key in distinct.tolist()], np.int64)
        return found[at] if len(found) else np.empty(0, np.int64)


def _lookup(keys: Ints, values: Ints) -> dict[int, int]:
    return dict(zip(keys.tolist(), values.tolist(), strict=True))


def _blocks(threads: Ints, block: Ints) -> Ints:
    """Number of blocks in a direction: AMD counts threads there."""
    known = (threads != MISSING) & (block > 0)
    return np.where(known, -(-threads // np.maximum(block, 1)), MISSING)


def _object(text: Any) -> dict[str, Any]:
    if not isinstance(text, str | bytes) or len(text) > 1 << 20:
        return {}
    try:
        found = decoder(Any).decode(text)
    except SYNTAX_ERRORS:
        return {}
    return found if isinstance(found, dict) else {}


def _message(extdata: Any) -> str:
    """Return the text of a marker."""
    if not isinstance(extdata, str) or "message" not in extdata:
        return ""
    return text_of(_object(extdata).get("message"))


_MARKER: Final = "UserMarker"


def is_rpd(tables: Mapping[str, Any]) -> bool:
    """Return whether `tables` are those of RPD."""
    return "rocpd_api" in tables or "rocpd_op" in tables


def read_rpd(database: Database, problems: Problems) -> Trace:
    """Return the Trace in a database of RPD."""
    began = time.perf_counter()
    rows = Activities(problems)
    texts = database.read("rocpd_string", ["id"], ["string"])
    strings = dict(zip(texts["id"].tolist(), map(text_of, texts.objects("string")), strict=True))
    _add_calls(database, rows, strings)
    _add_work(database, rows, strings)
    events = rows.to_events()
    frames = {"events": events, "counters": _counters(database).to_frame()}
    frames |= build_syncs({"events": events})
    info = run_info_of(text_of(database.path.stem), "file:rpd", events, problems, rows.num_rows)
    return Trace(info.replace(build_s=time.perf_counter() - began), **frames)


def _add_calls(database: Database, rows: Activities, strings: Mapping[int, str]) -> None:
    found = database.read("rocpd_api", ["id", "pid", "tid", "start", "end", "apiName_id", "args_id"])
    names = Texts.looked_up(found["apiName_id"], strings, "call without a name (string {})")
    is_marker = np.array([name == _MARKER for name in names.values] + [False])[names.codes]
    marks = Texts.looked_up(found["args_id"], strings)
    names = Texts(np.where(is_marker, marks.codes, -1), marks.values).filled(names)
    cats = Texts(np.where(is_marker, 0, 1).astype(np.int64), ["user_annotation", "hip_runtime"])
    ints = {"pid": found["pid"], "tid": found["tid"], "correlation_id": found["id"]}
    is_mark = is_marker & (found["start"] == found["end"]) & (found["start"] != MISSING)
    rows.add("rocpd_api", start=found["start"], end=found["end"], cat=cats, name=names, ints=ints, is_instant=is_mark)


def _add_work(database: Database, rows: Activities, strings: Mapping[int, str]) -> None:
    found = database.read("rocpd_op", ["id", "gpuId", "queueId", "start", "end", "description_id", "opType_id"])
    kinds = Texts.looked_up(found["opType_id"], strings, "unknown")
    names = Texts.looked_up(found["description_id"], strings)
    names = Texts(names.codes, names.values).mapped(lambda text: text or None).filled(kinds)
    names = names.mapped(demangler(names.values)).mapped(copy_name)
    cats = kinds.mapped(_category)
    calls = database.read("rocpd_api_ops", ["api_id", "op_id"])
    call_of = dict(zip(calls["op_id"].tolist(), calls["api_id"].tolist(), strict=True))
    device = found["gpuId"]
    if unknown := int((device < 0).sum()):
        rows.problems.add("device work without a device, taken as device 0", "rocpd_op", unknown)
    ints = {
        "device": np.maximum(device, 0),
        "stream": np.where(found["queueId"] < 0, MISSING, found["queueId"]),
        "correlation_id": _mapped(found["id"], call_of),
    }
    rows.add("rocpd_op", start=found["start"], end=found["end"], cat=cats, name=names, ints=ints)


def _category(kind: str) -> str:
    lower = kind.lower()
    if "copy" in lower:
        return "gpu_memcpy"
    return "gpu_memset" if "fill" in lower or "memset" in lower else "kernel"


def _mapped(keys: Ints, values: Mapping[int, int]) -> Ints:
    return np.array([values.get(key, MISSING) for key in keys.tolist()], np.int64)


def _counters(database: Database) -> CounterValues:
    """Return the readings of the GPUs: clocks, power, use."""
    found = database.read("rocpd_monitor", ["deviceId", "start"], ["monitorType", "deviceType", "value"])
    counters = CounterValues()
    columns = (found.objects(name) for name in ("monitorType", "deviceType", "value"))
    for ts, device, kind, of, value in zip(found["start"].tolist(), found["deviceId"].tolist(), *columns, strict=True):
        counters.add(ts, text_of(kind) or "reading", _number(value), process=f"{text_of(of) or 'device'} {device}")
    return counters


def _number(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, str) and len(value) < 64 else value
    except ValueError:
        return None
