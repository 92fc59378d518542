"""The torch modes of a virtual device on one thread: torch keeps stacks of them per thread.

A user may enter modes of their own inside of the block and leave them on. Ours are taken out from under them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import overrides
from torch.overrides import TorchFunctionMode
from torch.utils import _python_dispatch as dispatch
from torch.utils._python_dispatch import TorchDispatchMode

_FLAGS: Final = (
    "old_dispatch_mode_flags",
    "old_non_infra_dispatch_mode_flags",
    "old_without_ignore_compile_internals_dispatch_mode_flags",
)
"""Where a dispatch mode keeps what torch's flags were before it; which of them there are depends on the torch."""


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
            mode.__enter__()

    def leave(self) -> None:
        """Take them from the thread's stacks, and leave all others there. Call it on the thread that entered."""
        while self._entered:
            mode = self._entered.pop()
            if isinstance(mode, TorchDispatchMode):
                _leave_dispatch(mode)
            elif isinstance(mode, TorchFunctionMode):
                _leave_function(mode)
            else:
                mode.__exit__(None, None, None)


def _leave_function(mode: Any) -> None:
    others = _take_above(mode, torch._C._len_torch_function_stack(), overrides._pop_mode)
    for other in reversed(others):
        overrides._push_mode(other)  # type: ignore[no-untyped-call]


def _leave_dispatch(mode: Any) -> None:
    others = _take_above(mode, torch._C._len_torch_dispatch_stack(), dispatch._pop_mode)
    if others:
        _hand_on(mode, others[-1])
    elif getattr(mode, _FLAGS[0], None):
        dispatch._push_mode(mode)
        mode.__exit__(None, None, None)
    for other in reversed(others):
        dispatch._push_mode(other)


def _take_above(mode: Any, depth: int, pop: Callable[[], Any]) -> list[Any]:
    """Take everything from a stack down to `mode`, and `mode` with it; returns what was above, the top first."""
    others: list[Any] = []
    for _ in range(depth):
        top = pop()
        if top is mode:
            break
        others.append(top)
    return others


def _hand_on(mode: Any, above: Any) -> None:
    """The next mode above puts torch's flags back to what they were before ours."""
    for name in _FLAGS:
        ours, theirs = getattr(mode, name, None), getattr(above, name, None)
        if ours and theirs:
            theirs[-1] = ours.pop()
