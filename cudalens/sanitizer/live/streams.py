"""Find the engine's line for a stream pointer of torch."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Final

from torch import _C

from cudalens.device import streams as device_streams
from cudalens.sanitizer.engine.clocks import Clocks, Line
from cudalens.sanitizer.engine.records import StreamId

_torch: Final[Any] = _C


class Streams:
    """Finds the line of a stream by its pointer.

    The legacy default stream of every device has the pointer 0; the device distinguishes them. Not all of torch's
    callbacks include the device of a pointer: it is taken to be the current one, until an operator shows another.

    Args:
        clocks: Provides the lines.
        lock: Held while the lines of the clocks are accessed.
    """

    def __init__(self, clocks: Clocks, lock: AbstractContextManager[Any]) -> None:
        self._clocks, self._lock = clocks, lock
        self._lines: dict[int, Line] = {}
        self._used: dict[int, Line] = {}

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
            pointer: The pointer of the stream.
            device: The GPU that was current at the callback.
        """
        line = self._lines.get(pointer or ~device)
        return self._make(pointer, device) if line is None else line

    def forget(self) -> None:
        """Drop all pointers: another device may use them for other streams."""
        self._lines.clear()
        self._used.clear()

    def _make(self, pointer: int, device: int) -> Line:
        line = self._lines[pointer or ~device] = self._clocks.line(StreamId(device, pointer))
        return line

    def _first_use(self, pointer: int, device: int) -> Line:
        line = self._lines.get(pointer or ~device)
        if line is None:
            line = self._make(pointer, device)
        elif line.id.device != device:
            line.id = StreamId(device, pointer)
        self._used[pointer or ~device] = line
        return line
