"""Cheap readings beside the steps: counters of the allocator, and gauges of the GPU."""

from __future__ import annotations

import time
from typing import Any, Final

import torch

from cudalens.device.sampler import Sample, Sampler
from cudalens.errors import MetricsError
from cudalens.watching.clocks import is_initialized

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
