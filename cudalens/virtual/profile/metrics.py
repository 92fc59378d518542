"""Readings of virtual GPUs: what NVML would show while the modelled work runs. All of it is a model's.

A GPU is busy in the share of a stretch of virtual time in which a kernel ran. Temperature and power lie between the
spec's idle and busy values in that proportion, at once: no thermal mass is modelled. Clocks are the spec's highest.
Memory is what the allocator holds, and the context.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from cudalens.device.inventory.readings import Gpu, Reading
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.specs.device_spec import DeviceSpec
from cudalens.virtual.specs.visible import device_uuid
from cudalens.virtual.timing.machine import Device

if TYPE_CHECKING:
    import pandas as pd

    from cudalens.virtual.allocator import Action
    from cudalens.virtual.profile.recorder import Recorder

Ints = NDArray[np.int64]

#: Samples of a record where no rate was asked for: they cost nothing on a virtual clock.
AUTO_SAMPLES: Final = 200

#: For so long a live reading holds while the virtual clock stands still.
HOLD_S: Final = 3.0

_TRIES: Final = 20
_MIN_PERIOD_NS: Final = 1_000
_MAX_PERIOD_NS: Final = 50_000_000
#: Samples of a record per GPU; beyond it they are taken further apart.
_MAX_SAMPLES: Final = 50_000


def modelled(spec: DeviceSpec, share: float, used_bytes: int) -> Reading:
    """The reading of a GPU that was busy in a `share` (0 to 1) of a stretch of time.

    Args:
        spec: What it is.
        share: Share of the time in which a kernel ran; memory is taken to be as busy.
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

    A reading is of the virtual time since the reading before. The virtual clock stands still while the CPU computes,
    and between cells: the reading before then holds for `HOLD_S`, after which nothing is taken to run.

    Args:
        gpus: The virtual GPUs that the program sees.
        num_installed: How many the machine has.
        label: As the user asked for them: ``h100x4``.
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
        self._held: dict[int, tuple[float, float]] = {}

    def gpus(self) -> tuple[Gpu, ...]:
        """The machine's GPUs, in order; also those that CUDA_VISIBLE_DEVICES hides."""
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
        """The state of a GPU."""
        if number not in self._gpus.ordinals:
            return modelled(self._gpus.spec, 0.0, 0)
        device = self._gpus.devices[self._gpus.ordinals.index(number)]
        share = self._busy_share(number, device)
        return (
            Reading(memory_used_bytes=_used(device))
            if share is None
            else modelled(self._gpus.spec, share, _used(device))
        )

    def close(self) -> None:
        """Nothing to let go of."""

    def _busy_share(self, number: int, device: Device) -> float | None:
        now = device.machine.now_ns
        since = self._since_ns.setdefault(number, now)
        if now <= since:
            share, when = self._held.get(number, (0.0, self._now()))
            return share if self._now() - when < HOLD_S else 0.0
        busy = _busy(device, since, now)
        if busy is None:
            return None
        self._since_ns[number] = now
        self._held[number] = busy / (now - since), self._now()
        return busy / (now - since)


class MetricsRecord:
    """What the readings of virtual GPUs are computed from, once a profiled block has ended.

    Nothing is sampled: the recorder knows when kernels ran, and this knows when the memory in use changed. So the same
    program gives the same readings.

    Args:
        gpus: The virtual GPUs.
        period_ns: From one reading to the next, virtual ns; None for `AUTO_SAMPLES` over the whole.
    """

    def __init__(self, gpus: Gpus, period_ns: int | None) -> None:
        self._gpus, self._period_ns = gpus, period_ns
        now = gpus.machine.now_ns
        window = period_ns or _MAX_PERIOD_NS
        self._before = [_share_before(device, now, window) for device in gpus.devices]
        self._memory = [[(now, _used(device))] for device in gpus.devices]
        self._listeners = [(device, self._listener(device)) for device in gpus.devices]
        for device, listener in self._listeners:
            device.allocator.listeners.append(listener)

    def close(self) -> None:
        """Stop listening; harmless when done twice."""
        while self._listeners:
            device, listener = self._listeners.pop()
            device.allocator.listeners.remove(listener)

    def frame(self, recorder: Recorder, offset_ns: int) -> pd.DataFrame:
        """The readings of a record as the frame ``metrics``, a reading at its start and at its end among them.

        Args:
            recorder: The closed record.
            offset_ns: From the machine's clock to the run's.
        """
        from cudalens.device.metrics import readings_frame  # pandas, which a virtual device does without

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
    """Share of the time since the one before in which any of `spans` lasted; 0 for the first.

    Args:
        spans: Start and end, ns.
        times: Ascending, ns; shape (n,).

    Returns:
        Shape (n,), 0 to 1.
    """
    busy = np.diff(_busy_until(spans, times), prepend=0)
    passed = np.diff(times, prepend=times[:1])
    busy[:1] = 0
    shares: NDArray[np.float64] = np.divide(busy, passed, out=np.zeros(len(times)), where=passed > 0)
    return shares


def _busy_until(spans: Sequence[tuple[int, int]], times: Ints) -> Ints:
    """For how long any span lasted until each time."""
    if not spans:
        return np.zeros(len(times), np.int64)
    start, end = np.array(sorted(spans), np.int64).T
    end = np.maximum.accumulate(end)
    is_first = np.append(True, start[1:] > end[:-1])
    start, end = start[is_first], end[np.append(np.flatnonzero(is_first)[1:] - 1, len(end) - 1)]
    before = np.append(0, np.cumsum(end - start))
    at = np.searchsorted(start, times, side="right")
    over = np.where(at > 0, np.maximum(end[at - 1] - times, 0), 0)
    busy: Ints = before[at] - over
    return busy


def _kernels(recorder: Recorder, device: Device) -> list[tuple[int, int]]:
    """When the device's kernels ran."""
    return [
        (placed.start_ns, placed.end_ns)
        for stream, work, placed in recorder.works
        if stream.device is device and device.engine(work) is device.compute
    ]


def _busy(device: Device, since_ns: int, now_ns: int) -> int | None:
    """For how long kernels ran, asked from a thread while the program may be putting work on the engine.

    None where it never stood still long enough.
    """
    for _ in range(_TRIES):
        try:
            return device.compute.busy_ns(since_ns, now_ns)
        except (IndexError, RuntimeError, ValueError):  # its lists were being changed
            continue
    return None


def _share_before(device: Device, now_ns: int, window_ns: int) -> float:
    begin = max(0, now_ns - window_ns)
    return device.compute.busy_ns(begin, now_ns) / (now_ns - begin) if now_ns > begin else 0.0


def _used(device: Device) -> int:
    free, total = device.allocator.memory_info()
    return int(total - free)


def _steps(changes: Sequence[tuple[int, int]], times: Ints) -> list[int]:
    """The value at each time of what changed in steps."""
    at = np.searchsorted(np.array([when for when, _ in changes], np.int64), times, side="right") - 1
    return [changes[max(k, 0)][1] for k in at.tolist()]
