"""torch's stream pointers, and the engine's lines for them."""

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

    Every device has a legacy default stream whose pointer is 0; it is told apart by the device. A pointer's device is
    not told by all of torch's callbacks: it is the one that was current then, until an operator says better.

    Args:
        clocks: Whose lines they are.
        lock: Held while the lines of the clocks are looked at.
    """

    def __init__(self, clocks: Clocks, lock: AbstractContextManager[Any]) -> None:
        self._clocks, self._lock = clocks, lock
        self._lines: dict[int, Line] = {}
        self._used: dict[int, Line] = {}

    def of_operator(self, device: int) -> Line:
        """The line of the current stream of a device, which an operator on that device runs on."""
        try:
            pointer = _torch._cuda_getCurrentRawStream(device)  # as `current_stream`, which would be a call more
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
            pointer: The stream's.
            device: The GPU that was current at the callback.
        """
        line = self._lines.get(pointer or ~device)
        return self._make(pointer, device) if line is None else line

    def forget(self) -> None:
        """Forget all pointers: those of the next device are others."""
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
