"""Mark work of cudalens itself, which is left out of profiles: its modes, threads and waits. No torch."""

from __future__ import annotations

import threading
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Generic, TypeVar

#: The prefix of the names of rows that cudalens adds to torch's results to find its calls there; a number follows.
MARK: Final = "#cudalens:"

#: A time that no clock reaches, epoch ns.
_NEVER: Final = 2**63 - 1

_running: Final[dict[int, int]] = {}
#: Start and end of the last observations, oldest first.
_ended: Final = array("q", [0] * 2 * 128)


def begin(mode: object) -> None:
    """`mode` observes from now on."""
    _running[id(mode)] = time.time_ns()


def end(mode: object) -> None:
    """`mode` no longer observes."""
    start = _running.pop(id(mode), None)
    if start is not None:
        _ended[:-2] = _ended[2:]
        _ended[-2:] = array("q", (start, time.time_ns()))


def observed() -> list[tuple[int, int]]:
    """Start and end of present and recent observations, epoch ns."""
    ended = ((start, end) for start, end in zip(_ended[::2], _ended[1::2], strict=True) if end)
    return [*ended, *((start, _NEVER) for start in _running.values())]


@dataclass(slots=True)
class OwnThread:
    """A thread of cudalens: its system id, and when it ran, epoch ns; `end_ns` is None while it runs."""

    tid: int
    start_ns: int
    end_ns: int | None = None


_seen: Final[deque[OwnThread]] = deque(maxlen=256)


@contextmanager
def own_thread() -> Iterator[None]:
    """Mark the calling thread as a thread of cudalens during the block."""
    thread = OwnThread(threading.get_native_id(), time.time_ns())
    _seen.append(thread)
    try:
        yield
    finally:
        thread.end_ns = time.time_ns()


def own_threads() -> list[OwnThread]:
    """Running and recently ended threads of cudalens. The system may reuse the ids of ended threads."""
    return list(_seen)


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
    """Return whether the calling thread does work of cudalens now."""
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
