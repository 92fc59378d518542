"""Collect GPU readings while a block is profiled, as the frame ``metrics``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from cudalens.device.inventory import sources
from cudalens.device.inventory.pairing import visible_numbers
from cudalens.device.inventory.readings import FIELDS, Gpu, Reading
from cudalens.device.sampler import Sample, Sampler
from cudalens.errors import MetricsError
from cudalens.frames.info import Problem
from cudalens.frames.metrics import metrics_frame

if TYPE_CHECKING:
    import pandas as pd

#: NVML updates utilization about 1 to 6 times a second, power and clocks about 10 to 50 times.
DEFAULT_HZ: Final = 20.0


class MetricsCollector:
    """Reads the GPUs that the program sees from `start` to `stop`, at least once at each end.

    Reads nothing while a virtual device is active, which models its own readings on its own clock.

    Args:
        rate_hz: Readings per second.
    """

    name = "metrics"

    def __init__(self, rate_hz: float = DEFAULT_HZ) -> None:
        self._sampler = Sampler(rate_hz, only=lambda gpus: list(visible_numbers(gpus)))
        self._reason = ""

    def start(self) -> None:
        """Begin to read. If that fails, `problems` gives the reason and nothing is raised."""
        if sources.virtual_label() is not None:
            return
        try:
            self._sampler.start()
        except MetricsError as error:
            self._reason = str(error)

    def stop(self) -> None:
        """End reading and the thread."""
        self._sampler.stop()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What could not be read."""
        if self._reason:
            return (Problem("metrics were requested, but none are available", 1, self._reason),)
        return tuple(
            Problem("metric not reported", 1, f"{what}: {why}") for what, why in self._sampler.problems.items()
        )

    def frames(self) -> dict[str, pd.DataFrame]:
        """Return the frame ``metrics``; empty if nothing was read."""
        samples = self._sampler.samples
        return {"metrics": samples_frame(samples, self._sampler.machine)} if samples else {}


def samples_frame(samples: Sequence[Sample], gpus: Sequence[Gpu]) -> pd.DataFrame:
    """Samples as the frame ``metrics``; the device index of each of the machine's `gpus` is looked up now."""
    index = visible_numbers(gpus)
    return readings_frame(
        [sample.ts for sample in samples],
        [index.get(sample.number) for sample in samples],
        [sample.number for sample in samples],
        [sample.reading for sample in samples],
    )


def readings_frame(
    ts: Sequence[int], devices: Sequence[int | None], numbers: Sequence[int], readings: Sequence[Reading]
) -> pd.DataFrame:
    """Readings as the frame ``metrics``: time, device index, physical number and values of each."""
    values = {name: [getattr(reading, name) for reading in readings] for name in FIELDS}
    return metrics_frame({"ts": ts, "device": devices, "physical_index": numbers, **values})
