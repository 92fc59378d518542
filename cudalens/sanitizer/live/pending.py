"""What has happened and is yet to be judged, in order.

An operator notes what it touched at once: later its tensors may be gone. To judge it can wait, and is several times
cheaper for many at a time, while the judge's code and data are in the processor's caches; between two operators of a
program they are not. So operators and freed addresses wait here. Whatever else happens (an event, a synchronisation)
is taken as it comes, after what waits; and so is a question for the races.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeAlias

from cudalens.sanitizer.engine.accesses import Op
from cudalens.sanitizer.engine.races import Race

#: Entries that wait while nobody asks.
MAX_WAITING: Final = 512

#: An operation, the address of a block that went back to the allocator, or what to call and its argument.
Entry: TypeAlias = Op | int | tuple[Callable[[Any], Any], Any]


class Pending:
    """The entries of one run, judged by one thread at a time.

    Args:
        judge: Judges an operation.
        free: Takes in an address.
        lock: Held while entries are judged; one that its holder may take again.

    Attributes:
        entries: What waits. Anybody may append at any time; who does sees to it that they are judged in the end.
        lock: As given.
    """

    def __init__(
        self, judge: Callable[[Op], Sequence[Race]], free: Callable[[int], None], lock: AbstractContextManager[Any]
    ) -> None:
        self._judge, self._free = judge, free
        self.entries: Final[deque[Entry]] = deque()
        self.lock: Final = lock
        self._is_busy = False

    def drain(self) -> Sequence[Race]:
        """Judge all that waits.

        Nothing where this thread is about that already (garbage that is collected meanwhile, say): then it is done
        right after what is going on.

        Returns:
            The races that operators made.
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
        entries, judge, free = self.entries, self._judge, self._free
        while entries:
            entry = entries.popleft()
            if isinstance(entry, list):
                races += judge(entry)
            elif isinstance(entry, int):
                free(entry)
            else:
                act, argument = entry
                act(argument)
        return races

    def now(self, act: Callable[..., Sequence[Race]], *arguments: Any) -> Sequence[Race]:
        """Judge all that waits, then do something else, undisturbed.

        Returns:
            The races that operators made, and those that it returns.
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
