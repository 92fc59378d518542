"""Operations that are recorded and not checked yet, in order.

An operator's accesses are recorded immediately, because its tensors may be freed later. The check can be deferred. It
is several times faster for many operations at once, while its code and data are in the processor's caches; between two
operators of a program they are not. So operations and freed addresses are queued here. Other records (an event, a
synchronisation) and requests for the races are processed immediately, after the queue.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeAlias

from cudalens.device.gpu_trace import Record
from cudalens.sanitizer.engine.accesses import Operation
from cudalens.sanitizer.engine.races import Race

#: A record, and the GPU that was current at the time.
Received: TypeAlias = tuple[Record, int]


class State:
    """The state on one thread.

    Attributes:
        is_inside: Whether an operator that the sanitizer observes is running.
        received: Records of that operator that order something.
    """

    __slots__ = ("is_inside", "received")

    def __init__(self) -> None:
        self.is_inside = False
        self.received: list[Received] = []


class Threads(threading.local):
    """The state on each thread."""

    def __init__(self) -> None:
        self.state = State()


#: Number of entries at which they are checked.
MAX_WAITING: Final = 512

#: An operation, the address of a freed block, or a function and its argument.
PendingEntry: TypeAlias = Operation | int | tuple[Callable[[Any], Any], Any]


class Pending:
    """The entries of one run, checked by one thread at a time.

    Args:
        check: Checks an operation.
        free: Processes the address of a freed block.
        lock: A reentrant lock, held while entries are checked.

    Attributes:
        entries: The queue. Any thread may append at any time and must call `drain` or `now` eventually.
        lock: The lock.
    """

    def __init__(
        self,
        check: Callable[[Operation], Sequence[Race]],
        free: Callable[[int], None],
        lock: AbstractContextManager[Any],
    ) -> None:
        self._check, self._free = check, free
        self.entries: Final[deque[PendingEntry]] = deque()
        self.lock: Final = lock
        self._is_busy = False

    def drain(self) -> Sequence[Race]:
        """Check all entries.

        Returns at once if this thread is doing so already (an entry can be added by garbage collection); the outer
        call then checks the entry.

        Returns:
            The races of operators.
        """
        with self.lock:
            if self._is_busy:
                return ()
            self._is_busy = True
            try:
                return self._drain()
            finally:
                self._is_busy = False

    def _drain(self) -> list[Race]:
        races: list[Race] = []
        entries, check, free = self.entries, self._check, self._free
        while entries:
            entry = entries.popleft()
            if isinstance(entry, list):
                races += check(entry)
            elif isinstance(entry, int):
                free(entry)
            else:
                act, argument = entry
                act(argument)
        return races

    def now(self, act: Callable[..., Sequence[Race]], *arguments: Any) -> Sequence[Race]:
        """Check all entries, then call a function under the lock.

        Returns:
            The races of operators, and those that the function returns.
        """
        with self.lock:
            if self._is_busy:
                return act(*arguments)
            self._is_busy = True
            try:
                races = self._drain()
                races += act(*arguments)
                races += self._drain()
                return races
            finally:
                self._is_busy = False
