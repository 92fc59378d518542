"""Measure the real time that a program's host takes between its calls of torch and in operators on host tensors.

No torch. The model does not predict these times. The time inside of other calls is not measured: they compute the
values of the device.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

#: Shorter gaps are part of the modelled cost of a call, ns.
SHORT_NS: Final = 50_000


class HostTime:
    """The gaps between calls on the thread that made this object.

    Args:
        advance: Called with each gap, ns; None only counts.
        now_ns: The real clock, ns.

    Attributes:
        now_ns: The real clock, ns.
        total_ns: The gaps so far.
    """

    def __init__(
        self, advance: Callable[[int], None] | None = None, now_ns: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self.total_ns = 0
        self._advance, self.now_ns = advance, now_ns
        self._thread = threading.get_ident()
        self._depth, self._left_ns = 0, now_ns()

    @property
    def is_measured(self) -> bool:
        """Whether the gaps advance the virtual clock."""
        return self._advance is not None

    def enter(self) -> None:
        """A call begins."""
        if threading.get_ident() != self._thread:
            return
        if not self._depth:
            self._count(self.now_ns() - self._left_ns)
        self._depth += 1

    def leave(self) -> None:
        """A call ends."""
        if threading.get_ident() != self._thread:
            return
        self._depth = max(self._depth - 1, 0)
        if not self._depth:
            self._left_ns = self.now_ns()

    def add(self, begin_ns: int) -> None:
        """Count the time since `begin_ns` on the real clock: an operator on host tensors."""
        if threading.get_ident() == self._thread:
            self._count(self.now_ns() - begin_ns)

    def skip(self) -> None:
        """Leave out the time since the last call: it is not the program's."""
        if threading.get_ident() == self._thread and not self._depth:
            self._left_ns = self.now_ns()

    def catch_up(self) -> None:
        """Count the gap up to now, before something reads the virtual clock."""
        self.enter()
        self.leave()

    def _count(self, gap_ns: int) -> None:
        if gap_ns < SHORT_NS:
            return
        self.total_ns += gap_ns
        if self._advance is not None:
            self._advance(gap_ns)
