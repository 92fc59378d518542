"""Pass torch's callbacks to the engine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from cudalens.device import gpu_trace
from cudalens.sanitizer.engine.accesses import (
    AccessInfo,
    Allocation,
    CallSite,
    CellAccess,
    Line,
    Operation,
    list_accesses,
)
from cudalens.sanitizer.engine.detector import Detector
from cudalens.sanitizer.engine.races import Findings, Race
from cudalens.sanitizer.engine.shadow import Block, Cell, Shadow
from cudalens.sanitizer.live.calls import MAX_RECORDS, Log
from cudalens.sanitizer.live.memory import Memory
from cudalens.sanitizer.live.streams import Streams


class Recording:
    """One capture and its operations.

    Args:
        graph: Number of the graph.
        origin: Line on which the capture began.
        findings: Receives the races within the capture.

    Attributes:
        graph: As `cudalens.device.gpu_trace.CaptureBegan` numbers it.
        device: Index of the GPU, on whose current stream torch replays the graph.
        is_open: Whether the capture is active.
        entries: The captured operations, event records and waits, as entries of `Log`.
    """

    def __init__(self, graph: int, origin: Line, findings: Findings) -> None:
        self.graph, self.device = graph, origin.id.device
        self.is_open = True
        self.entries: Final[deque[Sequence[Any]]] = deque(maxlen=MAX_RECORDS)
        self._inner = Detector(findings)
        self._lines = {origin}
        self._events: set[int] = set()
        self._blocks: dict[Block, Block] = {}
        self._visits: dict[tuple[Cell, bool], CellAccess] = {}
        self._replay_site: object = None

    def holds(self, line: Line) -> bool:
        """Return whether work on a line is captured."""
        return line in self._lines

    def launch(self, op: Operation, position: int) -> list[Race]:
        """Capture an operation; returns its races with operations captured before."""
        self.entries.append(op)
        line, visits = op[2], list_accesses(op)
        self._inner.position = position
        known = self._inner.clocks.host.vector
        for cell, is_write, info in visits:
            self._visits.pop((cell, is_write), None)  # in order of the last operation that accesses a cell
            self._visits[cell, is_write] = (cell, is_write, info)
        inner = [
            (self._block(AccessInfo(*info).allocation.block).cell(c.region, known), w, info) for c, w, info in visits
        ]
        return self._inner.launch(self._inner.clocks.line(line.id), inner)

    def _block(self, block: Block) -> Block:
        found = self._blocks.get(block)
        if found is None:
            found = self._blocks[block] = Block(block.start, block.end)
        return found

    def record(self, cuda_event: int, line: Line) -> None:
        """An event was recorded on a captured line."""
        self.entries.append(("event_record", cuda_event, line))
        self._events.add(cuda_event)
        self._inner.clocks.record(cuda_event, self._inner.clocks.line(line.id))

    def wait(self, cuda_event: int, line: Line) -> bool:
        """A line waits for an event; True if the wait belongs to this capture, which the line joins."""
        if cuda_event not in self._events:
            return line in self._lines
        self.entries.append(("event_wait", cuda_event, line))
        self._lines.add(line)
        self._inner.clocks.wait(cuda_event, self._inner.clocks.line(line.id))
        return True

    def forget(self, cuda_event: int) -> None:
        """An event was deleted, or recorded outside of the capture."""
        self._events.discard(cuda_event)

    def close(self) -> None:
        """The capture ended."""
        self.is_open = False
        self._blocks.clear()
        self._lines.clear()
        self._events.clear()

    def visits(self, site: Any, shadow: Shadow, known: dict[int, int]) -> list[CellAccess]:
        """Return the accesses of a replay, in the order of the captured operations.

        Args:
            site: Call site of the replay.
            shadow: Of the program; its blocks may have other bounds than when the graph was captured.
            known: Work that the host has observed to be complete.
        """
        current: dict[tuple[Cell, bool], CellAccess] = {}
        for cell, is_write, fields in self._visits.values():
            info = AccessInfo(*fields)
            found = _current(shadow, cell, info.allocation, known)
            if site is not self._replay_site:
                captured = info.site.captured or info.site.place
                info = info._replace(site=CallSite(site.place, site.stack, captured))
            current[found, is_write] = (found, is_write, info)
        self._replay_site = site
        self._visits = current
        return list(current.values())


def _current(shadow: Shadow, cell: Cell, allocation: Allocation, known: dict[int, int]) -> Cell:
    """Return the current cell of a cell's bytes: its block may have been split since."""
    if allocation.block.is_current:
        return cell
    region = cell.region
    block = shadow.find(region.start, region.end)
    if block is None:
        block = shadow.claim(region.start, region.end, known)
    return block.cell(region, known)


