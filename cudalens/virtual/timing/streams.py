"""Streams, which order the work of a device, and CUDA events, which order streams. No torch.

When work is issued, its start and end are known at once: it starts when its stream's earlier work, the events that the
stream waits for and the engine allow, and no earlier than the launch reaches the device. A query or a synchronisation
compares those times with the host's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudalens.virtual.timing.interfaces import Awaited
from cudalens.virtual.timing.work import Placed, Work

if TYPE_CHECKING:
    from cudalens.virtual.timing.interfaces import Capture
    from cudalens.virtual.timing.machine import Device, Machine


class CudaEvent:
    """A CUDA event: a mark in a stream. Created on its first record, as torch does.

    Attributes:
        handle: Its pointer; 0 until it is created.
        device: The device of the stream that recorded it first; None until then.
        record_id: Correlation id of the call that recorded it last; None before a record, and where no call did.
        recorded_ns: When the marked work is done, virtual ns; None before a record.
        capture: The capture that the last record belongs to; None outside of one.
        node: What the capture keeps with it.
        is_external: Its records and waits in a capture become nodes of the graph (cudaEventRecordExternal).
    """

    __slots__ = (
        "capture",
        "device",
        "handle",
        "is_blocking",
        "is_external",
        "is_timed",
        "machine",
        "node",
        "record_id",
        "recorded_ns",
        "stream",
    )

    def __init__(
        self, machine: Machine, *, is_timed: bool = False, is_blocking: bool = False, is_external: bool = False
    ) -> None:
        self.machine = machine
        self.handle = 0
        self.device: Device | None = None
        self.stream: Stream | None = None
        self.is_timed, self.is_blocking, self.is_external = is_timed, is_blocking, is_external
        self.record_id: int | None = None
        self.recorded_ns: int | None = None
        self.capture: Capture | None = None
        self.node: Any = None

    def create(self, device: Device) -> None:
        """Give it a handle; nothing where it has one."""
        if not self.handle:
            self.device = device
            self.handle = next(self.machine.event_handles)
            self.machine.call("cudaEventCreateWithFlags", self.machine.spec.event_ns)
            self.machine.signals.event_created(self.handle)

    def delete(self) -> None:
        """Its owner is gone."""
        handle, self.handle = self.handle, 0
        if handle:
            self.machine.signals.event_deleted(handle)

    def has_passed(self) -> bool:
        """Whether all that was marked has ended by the host's time; true before any record."""
        return self.recorded_ns is None or self.recorded_ns <= self.machine.now_ns

    def is_done(self) -> bool:
        """As `has_passed`, asked by the program: a graph capture may forbid it (cudaEventQuery)."""
        if self.machine.captures or self.capture is not None:
            self._judge()
        return self.has_passed()

    def _judge(self) -> None:
        if self.capture is not None:
            self.capture.touch(self)
        self.machine.judge()

    def synchronize(self) -> None:
        """Block the host until it is done."""
        if not self.handle or self.device is None:
            return
        self.machine.signals.event_synchronized(self.handle)
        if self.machine.captures or self.capture is not None:
            self._judge()
        self.wait_done()

    def wait_done(self) -> None:
        """As `synchronize`, for the library's own events, which fire no callback."""
        if self.device is not None:
            self.machine.block_host(
                "cudaEventSynchronize",
                "Event Synchronize",
                self.recorded_ns or 0,
                self.device,
                self.stream,
                self.record_id,
            )


