"""Readings through NVML (the library of the NVIDIA driver, by nvidia-ml-py). No torch.

Any value may be missing on some GPU, driver or container. So each is queried separately; a value that is refused
permanently is recorded in `problems` and not queried again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Final, TypeVar

from cudalens.device.inventory.readings import Gpu, GpuGoneError, Reading
from cudalens.device.inventory.visible import MigInstance
from cudalens.errors import MetricsError

T = TypeVar("T")

# Codes of nvmlReturn_t (nvml.h).
_NO_CODE: Final = -1
_UNINITIALIZED: Final = 1
_NOT_SUPPORTED: Final = 3
_NO_PERMISSION: Final = 4
_DRIVER_NOT_LOADED: Final = 9
_LIBRARY_NOT_FOUND: Final = 12
_FUNCTION_NOT_FOUND: Final = 13
_GONE: Final = {15: "the GPU is lost", 16: "the GPU must be reset", 28: "the GPU is not there any more"}
_VERSION_MISMATCH: Final = 18
_FINAL: Final = {
    _NOT_SUPPORTED: "not reported by this GPU or driver",
    _NO_PERMISSION: "not permitted; the driver reports it to administrators only",
    _FUNCTION_NOT_FOUND: "the driver is too old to report it",
}
_NO_NVML: Final = {
    _LIBRARY_NOT_FOUND: "no NVIDIA driver is installed here (libnvidia-ml.so.1 was not found). On a machine with a GPU "
    "install the driver; in a container run it with the GPU passed through (docker run --gpus all)",
    _DRIVER_NOT_LOADED: "the NVIDIA driver is installed but not loaded; nvidia-smi says the same. Load it, or reboot",
    _NO_PERMISSION: "this user may not use the NVIDIA driver (/dev/nvidiactl)",
    _VERSION_MISMATCH: "the loaded NVIDIA driver and its library are of different versions, as after an update; reboot",
}

# Values of nvmlClockType_t.
_SM: Final = 1
_MEM: Final = 2

#: Bits of nvmlClocksEventReasons for throttled clocks; the bits for idle and for application clocks are left out.
_SLOWED: Final = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "heat",
    0x40: "heat",
    0x80: "power brake",
}


def open_nvml(library: Any = None) -> NvmlSource:
    """NVML, initialized.

    Args:
        library: An object with pynvml's functions; the module by default.

    Raises:
        MetricsError: NVML is not available; the message gives the reason and what to do.
    """
    if library is None:
        try:
            library = import_module("pynvml")
        except ImportError as error:
            raise MetricsError(f"NVML cannot be read: {error}. Install it: pip install nvidia-ml-py.") from None
    try:
        library.nvmlInit()
    except Exception as error:
        why = _NO_NVML.get(getattr(error, "value", 0), f"NVML did not start: {error}")
        raise MetricsError(f"No metrics of a GPU: {why}.") from None
    return NvmlSource(library)


class NvmlSource:
    """NVML as a source of readings; see `readings.Source` for its attributes."""

    label = "NVML"
    is_modelled = False

    def __init__(self, library: Any) -> None:
        self._nvml = library
        self.problems: dict[str, str] = {}
        self._handles: dict[int, Any] = {}
        self._is_open = True
        self.driver: str | None = _text(self._ask("version of the driver", library.nvmlSystemGetDriverVersion))
        cuda = self._ask("CUDA version of the driver", lambda: library.nvmlSystemGetCudaDriverVersion())
        self.driver_cuda = None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}"

    def gpus(self) -> tuple[Gpu, ...]:
        """The machine's GPUs, in order of their PCI address; one that does not respond is left out and recorded."""
        count = self._ask("number of GPUs", self._nvml.nvmlDeviceGetCount) or 0
        return tuple(gpu for number in range(count) if (gpu := self._present(number)) is not None)

    def read(self, number: int) -> Reading:
        """Return the state of a GPU.

        Raises:
            GpuGoneError: It no longer responds.
        """
        nvml, handle = self._nvml, self._ask(f"GPU {number}", partial(self._handle, number))
        if handle is None:
            raise GpuGoneError(self.problems.get(f"GPU {number}", "it does not respond"))

        def ask(what: str, question: Callable[[], T]) -> T | None:
            return self._ask(f"{what} of GPU {number}", question)

        rates = ask("utilization", lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        memory = ask("memory", lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        power_mw = ask("power", lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        return Reading(
            gpu_busy_pct=None if rates is None else float(rates.gpu),
            memory_busy_pct=None if rates is None else float(rates.memory),
            memory_used_bytes=None if memory is None else int(memory.used),
            temperature_celsius=ask("temperature", lambda: float(nvml.nvmlDeviceGetTemperature(handle, 0))),
            power_watts=None if power_mw is None else power_mw / 1000,
            clock_mhz=ask("clock", lambda: int(nvml.nvmlDeviceGetClockInfo(handle, _SM))),
            memory_clock_mhz=ask("memory clock", lambda: int(nvml.nvmlDeviceGetClockInfo(handle, _MEM))),
            slowed_by=ask("clock throttle reasons", lambda: _slowed_by(self._reasons(handle))),
        )

    def close(self) -> None:
        """Release the library. Can be called twice."""
        if self._is_open:
            self._is_open = False
            try:
                self._nvml.nvmlShutdown()
            except Exception as error:
                self.problems["end"] = str(error)

    def _present(self, number: int) -> Gpu | None:
        """Return a GPU; None, and an entry in `problems`, for one that does not respond."""
        try:
            return self._ask(f"GPU {number}", partial(self._gpu, number))
        except GpuGoneError as error:
            self.problems[f"GPU {number}"] = str(error)
            return None

    def _gpu(self, number: int) -> Gpu:
        nvml, handle = self._nvml, self._handle(number)

        def ask(what: str, question: Callable[[], T]) -> T | None:
            return self._ask(f"{what} of GPU {number}", question)

        uuid = _text(ask("UUID", lambda: nvml.nvmlDeviceGetUUID(handle))) or ""
        memory = ask("memory", lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        version = ask("compute capability", lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle))
        limit_mw = ask("power limit", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle))
        mode = ask("MIG mode", lambda: nvml.nvmlDeviceGetMigMode(handle)[0])
        self.problems.pop(f"MIG mode of GPU {number}", None)  # most GPUs have no such mode
        return Gpu(
            number=number,
            name=_text(ask("name", lambda: nvml.nvmlDeviceGetName(handle))) or "GPU without a name",
            uuid=uuid,
            pci=_pci(_text(ask("PCI address", lambda: nvml.nvmlDeviceGetPciInfo(handle).busId))),
            capability=None if version is None else ".".join(map(str, version)),
            total_memory_bytes=None if memory is None else int(memory.total),
            clock_mhz=ask("highest clock", lambda: int(nvml.nvmlDeviceGetMaxClockInfo(handle, _SM))),
            memory_clock_mhz=ask("highest memory clock", lambda: int(nvml.nvmlDeviceGetMaxClockInfo(handle, _MEM))),
            power_limit_watts=None if limit_mw is None else limit_mw / 1000,
            is_mig=None if mode is None else bool(mode),
            migs=self._migs(number, handle) if mode else (),
        )

    def _migs(self, number: int, handle: Any) -> tuple[MigInstance, ...]:
        nvml = self._nvml
        count = self._ask(f"MIG instances of GPU {number}", lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(handle)) or 0
        found = []
        for index in range(count):
            try:
                found.append(self._mig(number, nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)))
            except Exception:  # noqa: S112 - an index without an instance raises an error
                continue
        return tuple(found)

    def _mig(self, number: int, handle: Any) -> MigInstance:
        nvml = self._nvml
        return MigInstance(
            uuid=_text(nvml.nvmlDeviceGetUUID(handle)) or "",
            gpu=number,
            gpu_instance=int(nvml.nvmlDeviceGetGpuInstanceId(handle)),
            compute_instance=int(nvml.nvmlDeviceGetComputeInstanceId(handle)),
            profile=(_text(nvml.nvmlDeviceGetName(handle)) or "").rpartition("MIG ")[2],
        )

    def _handle(self, number: int) -> Any:
        if number not in self._handles:
            self._handles[number] = self._nvml.nvmlDeviceGetHandleByIndex(number)
        return self._handles[number]

    def _reasons(self, handle: Any) -> int:
        ask = getattr(self._nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)  # its name since driver 535
        return int((ask or self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons)(handle))

    def _ask(self, what: str, question: Callable[[], T]) -> T | None:
        """The result of `question`; None if it fails. A permanent failure is recorded in `problems` and not retried.

        Raises:
            GpuGoneError: The GPU no longer responds.
        """
        if what in self.problems:
            return None
        try:
            return question()
        except GpuGoneError:
            raise
        except Exception as error:
            code = int(getattr(error, "value", _NO_CODE))
            if code in _GONE:
                raise GpuGoneError(_GONE[code]) from None
            # Other code in the process may have shut NVML down.
            if code == _UNINITIALIZED and self._is_open and self._restarted():
                return self._ask(what, question)
            if code == _NO_CODE or code in _FINAL:
                self.problems[what] = _FINAL.get(code, f"{type(error).__name__}: {error}")
            return None

    def _restarted(self) -> bool:
        """Start NVML again; returns whether that worked."""
        try:
            self._nvml.nvmlInit()
            return self._nvml.nvmlDeviceGetCount() is not None
        except Exception:
            return False


def _slowed_by(reasons: int) -> str:
    return ", ".join(dict.fromkeys(text for bit, text in _SLOWED.items() if reasons & bit))


def _text(value: Any) -> str | None:
    """Return a result as text; older versions of nvidia-ml-py return bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return None if value is None else str(value)


def _pci(bus_id: str | None) -> str | None:
    """Return the address with a domain of four digits, as lspci and torch write it; NVML pads it to eight."""
    if bus_id is None:
        return None
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:]}:{rest}" if rest else bus_id