class Callbacks:
    """Passes records of `cudalens.device.gpu_trace` to the engine, or to the graph capture that they belong to.

    Args:
        detector: The engine.
        memory: The storages.
        log: The last records.
        site_of: Returns the call site.
        lock: Held while the engine runs.

    Attributes:
        streams: The lines of the streams.
        open_captures: Active graph captures; always the same list.
        num_unseen_replays: Replays of graphs whose capture was not observed, which are not checked.
    """

    def __init__(
        self,
        detector: Detector,
        memory: Memory,
        log: Log,
        site_of: Callable[[], Any],
        lock: AbstractContextManager[Any],
    ) -> None:
        self._detector, self._clocks, self._memory, self._log = detector, detector.clocks, memory, log
        self._site_of = site_of
        self.streams = Streams(detector.clocks, lock, log.blocking)
        self._device = 0
        self._recordings: dict[int, Recording] = {}
        self.open_captures: list[Recording] = []
        self.num_unseen_replays = 0

    def take(self, record: gpu_trace.Record, device: int) -> Sequence[Race]:
        """Apply a record.

        Args:
            record: The record.
            device: The GPU that was current at the time, which distinguishes default streams.

        Returns:
            The races that it causes; only the replay of a graph can.
        """
        self._device = device
        act = _ACTS.get(type(record))
        return () if act is None else act(self, record) or ()

    def launch(self, op: Operation) -> Sequence[Race]:
        """Launch an operation on its line, or add it to the capture that the line belongs to."""
        detector, line = self._detector, op[2]
        detector.position += 1
        for recording in self.open_captures:
            if recording.holds(line):
                self._log.captured.add(op[0].place)
                return recording.launch(op, detector.position)
        self._log.append(op)
        return detector.launch_op(op)

    def _replay(self, line: Line, visits: list[CellAccess]) -> Sequence[Race]:
        detector = self._detector
        detector.position += 1
        self._log.append((line, visits))
        reads_first = sorted(visits, key=lambda visit: visit[1])
        return detector.launch(line, reads_first)

    def _line(self, pointer: int) -> Line:
        return self.streams.of_pointer(pointer, self._device)

    def forget(self) -> None:
        """Drop all graphs."""
        self._recordings.clear()
        self.open_captures.clear()

    def _on_event_recorded(self, record: Any) -> None:
        line = self._line(record.stream)
        for recording in self.open_captures:
            recording.forget(record.cuda_event)
        for recording in self.open_captures:
            if recording.holds(line):
                recording.record(record.cuda_event, line)
                return
        self._clocks.record(record.cuda_event, line)
        self._log.append(("event_record", record.cuda_event, line))

    def _on_event_waited(self, record: Any) -> None:
        line = self._line(record.stream)
        if any(recording.wait(record.cuda_event, line) for recording in self.open_captures):
            return
        self._clocks.wait(record.cuda_event, line)
        self._log.append(("event_wait", record.cuda_event, line))

    def _on_event_deleted(self, record: Any) -> None:
        for recording in self.open_captures:
            recording.forget(record.cuda_event)
        self._clocks.delete(record.cuda_event)
        self._log.append(("event_delete", record.cuda_event))

    def _on_event_synchronized(self, record: Any) -> None:
        self._clocks.wait(record.cuda_event, self._clocks.host)
        self._log.append(("event_sync", record.cuda_event))

    def _on_stream_synchronized(self, record: Any) -> None:
        line = self._line(record.stream)
        self._clocks.host_waits_for(line)
        self._log.append(("stream_sync", line))

    def _on_device_synchronized(self, record: Any) -> None:
        device = self._device
        self._clocks.host_waits_for_device(device)
        if {line.id.device for line in self._clocks.lines} <= {device} and not self._detector.findings.races:
            self._log.clear()  # otherwise a fix is still to be checked on it
        self._log.append(("device_sync", device))

    def _on_devices_ended(self, record: Any) -> None:
        """Work of a later device is ordered after all earlier work, also on streams and addresses that are equal."""
        for device in {line.id.device for line in self._clocks.lines}:
            self._clocks.host_waits_for_device(device)
            self._log.append(("device_sync", device))
        self._clocks.forget_events()
        self.streams.forget()
        self.forget()
        self._memory.forget_devices()

    def _on_stream_created(self, record: Any) -> None:
        self._line(record.stream)

    def _on_allocated(self, record: Any) -> None:
        self._memory.allocated(record.address, self._site_of(), self.streams.of_operator(self._device))

    def _on_recorded_stream(self, record: Any) -> None:
        self._memory.record_stream(record.address, self._line(record.stream))

    def _on_capture_began(self, record: Any) -> None:
        recording = Recording(record.graph, self._line(record.stream), self._detector.findings)
        self._recordings[record.graph] = recording
        self._log.captures.append(recording.entries)
        self.open_captures.append(recording)

    def _on_capture_ended(self, record: Any) -> None:
        recording = self._recordings.get(record.graph)
        if recording is None or recording not in self.open_captures:
            return
        self.open_captures.remove(recording)
        recording.close()
        if not record.is_valid:
            del self._recordings[record.graph]

    def _on_replayed(self, record: Any) -> Sequence[Race]:
        recording = self._recordings.get(record.graph)
        if recording is None:  # captured before the sanitizer was on: its accesses are unknown
            self.num_unseen_replays += 1
            return ()
        visits = recording.visits(self._site_of(), self._detector.shadow, self._clocks.host.vector)
        line = self.streams.of_pointer(record.stream, recording.device)
        for _, _, fields in visits:
            AccessInfo(*fields).allocation.is_shared |= AccessInfo(*fields).allocation.owner is not line
        return self._replay(line, visits)

    def _on_graph_destroyed(self, record: Any) -> None:
        self._recordings.pop(record.graph, None)


