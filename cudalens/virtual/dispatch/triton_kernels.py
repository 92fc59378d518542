"""Run Triton kernels on a virtual device with Triton's interpreter (TRITON_INTERPRET=1).

The interpreter gets host tensors that share the memory, so nothing is copied; its internal operators are not modelled.
A launch is modelled as one kernel on the current stream, and recorded with the tensors that it reads and writes. The
interpreter passes the addresses of every store to ``triton.runtime.interpreter._interpreter``, which gives the written
tensors. `cudalens.virtual.compiled.user_kernels` runs kernels that Triton would compile.
"""

from __future__ import annotations

import copy
import ctypes
import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from types import ModuleType
from typing import Any, Final

import numpy as np
import torch

from cudalens.device import gpu_trace
from cudalens.device.launches import bound, name_of, tensors_in
from cudalens.errors import VirtualDeviceError
from cudalens.virtual.dispatch.dispatch_utils import below_modes
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches, when_imported
from cudalens.virtual.tensors.residency import is_any_resident, residence_of
from cudalens.virtual.timing.fallback_durations import kernel_ns
from cudalens.virtual.timing.interfaces import Work
from cudalens.virtual.timing.machine import Device
from cudalens.virtual.timing.several_kernels import NAMESPACE

_CAPTURED: Final = (
    "a virtual CUDA device cannot capture the interpreted Triton kernel {name} in a CUDA graph. Launch it outside of "
    "the capture, or use torch operators instead."
)
_WITHOUT_VALUES: Final = (
    "a virtual CUDA device without values (values=False) cannot run the Triton kernel {name}, because the interpreter "
    "runs it on values. Use torch operators instead, or compute values (values=True)."
)
#: Functions of the interpreter that write, with the positions of their addresses and of their mask.
_WRITERS: Final = {"store": (0, 2), "atomic_rmw": (1, 3), "atomic_cas": (0, None)}

#: Triton's default number of warps per block for NVIDIA GPUs.
_NUM_WARPS: Final = 4

_WARP_THREADS: Final = 32

#: Returns the host address; the patched method returns the device address.
_data_ptr: Final[Any] = vars(torch._C.StorageBase)["data_ptr"]

#: Triton's interpreter has global state.
_interpreter_lock: Final = threading.RLock()


def install(patches: Patches, gpus: Gpus) -> None:
    """Run interpreted kernels."""
    when_imported(patches, "triton.runtime.interpreter", lambda module: _run_here(patches, gpus, module))


def _run_here(patches: Patches, gpus: Gpus, module: ModuleType) -> None:
    kind: Any = module.GridExecutor
    original = kind.__call__

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("warmup") or gpus.is_closed or not is_any_resident(_tensors(args, kwargs)):
            return original(self, *args, **kwargs)
        launch = _Launch(gpus, module, self, args, kwargs)
        launch.log_start(original)
        result = launch.run(original)
        launch.report()
        return result

    patches.set(kind, "__call__", run)


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    given = {str(position): value for position, value in enumerate(args)} | kwargs
    return [tensor for _, tensor in tensors_in(given)]


