"""Times of steps from the cheapest exact source: the virtual clock, CUDA events, or the host's clock."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Final, NamedTuple, Protocol

import torch

from cudalens.device import clock

#: Boundaries whose CUDA events have not ended; the host is never further ahead than the launch queue.
_MOST_PENDING: Final = 4096


class Timed(NamedTuple):
    """A step with its time: its number, its start and its duration, ns."""

    step: int
    ts: int
    dur: int


class StepClock(Protocol):
    """Measures the time between the ends of two steps.

    Attributes:
        name: ``host``, ``device`` or ``virtual``.
    """

    name: str

    def boundary(self, step: int) -> list[Timed]:
        """Step `step` ends here; returns the steps whose time is now known, in order."""

    def ended(self) -> list[Timed]:
        """Return the steps whose time has become known since the last call of `boundary` or of this."""

    def skip(self) -> None:
        """The time since the last boundary belongs to no step, where the clock can leave it out."""

    def ahead(self) -> int:
        """How far the host is ahead of the device at a boundary: steps or ns, comparable with itself; 0 if it waits."""


class HostClock:
    """The host's clock, for loops without a GPU."""

    name = "host"

    def __init__(self) -> None:
        self._last = (time.time_ns(), time.perf_counter_ns())

    def boundary(self, step: int) -> list[Timed]:
        """Step `step` ends here; returns it."""
        began, last = self._last
        self._last = (time.time_ns(), time.perf_counter_ns())
        return [Timed(step, began, self._last[1] - last)]

    def ended(self) -> list[Timed]:
        """None: `boundary` returns them at once."""
        return []

    def skip(self) -> None:
        """The time since the last boundary belongs to no step."""
        self._last = (time.time_ns(), time.perf_counter_ns())

    def ahead(self) -> int:
        """0: there is no device."""
        return 0


class VirtualClock:
    """The clock of the virtual device: a step ends when all work launched until then has ended."""

    name = "virtual"

    def __init__(self) -> None:
        self._last = clock.done_ns() or 0

    def boundary(self, step: int) -> list[Timed]:
        """Step `step` ends here; returns it."""
        began, self._last = self._last, clock.done_ns() or self._last
        return [Timed(step, began, self._last - began)]

    def ended(self) -> list[Timed]:
        """None: `boundary` returns them at once."""
        return []

    def skip(self) -> None:
        """The time since the last boundary belongs to no step."""
        self._last = clock.done_ns() or self._last

    def ahead(self) -> int:
        """Time that the device needs for what is queued, ns."""
        return max((clock.done_ns() or 0) - clock.now_ns(), 0)


class DeviceClock:
    """CUDA events on the current stream at the end of each step, read once they have ended, without a wait."""

    name = "device"

    def __init__(self) -> None:
        self._pending: deque[tuple[int, int, Any]] = deque()
        self._last: Any = self._event()

    def boundary(self, step: int) -> list[Timed]:
        """Step `step` ends here; returns the steps whose events have ended."""
        event = self._event()
        if event is not None:
            self._pending.append((step, time.time_ns(), event))
        return self.ended()

    def ended(self) -> list[Timed]:
        """Return the steps whose events have ended since the last call."""
        found = []
        while self._pending and self._pending[0][2].query():
            number, ended, event = self._pending.popleft()
            if self._last is not None:
                dur = round(self._last.elapsed_time(event) * 1e6)
                found.append(Timed(number, ended - dur, dur))
            self._last = event
        while len(self._pending) > _MOST_PENDING:
            self._last = self._pending.popleft()[2]
        return found

    def skip(self) -> None:
        """No effect: the work of steps overlaps."""

    def ahead(self) -> int:
        """Number of steps whose work has not ended."""
        return sum(not event.query() for _, _, event in self._pending)

    def _event(self) -> Any:
        """Return a recorded event; None during a capture, which an event would become a part of."""
        if torch.cuda.is_current_stream_capturing():
            return None
        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event


def is_initialized() -> bool:
    """Return whether this program has used CUDA."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def clock_now() -> str:
    """Return the name of the clock that fits now."""
    if clock.done_ns() is not None:
        return VirtualClock.name
    return DeviceClock.name if is_initialized() else HostClock.name


def open_clock(name: str) -> StepClock:
    """Return the clock of a name, which starts now."""
    kinds: dict[str, type[HostClock | VirtualClock | DeviceClock]] = {
        kind.name: kind for kind in (HostClock, VirtualClock, DeviceClock)
    }
    return kinds[name]()
