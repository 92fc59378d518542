"""Convert the times of Perfetto's packets to one clock.

A packet names its clock. Ids from 64 on belong to one sequence of packets, and may count from the packet before. A
snapshot gives the times of several clocks at one moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

_REALTIME: Final = 1
_BOOTTIME: Final = 6
_FIRST_OF_SEQUENCE: Final = 64
_LIMIT: Final = 1 << 62


@dataclass
class _Clock:
    """A clock at a snapshot.

    Attributes:
        at: Its time then, in its own unit.
        trace_ns: Time of the trace's clock then, ns.
        unit_ns: Length of its unit, ns.
        is_incremental: Whether each time counts from the one before.
    """

    at: int
    trace_ns: int
    unit_ns: int
    is_incremental: bool


class Clocks:
    """The clocks of a file.

    Attributes:
        epoch_ns: What to add to the trace's clock for times from the epoch, ns; 0 if unknown.
    """

    def __init__(self) -> None:
        self._clocks: dict[tuple[int, int], _Clock] = {}
        self._main = _BOOTTIME
        self.epoch_ns = 0

    def add_snapshot(self, snapshot: Any, sequence: int) -> None:
        """Keep the clocks of a ClockSnapshot message."""
        times = {clock.clock_id: clock for clock in snapshot.clocks}
        if not self._clocks and snapshot.primary_trace_clock:
            self._main = snapshot.primary_trace_clock
        if self._main not in times:
            return
        main = times[self._main]
        trace_ns = main.timestamp * (main.unit_multiplier_ns or 1)
        for number, clock in times.items():
            key = (sequence if number >= _FIRST_OF_SEQUENCE else 0, number)
            unit = clock.unit_multiplier_ns or 1
            is_new = number >= _FIRST_OF_SEQUENCE or key not in self._clocks
            if is_new:
                self._clocks[key] = _Clock(clock.timestamp, trace_ns, unit, clock.is_incremental)
        if not self.epoch_ns and _REALTIME in times:
            shift = times[_REALTIME].timestamp - trace_ns
            self.epoch_ns = shift if 0 < shift < _LIMIT else 0

    def to_ns(self, value: int, clock_id: int, sequence: int) -> int:
        """Time of the trace's clock for `value` of a clock, ns; `value` itself if the clock is not known."""
        number = clock_id or self._main
        clock = self._clocks.get((sequence if number >= _FIRST_OF_SEQUENCE else 0, number))
        if clock is None:
            return value
        if not clock.is_incremental:
            return clock.trace_ns + (value - clock.at) * clock.unit_ns
        clock.trace_ns += value * clock.unit_ns
        return clock.trace_ns
