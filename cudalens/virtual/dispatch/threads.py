"""Make threads that start while a virtual device is active use it; torch's modes are per thread.

A new thread starts as on CUDA, with device 0 and default streams. Of the threads that started before the device was
enabled, those of a ``ThreadPoolExecutor`` (``asyncio.to_thread`` too) use it for each call that they are given. In the
other ones, a call that names a CUDA device raises an error.
"""

from __future__ import annotations

import concurrent.futures.thread
import functools
import threading
from collections.abc import Callable
from typing import Any, Final, NoReturn

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.dispatch.dispatch_utils import register_kernels
from cudalens.virtual.dispatch.modes import ThreadModes, has_modes
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches

_RUN = "run"
_OLD_THREAD: Final = (
    "this thread started before the virtual CUDA device was enabled, and does not use it. Start the thread inside the "
    "block, or use concurrent.futures.ThreadPoolExecutor (asyncio.to_thread), whose threads use it."
)


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
    _install_pools(patches, gpus, new_modes)
    _install_refusal(patches)


def _install_pools(patches: Patches, gpus: Gpus, new_modes: Callable[[], ThreadModes]) -> None:
    """Make the threads of pools that exist already enter the modes during each call."""
    run = concurrent.futures.thread._WorkItem.run

    @functools.wraps(run)
    def run_on_device(self: Any, *args: Any) -> None:
        if gpus.is_closed or has_modes():
            run(self, *args)
            return
        modes = new_modes()
        try:
            modes.enter()
            run(self, *args)
        finally:
            modes.leave()

    patches.set(concurrent.futures.thread._WorkItem, "run", run_on_device)


def _install_refusal(patches: Patches) -> None:
    """Refuse CUDA memory on threads without the modes: torch's own error names no reason."""
    if not torch._C._dispatch_has_kernel_for_dispatch_key("aten::empty.memory_format", "CUDA"):
        register_kernels(patches, "CUDA", dict.fromkeys(("empty.memory_format", "empty_strided"), _refuse_memory))


def _refuse_memory(*args: Any, **kwargs: Any) -> NoReturn:
    raise VirtualDeviceError(_OLD_THREAD)


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
