"""Read Perfetto's protocol buffer traces (``.pftrace``, ``.perfetto-trace``) into a Trace.

The schema is ``protos/perfetto/trace/perfetto_trace.proto``. Slices, instants and counters of tracks are read, as the
Perfetto SDK, torch_xla and Android's system services write them, and the render stages and hardware counters of GPUs,
as PyTorch's profiler and Perfetto's CUDA and HIP producers write them. Data of the kernel (ftrace) and of samplers are
not read; their packets are counted in ``trace.info.extra["unread"]``.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cudalens.errors import TraceFormatError
from cudalens.frames import Trace
from cudalens.frames.limits import ROWS_RATIO, VALUE_BYTES, Limit
from cudalens.traces.chrome.reader import RecordTrace
from cudalens.traces.protobuf.perfetto_events import GPU_SCHEMA, SliceEvents
from cudalens.traces.protobuf.perfetto_tracks import Clocks, Tracks
from cudalens.traces.protobuf.wire import LENGTH, Schema, WireError, fields, message_classes

_SCHEMA: Final[Schema] = {
    **GPU_SCHEMA,
    "TracePacket": {
        "clock_snapshot": (6, "ClockSnapshot"),
        "timestamp": (8, "uint64"),
        "trusted_packet_sequence_id": (10, "uint32"),
        "track_event": (11, "TrackEvent"),
        "interned_data": (12, "InternedData"),
        "sequence_flags": (13, "uint32"),
        "incremental_state_cleared": (41, "bool"),
        "process_descriptor": (43, "ProcessDescriptor"),
        "thread_descriptor": (44, "ThreadDescriptor"),
        "compressed_packets": (50, "bytes"),
        "gpu_counter_event": (52, "GpuCounterEvent"),
        "gpu_render_stage_event": (53, "GpuRenderStageEvent"),
        "timestamp_clock_id": (58, "uint32"),
        "trace_packet_defaults": (59, "Defaults"),
        "track_descriptor": (60, "TrackDescriptor"),
    },
    "Defaults": {"track_event_defaults": (11, "EventDefaults"), "timestamp_clock_id": (58, "uint32")},
    "EventDefaults": {"track_uuid": (11, "uint64")},
    "ClockSnapshot": {"clocks": (1, "*Clock"), "primary_trace_clock": (2, "int32")},
    "Clock": {
        "clock_id": (1, "uint32"),
        "timestamp": (2, "uint64"),
        "is_incremental": (3, "bool"),
        "unit_multiplier_ns": (4, "uint64"),
    },
    "TrackEvent": {
        "timestamp_delta_us": (1, "int64"),
        "category_iids": (3, "*uint64"),
        "debug_annotations": (4, "*Annotation"),
        "legacy_event": (6, "LegacyEvent"),
        "type": (9, "int32"),
        "name_iid": (10, "uint64"),
        "track_uuid": (11, "uint64"),
        "timestamp_absolute_us": (16, "int64"),
        "categories": (22, "*bytes"),
        "name": (23, "bytes"),
        "counter_value": (30, "int64"),
        "double_counter_value": (44, "double"),
        "gpu_correlation": (3000, "GpuCorrelation"),
    },
    "LegacyEvent": {"name_iid": (1, "uint64"), "phase": (2, "int32"), "duration_us": (3, "int64")},
    "Annotation": {
        "name_iid": (1, "uint64"),
        "bool_value": (2, "bool"),
        "uint_value": (3, "uint64"),
        "int_value": (4, "int64"),
        "double_value": (5, "double"),
        "string_value": (6, "bytes"),
        "pointer_value": (7, "uint64"),
        "name": (10, "bytes"),
        "dict_entries": (11, "*Annotation"),
        "array_values": (12, "*Annotation"),
        "string_value_iid": (17, "uint64"),
    },
    "InternedData": {
        "event_categories": (1, "*Interned"),
        "event_names": (2, "*Interned"),
        "debug_annotation_names": (3, "*Interned"),
        "gpu_specifications": (24, "*StageSpecification"),
        "debug_annotation_string_values": (29, "*Interned"),
        "gpu_counter_descriptors": (47, "*InternedCounters"),
        "compute_kernels": (1000, "*ComputeKernel"),
        "compute_arg_names": (1001, "*Interned"),
    },
    "Interned": {"iid": (1, "uint64"), "text": (2, "bytes")},
    "TrackDescriptor": {
        "uuid": (1, "uint64"),
        "name": (2, "bytes"),
        "process": (3, "ProcessDescriptor"),
        "thread": (4, "ThreadDescriptor"),
        "parent_uuid": (5, "uint64"),
        "counter": (8, "CounterDescriptor"),
        "static_name": (10, "bytes"),
    },
    "ProcessDescriptor": {"pid": (1, "int32"), "process_name": (6, "bytes")},
    "ThreadDescriptor": {
        "pid": (1, "int32"),
        "tid": (2, "int32"),
        "thread_name": (5, "bytes"),
        "reference_timestamp_us": (6, "int64"),
    },
    "CounterDescriptor": {
        "unit": (3, "int32"),
        "unit_multiplier": (4, "int64"),
        "is_incremental": (5, "bool"),
        "unit_name": (6, "bytes"),
    },
}
_PACKET: Final = 1
#: Packets with data that is not read, by the number of their field.
_UNREAD: Final = {
    1: "ftrace",
    2: "process tree",
    9: "process statistics",
    37: "heap profile",
    54: "sampled stacks",
    56: "heap graph",
    66: "perf samples",
}
_EXPECTED: Final = "a Perfetto trace with track events or work of GPUs"
_NO_EVENTS: Final = (
    "Only track events, render stages and counters of GPUs are read. For the kernel's and samplers' data, open it in "
    "https://ui.perfetto.dev, or convert it: traceconv json FILE out.json."
)


def read_perfetto(path: Path, data: bytes, limit: Limit) -> Trace:
    """Return the Trace in `data`, a Trace message of Perfetto.

    Raises:
        TraceFormatError: It has no track events, is damaged with nothing usable, or protobuf is not installed.
    """
    reader = _Reader(path, limit)
    reader.read(data)
    return reader.to_trace()


class _Reader:
    def __init__(self, path: Path, limit: Limit) -> None:
        from google.protobuf.message import DecodeError
        from google.protobuf.unknown_fields import UnknownFieldSet

        self._decode_error: Any = DecodeError
        self._unknown_fields: Any = UnknownFieldSet
        self._unread: Counter[str] = Counter()
        self._path, self._limit = path, limit
        self._packet = message_classes(path, "perfetto", _SCHEMA)["TracePacket"]
        self._trace = RecordTrace(path)
        self._clocks, self._tracks = Clocks(), Tracks()
        self._events = SliceEvents(self._clocks, self._tracks, self._trace.problems)
        self._num_packets = self._num_packed = self._num_inflated = 0

    def read(self, data: bytes) -> None:
        """Read all packets; damage ends the reading and is counted."""
        for packet in self._packets(data):
            self._take(packet)
            if packet.compressed_packets:
                for inner in self._packets(self._inflated(packet.compressed_packets)):
                    self._take(inner)

    def _take(self, packet: Any) -> None:
        self._events.take(packet)
        if not packet.HasField("track_event"):
            found = {field.field_number for field in self._unknown_fields(packet)} & _UNREAD.keys()
            self._unread.update(_UNREAD[number] for number in found)

    def _packets(self, data: bytes) -> Iterator[Any]:
        view = memoryview(data)
        try:
            for field in fields(data):
                if field.number != _PACKET or field.kind != LENGTH:
                    continue
                if field.end > len(data):
                    self._trace.problems.add("the file stops before its end", f"byte {field.start}")
                    return
                self._num_packets += 1
                try:
                    yield self._packet.FromString(bytes(view[field.start : field.end]))
                except self._decode_error:
                    self._trace.problems.add("a damaged packet", f"byte {field.start}")
        except WireError as error:
            self._trace.problems.add("the file is damaged", str(error))

    def _inflated(self, data: bytes) -> bytes:
        inflater = zlib.decompressobj()
        found: list[bytes] = []
        self._num_packed += len(data)
        try:
            while data:
                found.append(inflater.decompress(data, 1 << 20))
                self._num_inflated += len(found[-1])
                num_bytes = self._num_inflated * VALUE_BYTES
                self._limit.check(
                    num_bytes, self._num_packed, what="the values of compressed packets", ratio=ROWS_RATIO
                )
                data = inflater.unconsumed_tail
        except zlib.error as error:
            self._trace.problems.add("damaged compressed packets", str(error))
        return b"".join(found)

    def to_trace(self) -> Trace:
        self._events.add_to(self._trace)
        counters = self._events.counters
        if not self._events.num_events and not len(counters) and not len(self._trace.problems):
            found = f"{self._num_packets} packets without a track event or work of a GPU"
            raise TraceFormatError(self._path, found=found, expected=_EXPECTED, hint=_NO_EVENTS)
        return self._trace.to_trace(
            source="file:perfetto", expected=_EXPECTED, base=self._clocks.epoch_ns, counters=counters.to_frame(),
            extra={"unread": _unread_text(self._unread)} if self._unread else {},
        )  # fmt: skip


def _unread_text(counts: Counter[str]) -> str:
    """``12 packets of ftrace, 3 of perf samples``."""
    first, *others = counts.most_common()
    listed = [f"{first[1]:,} packets of {first[0]}", *(f"{number:,} of {name}" for name, number in others)]
    return ", ".join(listed)
