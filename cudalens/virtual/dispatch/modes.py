"""The torch modes of a virtual device on one thread: torch keeps stacks of them per thread.

A user may enter modes of their own inside of the block and leave them on. Ours are taken out from under them. Whoever
only watches (the sanitizer) stays above ours (`cudalens.device.modes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import overrides
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from cudalens.device import modes


class ThreadModes:
    """Our modes on the thread that calls.

    Args:
        makers: What makes each mode, outermost first.
        gpus: Given to each.
    """

    def __init__(self, makers: Sequence[Callable[[Any], Any]], gpus: Any) -> None:
        self._makers, self._gpus = makers, gpus
        self._entered: list[Any] = []

    def enter(self) -> None:
        """Put them on the thread's stacks."""
        for make in self._makers:
            mode = make(self._gpus)
            self._entered.append(mode)
            if isinstance(mode, TorchDispatchMode):
                modes.enter(mode)
            else:
                mode.__enter__()

    def leave(self) -> None:
        """Take them from the thread's stacks, and leave all others there. Call it on the thread that entered."""
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
    """Take everything from a stack down to `mode`, and `mode` with it; returns what was above, the top first."""
    others: list[Any] = []
    for _ in range(depth):
        top = pop()
        if top is mode:
            break
        others.append(top)
    return others
