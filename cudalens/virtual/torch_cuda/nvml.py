"""NVML for virtual GPUs: the functions behind `torch.cuda.utilization` and similar calls, and the module ``pynvml``.

All values are modelled. Utilization is the fraction of the last second of virtual time in which a kernel ran;
temperature and power are interpolated between the spec's idle and busy values by that fraction; clocks are the spec's
maximum.
"""

from __future__ import annotations

import os
import sys
import types
from dataclasses import dataclass
from typing import Any, Final

import torch.cuda

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.specs.properties import device_uuid
from cudalens.virtual.timing.machine import Device

#: The averaging window of utilization, virtual ns. NVML's own sample period is between 1/6 s and 1 s.
WINDOW_NS: Final = 1_000_000_000

_MW_PER_W: Final = 1000
_GRAPHICS, _SM, _MEM, _VIDEO = range(4)


@dataclass(frozen=True, slots=True)
class _Utilization:
    gpu: int
    memory: int


@dataclass(frozen=True, slots=True)
class _Memory:
    total: int
    free: int
    used: int


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    usedGpuMemory: int  # noqa: N815 - NVML's name
    gpuInstanceId: int | None = None  # noqa: N815 - NVML's name
    computeInstanceId: int | None = None  # noqa: N815 - NVML's name


class NVMLError(Exception):
    """As in pynvml: a failed NVML call."""

    def __init__(self, value: int = 999) -> None:
        super().__init__(value)
        self.value = value


class NVMLError_DriverNotLoaded(NVMLError):  # noqa: N801, N818 - NVML's name
    """As in pynvml; a virtual driver is always loaded."""


class NVMLError_InvalidArgument(NVMLError):  # noqa: N801, N818 - NVML's name
    """As in pynvml: there is no such device."""


def install(patches: Patches, gpus: Gpus) -> None:
    """Replace the module pynvml, in torch.cuda and for imports."""
    module = make_module(gpus)
    cuda: Any = torch.cuda
    patches.set_item(sys.modules, "pynvml", module)
    patches.set(cuda, "pynvml", module)
    patches.set(cuda, "_HAS_PYNVML", True)
    patches.set(cuda, "_PYNVML_ERR", None)
    patches.set(cuda, "_get_nvml_device_index", lambda device: _index(gpus, device))
    patches.set(
        cuda,
        "_raw_device_uuid_nvml",
        lambda: [f"GPU-{device_uuid(gpus.spec.key, ordinal)}" for ordinal in gpus.ordinals],
    )


def make_module(gpus: Gpus) -> types.ModuleType:
    """Return a module with the functions of pynvml that read a device's state."""
    module: Any = types.ModuleType("pynvml", "NVML of a virtual CUDA device.")
    for name, value in Nvml(gpus).table().items():
        setattr(module, name, value)

    def missing(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise VirtualDeviceError(
            f"pynvml.{name} is not modelled by a virtual CUDA device. Remove the call, or use a real GPU."
        )

    module.__getattr__ = missing
    return module


def _index(gpus: Gpus, device: Any) -> int:
    index = torch.cuda._utils._get_device_index(device, optional=True)
    if not 0 <= index < len(gpus.devices):
        raise RuntimeError(f"device {index} is not visible (CUDA_VISIBLE_DEVICES={gpus.ordinals})")
    return index


class Nvml:
    """The functions, for one set of virtual GPUs. A device's handle is the `Device` itself."""

    def __init__(self, gpus: Gpus) -> None:
        self._gpus, self._spec = gpus, gpus.spec

    def table(self) -> dict[str, Any]:
        """Return all functions by pynvml's names."""
        spec = self._spec
        return {
            "NVMLError": NVMLError,
            "NVMLError_DriverNotLoaded": NVMLError_DriverNotLoaded,
            "NVMLError_InvalidArgument": NVMLError_InvalidArgument,
            "NVML_TEMPERATURE_GPU": 0,
            "NVML_CLOCK_GRAPHICS": _GRAPHICS,
            "NVML_CLOCK_SM": _SM,
            "NVML_CLOCK_MEM": _MEM,
            "NVML_CLOCK_VIDEO": _VIDEO,
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlSystemGetDriverVersion": lambda: spec.driver_version,
            "nvmlDeviceGetCount": lambda: len(self._gpus.devices),
            "nvmlDeviceGetHandleByIndex": self.handle,
            "nvmlDeviceGetIndex": lambda handle: handle.index,
            "nvmlDeviceGetName": lambda handle: spec.name,
            "nvmlDeviceGetUUID": lambda handle: f"GPU-{device_uuid(spec.key, self._gpus.ordinals[handle.index])}",
            "nvmlDeviceGetMemoryInfo": self.memory,
            "nvmlDeviceGetUtilizationRates": self.utilization,
            "nvmlDeviceGetTemperature": lambda handle, sensor=0: self.temperature(handle),
            "nvmlDeviceGetPowerUsage": self.power_mw,
            "nvmlDeviceGetEnforcedPowerLimit": lambda handle: int(spec.max_watts * _MW_PER_W),
            "nvmlDeviceGetClockInfo": self.clock_mhz,
            "nvmlDeviceGetMaxClockInfo": self.clock_mhz,
            "nvmlDeviceGetComputeRunningProcesses": self.processes,
        }

    def handle(self, index: int) -> Device:
        """Return the device of an index.

        Raises:
            NVMLError_InvalidArgument: There is none.
        """
        if not 0 <= index < len(self._gpus.devices):
            raise NVMLError_InvalidArgument(2)
        return self._gpus.devices[index]

    def busy_share(self, device: Device) -> float:
        """Return the fraction of the window before the host time in which a kernel ran, 0 to 1."""
        now = device.machine.now_ns
        begin = max(0, now - WINDOW_NS)
        return device.compute.busy_ns(begin, now) / (now - begin) if now > begin else 0.0

    def utilization(self, device: Device) -> _Utilization:
        """In percent; memory is assumed to be as busy as the kernels."""
        percent = round(100 * self.busy_share(device))
        return _Utilization(percent, percent)

    def temperature(self, device: Device) -> int:
        """In degrees Celsius."""
        spec = self._spec
        return round(spec.idle_celsius + (spec.busy_celsius - spec.idle_celsius) * self.busy_share(device))

    def power_mw(self, device: Device) -> int:
        """In milliwatts."""
        spec = self._spec
        return round(_MW_PER_W * (spec.idle_watts + (spec.max_watts - spec.idle_watts) * self.busy_share(device)))

    def clock_mhz(self, device: Device, kind: int) -> int:
        """Return the spec's maximum clock of the SMs or of the memory."""
        return self._spec.memory_clock_mhz if kind == _MEM else self._spec.clock_mhz

    def memory(self, device: Device) -> _Memory:
        """In bytes, as cudaMemGetInfo."""
        free, total = device.allocator.memory_info()
        return _Memory(total, free, total - free)

    def processes(self, device: Device) -> list[_Process]:
        """This process, with the used memory of the device."""
        return [_Process(os.getpid(), self.memory(device).used)]
