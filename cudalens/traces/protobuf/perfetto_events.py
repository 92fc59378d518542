"""Turn track events and GPU packets of Perfetto traces into records and values of counters.

PyTorch's profiler (``.pftrace``) and Perfetto's CUDA and HIP producers write device work as ``GpuRenderStageEvent``
packets: a stage is the kind of the work, a hardware queue is its stream, and a kernel has its launch parameters. A
host call names the stages that it launched; a stage of a CUDA graph names the stages that it waited for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np

from cudalens.frames.build import CounterValues
from cudalens.frames.limits import Problems
from cudalens.traces.chrome.reader import RecordTrace, args_of
from cudalens.traces.chrome.records import Record
from cudalens.traces.protobuf.perfetto_tracks import Clocks, Tracks
from cudalens.traces.protobuf.wire import Schema, text

_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
#: Phases of the JSON format, in LegacyEvent.
_PHASES: Final = {ord("B"): _BEGIN, ord("E"): _END, ord("i"): _INSTANT, ord("I"): _INSTANT, ord("n"): _INSTANT}
_COMPLETE: Final = ord("X")
#: Fields of InternedData with the names of stages, kernels and arguments.
GPU_TABLES: Final = ("gpu_specifications", "compute_kernels", "compute_arg_names")
_TABLES: Final = (
    "event_categories",
    "event_names",
    "debug_annotation_names",
    "debug_annotation_string_values",
    *GPU_TABLES,
)
_CLEARED: Final = 1
_MAX_DEPTH: Final = 8
_VALUES: Final = ("int_value", "uint_value", "double_value", "bool_value", "pointer_value")


@dataclass
class _Sequence:
    """What the packets of one sequence refer to: texts by number, and defaults."""

    texts: dict[str, dict[int, str]] = field(default_factory=lambda: {name: {} for name in _TABLES})
    track: int = 0
    clock: int = 0
    thread_track: int = 0
    time_us: int = 0
    counters: dict[int, CounterNames] = field(default_factory=dict)


@dataclass
class _Event:
    """A slice or its begin or end, or an instant; `kind` is `_BEGIN`, `_END`, `_INSTANT` or `_COMPLETE`."""

    ts: int
    kind: int
    track: int
    name: str
    cat: str | None
    args: msgspec.Raw
    dur: int = 0


class SliceEvents:
    """Collects the track events of a file.

    Attributes:
        counters: Values of counters.
        num_events: Slices and instants so far.
    """

    def __init__(self, clocks: Clocks, tracks: Tracks, problems: Problems) -> None:
        self._clocks, self._tracks, self._problems = clocks, tracks, problems
        self._sequences: dict[int, _Sequence] = {}
        self._events: list[_Event] = []
        self._values: list[tuple[int, int, float]] = []
        self._gpu = GpuStages()
        self.counters = CounterValues()

    @property
    def num_events(self) -> int:
        """Slices, instants and render stages so far."""
        return len(self._events) + len(self._gpu)

    def take(self, packet: Any) -> None:
        """Read one TracePacket message."""
        sequence = self._updated_sequence(packet)
        if packet.HasField("clock_snapshot"):
            self._clocks.add_snapshot(packet.clock_snapshot, packet.trusted_packet_sequence_id)
        if packet.HasField("track_descriptor"):
            self._tracks.add(packet.track_descriptor)
        if packet.HasField("process_descriptor"):
            self._tracks.name_process(packet.process_descriptor)
        if packet.HasField("thread_descriptor"):
            self._take_thread(packet.thread_descriptor, sequence)
        if packet.HasField("track_event"):
            self._take_event(packet, sequence)
        if packet.HasField("gpu_render_stage_event"):
            self._gpu.take_stage(self._packet_time(packet, sequence), packet.gpu_render_stage_event, sequence.texts)
        if packet.HasField("gpu_counter_event"):
            self._gpu.take_counters(self._packet_time(packet, sequence), packet.gpu_counter_event, sequence.counters)

    def _updated_sequence(self, packet: Any) -> _Sequence:
        """Return the sequence of a packet, with the texts and defaults that the packet adds to it."""
        number = packet.trusted_packet_sequence_id
        is_cleared = packet.sequence_flags & _CLEARED or packet.incremental_state_cleared
        if is_cleared or number not in self._sequences:
            self._sequences[number] = _Sequence()
        sequence = self._sequences[number]
        if packet.HasField("interned_data"):
            for name, known in sequence.texts.items():
                known.update((entry.iid, text(entry.text)) for entry in getattr(packet.interned_data, name))
            for kernel in packet.interned_data.compute_kernels:
                sequence.texts["compute_kernels"][kernel.iid] = text(kernel.text) or text(kernel.name)
            for one in packet.interned_data.gpu_counter_descriptors:
                names = CounterNames(one.gpu_id if one.HasField("gpu_id") else None)
                names.add(one.counter_descriptor)
                sequence.counters[one.iid] = names
        if packet.HasField("trace_packet_defaults"):
            defaults = packet.trace_packet_defaults
            sequence.clock = defaults.timestamp_clock_id
            sequence.track = defaults.track_event_defaults.track_uuid
        return sequence

    def _take_thread(self, thread: Any, sequence: _Sequence) -> None:
        """A ThreadDescriptor on its own names the thread of its sequence, in traces from before tracks."""
        self._tracks.name_thread(thread)
        sequence.time_us = thread.reference_timestamp_us
        sequence.thread_track = -1 - (thread.pid << 32 | thread.tid & 0xFFFFFFFF)
        self._tracks.add_thread(sequence.thread_track, thread.pid, thread.tid)

    def _take_event(self, packet: Any, sequence: _Sequence) -> None:
        event = packet.track_event
        ts = self._time(packet, event, sequence)
        kind, dur = self._kind(event)
        track = event.track_uuid if event.HasField("track_uuid") else sequence.track or sequence.thread_track
        if kind == _COUNTER:
            is_float = event.HasField("double_counter_value")
            self._values.append((ts, track, event.double_counter_value if is_float else event.counter_value))
        elif kind:
            name, cat = self._texts(event, sequence)
            self._events.append(_Event(ts, kind, track, name, cat, self._args(event, sequence), dur))
        else:
            self._problems.add("a track event of an unknown type", f"packet at {ts} ns")

    def _time(self, packet: Any, event: Any, sequence: _Sequence) -> int:
        if packet.HasField("timestamp"):
            return self._packet_time(packet, sequence)
        if event.HasField("timestamp_absolute_us"):
            return int(event.timestamp_absolute_us) * 1000
        sequence.time_us += event.timestamp_delta_us
        return sequence.time_us * 1000

    def _packet_time(self, packet: Any, sequence: _Sequence) -> int:
        clock = packet.timestamp_clock_id or sequence.clock
        return self._clocks.to_ns(packet.timestamp, clock, packet.trusted_packet_sequence_id)

    def _kind(self, event: Any) -> tuple[int, int]:
        """Kind of an event, 0 if unknown, and its duration, ns; `_COMPLETE` for one with both ends."""
        if event.type or not event.HasField("legacy_event"):
            return event.type if event.type in (_BEGIN, _END, _INSTANT, _COUNTER) else 0, 0
        legacy = event.legacy_event
        if legacy.phase == _COMPLETE:
            return _COMPLETE, max(int(legacy.duration_us), 0) * 1000
        return _PHASES.get(legacy.phase, 0), 0

    def _texts(self, event: Any, sequence: _Sequence) -> tuple[str, str | None]:
        number = event.name_iid or event.legacy_event.name_iid
        name = text(event.name) or sequence.texts["event_names"].get(number, "")
        cats = [text(cat) for cat in event.categories]
        cats += [sequence.texts["event_categories"].get(iid, "") for iid in event.category_iids]
        return name, next(filter(None, cats), None)

    def _args(self, event: Any, sequence: _Sequence) -> msgspec.Raw:
        found = {self._annotation(one, sequence): self._value(one, sequence) for one in event.debug_annotations}
        launched = list(event.gpu_correlation.render_stage_submission_event_ids)
        if launched:
            number = found.get("correlation")
            if not isinstance(number, int) or isinstance(number, bool):
                number = found["correlation"] = launched[0]
            self._gpu.link(launched, number)
        return args_of(found)

    def _annotation(self, one: Any, sequence: _Sequence) -> str:
        return text(one.name) or sequence.texts["debug_annotation_names"].get(one.name_iid, "")

    def _value(self, one: Any, sequence: _Sequence, depth: int = 0) -> Any:
        if one.HasField("string_value"):
            return text(one.string_value)
        if one.HasField("string_value_iid"):
            return sequence.texts["debug_annotation_string_values"].get(one.string_value_iid, "")
        if depth < _MAX_DEPTH and one.dict_entries:
            return {self._annotation(e, sequence): self._value(e, sequence, depth + 1) for e in one.dict_entries}
        if depth < _MAX_DEPTH and one.array_values:
            return [self._value(entry, sequence, depth + 1) for entry in one.array_values]
        return next((getattr(one, kind) for kind in _VALUES if one.HasField(kind)), None)

    def add_to(self, trace: RecordTrace) -> None:
        """Give all that was found to `trace`, and fill `counters`."""
        self._tracks.name_lanes(trace)
        ends = (_BEGIN, _END)
        for event in self._events:
            if event.kind in ends:
                trace.pairs.add(self._record(event), event.ts)
        for kind in (_COMPLETE, _INSTANT):
            found = [event for event in self._events if event.kind == kind]
            ts = np.array([_bounded(event.ts) for event in found], np.int64)
            dur = np.array([_bounded(event.dur) for event in found], np.int64)
            trace.add([self._record(e) for e in found], ts, dur, "track events", is_instant=kind == _INSTANT)
        self._add_counters()
        self._gpu.add_to(trace, self.counters)

    def _record(self, event: _Event) -> Record:
        pid, tid = self._tracks.key(event.track)
        ph = {_BEGIN: "B", _END: "E"}.get(event.kind, "X")
        return Record(ph=ph, cat=event.cat, name=event.name, pid=pid, tid=tid, args=event.args)

    def _add_counters(self) -> None:
        totals: dict[int, float] = {}
        for ts, uuid, found in sorted(self._values, key=lambda value: value[0]):
            track = self._tracks[uuid]
            value = found * track.scale
            if track.is_incremental:
                value = totals[uuid] = totals.get(uuid, 0) + value
            self.counters.add(
                ts,
                track.name or f"track {uuid}",
                value,
                process=self._tracks.process_label(track.parent) if track.parent else None,
                unit=track.unit or None,
            )


def _bounded(ns: int) -> int:
    """`ns` if it fits into 64 bits, else the largest, which is refused as a time."""
    return ns if -(1 << 63) < ns < 1 << 63 else (1 << 63) - 1


#: The messages of GPU packets, as `cudalens.traces.protobuf.perfetto` combines them with its own.
GPU_SCHEMA: Final[Schema] = {
    "GpuRenderStageEvent": {
        "event_id": (1, "uint64"),
        "duration": (2, "uint64"),
        "hw_queue_id": (3, "int32"),
        "stage_id": (4, "int32"),
        "extra_data": (6, "*ExtraData"),
        "specifications": (7, "Specifications"),
        "gpu_id": (11, "int32"),
        "hw_queue_iid": (13, "uint64"),
        "stage_iid": (14, "uint64"),
        "name": (17, "bytes"),
        "event_wait_ids": (18, "*uint64"),
        "kernel_iid": (19, "uint64"),
        "name_iid": (20, "uint64"),
        "launch": (21, "KernelLaunch"),
    },
    "ExtraData": {"name": (1, "bytes"), "value": (2, "bytes")},
    "Specifications": {"hw_queue": (2, "*Description"), "stage": (3, "*Description")},
    "Description": {"name": (1, "bytes")},
    "KernelLaunch": {"grid_size": (1, "Dim3"), "workgroup_size": (2, "Dim3"), "args": (3, "*ComputeArg")},
    "Dim3": {"x": (1, "uint32"), "y": (2, "uint32"), "z": (3, "uint32")},
    "ComputeArg": {
        "name_iid": (1, "uint64"),
        "name": (2, "bytes"),
        "int_value": (3, "int64"),
        "uint_value": (4, "uint64"),
    },
    "StageSpecification": {"iid": (1, "uint64"), "text": (2, "bytes")},
    "ComputeKernel": {"iid": (1, "uint64"), "name": (2, "bytes"), "text": (3, "bytes")},
    "GpuCounterEvent": {
        "counter_descriptor": (1, "CounterDescriptors"),
        "counters": (2, "*GpuCounter"),
        "gpu_id": (3, "int32"),
        "counter_descriptor_iid": (4, "uint64"),
    },
    "GpuCounter": {"counter_id": (1, "uint32"), "int_value": (2, "int64"), "double_value": (3, "double")},
    "CounterDescriptors": {"specs": (1, "*CounterSpec")},
    "CounterSpec": {"counter_id": (1, "uint32"), "name": (2, "bytes")},
    "InternedCounters": {
        "iid": (1, "uint64"),
        "counter_descriptor": (2, "CounterDescriptors"),
        "gpu_id": (3, "int32"),
    },
    "GpuCorrelation": {"render_stage_submission_event_ids": (1, "*uint64")},
}

_NUMBER: Final = re.compile(r"(?:stream|queue|channel)\W*(\d{1,18})|\[(\d{1,18})\]|(\d{1,18})", re.IGNORECASE)
#: Categories by what the name of a stage contains; other stages are kernels.
_CATEGORIES: Final = (
    (re.compile(r"(?i)memset"), "gpu_memset"),
    (re.compile(r"(?i)memcpy|\bcopy|transfer"), "gpu_memcpy"),
    (re.compile(r"(?i)host ?(?:node|fn|func)|annotation|event ?record|marker"), "gpu_user_annotation"),
)
#: Kineto's names of arguments, by the names in the launch and the extra data of a stage.
_ARGS: Final = {
    "registers_per_thread": "registers per thread",
    "bytes": "bytes",
    "graph id": "graph id",
    "graph node id": "graph node id",
}
_SHARED: Final = ("shared_mem_static", "shared_mem_dynamic")
_MAX_CHAIN: Final = 10_000
_MAX_NS: Final = (1 << 62) - 1


@dataclass
class _Stage:
    ts: int
    dur: int
    event_id: int
    gpu: int
    queue: str
    number: int
    name: str
    cat: str
    args: dict[str, Any]
    waits: tuple[int, ...]


@dataclass
class CounterNames:
    """Names of hardware counters by number, of one GPU or of all.

    Attributes:
        gpu: The GPU; None if events name it.
        names: Name of each counter by its number.
    """

    gpu: int | None = None
    names: dict[int, str] = field(default_factory=dict)

    def add(self, descriptor: Any) -> None:
        """Keep the names in a GpuCounterDescriptor message."""
        self.names.update((spec.counter_id, text(spec.name)) for spec in descriptor.specs)


class GpuStages:
    """Collects render stages and the values of hardware counters."""

    def __init__(self) -> None:
        self._stages: list[_Stage] = []
        self._launched_by: dict[int, int] = {}
        self._queues: list[str] = []
        self._kinds: list[str] = []
        self._counters = CounterNames()
        self._values: list[tuple[int, str, int | None, float]] = []

    def __len__(self) -> int:
        """Number of render stages."""
        return len(self._stages)

    def link(self, event_ids: list[int], correlation: int) -> None:
        """Note which call launched stages, by a number of that call."""
        self._launched_by.update(dict.fromkeys(event_ids, correlation))

    def take_stage(self, ts: int, event: Any, texts: dict[str, dict[int, str]]) -> None:
        """Keep a GpuRenderStageEvent message; `texts` are the interned ones of its sequence."""
        if event.HasField("specifications"):
            self._queues = [text(one.name) for one in event.specifications.hw_queue]
            self._kinds = [text(one.name) for one in event.specifications.stage]
        specs = texts["gpu_specifications"]
        queue = specs.get(event.hw_queue_iid) or _item(self._queues, event.hw_queue_id, event.HasField("hw_queue_id"))
        kind = specs.get(event.stage_iid) or _item(self._kinds, event.stage_id, event.HasField("stage_id"))
        if not event.event_id and not event.duration and not kind:
            return  # only specifications
        extra = {text(one.name): text(one.value) for one in event.extra_data}
        cat = "kernel" if event.kernel_iid else _category(kind)
        kernel = texts["compute_kernels"].get(event.kernel_iid, "")
        interned = texts["event_names"].get(event.name_iid, "")
        name = text(event.name) or kernel or interned or kind or "render stage"
        if extra.get("host fn"):
            name = f"host function {extra['host fn']}"
        number = event.hw_queue_iid or event.hw_queue_id
        # The name of a queue has the number of its stream.
        if found := _NUMBER.search(queue):
            number = int(next(group for group in found.groups() if group))
        number = number if number < 1 << 62 else 0  # larger ones do not fit
        args = _args_of_stage(event, extra, texts["compute_arg_names"])
        waits = tuple(event.event_wait_ids)
        dur = min(event.duration, _MAX_NS)
        self._stages.append(_Stage(ts, dur, event.event_id, event.gpu_id, queue, number, name, cat, args, waits))

    def take_counters(self, ts: int, event: Any, interned: dict[int, CounterNames]) -> None:
        """Keep a GpuCounterEvent message."""
        if event.HasField("counter_descriptor"):
            self._counters.add(event.counter_descriptor)
        known = interned.get(event.counter_descriptor_iid, self._counters)
        gpu = known.gpu
        if gpu is None and event.HasField("gpu_id"):
            gpu = event.gpu_id
        for one in event.counters:
            value = one.double_value if one.HasField("double_value") else one.int_value
            name = known.names.get(one.counter_id) or f"GPU counter {one.counter_id}"
            self._values.append((ts, name, gpu, value))

    def add_to(self, trace: RecordTrace, counters: CounterValues) -> None:
        """Give the stages to `trace`, and the values to `counters`."""
        by_id = {stage.event_id: stage for stage in self._stages}
        records = [self._record(stage, by_id) for stage in self._stages]
        ts = np.array([min(max(stage.ts, -_MAX_NS), _MAX_NS) for stage in self._stages], np.int64)
        dur = np.array([stage.dur for stage in self._stages], np.int64)
        trace.add(records, ts, dur, "render stages")
        for at, name, gpu, value in sorted(self._values, key=lambda one: one[0]):
            counters.add(at, name, value, process=None if gpu is None else f"GPU {gpu}")

    def _record(self, stage: _Stage, by_id: dict[int, _Stage]) -> Record:
        args = {"device": stage.gpu, "stream": stage.number, **stage.args}
        args.setdefault("correlation", self._launch_of(stage, by_id))
        known = {key: value for key, value in args.items() if value is not None}
        return Record(ph="X", cat=stage.cat, name=stage.name, pid=stage.gpu, tid=stage.number, args=args_of(known))

    def _launch_of(self, stage: _Stage, by_id: dict[int, _Stage]) -> int | None:
        """The number of the call that launched a stage, or that launched the first stage that it waits for."""
        seen = 0
        while stage.event_id not in self._launched_by and stage.waits and seen < _MAX_CHAIN:
            before = by_id.get(stage.waits[0])
            if before is None:
                break
            stage, seen = before, seen + 1
        return self._launched_by.get(stage.event_id)


def _item(names: list[str], number: int, is_given: bool) -> str:
    return names[number] if is_given and 0 <= number < len(names) else ""


def _category(kind: str) -> str:
    return next((cat for pattern, cat in _CATEGORIES if pattern.search(kind)), "kernel")


def _args_of_stage(event: Any, extra: dict[str, str], names: dict[int, str]) -> dict[str, Any]:
    """The arguments of a stage, by Kineto's names."""
    found: dict[str, Any] = {}
    given: dict[str, Any] = dict(extra)
    if event.HasField("launch"):
        launch = event.launch
        for key, size in (("grid", launch.grid_size), ("block", launch.workgroup_size)):
            found[key] = [size.x or 1, size.y or 1, size.z or 1]
        for one in launch.args:
            value = one.uint_value if one.HasField("uint_value") else one.int_value
            given[text(one.name) or names.get(one.name_iid, "")] = value
    for key, name in _ARGS.items():
        if (value := _integer(given.get(key))) is not None:
            found[name] = value
    shared = [value for key in _SHARED if (value := _integer(given.get(key))) is not None]
    if shared:
        found["shared memory"] = sum(shared)
    if correlation := _integer(given.get("correlation")):
        found["correlation"] = correlation
    return found


def _integer(value: Any) -> int | None:
    """`value` as a number that fits into 64 bits; None if it is not one."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        return None
    return number if 0 <= number < 1 << 63 else None
