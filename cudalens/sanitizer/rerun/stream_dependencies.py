"""Which streams and events come behind a held stream: whoever waits for one of them waits for the hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cudalens.device import gpu_trace


class Behind:
    """Follows a hold through the waits of streams for events, and tells when the host is about to wait for it.

    Whether a wait of the host's is for the hold is known before it begins: torch tells of it then. Not told are waits
    within CUDA (memory that it takes or gives back, pageable copies); those last as long as the hold may.

    Args:
        stream: Handle of the held stream.
        release: Called when the host is about to wait for what comes behind the hold.
    """

    def __init__(self, stream: int, release: Callable[[], None]) -> None:
        self._release = release
        self._streams, self._events = {stream}, set[int]()
        self._subscription = gpu_trace.subscribe(
            _ignore, quick={kind: act.__get__(self) for kind, act in _ACTS.items()}
        )

    def is_behind(self, stream: int) -> bool:
        """Whether a stream waits for the hold."""
        return stream in self._streams

    def close(self) -> None:
        """Follow it no more."""
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
    """All that is of interest comes quickly."""


_ACTS: Final = {
    gpu_trace.EventRecorded: Behind._recorded,
    gpu_trace.EventWaited: Behind._waited,
    gpu_trace.EventDeleted: Behind._deleted,
    gpu_trace.EventSynchronized: Behind._event_synchronized,
    gpu_trace.StreamSynchronized: Behind._stream_synchronized,
    gpu_trace.DeviceSynchronized: Behind._device_synchronized,
}
