"""Cheap readings beside the steps, of the allocator and the GPU, and the times of steps."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Final, NamedTuple, Protocol

import torch

from cudalens.device import clock
from cudalens.device.sampler import Sample, Sampler
from cudalens.errors import MetricsError

_EVERY_STEPS: Final = 8
_EVERY_NS: Final = 200_000_000
_RATE_HZ: Final = 1.0

#: Readings that are shown: fields of `cudalens.device.inventory.readings.Reading`.
GAUGES: Final = (
    "gpu_busy_pct", "memory_used_bytes", "power_watts", "temperature_celsius", "clock_mhz", "slowed_by",
)  # fmt: skip


class AllocatorReadings:
    """Counters of the CUDA allocator of the current device, read at most five times a second.

    Attributes:
        allocated_bytes: Memory in use; None without a GPU.
        num_retries: Allocations so far that succeeded only after the cache was released; None without a GPU.
    """

    def __init__(self) -> None:
        self.allocated_bytes: int | None = None
        self.num_retries: int | None = None
        self._step, self._read_ns = -_EVERY_STEPS, 0

    def read(self, step: int, *, is_now: bool = False) -> None:
        """Read the counters if the last reading is old enough, or if `is_now`."""
        now = time.perf_counter_ns()
        if not is_now and (step < self._step + _EVERY_STEPS or now < self._read_ns + _EVERY_NS):
            return
        self._step, self._read_ns = step, now
        if not torch.cuda.is_available() or not is_initialized():
            return
        found: dict[str, Any] = torch.cuda.memory_stats()
        self.allocated_bytes = found.get("allocated_bytes.all.current")
        self.num_retries = found.get("num_alloc_retries")


class Gauges:
    """Readings of the GPU, once a second on a thread; nothing without a GPU.

    Attributes:
        clock_mhz: Clock of the GPU that is read first; None if unknown.
        values: The last readings that are known, by their name in `GAUGES`.
    """

    def __init__(self) -> None:
        self.clock_mhz: int | None = None
        self.values: dict[str, float | str] = {}
        self._sampler: Sampler | None = None

    def start(self) -> None:
        """Begin to read, if there is a GPU that this program uses."""
        if not torch.cuda.is_available():
            return
        sampler = Sampler(_RATE_HZ, on_samples=self._take, on_change=lambda: None)
        try:
            sampler.start()
        except MetricsError:
            return
        self._sampler = sampler

    def read(self) -> None:
        """Read now, on the calling thread. No effect without a GPU."""
        if self._sampler is not None:
            self._sampler.take()

    def stop(self) -> None:
        """End reading."""
        sampler, self._sampler = self._sampler, None
        if sampler is not None:
            sampler.stop()

    def forget(self) -> None:
        """Drop the thread in a forked child, which has none."""
        self._sampler = None

    def _take(self, samples: list[Sample]) -> None:
        if not samples:
            return
        reading = samples[0].reading
        self.clock_mhz = reading.clock_mhz
        known = {name: getattr(reading, name) for name in GAUGES}
        self.values = {name: value for name, value in known.items() if value is not None and value != ""}


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
