"""Run Triton kernels of the program, which it launches by ``kernel[grid](...)``, on tensors of a virtual device.

Triton would compile such a kernel and load it with the CUDA driver. Here, its interpreter runs the source of the kernel
on the CPU, as for generated kernels. torch finds the arguments that the kernel writes in Triton's intermediate code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

import torch

from cudalens.device.launches import bound, find_written, name_of, tensors_in
from cudalens.errors import VirtualDeviceError
from cudalens.virtual.compiled.driver import install_driver
from cudalens.virtual.compiled.interpreter import run_kernel
from cudalens.virtual.compiled.kernels import host_value, issue_kernel, launch_kernel, memory_of
from cudalens.virtual.compiled.tracing import hidden_work, is_tracing
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches, when_imported
from cudalens.virtual.tensors.residency import is_any_resident, residence_of
from cudalens.virtual.timing.fallback_durations import kernel_ns
from cudalens.virtual.timing.machine import Device
from cudalens.virtual.timing.several_kernels import NAMESPACE

_REFUSED: Final = (
    "a virtual CUDA device cannot run the Triton kernel {name}: {reason}. Set TRITON_INTERPRET=1 before Triton is "
    "imported, so that Triton's interpreter runs it, or use torch operators instead."
)
_INTERPRETER: Final = (
    "the Triton kernel {name} cannot run on a virtual CUDA device: Triton's interpreter reports: {error}. Pass "
    "values=False to see the kernel without values, or use torch operators instead."
)
#: Triton's default number of warps per block for NVIDIA GPUs.
_NUM_WARPS: Final = 4


def install(patches: Patches, gpus: Gpus) -> None:
    """Run launches with tensors of the device; other launches are Triton's."""
    when_imported(patches, "triton.runtime.driver", lambda module: install_driver(patches, gpus, replaces=False))
    when_imported(patches, "triton.runtime.jit", lambda module: _run_here(patches, gpus, module))
    when_imported(patches, "triton.runtime.autotuner", lambda module: _leave_out_measuring(patches, module))


def _run_here(patches: Patches, gpus: Gpus, module: ModuleType) -> None:
    kind: Any = module.JITFunction
    original = kind.run
    written: dict[Any, frozenset[str] | None] = {}

    def run(self: Any, *args: Any, grid: Any = None, warmup: bool = False, **kwargs: Any) -> Any:
        if warmup or gpus.is_closed or is_tracing() or not _has_resident(args, kwargs):
            return original(self, *args, grid=grid, warmup=warmup, **kwargs)
        install_driver(patches, gpus)
        for hook in getattr(self, "pre_run_hooks", ()):
            hook(*args, **kwargs)
        given = _bind(self, args, kwargs)
        kernel = UserKernel(gpus, self, given, grid(given) if callable(grid) else grid, kwargs.get("num_warps"))
        kernel.find_written(given, written)
        launch_kernel(gpus, kernel, {name: given[name] for name in kernel.signature})
        return None

    patches.set(kind, "run", run)


