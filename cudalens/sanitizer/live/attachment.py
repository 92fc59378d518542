"""Attach a watch to torch: gpu_trace callbacks, the dispatch mode, and methods of threads and tensors.

A file of its own: profiles leave out the functions of the other files here, but this one calls the program's threads.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Final

import torch

from cudalens.device import gpu_trace, launches, modes, own_work, queries
from cudalens.device.interpose import Interposed, interposed
from cudalens.sanitizer.live.mode import Mode
from cudalens.sanitizer.live.watch import Watch

#: Methods of torch.Tensor that read host memory without an operator.
_HOST_READERS: Final = ("numpy", "tolist", "__array__", "__dlpack__")


class Attachment:
    """Everything of one watch that is registered with torch; `detach` removes all of it.

    Args:
        watch: Receives operators, callbacks, new threads and reads of host memory.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._mode: Mode | None = None
        self._subscription: gpu_trace.Subscription | None = None
        self._interposed: list[tuple[Interposed, Callable[..., None]]] = []
        self._is_counted = False

    def subscribe(self) -> None:
        """Receive torch's gpu_trace callbacks, and queries and Triton launches, for which torch fires none."""
        watch = self._watch
        self._subscription = gpu_trace.subscribe(
            watch.on_record,
            quick={gpu_trace.MemoryAllocated: watch.on_allocated, gpu_trace.MemoryFreed: watch.on_freed},
        )
        queries.watch()
        launches.watch()
        self._is_counted = True

    def enter_mode(self) -> None:
        """Receive operators of this thread and of threads that start from now on, and reads of host memory."""
        starts: Callable[..., None] = functools.partial(_enter_thread, self._watch)
        self._interposed = [(interposed(threading.Thread, "start"), starts)]
        for name in _HOST_READERS:
            reads = functools.partial(_host_reads, self._watch, name != "tolist")
            self._interposed.append((interposed(torch.Tensor, name), reads))
        for method, listener in self._interposed:
            method.add(before=listener)
        self._mode = Mode(self._watch)
        modes.enter(self._mode)
        own_work.begin(self._mode)

    def unsubscribe(self) -> None:
        """Stop the callbacks only."""
        if self._subscription is not None:
            self._subscription.close()

    def detach(self) -> None:
        """Remove the mode, the subscription and the replaced methods. Can be called twice."""
        if self._is_counted:
            self._is_counted = False
            queries.unwatch()
            launches.unwatch()
        while self._interposed:
            method, listener = self._interposed.pop()
            method.remove(before=listener)
        if self._mode is not None:
            modes.leave(self._mode)
            own_work.end(self._mode)
            self._mode = None
        self.unsubscribe()
        self._subscription = None


def _enter_thread(watch: Watch, thread: threading.Thread, *args: Any, **kwargs: Any) -> None:
    """Give a thread that is about to start its own mode: torch keeps modes per thread."""
    before = vars(thread).get("run")
    inner = thread.run

    def run() -> None:
        if before is None:
            vars(thread).pop("run", None)
        mode = Mode(watch)
        if watch.is_on:
            modes.enter(mode)
        try:
            inner()
        finally:
            modes.leave(mode)

    vars(thread)["run"] = run


def _host_reads(watch: Watch, is_export: bool, tensor: Any, *args: Any, **kwargs: Any) -> None:
    if isinstance(tensor, torch.Tensor):
        watch.host_reads(tensor, is_export=is_export)
