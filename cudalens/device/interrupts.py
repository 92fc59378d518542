"""Ctrl-C at an instant at which it must wait: while a profiler is being turned on or off."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

_HOLDING: Final[set[CodeType]] = set()
"""Code in which Ctrl-C waits."""


def holds_interrupts(function: _Function) -> _Function:
    """Mark `function`: while it runs under an installed `HeldInterrupts`, Ctrl-C waits, from its first instruction."""
    _HOLDING.add(function.__code__)
    return function


class HeldInterrupts:
    """Holds Ctrl-C back while a profiler is being turned on or off, so that none is left on by half.

    It is installed for the whole block: an interrupt that arrives as the block ends strikes the first instruction of
    ``__exit__``, before any ``try`` in it. Everywhere but in functions marked by `holds_interrupts`, Ctrl-C does at
    once what it did before. Python runs signal handlers on the main thread alone; elsewhere this does nothing.
    """

    def __init__(self) -> None:
        self._came: int | None = None
        self._before: Any = None

    @property
    def is_pending(self) -> bool:
        """Whether an interrupt is waiting."""
        return self._came is not None

    def install(self) -> None:
        """Begin to hold, where somebody handles Ctrl-C at all. Where it holds already, nothing changes."""
        if threading.current_thread() is not threading.main_thread():
            return
        before = signal.getsignal(signal.SIGINT)
        if callable(before) and before != self._handle:
            self._before = before
            signal.signal(signal.SIGINT, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        at = frame
        while at is not None:
            if at.f_code in _HOLDING:
                self._came = number
                return
            at = at.f_back
        self._before(number, frame)

    def remove(self) -> None:
        """Handle Ctrl-C as before; a handler that the block has set itself stays.

        Blocks may end in any order: where another one holds on top of this one, it goes on with what was below.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        present = signal.getsignal(signal.SIGINT)
        if present == self._handle:
            signal.signal(signal.SIGINT, self._before)
            return
        while isinstance(above := getattr(present, "__self__", None), HeldInterrupts):
            if above._before == self._handle:
                above._before = self._before
                return
            present = above._before

    def deliver(self) -> None:
        """Do now what the waiting interrupt asked for, if there is one.

        It strikes here: whoever held below this one need not hold it for where it came.
        """
        came, self._came = self._came, None
        if came is not None:
            self._before(came, sys._getframe())
