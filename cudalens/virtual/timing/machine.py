"""The timing model: a host thread that issues work, and the virtual devices that run it.

No torch. The only clock is the virtual one, in integer nanoseconds from 0; only the program's actions advance it, so
the same program gives the same times. `streams` orders the work, `engines` places it.
"""

from __future__ import annotations

import itertools
import threading
import time
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from cudalens.device import call_tracing
from cudalens.virtual.timing.interfaces import Awaited
from cudalens.virtual.timing.streams import Stream

if TYPE_CHECKING:
    from cudalens.gpus.registry import DeviceSpec
    from cudalens.virtual.timing.interfaces import Capture, OpLog, Recorder, Signals, Work


#: kStreamsPerPool of c10/cuda/CUDAStream.cpp: ``torch.cuda.Stream()`` returns them in turn.
STREAMS_PER_POOL: Final = 32

#: Stream priorities 0 to -3 that torch distinguishes (max_compile_time_stream_priorities of c10/cuda/CUDAStream.h).
NUM_PRIORITIES: Final = 4

#: Number of pending launches on a device at which the host waits for the oldest.
QUEUE_DEPTH: Final = 1024

#: torch's message on a machine without a GPU, or with all of them hidden.
NO_GPUS: Final = "No CUDA GPUs are available"

#: Bit fields of torch's stream_id of a pool stream: native flag, pool type, index (CUDAStream.cpp).
_NATIVE: Final = 1
_POOL_TYPE_SHIFT, _INDEX_SHIFT = 1, 5

#: First handles; the ranges do not overlap each other or the allocator's addresses.
_STREAM_HANDLES: Final = 0x5500_0000_0000
_EVENT_HANDLES: Final = 0x5600_0000_0000


@dataclass(slots=True)
class _Pool:
    """torch's 32 streams of one priority, used in turn."""

    streams: list[Stream] = field(default_factory=list)
    next_index: int = 0


class Device:
    """One virtual GPU.

    Attributes:
        index: The index, as in ``cuda:0``.
        default_stream: The legacy default stream.
        blocking_tail_ns: End of the work on blocking streams, virtual ns.
        tail_ns: End of all work, virtual ns.
        has_context: Whether it was used, which creates its primary context.
        compute: The engine that runs kernels.
        allocator: Its caching allocator; set after construction.
    """

    def __init__(self, machine: Machine, index: int) -> None:
        self.machine, self.index, self.spec = machine, index, machine.spec
        self.default_stream = Stream(self, 0, 0, is_blocking=True)
        self.allocator: Any = None
        self.blocking_tail_ns = self.tail_ns = 0
        self.has_context = False
        self._streams: dict[int, Stream] = {0: self.default_stream}
        self._by_handle: dict[int, Stream] = {0: self.default_stream}
        self._pools: list[_Pool] = []
        self._pools_lock = threading.Lock()
        self.compute = Engine()
        up = Engine()
        down = Engine() if self.spec.num_copy_engines > 1 else up
        self._copiers: dict[str, Engine] = {"HtoD": up, "DtoH": down, "PtoP": Engine()}
        self._pending: deque[int] = deque()

    @property
    def streams(self) -> list[Stream]:
        """All streams that exist."""
        return list(self._streams.values())

    def engine(self, work: Work) -> Engine:
        """Return the engine for `work`; copies within the device and memsets use the compute engine."""
        return self._copiers.get(work.direction or "", self.compute)

    def pool_stream(self, priority: int = 0) -> Stream:
        """Return the next of torch's pool streams; the first call creates the pools."""
        if not self._pools:
            self._make_pools()
        pool = self._pools[min(max(-priority, 0), NUM_PRIORITIES - 1)]
        stream = pool.streams[pool.next_index % STREAMS_PER_POOL]
        pool.next_index += 1
        return stream

    def _make_pools(self) -> None:
        with self._pools_lock:
            if not self._pools:
                self.has_context = True
                self._pools = [self._fill(level) for level in range(NUM_PRIORITIES)]

    def _fill(self, level: int) -> _Pool:
        pool = _Pool()
        for index in range(STREAMS_PER_POOL):
            number = index << _INDEX_SHIFT | (level + 1) << _POOL_TYPE_SHIFT | _NATIVE
            handle = next(self.machine.stream_handles)
            stream = Stream(self, number, handle, priority=-level, is_blocking=False)
            self._streams[number] = self._by_handle[handle] = stream
            pool.streams.append(stream)
            self.machine.signals.stream_created(handle)
        return pool

    def external_stream(self, handle: int) -> Stream:
        """The stream of that handle, created by another library; torch's id of such a stream is the handle itself."""
        stream = self.find_stream(handle)
        if stream is None:
            stream = Stream(self, handle, handle, is_blocking=True)
            self._streams[handle] = self._by_handle[handle] = stream
        return stream

    def find_stream(self, handle: int) -> Stream | None:
        """Return the device's stream of that handle, or None if there is none."""
        return self._by_handle.get(handle)

    def stream(self, number: int) -> Stream:
        """Return the stream of a torch stream_id.

        Raises:
            KeyError: There is none.
        """
        if number not in self._streams and not self._pools:
            self._make_pools()
        return self._streams[number]

    def synchronize(self) -> None:
        """Block the host until the device is idle."""
        self.has_context = True
        self.machine.signals.device_synchronized()
        self.machine.check_captures(self)
        self.machine.block_host("cudaDeviceSynchronize", "Context Synchronize", self.tail_ns, self, None)

    def drain(self) -> None:
        """As `synchronize`, for internal use: fires no callback."""
        self.machine.block_host("cudaDeviceSynchronize", "Context Synchronize", self.tail_ns, self, None)

    def issued(self, end_ns: int, is_blocking: bool) -> None:
        """Count work that was issued to a stream.

        Args:
            end_ns: Its end, virtual ns.
            is_blocking: Whether the stream is blocking.
        """
        self.has_context = True
        self.tail_ns = max(self.tail_ns, end_ns)
        if is_blocking:
            self.blocking_tail_ns = max(self.blocking_tail_ns, end_ns)
        self._pending.append(end_ns)

    def wait_for_queue(self) -> None:
        """Before a launch: if too many launches are pending, wait for the oldest."""
        pending, machine = self._pending, self.machine
        while pending and pending[0] <= machine.now_ns:
            pending.popleft()
        if len(pending) >= QUEUE_DEPTH:
            machine.now_ns = max(machine.now_ns, pending.popleft())


