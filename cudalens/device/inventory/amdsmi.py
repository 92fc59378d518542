"""Readings through amdsmi (the library that comes with ROCm). No torch.

It is not on PyPI and is installed with ROCm. It returns dictionaries in which "N/A" marks values that a GPU does not
report. Key names have changed between ROCm 6.0 and 7, so each value is looked up under all of its names.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from cudalens.device.inventory.readings import Gpu, Reading

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
