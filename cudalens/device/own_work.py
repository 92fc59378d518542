"""Mark work of cudalens itself, whose waits for the GPU are not the program's. No torch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Final, Generic, TypeVar

Value = TypeVar("Value")


class _PerThread(threading.local):
    depth = 0


_per_thread: Final = _PerThread()

#: Called at the start of own work (True) and at its end (False), on the thread that does it.
watchers: Final[list[Callable[[bool], None]]] = []


@contextmanager
def own_work() -> Iterator[None]:
    """What the calling thread does during the block is work of cudalens."""
    _per_thread.depth += 1
    try:
        for watch in tuple(watchers):
            watch(True)
        yield
    finally:
        for watch in tuple(watchers):
            watch(False)
        _per_thread.depth -= 1


def is_own_work() -> bool:
    """Whether the calling thread does work of cudalens now."""
    return _per_thread.depth > 0


class EnterAsOwn(Generic[Value]):
    """A context whose enter and exit are work of cudalens; what is between is the program's."""

    def __init__(self, context: AbstractContextManager[Value]) -> None:
        self._context = context

    def __enter__(self) -> Value:
        with own_work():
            return self._context.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> bool | None:
        with own_work():
            return self._context.__exit__(kind, error, trail)
