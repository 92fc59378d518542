"""Track the streams and events that wait for a held stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cudalens.device import gpu_trace


class DependentStreams:
    """Tracks a hold through waits of streams for events, and reports when the host is about to wait for it.

    torch's callbacks fire before the host waits. There is none for waits within CUDA (allocation and release of memory,
    pageable copies); these last as long as the hold.

    Args:
        stream: Handle of the held stream.
        release: Called when the host is about to wait for dependent work.
    """

    def __init__(self, stream: int, release: Callable[[], None]) -> None:
        self._release = release
        self._streams, self._events = {stream}, set[int]()
        self._subscription = gpu_trace.subscribe(
            _ignore, quick={kind: act.__get__(self) for kind, act in _ACTS.items()}
        )

    def depends(self, stream: int) -> bool:
        """Whether a stream waits for the hold."""
        return stream in self._streams

    def close(self) -> None:
        """Stop."""
        self._subscription.close()

    def _recorded(self, event: int, stream: int) -> None:
        if stream in self._streams:
            self._events.add(event)
        else:
            self._events.discard(event)

    def _waited(self, event: int, stream: int) -> None:
        if event in self._events:
            self._streams.add(stream)

    def _deleted(self, event: int) -> None:
        self._events.discard(event)

    def _event_synchronized(self, event: int) -> None:
        if event in self._events:
            self._release()

    def _stream_synchronized(self, stream: int) -> None:
        if stream in self._streams:
            self._release()

    def _device_synchronized(self) -> None:
        self._release()


def _ignore(record: gpu_trace.Record) -> None:
    """All relevant records have quick functions."""


_ACTS: Final = {
    gpu_trace.EventRecorded: DependentStreams._recorded,
    gpu_trace.EventWaited: DependentStreams._waited,
    gpu_trace.EventDeleted: DependentStreams._deleted,
    gpu_trace.EventSynchronized: DependentStreams._event_synchronized,
    gpu_trace.StreamSynchronized: DependentStreams._stream_synchronized,
    gpu_trace.DeviceSynchronized: DependentStreams._device_synchronized,
}