def _leave_out_measuring(patches: Patches, module: ModuleType) -> None:
    """Take the first configuration of an autotuned kernel: a virtual device cannot measure."""
    kind: Any = module.Autotuner
    run, measure = kind.run, kind._bench

    def run_first(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not _has_resident(args, kwargs):
            return run(self, *args, **kwargs)
        before = self.cache, self.cache_results
        self.cache, self.cache_results = {}, False  # a GPU measures, whatever a virtual device took
        try:
            return run(self, *args, **kwargs)
        finally:
            self.cache, self.cache_results = before

    def measure_nothing(self: Any, *args: Any, config: Any, **kwargs: Any) -> Any:
        return 0.0 if _has_resident(args, kwargs) else measure(self, *args, config=config, **kwargs)

    patches.set(kind, "run", run_first)
    patches.set(kind, "_bench", measure_nothing)


def _has_resident(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether an argument is on the device."""
    given = {str(position): value for position, value in enumerate(args)} | dict(kwargs)
    return is_any_resident([tensor for _, tensor in tensors_in(given)])


def _bind(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by name.

    Raises:
        TypeError: An argument is missing, as Triton reports it.
        KeyError: A keyword argument is neither an argument of the kernel nor an option.
    """
    from triton.backends.nvidia.compiler import CUDAOptions

    given = bound(function, args, kwargs)
    for name in function.arg_names:
        if name not in given:
            raise TypeError(f"dynamic_func() missing a required argument: {name!r}")
    options = {field.name for field in dataclasses.fields(CUDAOptions)} | {"stream"}
    for name in kwargs:
        if name not in given and name not in options:
            raise KeyError(f"Keyword argument {name} was specified but unrecognised")
    return given


class UserKernel:
    """One launch of a kernel of the program.

    Args:
        gpus: The virtual GPUs.
        function: The ``JITFunction``.
        given: The arguments by name.
        grid: The grid, of one to three numbers.
        num_warps: The warps of a thread block; None for Triton's default.

    Attributes:
        name: The name of the function.
        signature: Triton's types of the arguments that are no constants, by name.

    Raises:
        VirtualDeviceError: An argument is a tuple or a descriptor with tensors.
        ValueError: A tensor is in pageable host memory, as Triton reports it.
    """

    def __init__(
        self, gpus: Gpus, function: Any, given: Mapping[str, Any], grid: tuple[int, ...], num_warps: int | None
    ) -> None:
        self._gpus, self._function = gpus, function
        x, y, z = (*grid, 1, 1)[:3]
        self._grid = int(x), int(y), int(z)
        self._num_warps = num_warps or _NUM_WARPS
        self.name = name_of(function)
        self.signature: dict[str, str] = {}
        self._constants: dict[str, Any] = {}
        self._written: frozenset[str] | None = None
        for position, parameter in enumerate(function.params):
            value = given[parameter.name]
            kind = self._kind_of(parameter, value, position)
            if kind is None:
                self._constants[parameter.name] = value
            else:
                self.signature[parameter.name] = kind

    def _kind_of(self, parameter: Any, value: Any, position: int) -> str | None:
        """Triton's type of an argument; None for a constant."""
        from triton.runtime.jit import mangle_type

        if parameter.is_constexpr or value is None:
            return None
        if isinstance(value, torch.Tensor):
            if residence_of(value) is None and not value.is_pinned():
                raise ValueError(f"Pointer argument (at {position}) cannot be accessed from Triton (cpu tensor?)")
        elif any(True for _ in tensors_in({parameter.name: value})) or isinstance(value, tuple):
            reason = f"its argument {parameter.name} is a {type(value).__name__}"
            raise VirtualDeviceError(_REFUSED.format(name=self.name, reason=reason))
        return str(parameter.annotation_type or mangle_type(value))

    @property
    def is_certain(self) -> bool:
        """Whether it is known which arguments the kernel writes."""
        return self._written is not None

    def find_written(self, given: Mapping[str, Any], known: dict[Any, frozenset[str] | None]) -> None:
        """Find the arguments that the kernel writes.

        Args:
            given: The arguments by name.
            known: The results of earlier launches, by kernel, types and constants.
        """
        constants = tuple((name, repr(value)) for name, value in self._constants.items())
        key = (self._function, tuple(self.signature.items()), constants)
        if key not in known:
            with hidden_work(self._gpus):
                known[key] = find_written(self._function, given)
        self._written = known[key]

    def writes(self, name: str) -> bool:
        """Whether the kernel writes to the argument of that name; True if that is not known."""
        return self._written is None or name in self._written

    def compute(self, named: Mapping[str, Any]) -> None:
        """Run the kernel on the memory of its arguments, in the interpreter.

        Raises:
            VirtualDeviceError: The interpreter cannot run it, or it accesses memory outside of its arguments.
        """
        values = {name: host_value(value) for name, value in named.items()} | self._constants
        try:
            with hidden_work(self._gpus):
                run_kernel(self._function, self._grid, values, self.signature, memory_of(named))
        except Exception as error:
            raise VirtualDeviceError(_INTERPRETER.format(name=self.name, error=error)) from error

    def model(self, device: Device, named: Mapping[str, Any], tensors: list[torch.Tensor]) -> None:
        """Issue the kernel to the current stream of a device, with the bytes of its arguments as its traffic."""
        num_bytes = sum(tensor.nbytes for tensor in tensors)
        duration_ns = kernel_ns(self._gpus.spec, 0, num_bytes, "float32", "other")
        name = f"{NAMESPACE}::triton::{self.name}"
        issue_kernel(self._gpus, device, name, duration_ns, num_bytes, 0, self._grid, self._num_warps)
