"""Acts that torch tells nobody of, and that its Python classes show: questions that were answered "done".

``Event.query()`` and ``Stream.query()`` order what follows an answer of True, as a synchronisation does. While somebody
watches, such answers become records of `cudalens.device.gpu_trace`.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from cudalens.device import gpu_trace
from cudalens.device.gpu_trace_records import EventFoundDone, StreamFoundDone
from cudalens.device.interpose import Interposed, interposed

_num_watchers = 0


def watch() -> None:
    """Emit records of such answers from now on; once for each `unwatch`."""
    global _num_watchers
    _num_watchers += 1
    if _num_watchers == 1:
        _watched[:] = _methods()
        for method, listener in _watched:
            method.add(after=listener)


def unwatch() -> None:
    """End one `watch`."""
    global _num_watchers
    _num_watchers -= 1
    if _num_watchers == 0:
        for method, listener in _watched:
            method.remove(after=listener)
        _watched.clear()


def _event_queried(is_done: bool, cuda_event: Any) -> None:
    pointer = cuda_event.cuda_event
    if is_done and pointer:
        gpu_trace.emit(EventFoundDone(int(pointer)))


def _stream_queried(is_done: bool, stream: Any) -> None:
    if is_done:
        gpu_trace.emit(StreamFoundDone(int(stream.cuda_stream)))


_watched: Final[list[tuple[Interposed, Any]]] = []


def _methods() -> list[tuple[Interposed, Any]]:
    """Of the classes that torch.cuda has now: under a torch that was built for CUDA, a virtual device has its own."""
    return [
        (interposed(torch.cuda.Event, "query"), _event_queried),
        (interposed(torch.cuda.Stream, "query"), _stream_queried),
    ]