class _PerThread(threading.local):
    """State per host thread: the current device, and the current stream of each device."""

    def __init__(self) -> None:
        self.device_index = 0
        self.streams: dict[int, Stream] = {}


class Machine:
    """A host and its virtual GPUs.

    Args:
        spec: The specification of the GPUs.
        num_devices: The number of GPUs.
        signals: Fires the callbacks of torch.cuda._gpu_trace.
        measures_host: Whether the real time between the program's calls advances the clock.

    Attributes:
        now_ns: The host time, virtual ns.
        host_time: The real time between the program's calls.
        recorder: Records calls and work; None if nothing is recorded.
        op_log: Logs operators, to run them again in another order; None if nothing is logged.
        captures: The active graph captures.
        correlations: Next correlation ids; they connect runtime calls to the work that they launched.
        stream_handles: Next stream handles.
        event_handles: Next CUDA event handles.
        graph_ids: Next CUDA graph ids.
        on_switch: Called after a thread has set a current stream.
        before_stream_read: Called before a current stream is read; None unless a backward pass changes streams.
    """

    def __init__(self, spec: DeviceSpec, num_devices: int, signals: Signals, *, measures_host: bool = False) -> None:
        self.spec, self.signals = spec, signals
        self.now_ns, self.thread = 0, threading.get_ident()
        self.host_time = HostTime(self._advance if measures_host else None, use=thread_use_reader())
        self.recorder: Recorder | None = None
        self.op_log: OpLog | None = None
        self.captures: list[Capture] = []
        self.on_switch: Callable[[], None] | None = None
        self.before_stream_read: Callable[[], None] | None = None
        self.correlations = itertools.count(1)
        self.stream_handles = itertools.count(_STREAM_HANDLES, 0x100)
        self.event_handles = itertools.count(_EVENT_HANDLES, 0x40)
        self.graph_ids = itertools.count(1)
        self._per_thread = _PerThread()
        self.devices = [Device(self, index) for index in range(num_devices)]

    @property
    def current_device(self) -> Device:
        """The calling thread's device.

        Raises:
            RuntimeError: There is none; torch's message.
        """
        if not self.devices:
            raise RuntimeError(NO_GPUS)
        return self.devices[self._per_thread.device_index]

    def set_device(self, index: int) -> None:
        """Set the calling thread's device."""
        self._per_thread.device_index = index

    def current_stream(self, device: Device | None = None) -> Stream:
        """Return the calling thread's stream on a device."""
        if self.before_stream_read is not None:
            self.before_stream_read()
        per_thread = self._per_thread
        if device is None:
            device = self.current_device
        index = device.index
        return per_thread.streams.get(index) or device.default_stream

    def stream_pointer(self, index: int) -> int | None:
        """Handle of the calling thread's stream on a device; None if there is no such device.

        Collectors call this for every operator: the same as `current_stream`, in one call.

        Args:
            index: The device; negative for the current one.
        """
        if self.before_stream_read is not None:
            self.before_stream_read()
        stream = self._per_thread.streams.get(index)
        if stream is not None:
            return stream.handle
        if index < 0:
            return self.current_stream().handle
        return self.devices[index].default_stream.handle if index < len(self.devices) else None

    def set_stream(self, stream: Stream) -> None:
        """Set the calling thread's stream on the stream's device; the current device stays the same."""
        self._per_thread.streams[stream.device.index] = stream
        if self.on_switch is not None:
            self.on_switch()

    @property
    def thread_streams(self) -> dict[int, Stream]:
        """The calling thread's streams by device index; a missing device uses its default stream."""
        return self._per_thread.streams

    @thread_streams.setter
    def thread_streams(self, streams: dict[int, Stream]) -> None:
        self._per_thread.streams = streams

    def notify(self, device: Device, signal: Callable[..., None], *pointers: int) -> None:
        """Fire a callback with `device` current, as torch's guards do: every device's default stream is 0."""
        per_thread = self._per_thread
        before, per_thread.device_index = per_thread.device_index, device.index
        try:
            signal(*pointers)
        finally:
            per_thread.device_index = before

    def check_captures(self, device: Device | None = None) -> None:
        """Check that no active capture forbids the host to wait or query; raises CUDA's error otherwise.

        Args:
            device: The device that is synchronized, if any.
        """
        for capture in tuple(self.captures):
            capture.check_call(device)

    def check_launch(self, stream: Stream) -> None:
        """Check that no active capture forbids work on a stream that is not captured; raises CUDA's error otherwise."""
        if stream.handle == 0:
            for capture in tuple(self.captures):
                capture.check_legacy(stream.device)

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Do not record what the host does in the block: internal work that no trace of a GPU contains."""
        recorder = self.recorder
        begun = None if recorder is None else recorder.begin("")
        try:
            yield
        finally:
            if recorder is not None:
                recorder.end(begun)

    def _advance(self, num_ns: int) -> None:
        """The program's own code took real time up to now."""
        begin = self.now_ns
        self.now_ns += num_ns
        if self.recorder is not None:
            self.recorder.passed(begin, self.now_ns)

    def call(self, name: str, cost_ns: int, until_ns: int = 0) -> int:
        """Record a runtime call; returns its correlation id.

        Args:
            name: Its name.
            cost_ns: The host time that it takes.
            until_ns: What it waits for first, virtual ns; 0 if it does not wait.
        """
        if self.host_time.is_measured:
            self.host_time.catch_up()
        begin = self.now_ns
        self.now_ns = max(begin, until_ns) + cost_ns
        correlation_id = next(self.correlations)
        if self.recorder is not None:
            self.recorder.called(name, begin, self.now_ns, correlation_id)
        return correlation_id

    def block_host(
        self,
        call: str,
        name: str,
        until_ns: int,
        device: Device,
        stream: Stream | None,
        record_id: int | None = None,
    ) -> None:
        """Record a runtime call that waits until `until_ns`; `record_id` is the call that recorded the CUDA event."""
        if self.host_time.is_measured:
            self.host_time.catch_up()
        begin = self.now_ns
        self.now_ns = max(begin, until_ns) + self.spec.sync_ns
        correlation_id = next(self.correlations)
        if self.recorder is not None:
            self.recorder.called(call, begin, self.now_ns, correlation_id)
            awaited = Awaited(stream, record_id) if name == "Event Synchronize" else None
            self.recorder.synchronized(name, stream, device, begin, self.now_ns, correlation_id, awaited)


