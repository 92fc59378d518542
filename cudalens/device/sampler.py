"""Read GPUs at a given rate on a background thread, and collect their readings while a block is profiled."""

from __future__ import annotations

import atexit
import contextvars
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from cudalens.device.inventory import readings
from cudalens.device.inventory.readings import FIELDS, Gpu, GpuGoneError, Reading, Source, visible_numbers
from cudalens.device.own_work import own_thread
from cudalens.errors import MetricsError
from cudalens.frames.build import metrics_frame
from cudalens.frames.info import Problem

if TYPE_CHECKING:
    import pandas as pd

MIN_HZ: Final = 0.01
#: NVML repeats its last values at higher rates.
MAX_HZ: Final = 1000.0

#: Above this number, every second sample is dropped and the rate is halved.
MAX_SAMPLES: Final = 200_000


class Sample(NamedTuple):
    """One reading of one GPU: time (epoch ns), physical number of the GPU, values."""

    ts: int
    number: int
    reading: Reading


class Sampler:
    """Reads GPUs until it is stopped. It can be started once.

    Args:
        rate_hz: Readings per second.
        open_source: Creates the source; by default the source of this machine.
        only: Selects the physical numbers of the GPUs to read from all GPUs; all by default.
        on_samples: Called on the sampling thread with the readings of one moment, which are then not kept.
        on_change: Called on the sampling thread when a virtual device was enabled or disabled, which changes the GPUs;
            without it, nothing is read until the device is the first one again.

    Attributes:
        machine: All GPUs of the machine; set by `start`.
        gpus: Those of them that are read and still respond.
        samples: The readings, in time order.
        problems: Why a value could not be read, by value.
        label: The source.
        is_modelled: Whether the readings are modelled.

    Raises:
        ValueError: The rate is not between `MIN_HZ` and `MAX_HZ`.
    """

    def __init__(
        self,
        rate_hz: float,
        *,
        open_source: Callable[[], Source] | None = None,
        only: Callable[[Sequence[Gpu]], Sequence[int]] | None = None,
        on_samples: Callable[[list[Sample]], object] | None = None,
        on_change: Callable[[], object] | None = None,
    ) -> None:
        if not MIN_HZ <= rate_hz <= MAX_HZ:
            raise ValueError(f"the rate is {rate_hz:g} samples per second; expected {MIN_HZ:g} to {MAX_HZ:g}.")
        self._period_s = 1 / rate_hz
        self._open, self._only, self._on_samples, self._on_change = open_source, only, on_samples, on_change
        self._source: Source | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._virtual = readings.virtual_label()
        self.machine: tuple[Gpu, ...] = ()
        self.gpus: tuple[Gpu, ...] = ()
        self.samples: list[Sample] = []
        self.problems: dict[str, str] = {}
        self.label = ""
        self.is_modelled = False

    @property
    def is_running(self) -> bool:
        """Whether the thread is reading."""
        return self._thread is not None and self._thread.is_alive() and not self._stopping.is_set()

    @property
    def unread(self) -> dict[str, str]:
        """The values that cannot be read, with the reasons: the problems of the sampler and of its source."""
        source = self._source
        return {**self.problems, **(source.problems if source is not None else {})}

    def start(self) -> None:
        """Take the first readings, then start the thread.

        Raises:
            MetricsError: There is no source, or it has no GPU; no thread is started.
        """
        self._adopt()
        self.take()
        # Messages that the thread sends to a front end belong to the cell that started it.
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run,), name="cudalens-metrics", daemon=True)
        _running.add(self)
        self._thread.start()

    def stop(self) -> None:
        """Take the last readings and end the thread; does nothing if it is not running."""
        self._stopping.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        source, self._source = self._source, None
        _running.discard(self)
        if source is None:
            return
        if thread is not None:
            self.take(source)
        self.problems |= source.problems
        source.close()

    def _adopt(self) -> None:
        """Open the source, and choose the GPUs to read.

        Raises:
            MetricsError: There is no source, or it has no GPU.
        """
        self._virtual = readings.virtual_label()
        source = (self._open or readings.open_source)()
        found = source.gpus()
        numbers = {gpu.number for gpu in found} if self._only is None else set(self._only(found))
        self.machine, self.gpus = found, tuple(gpu for gpu in found if gpu.number in numbers)
        if not self.gpus:
            source.close()
            raise MetricsError(f"No metrics of a GPU: {source.label} reports {_how_many(found)}.")
        self._source, self.label, self.is_modelled = source, source.label, source.is_modelled

    def _change(self) -> None:
        """Read the current GPUs, if any: a virtual device was enabled or disabled."""
        source, self._source = self._source, None
        self.machine, self.gpus, self.problems = (), (), {}
        try:
            if source is not None:
                source.close()
            self._adopt()
        except MetricsError as error:
            self.problems["GPUs"] = str(error)
        if self._on_change is not None:
            self._on_change()

    def _run(self) -> None:
        with own_thread():
            next_s = time.monotonic() + self._period_s
            while not self._stopping.wait(max(0.0, next_s - time.monotonic())):
                self.take()
                if not self.gpus and self._on_change is None:
                    self._stopping.set()
                # A missed reading is skipped.
                next_s = max(next_s + self._period_s, time.monotonic())

    def take(self, source: Source | None = None) -> None:
        """Read every GPU once, in the calling thread.

        Without `on_change`, nothing is read while the virtual device differs from the one at the start.
        """
        if readings.virtual_label() != self._virtual:
            if self._on_change is None or self._stopping.is_set():
                return
            self._change()
        source = source or self._source
        if source is None:
            return
        now = time.time_ns()
        taken = [sample for gpu in self.gpus if (sample := self._read(source, gpu, now)) is not None]
        if self._on_samples is not None:
            self._on_samples(taken)
            return
        self.samples += taken
        if len(self.samples) > MAX_SAMPLES:
            moments = list(dict.fromkeys(sample.ts for sample in self.samples))
            kept = set(moments[::2])
            self.samples = [sample for sample in self.samples if sample.ts in kept]
            self._period_s *= 2

    def _read(self, source: Source, gpu: Gpu, now: int) -> Sample | None:
        try:
            return Sample(now, gpu.number, source.read(gpu.number))
        except GpuGoneError as error:
            self.gpus = tuple(other for other in self.gpus if other.number != gpu.number)
            self.problems[f"GPU {gpu.number} ({gpu.name})"] = f"no longer read: {error}"
        except Exception as error:
            self.problems[f"a reading of GPU {gpu.number}"] = f"{type(error).__name__}: {error}"
        return None

    def _forget(self) -> None:
        """Drop thread and source in a forked child, which has no thread and must not use the parent's library."""
        self._stopping.set()
        self._thread = self._source = None


def _how_many(gpus: Sequence[Gpu]) -> str:
    return f"{len(gpus)} GPUs, but CUDA_VISIBLE_DEVICES hides all of them" if gpus else "no GPU"


_running: Final[weakref.WeakSet[Sampler]] = weakref.WeakSet()


def stop_all() -> None:
    """Stop every sampler of this process."""
    for sampler in list(_running):
        sampler.stop()


def _after_fork() -> None:
    for sampler in list(_running):
        sampler._forget()
    _running.clear()


atexit.register(stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


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
        if readings.virtual_label() is not None:
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
