"""Readings of virtual GPUs: what NVML would show while the modelled work runs. All of it is a model's.

A GPU is busy in the share of a stretch of virtual time in which a kernel ran. Temperature and power lie between the
spec's idle and busy values in that proportion, at once: no thermal mass is modelled. Clocks are the spec's highest.
Memory is what the allocator holds, and the context.
"""

from __future__ import annotations

from cudalens.device.sources import Gpu, Reading
from cudalens.virtual.device_spec import DeviceSpec
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.machine import Device
from cudalens.virtual.visible import device_uuid


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
    """The virtual GPUs as a source of readings; see `cudalens.device.sources.Source` for its attributes.

    A reading is of the virtual time since the reading before. Where the virtual clock has stood still (it does between
    cells), nothing ran.

    Args:
        gpus: The virtual GPUs that the program sees.
        num_installed: How many the machine has.
        label: As the user asked for them: ``h100x4``.
    """

    is_modelled = True

    def __init__(self, gpus: Gpus, num_installed: int, label: str) -> None:
        self.label = f"model of {label}"
        self.problems: dict[str, str] = {}
        self.driver: str | None = gpus.spec.driver_version
        self.driver_cuda: str | None = gpus.spec.cuda_version
        self._gpus, self._num_installed = gpus, num_installed
        self._since_ns: dict[int, int] = {}

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
        free, total = device.allocator.memory_info()
        return modelled(self._gpus.spec, self._busy_share(number, device), total - free)

    def close(self) -> None:
        """Nothing to let go of."""

    def _busy_share(self, number: int, device: Device) -> float:
        now = device.machine.now_ns
        since = self._since_ns.get(number, now)
        self._since_ns[number] = now
        return device.compute.busy_ns(since, now) / (now - since) if now > since else 0.0
