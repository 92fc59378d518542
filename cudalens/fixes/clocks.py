"""The clock for timed runs: the modelled time of a virtual device, or the time of this machine with all work done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from types import BuiltinFunctionType
from typing import Any, Final, Literal

import torch

import cudalens
from cudalens.gpus.registry import DeviceSpec, spec_of
from cudalens.virtual import active

Kind = Literal["modelled", "cuda", "cpu"]

_MIB: Final = 1 << 20
_OUR_FOLDERS: Final = tuple(str(Path(one).parent) for one in (torch.__file__, cudalens.__file__))
_LIBRARIES: Final = ("builtins", "torch", "cudalens")


@dataclass(frozen=True)
class Clock:
    """What times a run.

    Attributes:
        kind: Modelled by a virtual device, or measured with a GPU or on the CPU alone.
        device: Name of the device.
        has_values: Whether tensors of the device have values.
        spec: The published figures of the device; None if they are not known.
    """

    kind: Kind
    device: str
    has_values: bool
    spec: DeviceSpec | None

    def time(self, run: Callable[[], Any]) -> tuple[int, Any]:
        """Return the time, ns, from an idle device until all work of `run` is done, and the result of `run`."""
        self.wait()
        start = self.now()
        result = run()
        self.wait()
        return self.now() - start, result

    def now(self) -> int:
        """Return the time, ns."""
        device = active()
        if self.kind == "modelled" and device is not None and device.gpus is not None:
            return device.gpus.machine.now_ns
        return perf_counter_ns()

    def wait(self) -> None:
        """Wait for all work of all devices."""
        if self.kind != "cpu":
            for device in range(torch.cuda.device_count()):
                torch.cuda.synchronize(device)

    def begin_peak(self) -> int:
        """Begin to measure peak memory; returns the allocated bytes."""
        if self.kind == "cpu":
            return 0
        torch.cuda.reset_peak_memory_stats()
        return int(torch.cuda.memory_allocated())

    def peak_bytes(self, before: int) -> int | None:
        """Return the peak of allocated memory above `before`, bytes; None on the CPU."""
        return None if self.kind == "cpu" else int(torch.cuda.max_memory_allocated()) - before

    def flush_cache(self) -> None:
        """Overwrite the L2 cache of a GPU, so that a run reads its inputs from memory."""
        if self.kind == "cuda":
            size = 2 * self.spec.l2_cache_bytes if self.spec is not None else 256 * _MIB
            torch.empty(size, dtype=torch.uint8, device="cuda").zero_()


def find_clock() -> Clock:
    """Return the clock for the device in use: a virtual one, a GPU, or the CPU."""
    device = active()
    if device is not None:
        return Clock("modelled", f"virtual {device.label}", device.values, device.spec)
    if torch.cuda.is_available():
        found = torch.cuda.get_device_properties(torch.cuda.current_device())
        capability = f"{found.major}.{found.minor}"
        spec = spec_of(capability, found.multi_processor_count, found.total_memory, found.name)
        return Clock("cuda", found.name, True, spec)
    return Clock("cpu", "CPU", True, None)


def read_gpu_clocks() -> dict[str, str]:
    """Return clocks and temperature of the current GPU as text; empty where they cannot be read."""
    found: dict[str, str] = {}
    for name, unit in (("clock_rate", "MHz"), ("temperature", "°C"), ("power_draw", "mW")):
        try:
            found[name.replace("_", " ")] = f"{getattr(torch.cuda, name)()} {unit}"
        except Exception:  # noqa: S112 - no NVML, or a card without this reading
            continue
    return found


def is_genuine(function: Any) -> bool:
    """Return whether the code of a function is of Python, torch or cudalens.

    Names and modules are not compared: `functools.wraps` copies them to a function that a program puts in the place of
    another one.
    """
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is not None:
        return code.co_filename.startswith((*_OUR_FOLDERS, "<frozen"))
    return isinstance(function, BuiltinFunctionType) or type(function).__module__.partition(".")[0] in _LIBRARIES
