"""Streams and CUDA events of the timing model. No torch.

When work is issued, its start and end are known at once: it starts when the earlier work of its stream, the events that
the stream waits for and the engine allow, and not before the launch reaches the device. A query or a synchronisation
compares these times with the host time.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cudalens.virtual.timing.interfaces import Awaited, Placed, Work

if TYPE_CHECKING:
    from cudalens.virtual.timing.interfaces import Capture
    from cudalens.virtual.timing.machine import Device, Machine

#: A thread's current stream by device index; a missing device uses its default stream.
Streams: TypeAlias = "dict[int, Stream]"

#: Number of switches kept. A node older than the oldest switch gets the streams of the oldest switch.
MAX_SWITCHES: Final = 8192


class History:
    """The current streams of one thread over the sequence numbers that autograd gives to nodes.

    A switch between two nodes adds an entry; switches without a node between them (such as a prefetch of inputs) are
    merged.
    """

    __slots__ = ("_numbers", "_states")

    def __init__(self) -> None:
        self._numbers: list[int] = [0]
        self._states: list[Streams] = [{}]

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def last(self) -> Streams:
        """The streams of the next node."""
        return self._states[-1]

    def record(self, number: int, streams: Streams) -> None:
        """Record that `streams` are current from node `number`.

        Args:
            number: The sequence number of the next node; at least that of the last switch.
            streams: In the format of `named`.
        """
        numbers, states = self._numbers, self._states
        number = max(number, numbers[-1])
        if numbers[-1] == number:
            numbers.pop()
            states.pop()
        if not states or states[-1] != streams:
            numbers.append(number)
            states.append(streams)
        if len(numbers) > MAX_SWITCHES:
            del numbers[: MAX_SWITCHES // 2], states[: MAX_SWITCHES // 2]

    def at(self, number: int) -> Streams:
        """Return the streams that were current when node `number` was made."""
        return self._states[max(bisect_right(self._numbers, number) - 1, 0)]


def named(streams: Streams) -> Streams:
    """Return the streams without default streams, so that equal states compare equal."""
    return {index: stream for index, stream in streams.items() if stream.handle}


class CudaEvent:
    """A CUDA event. Created on its first record, as in torch.

    Attributes:
        handle: The handle; 0 before it is created.
        device: The device of the stream that recorded it first; None before a record.
        record_id: Correlation id of its last record call; None before a record, and for a record without a call.
        recorded_ns: End of the work before its last record, virtual ns; None before a record.
        capture: The capture of its last record; None outside of a capture.
        node: Data of the capture.
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
        """Create a handle if it has none."""
        if not self.handle:
            self.device = device
            self.handle = next(self.machine.event_handles)
            self.machine.call("cudaEventCreateWithFlags", self.machine.spec.event_ns)
            self.machine.signals.event_created(self.handle)

    def delete(self) -> None:
        """Delete the handle."""
        handle, self.handle = self.handle, 0
        if handle:
            self.machine.signals.event_deleted(handle)

    def has_passed(self) -> bool:
        """Return whether the work before its last record has ended at the host time; True before any record."""
        return self.recorded_ns is None or self.recorded_ns <= self.machine.now_ns

    def is_done(self) -> bool:
        """As `has_passed`, for the program: an active capture may forbid it (cudaEventQuery)."""
        if self.machine.captures or self.capture is not None:
            self._check_captures()
        return self.has_passed()

    def _check_captures(self) -> None:
        if self.capture is not None:
            self.capture.touch(self)
        self.machine.check_captures()

    def synchronize(self) -> None:
        """Block the host until it is complete."""
        if not self.handle or self.device is None:
            return
        self.machine.signals.event_synchronized(self.handle)
        if self.machine.captures or self.capture is not None:
            self._check_captures()
        self.wait_done()

    def wait_done(self) -> None:
        """As `synchronize`, for internal events: fires no callback."""
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
    """A queue of work on one device.

    Attributes:
        id: torch's stream_id.
        handle: The handle (cudaStream_t), 0 for the legacy default stream.
        priority: 0 or negative; lower numbers have higher priority.
        is_blocking: Whether it and the legacy default stream wait for each other. torch's pool streams do not.
        tail_ns: End of all its work, virtual ns.
        capture: The graph capture that it belongs to; None otherwise.
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
        """Issue work to the stream; the host time advances by the cost of the call."""
        if self.capture is not None:
            return self.capture.launch(self, work, call)
        machine, device = self.machine, self.device
        if machine.captures:
            machine.check_launch(self)
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
        """Schedule work without advancing the host time."""
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
        """Earliest start of its next work: after its own work, and by the rules of the legacy default stream."""
        if self.handle == 0:
            return max(self.tail_ns, self.device.blocking_tail_ns)
        return max(self.tail_ns, self.device.default_stream.tail_ns) if self.is_blocking else self.tail_ns

    def record(self, cuda_event: CudaEvent) -> None:
        """Record a CUDA event after the work issued so far."""
        cuda_event.create(self.device)
        if self.capture is not None:
            self.capture.record(self, cuda_event)
        else:
            record_id = self.machine.call("cudaEventRecord", self.machine.spec.event_ns)
            self.mark(cuda_event)
            cuda_event.record_id = record_id
        self.machine.notify(self.device, self.machine.signals.event_recorded, cuda_event.handle, self.handle)

    def mark(self, cuda_event: CudaEvent) -> None:
        """As `record`, without advancing the host time and without a callback."""
        cuda_event.device, cuda_event.stream, cuda_event.capture = self.device, self, None
        cuda_event.record_id = None
        cuda_event.recorded_ns = max(self.ready_ns, self.machine.now_ns)

    def wait(self, cuda_event: CudaEvent) -> None:
        """Make all following work wait for a CUDA event. An event without a record has no effect."""
        if not cuda_event.handle:
            return
        self.machine.notify(self.device, self.machine.signals.event_waited, cuda_event.handle, self.handle)
        capture = self.capture or cuda_event.capture
        if capture is not None:  # the capture checks dependencies into and out of it
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
        """Return whether all its work has ended at the host time (cudaStreamQuery)."""
        if self.capture is not None:
            return self.capture.query(self)
        self.machine.check_captures()
        return max(self.tail_ns, self.ready_ns if self.handle == 0 else 0) <= self.machine.now_ns

    def synchronize(self) -> None:
        """Block the host until the stream is idle."""
        self.machine.notify(self.device, self.machine.signals.stream_synchronized, self.handle)
        if self.capture is not None:
            self.capture.synchronize(self)
            return
        self.machine.check_captures()
        self.machine.block_host("cudaStreamSynchronize", "Stream Synchronize", self.ready_ns, self.device, self)