class Stream:
    """A line of work on one device.

    Attributes:
        id: torch's stream_id.
        handle: Its pointer (cudaStream_t), 0 for the legacy default stream.
        priority: 0, or lower for more urgent.
        is_blocking: Whether it and the legacy default stream wait for each other. torch's pool streams do not.
        tail_ns: When all that was issued to it is done.
        capture: The graph capture that it belongs to, or None.
    """

    __slots__ = ("capture", "device", "handle", "id", "is_blocking", "machine", "priority", "tail_ns")

    def __init__(self, device: Device, number: int, handle: int, *, priority: int = 0, is_blocking: bool) -> None:
        self.device, self.machine = device, device.machine
        self.id, self.handle, self.priority, self.is_blocking = number, handle, priority, is_blocking
        self.tail_ns = 0
        self.capture: Capture | None = None

    def __repr__(self) -> str:
        return f"<virtual stream {self.id} of device {self.device.index}>"

    def launch(self, work: Work, call: str = "cudaLaunchKernel") -> Placed:
        """Put work on the stream; the host pays for the call and goes on."""
        if self.capture is not None:
            return self.capture.launch(self, work, call)
        machine, device = self.machine, self.device
        if machine.captures:
            machine.judge_launch(self)
        if machine.op_log is not None:
            machine.op_log.launched(self)
        device.wait_for_queue()
        begin = machine.now_ns
        machine.now_ns = begin + device.spec.launch_ns
        correlation_id = next(machine.correlations)
        placed = self.place(work, machine.now_ns + device.spec.kernel_latency_ns, correlation_id)
        recorder = machine.recorder
        if recorder is not None:
            recorder.called(call, begin, machine.now_ns, correlation_id)
            recorder.worked(self, work, placed)
        return placed

    def place(self, work: Work, earliest_ns: int, correlation_id: int) -> Placed:
        """Give work its time; no host time passes."""
        device = self.device
        ready = max(earliest_ns, self.ready_ns)
        engine = device.engine(work)
        start = engine.place(ready, work.duration_ns, work.room if work.kind == "kernel" else 1.0, self.machine.now_ns)
        end = start + work.duration_ns
        self.tail_ns = end
        device.issued(end, self.is_blocking)
        return Placed(start, end, correlation_id)

    @property
    def ready_ns(self) -> int:
        """When the next piece of work may start: after its own, and by the rules of the legacy default stream."""
        if self.handle == 0:
            return max(self.tail_ns, self.device.blocking_tail_ns)
        return max(self.tail_ns, self.device.default_stream.tail_ns) if self.is_blocking else self.tail_ns

    def record(self, cuda_event: CudaEvent) -> None:
        """Mark what has been issued so far."""
        cuda_event.create(self.device)
        if self.capture is not None:
            self.capture.record(self, cuda_event)
        else:
            record_id = self.machine.call("cudaEventRecord", self.machine.spec.event_ns)
            self.mark(cuda_event)
            cuda_event.record_id = record_id
        self.machine.tell(self.device, self.machine.signals.event_recorded, cuda_event.handle, self.handle)

    def mark(self, cuda_event: CudaEvent) -> None:
        """As `record`, at no host time and without a callback."""
        cuda_event.device, cuda_event.stream, cuda_event.capture = self.device, self, None
        cuda_event.record_id = None
        cuda_event.recorded_ns = max(self.ready_ns, self.machine.now_ns)

    def wait(self, cuda_event: CudaEvent) -> None:
        """Let nothing issued from now on start before the event is done. An event without a record holds up nothing."""
        if not cuda_event.handle:
            return
        self.machine.tell(self.device, self.machine.signals.event_waited, cuda_event.handle, self.handle)
        capture = self.capture or cuda_event.capture
        if capture is not None:  # only a capture can judge an edge into or out of it
            capture.wait(self, cuda_event)
            return
        begin, machine = self.machine.now_ns, self.machine
        correlation_id = machine.call("cudaStreamWaitEvent", machine.spec.event_ns)
        if cuda_event.recorded_ns is None:
            return
        until = max(self.tail_ns, cuda_event.recorded_ns)
        if machine.recorder is not None:
            start = max(self.tail_ns, begin)
            machine.recorder.synchronized(
                "Stream Wait Event",
                self,
                self.device,
                start,
                max(start, until),
                correlation_id,
                Awaited(cuda_event.stream, cuda_event.record_id),
            )
        self.tail_ns = until

    def is_done(self) -> bool:
        """Whether all its work has ended by the host's time (cudaStreamQuery)."""
        if self.capture is not None:
            return self.capture.query(self)
        self.machine.judge()
        return max(self.tail_ns, self.ready_ns if self.handle == 0 else 0) <= self.machine.now_ns

    def synchronize(self) -> None:
        """Block the host until the stream is done."""
        self.machine.tell(self.device, self.machine.signals.stream_synchronized, self.handle)
        if self.capture is not None:
            self.capture.synchronize(self)
            return
        self.machine.judge()
        self.machine.block_host("cudaStreamSynchronize", "Stream Synchronize", self.ready_ns, self.device, self)
