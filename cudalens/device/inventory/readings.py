"""GPUs and their readings as data, and the protocol of a source of readings. No torch.

A source numbers GPUs physically: in the order of the management library, which ignores CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from importlib import import_module
from typing import Any, Final, Protocol, TypeVar

from cudalens.device.inventory.visible import MigInstance, parse_visible, variable
from cudalens.errors import MetricsError


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
            slowed_by=ask(
                "clock throttle reasons",
                lambda: ", ".join(dict.fromkeys(text for bit, text in _SLOWED.items() if self._reasons(handle) & bit)),
            ),
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


_MIB: Final = 1 << 20


def open_amdsmi(library: Any = None) -> AmdsmiSource | None:
    """amdsmi, initialized; None if it is not available.

    Args:
        library: An object with amdsmi's functions; the module by default.
    """
    try:
        library = library or import_module("amdsmi")
        library.amdsmi_init()
    except Exception:  # ROCm without its driver raises various exceptions
        return None
    return AmdsmiSource(library)


class AmdsmiSource:
    """amdsmi as a source of readings; see `readings.Source` for its attributes."""

    label = "amdsmi"
    is_modelled = False
    driver_cuda: str | None = None

    def __init__(self, library: Any) -> None:
        self._smi = library
        self.problems: dict[str, str] = {}
        self._handles = list(library.amdsmi_get_processor_handles())
        self._is_open = True
        first = self._handles[0] if self._handles else None
        version = self._ask("version of the driver", lambda: library.amdsmi_get_gpu_driver_info(first))
        self.driver: str | None = _first(version, "driver_version")

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the machine's GPUs, in amdsmi's order."""
        return tuple(self._gpu(number, handle) for number, handle in enumerate(self._handles))

    def read(self, number: int) -> Reading:
        """Return the state of a GPU."""
        smi, handle = self._smi, self._handles[number]

        def ask(what: str, question: Callable[[], Any]) -> Any:
            return self._ask(f"{what} of GPU {number}", question)

        activity = ask("utilization", lambda: smi.amdsmi_get_gpu_activity(handle))
        memory = ask("memory", lambda: smi.amdsmi_get_gpu_vram_usage(handle))
        power = ask("power", lambda: smi.amdsmi_get_power_info(handle))
        used_mb = _number(memory, "vram_used")
        clock = ask("clock", lambda: smi.amdsmi_get_clock_info(handle, smi.AmdSmiClkType.GFX))
        memory_clock = ask("memory clock", lambda: smi.amdsmi_get_clock_info(handle, smi.AmdSmiClkType.MEM))
        return Reading(
            gpu_busy_pct=_number(activity, "gfx_activity"),
            memory_busy_pct=_number(activity, "umc_activity"),
            memory_used_bytes=None if used_mb is None else int(used_mb * _MIB),
            temperature_celsius=_plain(ask("temperature", lambda: self._temperature(handle))),
            power_watts=_number(power, "average_socket_power", "current_socket_power", "socket_power"),
            clock_mhz=_whole(_number(clock, "clk", "cur_clk")),
            memory_clock_mhz=_whole(_number(memory_clock, "clk", "cur_clk")),
        )

    def close(self) -> None:
        """Release the library. Can be called twice."""
        if self._is_open:
            self._is_open = False
            self._ask("end", self._smi.amdsmi_shut_down)

    def _gpu(self, number: int, handle: Any) -> Gpu:
        smi = self._smi

        def ask(what: str, question: Callable[[], Any]) -> Any:
            return self._ask(f"{what} of GPU {number}", question)

        asic = ask("name", lambda: smi.amdsmi_get_gpu_asic_info(handle))
        memory = ask("memory", lambda: smi.amdsmi_get_gpu_vram_usage(handle))
        clock = ask("highest clock", lambda: smi.amdsmi_get_clock_info(handle, smi.AmdSmiClkType.GFX))
        total_mb, serial = _number(memory, "vram_total"), _first(asic, "asic_serial")
        return Gpu(
            number=number,
            name=_first(asic, "market_name") or "AMD GPU",
            uuid=f"GPU-{serial.removeprefix('0x').lower()}" if serial else "",
            pci=_first({"bdf": ask("PCI address", lambda: smi.amdsmi_get_gpu_device_bdf(handle))}, "bdf"),
            total_memory_bytes=None if total_mb is None else int(total_mb * _MIB),
            clock_mhz=_whole(_number(clock, "max_clk")),
            power_limit_watts=_number(ask("power limit", lambda: smi.amdsmi_get_power_info(handle)), "power_limit"),
        )

    def _temperature(self, handle: Any) -> Any:
        smi = self._smi
        sensor = smi.AmdSmiTemperatureType.JUNCTION  # as torch.cuda.temperature reads it
        return smi.amdsmi_get_temp_metric(handle, sensor, smi.AmdSmiTemperatureMetric.CURRENT)

    def _ask(self, what: str, question: Callable[[], Any]) -> Any:
        """The result of `question`; None if it raises, which `problems` records, and then it is not called again."""
        if what in self.problems:
            return None
        try:
            return question()
        except Exception as error:
            self.problems[what] = f"{type(error).__name__}: {error}"
            return None


