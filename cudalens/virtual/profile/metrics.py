"""Modelled utilisation, temperature, power and memory readings of virtual GPUs (NVML's readings on a real GPU).

The utilisation is the fraction of a period of virtual time in which a kernel ran. Temperature and power are
interpolated between the spec's idle and busy values by that fraction, without thermal mass. Clocks are the spec's
maximum. The used memory is the allocator's reserved memory plus the CUDA context.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from cudalens.device.inventory.readings import Gpu, Reading
from cudalens.frames.column_arrays import Ints
from cudalens.gpus.device_spec import DeviceSpec
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.specs.properties import device_uuid
from cudalens.virtual.timing.machine import Device

if TYPE_CHECKING:
    import pandas as pd

    from cudalens.virtual.allocator import Action
    from cudalens.virtual.profile.recorder import Recorder


#: The number of samples of a record without a given rate; samples take no virtual time.
AUTO_SAMPLES: Final = 200

#: How long a live reading stays valid while virtual time does not advance, in s.
HOLD_S: Final = 3.0

_TRIES: Final = 20
_MIN_PERIOD_NS: Final = 1_000
_MAX_PERIOD_NS: Final = 50_000_000
#: The maximum number of samples of a record per GPU.
_MAX_SAMPLES: Final = 50_000


def modelled(spec: DeviceSpec, share: float, used_bytes: int) -> Reading:
    """Return the reading of a GPU that was busy for a fraction of a period.

    Args:
        spec: The specification of the GPU.
        share: The fraction of time, 0 to 1, in which a kernel ran; memory is assumed to be as busy.
        used_bytes: Memory in use.
    """
    return Reading(
        gpu_busy_pct=100 * share,
        memory_busy_pct=100 * share,
        memory_used_bytes=used_bytes,
        temperature_celsius=spec.idle_celsius + (spec.busy_celsius - spec.idle_celsius) * share,
        power_watts=spec.idle_watts + (spec.max_watts - spec.idle_watts) * share,
        clock_mhz=spec.clock_mhz,
        memory_clock_mhz=spec.memory_clock_mhz,
        slowed_by="",
    )


class VirtualSource:
    """The virtual GPUs as a source of readings; see `cudalens.device.inventory.readings.Source` for its attributes.

    A reading covers the virtual time since the previous reading. Virtual time does not advance while the CPU computes,
    and between cells: the previous reading is then valid for `HOLD_S`, after which the GPU counts as idle.

    Args:
        gpus: The virtual GPUs that the program sees.
        num_installed: The number of GPUs of the machine.
        label: The device text of the user: ``h100x4``.
        now: A clock of real seconds.
    """

    is_modelled = True

    def __init__(
        self, gpus: Gpus, num_installed: int, label: str, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.label = f"model of {label}"
        self.problems: dict[str, str] = {}
        self.driver: str | None = gpus.spec.driver_version
        self.driver_cuda: str | None = gpus.spec.cuda_version
        self._gpus, self._num_installed = gpus, num_installed
        self._since_ns: dict[int, int] = {}
        self._now = now
        self._last_shares: dict[int, tuple[float, float]] = {}

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the machine's GPUs in order, including those that CUDA_VISIBLE_DEVICES hides."""
        spec = self._gpus.spec
        return tuple(
            Gpu(
                number=ordinal,
                name=spec.name,
                uuid=f"GPU-{device_uuid(spec.key, ordinal)}",
                pci=f"0000:{ordinal + 1:02x}:00.0",
                capability=".".join(map(str, spec.compute_capability)),
                total_memory_bytes=spec.total_memory_bytes,
                clock_mhz=spec.clock_mhz,
                memory_clock_mhz=spec.memory_clock_mhz,
                power_limit_watts=spec.max_watts,
            )
            for ordinal in range(self._num_installed)
        )

    def read(self, number: int) -> Reading:
        """Read the state of a GPU."""
        if number not in self._gpus.ordinals:
            return modelled(self._gpus.spec, 0.0, 0)
        device = self._gpus.devices[self._gpus.ordinals.index(number)]
        now = device.machine.now_ns
        since = self._since_ns.setdefault(number, now)
        if now <= since:
            share, when = self._last_shares.get(number, (0.0, self._now()))
            is_recent = self._now() - when < HOLD_S
            return modelled(self._gpus.spec, share if is_recent else 0.0, _used(device))
        busy = _busy(device, since, now)
        if busy is None:
            return Reading(memory_used_bytes=_used(device))
        share = busy / (now - since)
        self._since_ns[number] = now
        self._last_shares[number] = share, self._now()
        return modelled(self._gpus.spec, share, _used(device))

    def close(self) -> None:
        """Do nothing: there is no resource to release."""


