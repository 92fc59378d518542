"""Make threads that start while a virtual device is active use it; torch's modes are per thread.

A new thread starts as on CUDA, with device 0 and default streams. Threads that started before the device was enabled do
not use it; their tensors are on the host.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from cudalens.virtual.dispatch.modes import ThreadModes
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches

_RUN = "run"


def install(patches: Patches, gpus: Gpus, new_modes: Callable[[], ThreadModes]) -> None:
    """Make every new thread enter the torch modes of the virtual device.

    Args:
        patches: Undone at the end.
        gpus: The virtual GPUs.
        new_modes: Creates the modes of one thread.
    """
    start = threading.Thread.start

    @functools.wraps(start)
    def start_on_device(self: threading.Thread) -> None:
        before = vars(self).get(_RUN)
        if not gpus.is_closed:
            vars(self)[_RUN] = _Run(self, before, gpus, new_modes())
        try:
            start(self)
        except BaseException:
            _restore_run(self, before)
            raise

    patches.set(threading.Thread, "start", start_on_device)


def _restore_run(thread: threading.Thread, before: Any) -> None:
    if before is None:
        vars(thread).pop(_RUN, None)
    else:
        vars(thread)[_RUN] = before


class _Run:
    """Replaces a thread's ``run`` until it is called."""

    def __init__(self, thread: threading.Thread, before: Any, gpus: Gpus, modes: ThreadModes) -> None:
        self._thread, self._before, self._gpus, self._modes = thread, before, gpus, modes

    def __call__(self) -> None:
        _restore_run(self._thread, self._before)
        if self._gpus.is_closed:
            self._thread.run()
            return
        try:
            self._modes.enter()
            self._thread.run()
        finally:
            self._modes.leave()
