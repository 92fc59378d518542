"""The model of time: a host that issues, streams that order, engines that have room, events that tell.

No torch here and no clock but the virtual one: integers of nanoseconds from 0, moved by what the program does and by
nothing else, so that the same program gives the same times.

When work is issued, its start and end are known at once: it starts when its stream's earlier work, the events that the
stream waits for and the engine allow, and no earlier than the launch reaches the device. A query or a synchronisation
compares those times with the host's.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from cudalens.virtual.engines import Engine

if TYPE_CHECKING:
    from cudalens.virtual.specs import DeviceSpec

Direction = Literal["HtoD", "DtoH", "DtoD", "PtoP"]
Kind = Literal["kernel", "gpu_memcpy", "gpu_memset"]

STREAMS_PER_POOL: Final = 32
"""kStreamsPerPool of c10/cuda/CUDAStream.cpp: ``torch.cuda.Stream()`` hands them out in turn."""

NUM_PRIORITIES: Final = 4
"""Stream priorities 0 to -3 that torch tells apart (max_compile_time_stream_priorities of c10/cuda/CUDAStream.h)."""

QUEUE_DEPTH: Final = 1024
"""Launches that may be pending on a device before the host has to wait for the oldest."""

_NATIVE: Final = 1
_POOL_TYPE_SHIFT, _INDEX_SHIFT = 1, 5
_EXTERNAL_STREAM_TYPE: Final = 0xF
_STREAM_HANDLES: Final = 0x5500_0000_0000
_EVENT_HANDLES: Final = 0x5600_0000_0000


@dataclass(slots=True)
class Work:
    """Something for a stream to do.

    Attributes:
        kind: Kineto's category of it.
        name: As the timeline shows it.
        duration_ns: How long it keeps its engine.
        room: Part of the device that a kernel fills, above 0, at most 1.
        num_bytes: What it reads and writes, or copies.
        flops: Floating-point operations.
        direction: Of a copy.
        is_pinned: Whether a copy's host side is page-locked.
        grid: Blocks of the modelled launch.
        block: Threads per block of it.
        op: Name of the aten operator that issued it.
    """

    kind: Kind
    name: str
    duration_ns: int
    room: float = 1.0
    num_bytes: int = 0
    flops: int = 0
    direction: Direction | None = None
    is_pinned: bool = False
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    op: str | None = None


class Placed(NamedTuple):
    """When a stream does a piece of work, virtual ns, and the number that ties it to its launch.

    Work of a CUDA graph says which graph and which of its nodes it is.
    """

    start_ns: int
    end_ns: int
    correlation_id: int
    graph_id: int | None = None
    graph_node_id: int | None = None


class Signals(Protocol):
    """What torch.cuda._gpu_trace tells on a real device; pointers are the handles of the objects."""

    def event_created(self, cuda_event: int) -> None:
        """An event came into being: at its first record."""

    def event_deleted(self, cuda_event: int) -> None:
        """An event that had come into being is gone."""

    def event_recorded(self, cuda_event: int, stream: int) -> None:
        """A stream was marked."""

    def event_waited(self, cuda_event: int, stream: int) -> None:
        """A stream was told to wait for a mark."""

    def memory_allocated(self, address: int) -> None:
        """The caching allocator handed out a block."""

    def memory_freed(self, address: int) -> None:
        """A block went back to the caching allocator."""

    def stream_created(self, stream: int) -> None:
        """A stream came into being."""

    def device_synchronized(self) -> None:
        """The host begins to wait for a device."""

    def stream_synchronized(self, stream: int) -> None:
        """The host begins to wait for a stream."""

    def event_synchronized(self, cuda_event: int) -> None:
        """The host begins to wait for an event."""


class Recorder(Protocol):
    """Who wants to know all that happens, with its times. Called after the fact, but for what begins and ends."""

    def begin(self, operator: str) -> Any:
        """An operator's handler begins; without a name, something that no GPU's trace would show."""

    def end(self, begun: Any) -> None:
        """What `begin` returned `begun` for ends."""

    def called(self, name: str, start_ns: int, end_ns: int, correlation_id: int) -> None:
        """The host called the CUDA runtime or driver."""

    def worked(self, stream: Stream, work: Work, placed: Placed) -> None:
        """A stream was given work."""

    def synchronized(
        self,
        name: str,
        stream: Stream | None,
        device: Device,
        start_ns: int,
        end_ns: int,
        correlation_id: int,
        cuda_event: CudaEvent | None,
    ) -> None:
        """The host, or a stream, waited.

        Args:
            name: As CUPTI names it: "Stream Synchronize", "Event Synchronize", "Stream Wait Event" or "Context
                Synchronize".
            stream: Whom it concerns; None for a whole device.
            device: The device.
            start_ns: Virtual ns.
            end_ns: Virtual ns.
            correlation_id: Of the runtime call.
            cuda_event: What was waited for, if it was an event.
        """

    def opened(self, name: str) -> Any:
        """The program opens a range."""

    def closed(self, opened: Any) -> None:
        """The program closes the range that `opened` returned this for."""

    def marked(self, name: str) -> None:
        """The program marks an instant."""

    def ranged(self, name: str, stream: Stream, start_ns: int, end_ns: int) -> None:
        """The program closed a range that it had opened on a stream."""


class Capture(Protocol):
    """A graph capture that a stream belongs to; it answers in the stream's place."""

    device: Device
    """Of the stream that it began on."""

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operator is called: run it and record it."""

    def note(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """An operator has been run: record it."""

    def adopt(self, tensor: Any) -> None:
        """A tensor that torch made on the host for itself joins the device: record what is in it."""

    def embed(self, stream: Stream, graph: Any) -> None:
        """A graph is replayed on a captured stream."""

    def launch(self, stream: Stream, work: Work, call: str) -> Placed:
        """Work was issued to a captured stream."""

    def record(self, stream: Stream, cuda_event: CudaEvent) -> None:
        """A captured stream was marked."""

    def wait(self, stream: Stream, cuda_event: CudaEvent) -> None:
        """A stream is to wait for an event; one of them is captured."""

    def synchronize(self, stream: Stream) -> None:
        """The host would wait for a captured stream."""

    def query(self, stream: Stream) -> bool:
        """The host would ask whether a captured stream is done."""

    def touch(self, cuda_event: CudaEvent) -> None:
        """The host would ask or wait for an event that was recorded in the capture."""

    def judge(self, device: Device | None) -> None:
        """The host asks or waits for something outside of the capture: a stream or an event, or a whole device."""

    def judge_legacy(self, device: Device) -> None:
        """Work is issued to the legacy default stream of a device."""


class CudaEvent:
    """A CUDA event: a mark in a stream. Created on its first record, as torch does.

    Attributes:
        handle: Its pointer; 0 until it is created.
        device: The device of the stream that recorded it first; None until then.
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
        self.recorded_ns: int | None = None
        self.capture: Capture | None = None
        self.node: Any = None

    def create(self, device: Device) -> None:
        """Give it a handle; nothing where it has one."""
        if not self.handle:
            self.device = device
            self.handle = next(self.machine._event_handles)
            self.machine._call("cudaEventCreateWithFlags", self.machine.spec.event_ns)
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
        self.machine._block(
            "cudaEventSynchronize", "Event Synchronize", self.recorded_ns or 0, self.device, self.stream, self
        )

    def wait_done(self) -> None:
        """As `synchronize`, for the library's own events, which fire no callback."""
        if self.device is not None:
            self.machine._block(
                "cudaEventSynchronize", "Event Synchronize", self.recorded_ns or 0, self.device, self.stream, self
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
        device._wait_for_queue()
        begin = machine.now_ns
        machine.now_ns = begin + device.spec.launch_ns
        correlation_id = next(machine._correlations)
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
        device._issued(end, self.is_blocking)
        return Placed(start, end, correlation_id)

    @property
    def ready_ns(self) -> int:
        """When the next piece of work may start: after its own, and by the rules of the legacy default stream."""
        if self.handle == 0:
            return max(self.tail_ns, self.device.blocking_tail_ns)
        return max(self.tail_ns, self.device.default_stream.tail_ns) if self.is_blocking else self.tail_ns

    def _tell(self, signal: Callable[..., None], *pointers: int) -> None:
        """Fire a callback with the stream's device current, as torch's guards have it: every default stream is 0."""
        per_thread = self.machine._per_thread
        before, per_thread.device_index = per_thread.device_index, self.device.index
        try:
            signal(*pointers)
        finally:
            per_thread.device_index = before

    def record(self, cuda_event: CudaEvent) -> None:
        """Mark what has been issued so far."""
        cuda_event.create(self.device)
        if self.capture is not None:
            self.capture.record(self, cuda_event)
        else:
            self.machine._call("cudaEventRecord", self.machine.spec.event_ns)
            self.mark(cuda_event)
        self._tell(self.machine.signals.event_recorded, cuda_event.handle, self.handle)

    def mark(self, cuda_event: CudaEvent) -> None:
        """As `record`, at no host time and without a callback."""
        cuda_event.device, cuda_event.stream, cuda_event.capture = self.device, self, None
        cuda_event.recorded_ns = max(self.ready_ns, self.machine.now_ns)

    def wait(self, cuda_event: CudaEvent) -> None:
        """Let nothing issued from now on start before the event is done. An event without a record holds up nothing."""
        if not cuda_event.handle:
            return
        self._tell(self.machine.signals.event_waited, cuda_event.handle, self.handle)
        if self.capture is not None or cuda_event.capture is not None:
            # Only a capture can judge an edge into or out of it.
            (self.capture or cuda_event.capture).wait(self, cuda_event)  # type: ignore[union-attr]
            return
        begin, machine = self.machine.now_ns, self.machine
        correlation_id = machine._call("cudaStreamWaitEvent", machine.spec.event_ns)
        if cuda_event.recorded_ns is None:
            return
        until = max(self.tail_ns, cuda_event.recorded_ns)
        if machine.recorder is not None:
            start = max(self.tail_ns, begin)
            machine.recorder.synchronized(
                "Stream Wait Event", self, self.device, start, max(start, until), correlation_id, cuda_event
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
        self._tell(self.machine.signals.stream_synchronized, self.handle)
        if self.capture is not None:
            self.capture.synchronize(self)
            return
        self.machine.judge()
        self.machine._block("cudaStreamSynchronize", "Stream Synchronize", self.ready_ns, self.device, self, None)


@dataclass(slots=True)
class _Pool:
    """torch's 32 streams of one priority, handed out in turn."""

    streams: list[Stream] = field(default_factory=list)
    next_index: int = 0


class Device:
    """One virtual GPU.

    Attributes:
        index: Its number, as in ``cuda:0``.
        default_stream: The legacy default stream.
        blocking_tail_ns: When everything on blocking streams is done.
        tail_ns: When everything is done.
        allocator: Its caching allocator; set by who assembles the machine.
    """

    def __init__(self, machine: Machine, index: int) -> None:
        self.machine, self.index, self.spec = machine, index, machine.spec
        self.default_stream = Stream(self, 0, 0, is_blocking=True)
        self.allocator: Any = None
        self.blocking_tail_ns = self.tail_ns = 0
        self._streams: dict[int, Stream] = {0: self.default_stream}
        self._pools: list[_Pool] = []
        self._pools_lock = threading.Lock()
        self._compute = Engine()
        up = Engine()
        down = Engine() if self.spec.num_copy_engines > 1 else up
        self._copiers: dict[str, Engine] = {"HtoD": up, "DtoH": down, "PtoP": Engine()}
        self._pending: deque[int] = deque()

    @property
    def streams(self) -> list[Stream]:
        """All streams that exist."""
        return list(self._streams.values())

    def engine(self, work: Work) -> Engine:
        """The engine that does `work`: copies within the device and memsets run as kernels do."""
        return self._copiers.get(work.direction or "", self._compute)

    def pool_stream(self, priority: int = 0) -> Stream:
        """The next of torch's pool streams; the pools come into being with the first one."""
        if not self._pools:
            self._make_pools()
        pool = self._pools[min(max(-priority, 0), NUM_PRIORITIES - 1)]
        stream = pool.streams[pool.next_index % STREAMS_PER_POOL]
        pool.next_index += 1
        return stream

    def _make_pools(self) -> None:
        with self._pools_lock:
            if not self._pools:
                self._pools = [self._fill(level) for level in range(NUM_PRIORITIES)]

    def _fill(self, level: int) -> _Pool:
        pool = _Pool()
        for index in range(STREAMS_PER_POOL):
            number = index << _INDEX_SHIFT | (level + 1) << _POOL_TYPE_SHIFT | _NATIVE
            handle = next(self.machine._stream_handles)
            stream = Stream(self, number, handle, priority=-level, is_blocking=False)
            self._streams[number] = stream
            pool.streams.append(stream)
            self.machine.signals.stream_created(handle)
        return pool

    def external_stream(self, handle: int) -> Stream:
        """The stream of that pointer, made by another library; torch's id of such a stream is the pointer itself."""
        stream = self.find_stream(handle)
        if stream is None:
            stream = self._streams[handle] = Stream(self, handle, handle, is_blocking=True)
        return stream

    def find_stream(self, handle: int) -> Stream | None:
        """The device's stream of that pointer, None where it has none."""
        return next((stream for stream in self._streams.values() if stream.handle == handle), None)

    def stream(self, number: int) -> Stream:
        """The stream of a torch stream_id.

        Raises:
            KeyError: There is none.
        """
        if number not in self._streams and not self._pools:
            self._make_pools()
        return self._streams[number]

    def synchronize(self) -> None:
        """Block the host until the device is done."""
        self.machine.signals.device_synchronized()
        self.machine.judge(self)
        self.machine._block("cudaDeviceSynchronize", "Context Synchronize", self.tail_ns, self, None, None)

    def drain(self) -> None:
        """As `synchronize`, for the library's own needs, which fire no callback."""
        self.machine._block("cudaDeviceSynchronize", "Context Synchronize", self.tail_ns, self, None, None)

    def _issued(self, end_ns: int, is_blocking: bool) -> None:
        self.tail_ns = max(self.tail_ns, end_ns)
        if is_blocking:
            self.blocking_tail_ns = max(self.blocking_tail_ns, end_ns)
        self._pending.append(end_ns)

    def _wait_for_queue(self) -> None:
        pending, machine = self._pending, self.machine
        while pending and pending[0] <= machine.now_ns:
            pending.popleft()
        if len(pending) >= QUEUE_DEPTH:
            machine.now_ns = max(machine.now_ns, pending.popleft())


class _PerThread(threading.local):
    """What CUDA keeps per host thread: the current device, and on each device the current stream."""

    def __init__(self) -> None:
        self.device_index = 0
        self.streams: dict[int, Stream] = {}


class Machine:
    """A host with its virtual GPUs.

    Args:
        spec: What the GPUs are.
        num_devices: How many.
        signals: Who fires the callbacks of torch.cuda._gpu_trace.

    Attributes:
        now_ns: The host's time, virtual ns.
        recorder: Who records what happens; None while nobody does.
        captures: The graph captures that are under way.
        on_switch: Called when a thread has set a current stream.
        follow: Called before a current stream is read; None unless a backward pass changes streams on its own.
    """

    def __init__(self, spec: DeviceSpec, num_devices: int, signals: Signals) -> None:
        self.spec, self.signals = spec, signals
        self.now_ns = 0
        self.recorder: Recorder | None = None
        self.captures: list[Capture] = []
        self.on_switch: Callable[[], None] | None = None
        self.follow: Callable[[], None] | None = None
        self._correlations = itertools.count(1)
        self._stream_handles = itertools.count(_STREAM_HANDLES, 0x100)
        self._event_handles = itertools.count(_EVENT_HANDLES, 0x40)
        self._per_thread = _PerThread()
        self.devices = [Device(self, index) for index in range(num_devices)]

    @property
    def current_device(self) -> Device:
        """The calling thread's device."""
        return self.devices[self._per_thread.device_index]

    def set_device(self, index: int) -> None:
        """Make a device the calling thread's."""
        self._per_thread.device_index = index

    def current_stream(self, device: Device | None = None) -> Stream:
        """The calling thread's stream on a device."""
        if self.follow is not None:
            self.follow()
        per_thread = self._per_thread
        index = per_thread.device_index if device is None else device.index
        return per_thread.streams.get(index) or self.devices[index].default_stream

    def set_stream(self, stream: Stream) -> None:
        """Make a stream the calling thread's on its device; the current device stays."""
        self._per_thread.streams[stream.device.index] = stream
        if self.on_switch is not None:
            self.on_switch()

    @property
    def thread_streams(self) -> dict[int, Stream]:
        """The calling thread's streams by device index; a device that is not named is on its default stream."""
        return self._per_thread.streams

    @thread_streams.setter
    def thread_streams(self, streams: dict[int, Stream]) -> None:
        self._per_thread.streams = streams

    def judge(self, device: Device | None = None) -> None:
        """Ask the captures that are under way whether the host may wait or ask now; they raise where CUDA forbids it.

        Args:
            device: The device that is waited for as a whole, if one is.
        """
        for capture in tuple(self.captures):
            capture.judge(device)

    def judge_launch(self, stream: Stream) -> None:
        """Ask the captures that are under way whether work may be issued to a stream that is not captured."""
        if stream.handle == 0:
            for capture in tuple(self.captures):
                capture.judge_legacy(stream.device)

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """What the host does in the block is the virtual device's own doing, which no GPU's trace would show."""
        recorder = self.recorder
        begun = None if recorder is None else recorder.begin("")
        try:
            yield
        finally:
            if recorder is not None:
                recorder.end(begun)

    def spend(self, num_ns: int) -> None:
        """Host time that passes without a runtime call."""
        self.now_ns += num_ns

    def _call(self, name: str, cost_ns: int) -> int:
        """A runtime call that returns at once; returns its correlation id."""
        begin = self.now_ns
        self.now_ns = begin + cost_ns
        correlation_id = next(self._correlations)
        if self.recorder is not None:
            self.recorder.called(name, begin, self.now_ns, correlation_id)
        return correlation_id

    def _block(
        self, call: str, name: str, until_ns: int, device: Device, stream: Stream | None, cuda_event: CudaEvent | None
    ) -> None:
        """A runtime call that returns when `until_ns` has come."""
        begin = self.now_ns
        self.now_ns = max(begin, until_ns) + self.spec.sync_ns
        correlation_id = next(self._correlations)
        if self.recorder is not None:
            self.recorder.called(call, begin, self.now_ns, correlation_id)
            self.recorder.synchronized(name, stream, device, begin, self.now_ns, correlation_id, cuda_event)
