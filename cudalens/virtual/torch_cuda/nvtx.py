"""``torch.cuda.nvtx`` on a virtual device: passes ranges and marks to the recorder, without virtual time."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import torch.cuda.nvtx

from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.timing.interfaces import Recorder
from cudalens.virtual.timing.streams import Stream


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.open: list[_Opened | None] = []


class _Opened:
    """A range reported to a recorder; its end is reported only to the same recorder."""

    __slots__ = ("_handle", "_recorder")

    def __init__(self, recorder: Recorder, message: str) -> None:
        self._recorder, self._handle = recorder, recorder.opened(message)

    def close(self, recorder: Recorder | None) -> None:
        if recorder is self._recorder:
            recorder.closed(self._handle)


class Nvtx:
    """The functions of the NVTX library that torch calls; ranges and marks go to the machine's recorder, if any."""

    def __init__(self, gpus: Gpus) -> None:
        self._machine = gpus.machine
        self._per_thread = _PerThread()
        self._numbers = itertools.count(1)
        self._started: dict[int, _Opened | None] = {}

    def _open(self, message: str) -> _Opened | None:
        recorder = self._machine.recorder
        return None if recorder is None else _Opened(recorder, message)

    def _close(self, opened: _Opened | None) -> None:
        if opened is not None:
            opened.close(self._machine.recorder)

    def rangePushA(self, message: str) -> int:  # noqa: N802 - NVTX's name
        """Start a range of this thread; returns its depth, from 0."""
        self._per_thread.open.append(self._open(message))
        return len(self._per_thread.open) - 1

    def rangePop(self) -> int:  # noqa: N802 - NVTX's name
        """End this thread's innermost range; returns its depth, or -1 if there is none."""
        if not self._per_thread.open:
            return -1
        self._close(self._per_thread.open.pop())
        return len(self._per_thread.open)

    def rangeStartA(self, message: str) -> int:  # noqa: N802 - NVTX's name
        """Start a range that any thread can end; returns its number."""
        number = next(self._numbers)
        self._started[number] = self._open(message)
        return number

    def rangeEnd(self, number: int) -> None:  # noqa: N802 - NVTX's name
        """End a range by its number; unknown numbers are ignored, as in NVTX."""
        self._close(self._started.pop(number, None))

    def markA(self, message: str) -> None:  # noqa: N802 - NVTX's name
        """Mark an instant."""
        if self._machine.recorder is not None:
            self._machine.recorder.marked(message)

    def deviceRangeStart(self, message: str, stream: int) -> Any:  # noqa: N802 - torch's name
        """Start a range after the current work of a stream."""
        return message, self._tail_ns(self._stream(stream))

    def deviceRangeEnd(self, opened: Any, stream: int) -> None:  # noqa: N802 - torch's name
        """End the range after the current work of the stream."""
        message, start_ns = opened
        on = self._stream(stream)
        if self._machine.recorder is not None:
            self._machine.recorder.ranged(message, on, start_ns, self._tail_ns(on))

    def _stream(self, handle: int) -> Stream:
        return self._machine.current_device.external_stream(handle)

    def _tail_ns(self, stream: Stream) -> int:
        return max(self._machine.now_ns, stream.ready_ns)


def install(patches: Patches, gpus: Gpus) -> None:
    """Replace the NVTX library."""
    library = Nvtx(gpus)
    patches.set(torch.cuda.nvtx, "_nvtx", library)
    patches.set(torch._C, "_nvtx", library)