_ACTS: Final[dict[type[gpu_trace.Record], Callable[[Callbacks, Any], Sequence[Race] | None]]] = {
    gpu_trace.EventCreated: Callbacks._on_event_deleted,  # an earlier event may have had its pointer
    gpu_trace.EventDeleted: Callbacks._on_event_deleted,
    gpu_trace.EventRecorded: Callbacks._on_event_recorded,
    gpu_trace.EventWaited: Callbacks._on_event_waited,
    gpu_trace.EventSynchronized: Callbacks._on_event_synchronized,
    gpu_trace.EventFoundDone: Callbacks._on_event_synchronized,
    gpu_trace.StreamCreated: Callbacks._on_stream_created,
    gpu_trace.StreamSynchronized: Callbacks._on_stream_synchronized,
    gpu_trace.StreamFoundDone: Callbacks._on_stream_synchronized,
    gpu_trace.DeviceSynchronized: Callbacks._on_device_synchronized,
    gpu_trace.DevicesEnded: Callbacks._on_devices_ended,
    gpu_trace.MemoryAllocated: Callbacks._on_allocated,
    gpu_trace.BlockRecordedOnStream: Callbacks._on_recorded_stream,
    gpu_trace.CaptureBegan: Callbacks._on_capture_began,
    gpu_trace.CaptureEnded: Callbacks._on_capture_ended,
    gpu_trace.GraphReplayed: Callbacks._on_replayed,
    gpu_trace.GraphDestroyed: Callbacks._on_graph_destroyed,
}
