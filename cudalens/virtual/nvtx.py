"""``torch.cuda.nvtx`` on a virtual device: annotations that cost nothing and that a recorder can read."""

from __future__ import annotations

import itertools
import threading
from typing import Any, Final

import torch.cuda.nvtx

from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches

_MARK: Final = "mark"
_RANGE: Final = "range"


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.open: list[tuple[str, int]] = []


class Nvtx:
    """What torch calls of the NVTX library. Every range and mark goes to the machine's recorder when it has ended.

    A recorder that wants them has ``annotated(name, start_ns, end_ns, kind)``, where kind is "range" or "mark".
    """

    def __init__(self, gpus: Gpus) -> None:
        self._machine = gpus.machine
        self._per_thread = _PerThread()
        self._numbers = itertools.count(1)
        self._started: dict[int, tuple[str, int]] = {}

    def rangePushA(self, message: str) -> int:  # noqa: N802 - NVTX's name
        """Open a range of this thread; returns its depth, from 0."""
        self._per_thread.open.append((message, self._machine.now_ns))
        return len(self._per_thread.open) - 1

    def rangePop(self) -> int:  # noqa: N802 - NVTX's name
        """Close this thread's innermost range; returns its depth, or -1 where none is open."""
        if self._per_thread.open:
            self._tell(*self._per_thread.open.pop(), _RANGE)
            return len(self._per_thread.open)
        return -1

    def rangeStartA(self, message: str) -> int:  # noqa: N802 - NVTX's name
        """Open a range that any thread may close; returns its number."""
        number = next(self._numbers)
        self._started[number] = (message, self._machine.now_ns)
        return number

    def rangeEnd(self, number: int) -> None:  # noqa: N802 - NVTX's name
        """Close a range by its number; an unknown one is nothing, as for NVTX."""
        started = self._started.pop(number, None)
        if started is not None:
            self._tell(*started, _RANGE)

    def markA(self, message: str) -> None:  # noqa: N802 - NVTX's name
        """Note an instant."""
        self._tell(message, self._machine.now_ns, _MARK)

    def deviceRangeStart(self, message: str, stream: int) -> Any:  # noqa: N802 - torch's name
        """Open a range when the stream of that handle has done its work."""
        return message, self._tail_ns(stream)

    def deviceRangeEnd(self, opened: Any, stream: int) -> None:  # noqa: N802 - torch's name
        """Close it, when the stream has done its work."""
        message, start_ns = opened
        self._tell(message, start_ns, _RANGE, end_ns=self._tail_ns(stream))

    def _tail_ns(self, handle: int) -> int:
        stream = self._machine.current_device.external_stream(handle)
        return max(self._machine.now_ns, stream.ready_ns)

    def _tell(self, message: str, start_ns: int, kind: str, *, end_ns: int | None = None) -> None:
        annotated = getattr(self._machine.recorder, "annotated", None)
        if annotated is not None:
            annotated(message, start_ns, self._machine.now_ns if end_ns is None else end_ns, kind)


def install(patches: Patches, gpus: Gpus) -> None:
    """Stand in for the NVTX library."""
    library = Nvtx(gpus)
    patches.set(torch.cuda.nvtx, "_nvtx", library)
    patches.set(torch._C, "_nvtx", library)
