"""Turn the track events of Perfetto's packets into records and values of counters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np

from cudalens.frames.counters import CounterValues
from cudalens.frames.limits import Problems
from cudalens.traces.chrome.assemble import RecordTrace, args_of
from cudalens.traces.chrome.records import Record
from cudalens.traces.protobuf.perfetto_clocks import Clocks
from cudalens.traces.protobuf.perfetto_gpu import GPU_TABLES, CounterNames, GpuStages
from cudalens.traces.protobuf.perfetto_tracks import Tracks
from cudalens.traces.protobuf.schema import text

_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
#: Phases of the JSON format, in LegacyEvent.
_PHASES: Final = {ord("B"): _BEGIN, ord("E"): _END, ord("i"): _INSTANT, ord("I"): _INSTANT, ord("n"): _INSTANT}
_COMPLETE: Final = ord("X")
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
        sequence = self._state(packet)
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

    def _state(self, packet: Any) -> _Sequence:
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
