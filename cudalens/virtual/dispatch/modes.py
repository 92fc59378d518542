"""Enter and leave the torch modes of a virtual device on one thread; torch has a stack of modes per thread.

A user may enter modes inside the block and leave them active at its end: the virtual device's modes are then removed
from below them. Modes that only observe (the sanitizer) stay above (`cudalens.device.modes`).
"""

from __future__ import annotations

import concurrent.futures.thread
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import torch
from torch import overrides
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from cudalens.device import modes
from cudalens.errors import VirtualDeviceError
from cudalens.virtual.compiled.tracing import is_tracing
from cudalens.virtual.dispatch.dispatch_utils import register_kernels
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches


class _Entered(threading.local):
    """How many `ThreadModes` the thread has entered."""

    count = 0


_on_thread = _Entered()


def has_modes() -> bool:
    """Return whether the thread has the modes of a virtual device."""
    return _on_thread.count > 0


class ThreadModes:
    """The virtual device's modes on the calling thread.

    Args:
        makers: The functions that create each mode, outermost first.
        gpus: The argument of each function.
    """

    def __init__(self, makers: Sequence[Callable[[Any], Any]], gpus: Any) -> None:
        self._makers, self._gpus = makers, gpus
        self._entered: list[Any] = []

    def enter(self) -> None:
        """Push the modes on the thread's stacks."""
        _on_thread.count += 1
        for make in self._makers:
            mode = make(self._gpus)
            self._entered.append(mode)
            if isinstance(mode, TorchDispatchMode):
                modes.enter(mode)
            else:
                mode.__enter__()

    def leave(self) -> None:
        """Remove the modes from the thread's stacks, and keep all others. Must run on the thread that entered."""
        _on_thread.count -= bool(self._entered)
        while self._entered:
            mode = self._entered.pop()
            if isinstance(mode, TorchDispatchMode):
                modes.leave(mode)
            elif isinstance(mode, TorchFunctionMode):
                others: list[Any] = []  # the modes above it, top first
                while torch._C._len_torch_function_stack():
                    top = overrides._pop_mode()  # type: ignore[no-untyped-call]
                    if top is mode:
                        break
                    others.append(top)
                for other in reversed(others):
                    overrides._push_mode(other)  # type: ignore[no-untyped-call]
            else:
                mode.__exit__(None, None, None)


_RUN = "run"
_OLD_THREAD: Final = (
    "this thread started before the virtual CUDA device was enabled, and does not use it. Start the thread inside the "
    "block, or use concurrent.futures.ThreadPoolExecutor (asyncio.to_thread), whose threads use it."
)
_UNOBSERVED: Final = (
    "torch.tensor cannot make a tensor on a virtual CUDA device where calls of torch are not observed: under "
    "torch._C.DisableTorchFunction, or inside of another function of torch. Create the tensor on the CPU and move it "
    "with .to('cuda')."
)
_SPARSE: Final = (
    "torch.compile on a virtual CUDA device cannot trace operators that make a sparse tensor (to_sparse(), or the "
    "gradient of an embedding with sparse=True): torch traces them with CUDA's sparse kernels, which a build of torch "
    "for the CPU does not have. Leave them out of the compiled function with torch.compiler.disable."
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

    run = concurrent.futures.thread._WorkItem.run

    @functools.wraps(run)
    def run_on_device(self: Any, *args: Any) -> None:
        """Make the threads of pools that exist already enter the modes during each call."""
        if gpus.is_closed or has_modes():
            run(self, *args)
            return
        modes = new_modes()
        try:
            modes.enter()
            run(self, *args)
        finally:
            modes.leave()

    patches.set(threading.Thread, "start", start_on_device)
    patches.set(concurrent.futures.thread._WorkItem, "run", run_on_device)
    # Refuse CUDA memory on threads without the modes: torch's own error names no reason.
    if not torch._C._dispatch_has_kernel_for_dispatch_key("aten::empty.memory_format", "CUDA"):
        register_kernels(patches, "CUDA", dict.fromkeys(("empty.memory_format", "empty_strided"), _refuse_memory))


def _refuse_memory(*args: Any, **kwargs: Any) -> NoReturn:
    if is_tracing():
        raise VirtualDeviceError(_SPARSE)
    raise VirtualDeviceError(_UNOBSERVED if has_modes() else _OLD_THREAD)


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
