"""Enter and leave the torch modes of a virtual device on one thread; torch has a stack of modes per thread.

A user may enter modes inside the block and leave them active at its end: the virtual device's modes are then removed
from below them. Modes that only observe (the sanitizer) stay above (`cudalens.device.modes`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import overrides
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from cudalens.device import modes


class _Entered(threading.local):
    """How many `ThreadModes` the thread has entered."""

    count = 0


_on_thread = _Entered()


def has_modes() -> bool:
    """Whether the thread has the modes of a virtual device."""
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
                _leave_function(mode)
            else:
                mode.__exit__(None, None, None)


def _leave_function(mode: Any) -> None:
    others = _take_above(mode, torch._C._len_torch_function_stack(), overrides._pop_mode)
    for other in reversed(others):
        overrides._push_mode(other)  # type: ignore[no-untyped-call]


def _take_above(mode: Any, depth: int, pop: Callable[[], Any]) -> list[Any]:
    """Pop a stack down to and including `mode`; returns the modes above it, top first."""
    others: list[Any] = []
    for _ in range(depth):
        top = pop()
        if top is mode:
            break
        others.append(top)
    return others
