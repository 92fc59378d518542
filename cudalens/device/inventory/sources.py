"""Where readings of GPUs come from: the protocol, and which source this machine has. No torch.

A source speaks of GPUs by their physical number: the order of the management library, which knows nothing of
CUDA_VISIBLE_DEVICES. A virtual device takes the place of `open_source` and `virtual_label` while it is in place.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Protocol

from cudalens.device.inventory.visible import MigInstance
from cudalens.errors import MetricsError


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of the machine, as its management library knows it; None where it does not tell.

    Attributes:
        number: Physical number.
        name: Product name.
        uuid: ``GPU-…``, or "".
        pci: Address on the bus, ``0000:17:00.0``.
        capability: Compute capability ("9.0").
        total_memory_bytes: Its memory.
        clock_mhz: Highest clock of the SMs.
        memory_clock_mhz: Highest clock of the memory.
        power_limit_watts: The limit that is enforced now.
        is_mig: Whether it is in MIG mode; None where it cannot be.
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
    """One look at a GPU; None where it does not tell.

    Attributes:
        gpu_busy_pct: Share of the source's own window (NVML: 1/6 to 1 s) in which a kernel ran.
        memory_busy_pct: Share of it in which device memory was read or written.
        memory_used_bytes: Memory in use, by all processes.
        temperature_celsius: Of the GPU.
        power_watts: What it draws.
        clock_mhz: Clock of the SMs.
        memory_clock_mhz: Clock of the memory.
        slowed_by: What holds the clocks down ("power cap", "heat"), "" where nothing does.
    """

    gpu_busy_pct: float | None = None
    memory_busy_pct: float | None = None
    memory_used_bytes: int | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None
    clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    slowed_by: str | None = None


FIELDS: Final = tuple(field.name for field in fields(Reading))
"""Names of what is read."""


class GpuGoneError(Exception):
    """A GPU fell off the bus, or was taken away: it answers no more. Inner to device/; a sampler tells of it."""


class Source(Protocol):
    """Who reads the GPUs.

    Attributes:
        label: What it is ("NVML"), for messages.
        is_modelled: Whether the readings are a model's.
        problems: What it cannot tell and why, by what ("power of GPU 0").
        driver: Version of the driver, or None.
        driver_cuda: The newest CUDA that the driver runs ("12.8"), or None.
    """

    label: str
    is_modelled: bool
    problems: dict[str, str]
    driver: str | None
    driver_cuda: str | None

    def gpus(self) -> tuple[Gpu, ...]:
        """The machine's GPUs, in order."""

    def read(self, number: int) -> Reading:
        """The state of a GPU.

        Raises:
            GpuGoneError: It answers no more.
        """

    def close(self) -> None:
        """Let go of the library; harmless when done twice."""


def virtual_label() -> str | None:
    """The virtual device that is in place ("h100x4"), or None. It replaces this function. Call it with its module."""
    return None


def open_source() -> Source:
    """What reads this machine's GPUs. A virtual device replaces this function. Call it with its module.

    Raises:
        MetricsError: There is none; the message says why, and what to do.
    """
    from cudalens.device.inventory import amdsmi, nvml

    try:
        return nvml.open_nvml()
    except MetricsError as without_nvml:
        if (source := amdsmi.open_amdsmi()) is not None:
            return source
        raise without_nvml