# Measure the real time that a program's host takes between its calls of torch and in operators on host tensors.
#
# No torch. The model does not predict these times. The time inside of other calls is not measured: they compute the
# values of the device.

#: Shorter gaps are part of the modelled cost of a call, ns.
SHORT_NS: Final = 50_000


@cache
def thread_use_reader() -> Callable[[], tuple[int, int]] | None:
    """Return a function for the CPU time of a thread so far, ns, and how often it gave up its core to wait.

    None where the system does not count the waits: without them, a sleep looks like the time of another program.
    """
    try:
        from resource import RUSAGE_THREAD, getrusage
    except ImportError:  # Windows, macOS
        return None
    before = getrusage(RUSAGE_THREAD).ru_nvcsw
    time.sleep(1e-6)
    if getrusage(RUSAGE_THREAD).ru_nvcsw == before:
        return None
    return lambda: (time.thread_time_ns(), getrusage(RUSAGE_THREAD).ru_nvcsw)


class HostTime:
    """The gaps between calls on the thread that made this object.

    A gap in which the thread never waited counts its CPU time alone: other programs of a busy machine are not the
    program's.

    Args:
        advance: Called with each gap, ns; None only counts.
        now_ns: The real clock, ns.
        use: A function as `thread_use_reader` returns it; None counts real time alone.

    Attributes:
        now_ns: The real clock, ns.
        total_ns: The gaps so far.
    """

    def __init__(
        self,
        advance: Callable[[int], None] | None = None,
        now_ns: Callable[[], int] = time.perf_counter_ns,
        use: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self.total_ns = 0
        self._advance, self.now_ns, self._use = advance, now_ns, use
        self._left_use = (0, 0) if use is None else use()
        self._thread = threading.get_ident()
        self._depth, self._left_ns = 0, now_ns()

    @property
    def is_measured(self) -> bool:
        """Whether the gaps advance the virtual clock."""
        return self._advance is not None

    def enter(self) -> None:
        """A call begins."""
        if threading.get_ident() != self._thread:
            return
        if not self._depth:
            gap_ns = self.now_ns() - self._left_ns
            if gap_ns >= SHORT_NS:
                self._count(self._own_time(gap_ns))
        self._depth += 1

    @call_tracing.pausable
    def leave(self) -> None:
        """A call ends."""
        if threading.get_ident() != self._thread:
            return
        self._depth = max(self._depth - 1, 0)
        if not self._depth:
            self._leave()

    @contextmanager
    def in_call(self) -> Iterator[None]:
        """A call of torch that no function mode sees, such as a replay, which computes values of the device."""
        try:
            self.enter()
            yield
        finally:
            self.leave()

    def add(self, begin_ns: int) -> None:
        """Count the time since `begin_ns` on the real clock: an operator on host tensors."""
        if threading.get_ident() == self._thread:
            self._count(self.now_ns() - begin_ns)

    def skip(self) -> None:
        """Leave out the time since the last call: it is not the program's."""
        if threading.get_ident() == self._thread and not self._depth:
            self._leave()

    def catch_up(self) -> None:
        """Count the gap up to now, before something reads the virtual clock."""
        self.enter()
        self.leave()

    def _leave(self) -> None:
        self._left_ns = self.now_ns()
        if self._use is not None:
            self._left_use = self._use()

    def _own_time(self, gap_ns: int) -> int:
        if self._use is None:
            return gap_ns
        (left_cpu_ns, left_waits), (cpu_ns, waits) = self._left_use, self._use()
        return gap_ns if waits > left_waits else min(gap_ns, cpu_ns - left_cpu_ns)

    def _count(self, gap_ns: int) -> None:
        if gap_ns < SHORT_NS:
            return
        self.total_ns += gap_ns
        if self._advance is not None:
            self._advance(gap_ns)


# Schedule work on an engine: the earliest start of a piece of work, given the work scheduled before it.

#: The whole engine; a kernel uses a part of it, a copy engine runs one copy at a time.
CAPACITY: Final = 1.0

_FULL: Final = 1e-9
_MIN_SPANS: Final = 64
_MAX_SPANS: Final = 2048
_KEPT_NS: Final = 1_000_000_000


class Engine:
    """Schedules work in the order in which it is issued, as early as its stream and the free capacity allow.

    Scheduled work never moves: the model is a first-come-first-served engine without preemption, which approximates the
    hardware's work distributor for kernels of one priority.
    """

    __slots__ = ("_ends", "_floor_ns", "_last_ns", "_limit", "_longest_ns", "_past", "_rooms", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._rooms: list[float] = []
        self._last_ns = 0
        self._longest_ns = 0
        self._floor_ns = 0
        self._limit = _MIN_SPANS
        self._past: deque[tuple[int, int, int]] = deque()

    def place(self, ready_ns: int, duration_ns: int, room: float, now_ns: int) -> int:
        """Reserve capacity for `duration_ns`, not before `ready_ns`; returns the start, in ns.

        Args:
            ready_ns: Earliest start that the stream and its events allow.
            duration_ns: The duration.
            room: The part of the engine that it uses, above 0, at most 1.
            now_ns: The host time; work that ended before it no longer matters.
        """
        if ready_ns >= self._last_ns:
            self._drop_ended(now_ns if ready_ns > now_ns else ready_ns)
            start = ready_ns
        else:
            # The first of `ready_ns` and the ends of scheduled work at which the work fits. The sum includes all work
            # that overlaps with the new work, even where it does not overlap with each other.
            start = max(ready_ns, self._floor_ns)
            first = bisect_left(self._starts, start - self._longest_ns)  # earlier spans have ended at `start`
            free = CAPACITY + _FULL - room
            if self._used(first, start, start + duration_ns) > free:
                start = self._first_end_with_room(first, start, duration_ns, free)
        if duration_ns:
            self._insert(start, start + duration_ns, room)
        return start

    def _used(self, first: int, start_ns: int, end_ns: int) -> float:
        """Return the capacity that is used in a period, by the spans from index `first`."""
        past = bisect_left(self._starts, end_ns)
        spans = zip(self._ends[first:past], self._rooms[first:past], strict=True)
        return sum(room for end, room in spans if end > start_ns)

    def _first_end_with_room(self, first: int, ready_ns: int, duration_ns: int, free: float) -> int:
        """In one pass over the ends: remove the spans that have ended, add those that start before the work's end."""
        starts, rooms = self._starts[first:], self._rooms[first:]
        used, num_added, num_spans = 0.0, 0, len(starts)
        for end, room in sorted(zip(self._ends[first:], rooms, strict=True)):
            used -= room
            if end <= ready_ns:
                continue
            while num_added < num_spans and starts[num_added] < end + duration_ns:
                used += rooms[num_added]
                num_added += 1
            if used <= free:
                return end
        return max(ready_ns, self._last_ns)

    def _insert(self, start_ns: int, end_ns: int, room: float) -> None:
        if self._starts and start_ns == self._ends[-1] and room == self._rooms[-1]:
            self._ends[-1] = end_ns
            self._longest_ns = max(self._longest_ns, end_ns - self._starts[-1])
        else:
            self._longest_ns = max(self._longest_ns, end_ns - start_ns)
            at = bisect_right(self._starts, start_ns)
            self._starts.insert(at, start_ns)
            self._ends.insert(at, end_ns)
            self._rooms.insert(at, room)
        self._last_ns = max(self._last_ns, end_ns)

    def busy_ns(self, begin_ns: int, end_ns: int) -> int:
        """Return how long the engine was busy in a period within the last second, in ns.

        Dropped spans are kept as sums: exact for a whole sum, evenly distributed within it.
        """
        busy = _union_ns(zip(self._starts, self._ends, strict=True), begin_ns, end_ns)
        for start, end, amount in self._past:
            overlap = min(end, end_ns) - max(start, begin_ns)
            if overlap > 0:
                busy += amount * overlap // (end - start)
        return min(busy, end_ns - begin_ns)

    def _drop_ended(self, now_ns: int) -> None:
        """Drop the spans that have ended. Beyond a bound also the oldest spans: nothing starts before their end."""
        if len(self._ends) < self._limit:
            return
        kept = [i for i, end in enumerate(self._ends) if end > now_ns]
        if len(kept) > _MAX_SPANS:
            dropped, kept = kept[: len(kept) // 2], kept[len(kept) // 2 :]
            self._floor_ns = max(self._floor_ns, *(self._ends[i] for i in dropped))
        self._keep_sums(set(kept))
        self._starts = [self._starts[i] for i in kept]
        self._rooms = [self._rooms[i] for i in kept]
        self._ends = [self._ends[i] for i in kept]
        self._longest_ns = max((end - start for start, end in zip(self._starts, self._ends, strict=True)), default=0)
        self._limit = max(_MIN_SPANS, 2 * len(kept))

    def _keep_sums(self, kept: set[int]) -> None:
        """Keep the busy time of dropped spans for one second."""
        dropped = [(self._starts[i], self._ends[i]) for i in range(len(self._ends)) if i not in kept]
        if not dropped:
            return
        start, end = dropped[0][0], max(span[1] for span in dropped)
        if end > start:
            self._past.append((start, end, _union_ns(dropped, start, end)))
        while self._past and self._past[0][1] < end - _KEPT_NS:
            self._past.popleft()


def _union_ns(spans: Iterable[tuple[int, int]], begin_ns: int, end_ns: int) -> int:
    """Length of the union of spans, sorted by start, within a period."""
    total, until = 0, begin_ns
    for start, end in spans:
        if end > until and start < end_ns:
            total += min(end, end_ns) - max(start, until)
            until = min(end, end_ns)
    return total
