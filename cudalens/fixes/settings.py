"""Settings of torch that change time or values, states of random generators, and the clock for timed runs."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from types import BuiltinFunctionType
from typing import Any, Final, Literal

import torch

import cudalens
from cudalens.gpus.registry import DeviceSpec, spec_of
from cudalens.virtual import active

_cudnn: Any = torch.backends.cudnn
_matmul: Any = torch.backends.cuda.matmul
_backends: Any = torch.backends


def _set_threads(value: int) -> None:
    torch.set_num_threads(value)


def _set_gradients(value: bool) -> None:
    torch.set_grad_enabled(value)


def _set_deterministic(value: bool) -> None:
    torch.use_deterministic_algorithms(value)


def _set_anomaly_detection(value: bool) -> None:
    torch.autograd.set_detect_anomaly(value)


def _read_default_device() -> str:
    return str(torch.get_default_device())


def _set_default_device(value: str) -> None:
    # None removes the mode that `torch.set_default_device` adds to each call.
    torch.set_default_device(None if value == "cpu" else value)


def _precision_of(owner: Any) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """How ``owner.fp32_precision`` is read and set; none, the default without a choice elsewhere, is full precision."""
    return (
        lambda: "ieee" if owner.fp32_precision == "none" else owner.fp32_precision,
        lambda value: setattr(owner, "fp32_precision", value),
    )


def _attribute(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    return (lambda: getattr(owner, name)), (lambda value: setattr(owner, name, value))


#: For each setting, how it is read and set.
_SETTINGS: Final[dict[str, tuple[Callable[[], Any], Callable[[Any], None]]]] = {
    "float32 matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "torch.backends.cuda.matmul.allow_tf32": _attribute(_matmul, "allow_tf32"),
    "torch.backends.cudnn.allow_tf32": _attribute(_cudnn, "allow_tf32"),
    "torch.backends.fp32_precision": _attribute(_backends, "fp32_precision"),
    "torch.backends.cuda.matmul.fp32_precision": _precision_of(_matmul),
    "torch.backends.cudnn.conv.fp32_precision": _precision_of(_cudnn.conv),
    "torch.backends.cudnn.rnn.fp32_precision": _precision_of(_cudnn.rnn),
    "torch.backends.cudnn.benchmark": _attribute(_cudnn, "benchmark"),
    "torch.backends.cudnn.enabled": _attribute(_cudnn, "enabled"),
    "torch.backends.cudnn.deterministic": _attribute(_cudnn, "deterministic"),
    "number of threads": (torch.get_num_threads, _set_threads),
    "torch.backends.mkldnn.enabled": _attribute(_backends.mkldnn, "enabled"),
    "default device": (_read_default_device, _set_default_device),
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "gradients": (torch.is_grad_enabled, _set_gradients),
    "deterministic algorithms": (torch.are_deterministic_algorithms_enabled, _set_deterministic),
    "flash attention": (torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
    "memory-efficient attention": (
        torch.backends.cuda.mem_efficient_sdp_enabled,
        torch.backends.cuda.enable_mem_efficient_sdp,
    ),
    "cuDNN attention": (torch.backends.cuda.cudnn_sdp_enabled, torch.backends.cuda.enable_cudnn_sdp),
    "attention of operators": (torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
    "float16 reductions in float16": _attribute(_matmul, "allow_fp16_reduced_precision_reduction"),
    "float16 sums in float16": _attribute(_matmul, "allow_fp16_accumulation"),
    "bfloat16 reductions in bfloat16": _attribute(_matmul, "allow_bf16_reduced_precision_reduction"),
    "anomaly detection": (torch.is_anomaly_enabled, _set_anomaly_detection),
}
#: Those that decide in which precision products of float32 tensors run.
PRECISION: Final = (
    "float32 matmul precision",
    "torch.backends.cuda.matmul.allow_tf32",
    "torch.backends.cudnn.allow_tf32",
    "torch.backends.cuda.matmul.fp32_precision",
    "torch.backends.cudnn.conv.fp32_precision",
    "torch.backends.cudnn.rnn.fp32_precision",
)


def read_settings(names: Iterable[str] = tuple(_SETTINGS)) -> dict[str, Any]:
    """Return the value of each setting by its name; those that this torch cannot read are left out."""
    found: dict[str, Any] = {}
    for name in names:
        try:
            found[name] = _SETTINGS[name][0]()
        except RuntimeError:  # both of torch's ways to set TF32 were used
            continue
    return found


def changed_settings(before: dict[str, Any]) -> list[str]:
    """Return the names of the settings that are not as they were."""
    now = read_settings()
    return [name for name in before if name in now and now[name] != before[name]]


def restore_settings(before: dict[str, Any]) -> None:
    """Set the settings that are not as they were."""
    for name in changed_settings(before):
        _SETTINGS[name][1](before[name])


#: Name of the state of torch's random generator in `State.contents`.
RANDOM: Final = "the random generator of torch"


class RandomStates:
    """The states of the global random generators of Python, numpy and torch."""

    def __init__(self) -> None:
        numpy: Any = sys.modules.get("numpy")
        self._python, self._torch = random.getstate(), torch.get_rng_state()
        self._numpy = None if numpy is None else numpy.random.get_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []

    def now(self) -> dict[str, Any]:
        """Return the states of torch's generators as they are now."""
        found = {RANDOM: torch.get_rng_state()}
        if self._cuda:
            found |= {f"{RANDOM} on device {n}": one for n, one in enumerate(torch.cuda.get_rng_state_all())}
        return found

    def restore(self) -> None:
        """Restore them."""
        random.setstate(self._python)
        torch.set_rng_state(self._torch)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)


# The clock for timed runs: the modelled time of a virtual device, or the time of this machine with all work done.

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

    def release_pinned_memory(self) -> None:
        """Return unused pinned memory to the system: memory that an earlier run pinned costs nothing to use again."""
        release = getattr(torch._C, "_host_emptyCache", None)
        if self.kind != "cpu" and release is not None:
            release()

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
