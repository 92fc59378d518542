"""Compute the order of a logged program's tasks from streams, events, synchronisations and reused blocks.

The input are the records of `cudalens.device.gpu_trace`; `Builder` computes the partial order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from cudalens.device import gpu_trace
from cudalens.virtual.explorer.logged import Span
from cudalens.virtual.explorer.orders import Builder, Clock, merged_clocks

if TYPE_CHECKING:
    from cudalens.virtual.timing.machine import Device, Machine
    from cudalens.virtual.timing.streams import Stream


class Waits:
    """The order of one log's tasks.

    Args:
        machine: The virtual devices.

    Attributes:
        builder: The order so far.
        streams: The stream of each lane by its number, without the host's lane.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.builder = Builder()
        self.streams: dict[int, Stream] = {}
        self._lanes: dict[tuple[int, int], int] = {}
        self._shared: dict[int, set[int]] = {}
        self._fences: list[tuple[Span, Clock]] = []
        for device in machine.devices:
            self.lane(device.default_stream)

    def lane(self, stream: Stream) -> int:
        """Return the number of a stream's lane."""
        key = stream.device.index, stream.handle
        lane = self._lanes.get(key)
        if lane is None:
            is_legacy = stream.handle == 0
            lane = self._lanes[key] = self.builder.lane(
                stream.device.index, is_legacy=is_legacy, is_blocking=stream.is_blocking and not is_legacy
            )
            self.streams[lane] = stream
        return lane

    def current_lane(self, device: Device | None = None) -> int:
        """Return the lane of a device's current stream; by default the current device's."""
        return self.lane(self._machine.current_stream(device or self._machine.current_device))

    def add(self, lane: int, touched: Iterable[Span]) -> int:
        """Add a task to a lane; returns its number.

        Args:
            lane: The lane.
            touched: The bytes that it accesses.
        """
        return self.builder.add(lane, self._fences_of(touched))

    def add_accesses(self, number: int, spans: Iterable[Span]) -> None:
        """Add bytes that the last task of its lane accesses."""
        if fences := self._fences_of(spans):
            self.builder.need(number, merged_clocks(fences))

    def host_waits(self, stream: Stream) -> None:
        """The host waits for a stream within a copy, without a synchronisation call."""
        self.builder.synchronize(self.lane(stream))

    # Blocks

    def is_shared(self, address: int) -> bool:
        """Return whether ``record_stream`` was called with another stream for the block at an address."""
        return address in self._shared

    def freed(self, address: int, block: Span) -> None:
        """A block that other streams use is reused after the work that they hold now."""
        lanes = self._shared.pop(address, ())
        self._fences.append((block, merged_clocks(self.builder.reached(lane) for lane in lanes)))

    def _fences_of(self, spans: Iterable[Span]) -> list[Clock]:
        if not self._fences:
            return []
        touched = list(spans)
        return [clock for fence, clock in self._fences if any(fence.overlaps(span) for span in touched)]

    # Events and synchronisations

    def handle(self, record: gpu_trace.Record) -> None:
        """Handle a record; records that do not affect the order are ignored."""
        handler = _HANDLERS.get(type(record))
        if handler is not None:
            handler(self, record)

    def _on_event_recorded(self, record: Any) -> None:
        stream = self._launching(record.stream)
        if stream is not None:
            self.builder.record(record.cuda_event, self.lane(stream))

    def _on_event_waited(self, record: Any) -> None:
        stream = self._launching(record.stream)
        if stream is not None:
            self.builder.wait(record.cuda_event, self.lane(stream))

    def _on_event_synchronized(self, record: Any) -> None:
        self.builder.synchronize_event(record.cuda_event)

    def _on_stream_synchronized(self, record: Any) -> None:
        stream = self._launching(record.stream)
        if stream is not None:
            self.builder.synchronize(self.lane(stream))

    def _on_device_synchronized(self, record: Any) -> None:
        self.builder.synchronize_device(self._machine.current_device.index)

    def _on_shared(self, record: Any) -> None:
        stream = self._stream(record.stream)
        if stream is not None:
            self._shared.setdefault(record.address, set()).add(self.lane(stream))

    def _launching(self, handle: int) -> Stream | None:
        """Return the stream of a handle, or None if it is being captured."""
        stream = self._stream(handle)
        return None if stream is None or stream.capture is not None else stream

    def _stream(self, handle: int) -> Stream | None:
        """Return the stream of a handle; torch's guards have made its device the current one."""
        devices = [self._machine.current_device, *self._machine.devices]
        return next(filter(None, (device.find_stream(handle) for device in devices)), None)


#: The handler of each kind of record.
_HANDLERS: Final[dict[type[gpu_trace.Record], Callable[[Waits, Any], None]]] = {
    gpu_trace.EventRecorded: Waits._on_event_recorded,
    gpu_trace.EventWaited: Waits._on_event_waited,
    gpu_trace.EventSynchronized: Waits._on_event_synchronized,
    gpu_trace.EventFoundDone: Waits._on_event_synchronized,
    gpu_trace.StreamSynchronized: Waits._on_stream_synchronized,
    gpu_trace.StreamFoundDone: Waits._on_stream_synchronized,
    gpu_trace.DeviceSynchronized: Waits._on_device_synchronized,
    gpu_trace.BlockRecordedOnStream: Waits._on_shared,
}