class MetricsRecord:
    """Records the inputs of the readings of virtual GPUs in a profiled block.

    Nothing is sampled: readings are computed afterwards from the recorded kernel times and the changes of used memory,
    so the same program gives the same readings.

    Args:
        gpus: The virtual GPUs.
        period_ns: The time between readings, virtual ns; None for `AUTO_SAMPLES` in total.
    """

    def __init__(self, gpus: Gpus, period_ns: int | None) -> None:
        self._gpus, self._period_ns = gpus, period_ns
        now = gpus.machine.now_ns
        begin = max(0, now - (period_ns or _MAX_PERIOD_NS))
        self._before = [
            device.compute.busy_ns(begin, now) / (now - begin) if now > begin else 0.0 for device in gpus.devices
        ]
        self._memory = [[(now, _used(device))] for device in gpus.devices]
        self._listeners = [(device, self._listener(device)) for device in gpus.devices]
        for device, listener in self._listeners:
            device.allocator.listeners.append(listener)

    def close(self) -> None:
        """Stop recording. Idempotent."""
        while self._listeners:
            device, listener = self._listeners.pop()
            device.allocator.listeners.remove(listener)

    def frame(self, recorder: Recorder, offset_ns: int) -> pd.DataFrame:
        """Return the readings of a record as the frame ``metrics``, including readings at its start and end.

        Args:
            recorder: The closed record.
            offset_ns: The offset from the machine's clock to the run's clock.
        """
        from cudalens.device.sampler import readings_frame  # imports pandas, which a virtual device does not need

        times = self._times(recorder.start_ns, recorder.end_ns)
        ts: list[int] = []
        devices: list[int | None] = []
        readings: list[Reading] = []
        for device in self._gpus.devices:
            shares = busy_shares(_kernels(recorder, device), times)
            shares[0] = self._before[device.index]
            used = _steps(self._memory[device.index], times)
            for at, share, amount in zip(times.tolist(), shares.tolist(), used, strict=True):
                ts.append(at + offset_ns)
                devices.append(device.index)
                readings.append(modelled(self._gpus.spec, share, amount))
        numbers = [self._gpus.ordinals[index] for index in devices if index is not None]
        return readings_frame(ts, devices, numbers, readings)

    def _listener(self, device: Device) -> Callable[[Action], None]:
        changes = self._memory[device.index]

        def listen(action: Action) -> None:
            if action.kind.startswith("segment"):
                changes.append((device.machine.now_ns, _used(device)))

        return listen

    def _times(self, start_ns: int, end_ns: int) -> Ints:
        span = end_ns - start_ns
        period = self._period_ns or min(max(span // AUTO_SAMPLES, _MIN_PERIOD_NS), _MAX_PERIOD_NS)
        period = max(period, span // _MAX_SAMPLES, 1)
        times = np.arange(start_ns, end_ns, period, dtype=np.int64)
        return np.append(times, end_ns) if not len(times) or times[-1] < end_ns else times


def busy_shares(spans: Sequence[tuple[int, int]], times: Ints) -> NDArray[np.float64]:
    """Return the fraction of time since the previous time that `spans` cover; 0 for the first.

    Args:
        spans: Starts and ends, ns.
        times: Ascending, ns; shape (n,).

    Returns:
        Shape (n,), 0 to 1.
    """
    if not spans:
        return np.zeros(len(times))
    start, end = np.array(sorted(spans), np.int64).T
    end = np.maximum.accumulate(end)
    is_first = np.append(True, start[1:] > end[:-1])  # of spans that overlap
    start, end = start[is_first], end[np.append(np.flatnonzero(is_first)[1:] - 1, len(end) - 1)]
    before = np.append(0, np.cumsum(end - start))
    at = np.searchsorted(start, times, side="right")
    over = np.where(at > 0, np.maximum(end[at - 1] - times, 0), 0)
    busy = np.diff(before[at] - over, prepend=0)  # before[at] - over: the time that spans cover before each time
    passed = np.diff(times, prepend=times[:1])
    busy[:1] = 0
    return np.divide(busy, passed, out=np.zeros(len(times)), where=passed > 0)


def _kernels(recorder: Recorder, device: Device) -> list[tuple[int, int]]:
    """Return the spans of the device's kernels."""
    return [
        (placed.start_ns, placed.end_ns)
        for stream, work, placed in recorder.works
        if stream.device is device and device.engine(work) is device.compute
    ]


def _busy(device: Device, since_ns: int, now_ns: int) -> int | None:
    """Return the busy time of kernels, read while another thread may issue work.

    None if the state kept changing during the reads.
    """
    for _ in range(_TRIES):
        try:
            return device.compute.busy_ns(since_ns, now_ns)
        except (IndexError, RuntimeError, ValueError):  # its lists changed during the read
            continue
    return None


def _used(device: Device) -> int:
    free, total = device.allocator.memory_info()
    return int(total - free)


def _steps(changes: Sequence[tuple[int, int]], times: Ints) -> list[int]:
    """Return the value of a step function at each time."""
    at = np.searchsorted(np.array([when for when, _ in changes], np.int64), times, side="right") - 1
    return [changes[max(k, 0)][1] for k in at.tolist()]