class _Launch:
    """One launch of an interpreted kernel.

    Args:
        gpus: The GPUs.
        module: ``triton.runtime.interpreter``.
        function: The object that launches the kernel on a grid: ``GridExecutor``.
        args: The arguments of the launch.
        kwargs: The keyword arguments of the launch.

    Raises:
        VirtualDeviceError: The current stream is being captured, or the device computes no values.
    """

    def __init__(
        self, gpus: Gpus, module: ModuleType, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._gpus, self._module, self._function = gpus, module, function
        self._args, self._kwargs = args, kwargs
        self._device: Device = gpus.machine.current_device
        self._stream = gpus.machine.current_stream(self._device)
        if self._stream.capture is not None:
            raise VirtualDeviceError(_CAPTURED.format(name=name_of(function)))
        if gpus.shapes is not None:
            raise VirtualDeviceError(_WITHOUT_VALUES.format(name=name_of(function)))
        self._tensors = list(tensors_in(bound(function, args, kwargs)))
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._stores = _Stores()
        self._grid = (1, 1, 1)

    def log_start(self, original: Any) -> None:
        """Log the launch; a kernel can run again only if its arguments are plain tensors."""
        log = self._gpus.machine.op_log
        if log is not None:
            has_others = any(
                isinstance(getattr(v, "base", None), torch.Tensor) for v in _flat(self._args, self._kwargs)
            )
            again = None if has_others else functools.partial(_again, original, self._function)
            log.begin_call(f"{NAMESPACE}::{name_of(self._function)}", again, self._args, self._kwargs)

    def run(self, original: Any) -> Any:
        """Run the kernel in the interpreter."""
        with _interpreter_lock, below_modes(), self._stores.recorded(self._module):
            args = [self._on_host(value) for value in self._args]
            kwargs = {name: self._on_host(value) for name, value in self._kwargs.items()}
            result = original(self._function, *args, **kwargs)
            x, y, z = getattr(self._module.interpreter_builder, "grid_dim", None) or (1, 1, 1)
            self._grid = (int(x), int(y), int(z))
            return result

    def report(self) -> None:
        """Issue the kernel to its stream, and notify the log and the subscribers."""
        arguments = tuple((name, tensor, id(tensor) in self._stores.written) for name, tensor in self._tensors)
        num_bytes = sum(tensor.nbytes for _, tensor in self._tensors)
        spec, threads = self._gpus.spec, _WARP_THREADS * int(self._kwargs.get("num_warps") or _NUM_WARPS)
        self._stream.launch(
            Work(
                "kernel",
                f"{NAMESPACE}::triton::{name_of(self._function)}",
                kernel_ns(spec, 0, num_bytes, "float32", "other"),
                min(1.0, prod(self._grid) * threads / spec.max_resident_threads),
                num_bytes,
                grid=self._grid,
                block=(threads, 1, 1),
            ),
            "cuLaunchKernel",
        )
        if self._gpus.machine.op_log is not None:
            is_known = self._stores.is_certain
            self._gpus.machine.op_log.called(
                [tensor for _, tensor in self._tensors if not is_known or id(tensor) in self._stores.written]
            )
        if gpu_trace.is_on():
            gpu_trace.emit(
                gpu_trace.KernelLaunched(
                    name_of(self._function), self._device.index, self._stream.handle, arguments, self._stores.is_certain
                )
            )

    def _on_host(self, value: Any) -> Any:
        """Return the argument with host tensors on the same memory instead of device tensors."""
        if isinstance(value, torch.Tensor):
            return self._alias(value)
        if isinstance(value, list | tuple):
            items = [self._on_host(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(getattr(value, "base", None), torch.Tensor):
            descriptor = copy.copy(value)
            descriptor.base = self._alias(value.base)
            return descriptor
        return value

    def _alias(self, tensor: torch.Tensor) -> torch.Tensor:
        storage: Any = tensor.untyped_storage()
        address, num_bytes = _data_ptr(storage), storage.nbytes()
        self._stores.add(tensor, address + int(tensor.storage_offset()) * tensor.element_size())
        if residence_of(tensor) is None or not num_bytes:
            return tensor.detach()
        if address not in self._storages:
            memory = (ctypes.c_byte * num_bytes).from_address(address)
            self._storages[address] = torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
        alias = torch.empty(0, dtype=tensor.dtype)
        return alias.set_(self._storages[address], tensor.storage_offset(), tensor.size(), tensor.stride())


def _again(original: Any, function: Any, *args: Any, **kwargs: Any) -> None:
    """Run a kernel again, on host tensors."""
    with _interpreter_lock:
        original(function, *args, **kwargs)


def _flat(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    for value in (*args, *kwargs.values()):
        yield from value if isinstance(value, list | tuple) and not isinstance(value, torch.Size) else (value,)


class _Stores:
    """Which tensors a kernel stores to.

    Attributes:
        is_certain: Whether the interpreter reports stores.
        written: The ``id()`` of the written tensors.
    """

    def __init__(self) -> None:
        self.is_certain = True
        self.written: set[int] = set()
        self._spans: dict[int, tuple[int, int]] = {}

    def add(self, tensor: torch.Tensor, first: int) -> None:
        """Register a tensor by the host address of its first element."""
        self._spans[id(tensor)] = (first, first + _extent(tensor))

    @contextmanager
    def recorded(self, module: Any) -> Iterator[None]:
        """Record the interpreter's stores inside the context."""
        inner = getattr(module, "_interpreter", None)
        self.is_certain = all(hasattr(inner, name) for name in _WRITERS)
        if not self.is_certain:
            yield
            return
        module._interpreter = _RecordingInterpreter(inner, self._stored)
        try:
            yield
        finally:
            module._interpreter = inner

    def _stored(self, pointers: Any, mask: Any) -> None:
        left = {number: span for number, span in self._spans.items() if number not in self.written}
        if left:
            hit = pointers if mask is None else pointers[np.broadcast_to(mask, pointers.shape)]
            self.written.update(n for n, (start, end) in left.items() if ((hit >= start) & (hit < end)).any())


class _RecordingInterpreter:
    """Wrapper of the interpreter's C module that reports stores."""

    def __init__(self, inner: Any, report: Any) -> None:
        self._inner, self._report = inner, report

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in _WRITERS:
            return found
        pointers_at, mask_at = _WRITERS[name]

        def write(*args: Any) -> Any:
            self._report(args[pointers_at], None if mask_at is None else args[mask_at])
            return found(*args)

        return write


def _extent(tensor: torch.Tensor) -> int:
    """Bytes from a tensor's first element to the end of its last."""
    if not tensor.numel():
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()
