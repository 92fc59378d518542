"""Whether the calling thread traces or lowers code of torch.compile, which sees fake CUDA tensors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import overrides
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack, _pop_mode, _push_mode

from cudalens.virtual.profile.recorder import HIDDEN

if TYPE_CHECKING:
    from cudalens.virtual.gpus import Gpus

#: The device that torch's C++ sees for a fake CUDA tensor. Autograd of a build without CUDA aborts for CUDA tensors;
#: of all devices that it accepts, programs use this one least.
_HIDDEN_TYPE: Final = "lazy"

_stack_functions: Final[tuple[Any, Any]] = (overrides._pop_mode, overrides._push_mode)


class _Thread(threading.local):
    depth: int = 0


_thread: Final = _Thread()


def is_tracing() -> bool:
    """Whether torch.compile traces or lowers code for the virtual device on this thread."""
    return _thread.depth > 0


@contextmanager
def tracing() -> Iterator[None]:
    """Mark the calling thread."""
    _thread.depth += 1
    try:
        yield
    finally:
        _thread.depth -= 1


@contextmanager
def program_running(modes: ProgramModes) -> Iterator[None]:
    """Run code of the program while its caller is traced, as if nothing were traced."""
    depth, _thread.depth = _thread.depth, 0
    inside = current_stack()
    set_stack(modes.function)
    for mode in modes.dispatch:
        _push_mode(mode)
    try:
        yield
    finally:
        for _ in modes.dispatch:
            _pop_mode()
        set_stack(inside)
        _thread.depth = depth


class ProgramModes(NamedTuple):
    """The modes of torch on the thread of a program, outermost first.

    Attributes:
        function: The function modes.
        dispatch: The dispatch modes.
    """

    function: list[Any]
    dispatch: list[Any]

    @classmethod
    def current(cls) -> ProgramModes:
        """Return those of the calling thread."""
        return cls(current_stack(), list(_get_current_dispatch_mode_stack()))


def current_stack() -> list[Any]:
    """The function modes of the thread, outermost first."""
    return [torch._C._get_function_stack_at(level) for level in range(torch._C._len_torch_function_stack())]


def set_stack(stack: list[Any]) -> None:
    """Replace the function modes of the thread."""
    pop, push = _stack_functions
    while torch._C._len_torch_function_stack():
        pop()
    for mode in stack:
        push(mode)


@contextmanager
def hidden_work(gpus: Gpus) -> Iterator[None]:
    """Keep operators inside of this context, which no GPU runs, out of profiles."""
    recorder = gpus.machine.recorder
    if recorder is None:
        yield
        return
    begun = recorder.begin(HIDDEN)
    try:
        yield
    finally:
        recorder.end(begun)


def hidden_device(device: torch.device) -> torch.device:
    """The device that torch's C++ sees for `device`."""
    return torch.device(_HIDDEN_TYPE, device.index or 0) if device.type == "cuda" else device


def shown_device(device: torch.device) -> torch.device:
    """The device that a program sees for one that torch's C++ reports."""
    return torch.device("cuda", device.index or 0) if device.type == _HIDDEN_TYPE else device
