"""Find the engine's line for a stream pointer of torch."""

from __future__ import annotations

import itertools
import threading
from contextlib import AbstractContextManager
from typing import Any, Final

from torch import _C

from cudalens.device import streams as device_streams
from cudalens.sanitizer.engine.clocks import Clocks, Line
from cudalens.sanitizer.engine.records import StreamId

_torch: Final[Any] = _C

#: Distance of the numbers for per-thread default streams, which all have the same pointer. No pointer is as large.
_THREAD_STEP: Final = 1 << 64


class Streams:
    """Finds the line of a stream by its pointer.

    The legacy default stream of every device has the pointer 0; the device distinguishes them. Not all of torch's
    callbacks include the device of a pointer: it is taken to be the current one, until an operator shows another.

    Args:
        clocks: Provides the lines.
        lock: Held while the lines of the clocks are accessed.
        blocking: Receives the lines that are ordered with the legacy default stream of their device.
    """

    def __init__(self, clocks: Clocks, lock: AbstractContextManager[Any], blocking: set[Line]) -> None:
        self._clocks, self._lock, self._blocking = clocks, lock, blocking
        self._lines: dict[int, Line] = {}
        self._used: dict[int, Line] = {}
        self._thread = threading.local()
        self._numbers = itertools.count(1)
        self._names: dict[int, str] = {}

    def of_operator(self, device: int) -> Line:
        """The line of the current stream of a device."""
        try:
            pointer = _torch._cuda_getCurrentRawStream(device)  # inlined `current_stream`
        except (AttributeError, RuntimeError):
            pointer = device_streams.current_stream(device)
        line = self._used.get(pointer or ~device)
        if line is not None:
            return line
        with self._lock:
            return self._first_use(pointer, device)

    def of_pointer(self, pointer: int, device: int) -> Line:
        """The line of a stream that a callback names.

        Args:
            pointer: The pointer of the stream, or what `unambiguous` returned for it.
            device: The GPU that was current at the callback.
        """
        line = self._lines.get(pointer or ~device)
        return self._make(pointer, device) if line is None else line

    def unambiguous(self, pointer: int) -> int:
        """Return a pointer itself, and for the calling thread's own default stream a number of that thread."""
        if pointer != device_streams.PER_THREAD:
            return pointer
        number: int | None = getattr(self._thread, "number", None)
        if number is None:
            number = self._thread.number = next(self._numbers)
            name = threading.current_thread().name
            self._names[number] = name if name not in self._names.values() else f"{name} ({number})"
        return pointer + _THREAD_STEP * number

    def forget(self) -> None:
        """Drop all pointers: another device may use them for other streams."""
        self._lines.clear()
        self._used.clear()

    def _make(self, pointer: int, device: int) -> Line:
        if pointer == device_streams.LEGACY:
            return self.of_pointer(0, device)
        if pointer >= _THREAD_STEP:
            stream = StreamId(device, f"per-thread default of {self._names[pointer // _THREAD_STEP]}")
            return self._make_blocking(stream)
        stream = StreamId(device, pointer)
        is_blocking = pointer != 0 and device_streams.is_blocking(pointer, device)
        line = self._make_blocking(stream) if is_blocking else self._clocks.line(stream)
        self._lines[pointer or ~device] = line
        return line

    def _make_blocking(self, stream: StreamId) -> Line:
        line = self._clocks.line(stream)
        self._clocks.make_blocking(stream)
        self._blocking.add(line)
        return line

    def _first_use(self, pointer: int, device: int) -> Line:
        if pointer in (device_streams.LEGACY, device_streams.PER_THREAD):  # one on each device
            return self._make(self.unambiguous(pointer), device)
        line = self._lines.get(pointer or ~device)
        if line is None:
            line = self._make(pointer, device)
        elif line.id.device != device:
            self._clocks.move(line, device)
        self._used[pointer or ~device] = line
        return line
