"""Defer KeyboardInterrupt during critical sections, such as starting and stopping a profiler."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final, Literal, TypeAlias, TypeVar, overload

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Result = TypeVar("_Result")

#: The kinds of blocks that defer interrupts.
Block: TypeAlias = Literal["profile", "sanitizer", "confirmation", "device", "watch", "job"]

#: Code objects of the critical sections of each kind of block.
_CRITICAL: Final[dict[Block, set[CodeType]]] = {}


def defers_interrupts(block: Block) -> Callable[[_Function], _Function]:
    """Mark a function as a critical section: `DeferredInterrupts` of its kind of block defers Ctrl-C while it runs.

    A block that encloses one of another kind does not defer in the critical sections of the inner one: it would keep
    the interrupt until its own end.
    """

    def mark(function: _Function) -> _Function:
        _CRITICAL.setdefault(block, set()).add(function.__code__)
        return function

    return mark


class DeferredInterrupts:
    """Defers KeyboardInterrupt while functions marked by `defers_interrupts` run.

    It is installed for the whole block, because an interrupt that arrives at the end of the block can be raised at the
    first instruction of ``__exit__``, before any ``try`` in it. Outside of marked functions, Ctrl-C has its usual
    effect at once. Python runs signal handlers on the main thread only; on other threads this class does nothing.

    Args:
        block: The kind of block.
    """

    def __init__(self, block: Block) -> None:
        self._critical = _CRITICAL.setdefault(block, set())
        self._came: int | None = None
        self._before: Any = None

    @property
    def is_pending(self) -> bool:
        """Whether an interrupt was deferred and not delivered yet."""
        return self._came is not None

    def install(self) -> None:
        """Start to defer, if SIGINT has a Python handler. Does nothing if already installed."""
        if threading.current_thread() is not threading.main_thread():
            return
        before = signal.getsignal(signal.SIGINT)
        if callable(before) and before != self._handle:
            self._before = before
            signal.signal(signal.SIGINT, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        at = frame
        while at is not None:
            if at.f_code in self._critical:
                self._came = number
                return
            at = at.f_back
        self._before(number, frame)

    def remove(self) -> None:
        """Restore the previous SIGINT handler; a handler that the block itself has set stays.

        Blocks may end in any order: if another instance was installed on top of this one, it gets this one's
        previous handler.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        present = signal.getsignal(signal.SIGINT)
        if present == self._handle:
            signal.signal(signal.SIGINT, self._before)
            return
        while isinstance(above := getattr(present, "__self__", None), DeferredInterrupts):
            if above._before == self._handle:
                above._before = self._before
                return
            present = above._before

    @overload
    def deliver(self) -> None: ...

    @overload
    def deliver(self, result: _Result) -> _Result: ...

    def deliver(self, result: Any = None) -> Any:
        """Call the previous handler for a deferred interrupt, if there is one, and return `result`.

        ``return interrupts.deliver(self)`` ends a critical section: no line of it comes after the delivery.

        It gets the frame that called the critical section, which is over: a block of the same kind around this one
        defers only if that frame is in a critical section of its own.
        """
        came, self._came = self._came, None
        if came is None:
            return result
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code in self._critical:
            frame = frame.f_back
        self._before(came, frame)
        return result
