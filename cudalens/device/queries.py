"""Operations for which torch fires no callback: ``query()`` of events and streams.

An ``Event.query()`` or ``Stream.query()`` that returns True orders what follows, like a synchronisation. Between
`watch` and `unwatch`, such queries become records of `cudalens.device.gpu_trace`.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from cudalens.device import gpu_trace
from cudalens.device.gpu_trace import EventFoundDone, StreamFoundDone
from cudalens.device.interpose import Interposed, interposed

_num_watchers = 0


def watch() -> None:
    """Start to emit records of such queries. Each call needs one `unwatch`."""
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
    """The methods of torch.cuda's current classes: in a CUDA build of torch, a virtual device replaces the classes."""
    return [
        (interposed(torch.cuda.Event, "query"), _event_queried),
        (interposed(torch.cuda.Stream, "query"), _stream_queried),
    ]
