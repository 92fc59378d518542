"""Read XPlane files (``*.xplane.pb``), as the profilers of JAX, TensorFlow and PyTorch/XLA write them, into a Trace.

The schema is ``tsl/profiler/protobuf/xplane.proto``. A plane is a device or the host, and a line of it is a stream, a
thread or a derived track. Times count in picoseconds from the line's own start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from cudalens.frames import Trace
from cudalens.traces.chrome.lanes import stream_of_labels, work_kind
from cudalens.traces.chrome.reader import RecordTrace, args_of
from cudalens.traces.chrome.records import Record
from cudalens.traces.chrome.values import MISSING
from cudalens.traces.protobuf.wire import LENGTH, Schema, WireError, fields, message_classes, text

_STAT: Final = {
    "metadata_id": (1, "int64"),
    "double_value": (2, "double"),
    "uint64_value": (3, "uint64"),
    "int64_value": (4, "int64"),
    "str_value": (5, "bytes"),
    "ref_value": (7, "uint64"),
}
_SCHEMA: Final[Schema] = {
    "XStat": _STAT,
    "XEvent": {
        "metadata_id": (1, "int64"),
        "offset_ps": (2, "int64"),
        "duration_ps": (3, "int64"),
        "stats": (4, "*XStat"),
        "num_occurrences": (5, "int64"),
    },
    "XLine": {
        "id": (1, "int64"),
        "name": (2, "bytes"),
        "timestamp_ns": (3, "int64"),
        "events": (4, "*XEvent"),
        "display_name": (11, "bytes"),
    },
    "Metadata": {"id": (1, "int64"), "name": (2, "bytes"), "display_name": (4, "bytes"), "stats": (5, "*XStat")},
    "Entry": {"key": (1, "int64"), "value": (2, "Metadata")},
}
_PLANES, _NAME, _LINES, _EVENT_NAMES, _STAT_NAMES, _STATS = 1, 2, 3, 4, 5, 6
_EXPECTED: Final = "an XPlane file (*.xplane.pb) with events"
_API: Final = re.compile(r"(?:cuda|hip)[A-Z]\w*")
_DRIVER_API: Final = re.compile(r"cu[A-Z]\w*")
_TPU: Final = re.compile(r"/device:TPU:(\d{1,9})")
_TPU_WORK: Final = "XLA Ops"
_DETAIL: Final = re.compile(r"(\w+):([\d,]+)")
_START: Final = "profile_start_time"
#: Times above this count from the epoch, not from the start of the profile, ns.
_EPOCH_FROM: Final = 10**17


def read_xplane(path: Path, data: bytes) -> Trace:
    """Return the Trace in `data`, an XSpace message.

    Raises:
        TraceFormatError: It is damaged and has no usable event, or protobuf is not installed.
    """
    reader = _Reader(path)
    try:
        for field in fields(data):
            if field.number == _PLANES and field.kind == LENGTH:
                reader.add_plane(data, field.start, min(field.end, len(data)), is_cut=field.end > len(data))
    except WireError as error:
        reader.trace.problems.add("the file is damaged", str(error))
    return reader.to_trace()


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._classes = message_classes(path, "xplane", _SCHEMA)
        self.trace = RecordTrace(path)
        self._base = 0
        self._is_relative = True

    def add_plane(self, data: bytes, start: int, end: int, *, is_cut: bool) -> None:
        """Read one plane, whose names may follow the lines that use them."""
        parts: dict[int, list[memoryview]] = {}
        view = memoryview(data)
        try:
            for field in fields(data, start, end):
                if field.kind == LENGTH and field.end <= end:
                    parts.setdefault(field.number, []).append(view[field.start : field.end])
        except WireError as error:
            self.trace.problems.add("a plane is damaged", str(error))
        if is_cut:
            self.trace.problems.add("the file stops before its end", f"byte {end}")
        plane = _Plane(self, parts)
        for line in parts.get(_LINES, ()):
            plane.add_line(line)
        base = plane.stats.get(_START)
        if isinstance(base, int) and 0 < base < 1 << 62:
            self._base = base

    def decoded(self, name: str, data: memoryview) -> Any:
        """`data` as the message `name`; None, counted, if it is damaged."""
        from google.protobuf.message import DecodeError

        try:
            return self._classes[name].FromString(bytes(data))
        except DecodeError:
            self.trace.problems.add(f"a damaged {name}", "XPlane")
            return None

    def use_time(self, ns: int) -> None:
        """Note a time of the file: large ones already count from the epoch."""
        self._is_relative &= ns < _EPOCH_FROM

    def to_trace(self) -> Trace:
        base = self._base if self._is_relative else 0
        return self.trace.to_trace(source="file:xplane", expected=_EXPECTED, base=base)


class _Plane:
    def __init__(self, reader: _Reader, parts: Mapping[int, list[memoryview]]) -> None:
        self._reader = reader
        self.name = text(bytes(parts[_NAME][0])) if parts.get(_NAME) else "a plane without a name"
        self._stat_names = {entry.id: text(entry.name) for entry in self._entries(parts.get(_STAT_NAMES, []))}
        self._names: dict[int, str] = {}
        self._facts: dict[int, dict[str, Any]] = {}
        for entry in self._entries(parts.get(_EVENT_NAMES, [])):
            self._names[entry.id] = text(entry.name) or text(entry.display_name)
            if entry.stats:
                self._facts[entry.id] = self._values(entry.stats)
        found = [reader.decoded("XStat", part) for part in parts.get(_STATS, ())]
        self.stats = self._values([stat for stat in found if stat is not None])
        self._is_host = self.name.startswith("/host:")
        self._tpu = _TPU.fullmatch(self.name)

    def _entries(self, parts: list[memoryview]) -> Iterator[Any]:
        for part in parts:
            if (entry := self._reader.decoded("Entry", part)) is not None:
                value = entry.value
                value.id = entry.key or value.id
                yield value

    def _values(self, stats: Any) -> dict[str, Any]:
        return {self._stat_names.get(stat.metadata_id, ""): self._value(stat) for stat in stats}

    def _value(self, stat: Any) -> Any:
        if stat.HasField("str_value"):
            return text(stat.str_value)
        if stat.HasField("ref_value"):
            return self._stat_names.get(stat.ref_value, "")
        kinds = ("int64_value", "uint64_value", "double_value")
        return next((getattr(stat, kind) for kind in kinds if stat.HasField(kind)), None)

    def add_line(self, data: memoryview) -> None:
        """Read the events of one line."""
        if (line := self._reader.decoded("XLine", data)) is None or not line.events:
            return
        label = text(line.display_name or line.name)
        where = f"line '{label[:60]}' of plane '{self.name[:60]}'"
        kept = [event for event in line.events if not event.HasField("num_occurrences")]
        if len(kept) < len(line.events):
            self._reader.trace.problems.add("a sum of events without times", where, len(line.events) - len(kept))
        if not kept:
            return
        self._reader.use_time(line.timestamp_ns)
        self._reader.trace.name(self.name, line.id, label)
        start, end = _times(line.timestamp_ns, kept)
        records = [self._record(event, line.id, label) for event in kept]
        self._reader.trace.add(records, start, end - start, where)

    def _record(self, event: Any, line: int, label: str) -> Record:
        name = self._names.get(event.metadata_id, f"event {event.metadata_id}")
        stats = self._facts.get(event.metadata_id, {})
        if event.stats:
            stats = stats | self._values(event.stats)
        args, place = _args(stats), self._place(label)
        if place is not None:
            args |= {"device": place[0], "stream": place[1]}
        cat = self._category(name) if place is None else work_kind(name)
        return Record(ph="X", cat=cat, name=name, pid=self.name, tid=line, args=args_of(args))

    def _place(self, label: str) -> tuple[int, int] | None:
        """Device and stream of a line; None for a thread, and for a line that repeats work under other names."""
        if self._tpu is not None:
            return (int(self._tpu[1]), 0) if label == _TPU_WORK else None
        return stream_of_labels(self.name, label)

    def _category(self, name: str) -> str | None:
        if not self._is_host:
            return None
        if name.startswith("$"):  # Python's own calls: $file.py:12 function
            return "python_function"
        if _API.fullmatch(name):
            return "cuda_runtime"
        return "cuda_driver" if _DRIVER_API.fullmatch(name) else "cpu_op"


def _times(base_ns: int, events: list[Any]) -> tuple[Any, Any]:
    """Starts and ends in ns; both are rounded down, so that nested events stay nested."""
    offset = np.fromiter((event.offset_ps for event in events), np.int64, len(events))
    length = np.fromiter((event.duration_ps for event in events), np.int64, len(events))
    with np.errstate(over="ignore"):
        start, end = base_ns + offset // 1000, base_ns + (offset + length) // 1000
    usable = (length >= 0) & (end >= start) & (abs(base_ns) < 1 << 61) & (np.abs(offset) < 1 << 61)
    return np.where(usable, start, MISSING), np.where(usable, end, MISSING)


def _args(stats: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stats that become columns, by Kineto's names."""
    found: dict[str, Any] = {}
    if isinstance(number := stats.get("correlation_id"), int):
        found["correlation"] = number
    if isinstance(details := stats.get("kernel_details"), str):
        facts = dict(_DETAIL.findall(details[:1000]))
        found |= {ours: _numbers(facts[theirs]) for theirs, ours in _LISTS.items() if theirs in facts}
        found |= {ours: _numbers(facts[theirs])[0] for theirs, ours in _COUNTS.items() if theirs in facts}
    if isinstance(details := stats.get("memcpy_details"), str):
        facts = dict(_DETAIL.findall(details[:1000]))
        found |= {"bytes": _numbers(facts["size"])[0]} if "size" in facts else {}
    return found


_LISTS: Final = {"grid": "grid", "block": "block"}
_COUNTS: Final = {"regs": "registers per thread", "occ_pct": "est. achieved occupancy %"}


def _numbers(value: str) -> list[int]:
    return [int(part[:18]) for part in value.split(",") if part] or [0]
