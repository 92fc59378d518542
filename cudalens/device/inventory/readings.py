"""GPUs and their readings as data, and the protocol of a source of readings. No torch.

A source numbers GPUs physically: in the order of the management library, which ignores CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Protocol

from cudalens.device.inventory.visible import MigInstance


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of the machine as its management library reports it; None for values that it does not report.

    Attributes:
        number: Physical number.
        name: Product name.
        uuid: ``GPU-…``, or "".
        pci: PCI address, ``0000:17:00.0``.
        capability: Compute capability ("9.0").
        total_memory_bytes: Size of its memory.
        clock_mhz: Highest clock of the SMs.
        memory_clock_mhz: Highest clock of the memory.
        power_limit_watts: The enforced power limit.
        is_mig: Whether it is in MIG mode; None if it does not support MIG.
        migs: Its compute instances.
    """

    number: int
    name: str
    uuid: str = ""
    pci: str | None = None
    capability: str | None = None
    total_memory_bytes: int | None = None
    clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_limit_watts: float | None = None
    is_mig: bool | None = None
    migs: tuple[MigInstance, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """The state of a GPU at one moment; None for values that were not reported.

    Attributes:
        gpu_busy_pct: Share of the source's own window (NVML: 1/6 to 1 s) in which a kernel ran.
        memory_busy_pct: Share of it in which device memory was read or written.
        memory_used_bytes: Memory in use, by all processes.
        temperature_celsius: Of the GPU.
        power_watts: Power draw.
        clock_mhz: Clock of the SMs.
        memory_clock_mhz: Clock of the memory.
        slowed_by: Why the clocks are throttled ("power cap", "heat"), "" if they are not.
    """

    gpu_busy_pct: float | None = None
    memory_busy_pct: float | None = None
    memory_used_bytes: int | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None
    clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    slowed_by: str | None = None


#: Names of the values of a `Reading`.
FIELDS: Final = tuple(field.name for field in fields(Reading))


class GpuGoneError(Exception):
    """A GPU no longer responds: it was lost or removed. Handled inside ``device/``."""


class Source(Protocol):
    """Reads the GPUs of this machine.

    Attributes:
        label: Its name ("NVML"), for messages.
        is_modelled: Whether the readings are a model's.
        problems: Values that cannot be read ("power of GPU 0"), each with the reason.
        driver: Version of the driver, or None.
        driver_cuda: The newest CUDA version that the driver supports ("12.8"), or None.
    """

    label: str
    is_modelled: bool
    problems: dict[str, str]
    driver: str | None
    driver_cuda: str | None

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the machine's GPUs, in order."""

    def read(self, number: int) -> Reading:
        """Return the state of a GPU.

        Raises:
            GpuGoneError: It no longer responds.
        """

    def close(self) -> None:
        """Release the library. Can be called twice."""