def _first(answer: Any, *names: str) -> str | None:
    """Return the text of the first of `names` in the answer."""
    found = next((answer[name] for name in names if name in answer), None) if isinstance(answer, dict) else None
    return None if found in (None, "", "N/A") else str(found)


def _number(answer: Any, *names: str) -> float | None:
    """Return the value of the first of `names` that is a number in the answer."""
    known = (_plain(answer[name]) for name in names if name in answer) if isinstance(answer, dict) else ()
    return next((number for number in known if number is not None), None)


def _plain(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def virtual_label() -> str | None:
    """Return the specification of the active virtual device ("h100x4"), or None. Call it through its module."""
    return None


def open_source() -> Source:
    """Return the source of readings of this machine's GPUs. Call it through its module.

    Raises:
        MetricsError: There is none; the message gives the reason and what to do.
    """
    try:
        return open_nvml()
    except MetricsError as without_nvml:
        if (source := open_amdsmi()) is not None:
            return source
        raise without_nvml


# Match the management library's GPUs to torch's devices by UUID, PCI address or CUDA_VISIBLE_DEVICES.


def gpu_of(properties: Any, gpus: Sequence[Gpu]) -> Gpu | None:
    """Return the GPU of `gpus` with a device's properties; None if there is none."""
    own = str(getattr(properties, "uuid", ""))
    for gpu in gpus:
        names = (gpu.uuid.removeprefix("GPU-"), *(one.uuid.removeprefix("MIG-") for one in gpu.migs))
        if own and own in names:
            return gpu
    pci = tuple(getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device"))
    return next((gpu for gpu in gpus if None not in pci and _pci_numbers(gpu.pci) == pci), None)


def visible_numbers(gpus: Sequence[Gpu]) -> dict[int, int]:
    """Index of the ``cuda:`` device by physical number, for those of the machine's `gpus` that the program sees.

    If CUDA is initialized in this process, torch is queried; otherwise CUDA_VISIBLE_DEVICES is parsed, and nothing is
    initialized.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        found = (
            (index, gpu_of(torch.cuda.get_device_properties(index), gpus)) for index in range(torch.cuda.device_count())
        )
        return {gpu.number: index for index, gpu in found if gpu is not None}
    is_hip = torch is not None and getattr(torch.version, "hip", None) is not None
    name, text = variable(os.environ, is_hip=is_hip)
    visible = parse_visible(text, [gpu.uuid for gpu in gpus], [m for gpu in gpus for m in gpu.migs], name=name)
    return {gpus[position].number: index for index, position in enumerate(visible.gpus)}


def _pci_numbers(pci: str | None) -> tuple[int, int, int] | None:
    """Domain, bus and device of an address such as ``0000:17:00.0``."""
    try:
        domain, bus, rest = (pci or "").split(":")
        return int(domain, 16), int(bus, 16), int(rest.partition(".")[0], 16)
    except ValueError:
        return None
