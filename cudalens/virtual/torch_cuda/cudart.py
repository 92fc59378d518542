"""``torch.cuda.cudart()`` on a virtual device: the functions of the CUDA runtime with Python bindings in torch."""

from __future__ import annotations

import ctypes
import types
from typing import Any, Final

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.torch_cuda import host_memory
from cudalens.virtual.torch_cuda.errors import (
    ALREADY_REGISTERED,
    INVALID_HANDLE,
    INVALID_VALUE,
    NOT_REGISTERED,
    text_of,
)

_HANDLES: Final = 0x5580_0000_0000
_HANDLE_SPAN: Final = 0x100
#: No process has memory below this address: such a pointer is null, or a small number by mistake.
_LEAST_ADDRESS: Final = 0x1_0000


class cudaError(int):  # noqa: N801 - CUDA's name
    """A ``cudaError_t``."""

    success: cudaError

    @property
    def value(self) -> int:
        """The number."""
        return int(self)

    @property
    def name(self) -> str:
        """``success``; ``???`` for all other codes, as in torch's binding."""
        return "success" if self == 0 else "???"

    def __repr__(self) -> str:
        return f"<cudaError.{self.name}: {int(self)}>"


cudaError.success = cudaError(0)


class Runtime:
    """The functions, for one set of virtual GPUs. Names and arguments are those of the CUDA runtime.

    Attributes:
        registered: The size of each range of page-locked host memory, by its address.
    """

    def __init__(self, gpus: Gpus) -> None:
        self._gpus, self._machine = gpus, gpus.machine
        self.registered: dict[int, int] = {}
        self._num_streams = 0

    def get_error_string(self, error: int) -> str:
        """Return the message of an error code."""
        return text_of(int(error))

    def succeed(self) -> cudaError:
        """Start or stop an external profiler: does nothing."""
        return cudaError.success

    def device_synchronize(self) -> cudaError:
        """Block the host until the current device is idle."""
        self._machine.current_device.synchronize()
        return cudaError.success

    def mem_get_info(self, device: int) -> tuple[int, int]:
        """Free and total bytes of a device."""
        index = self._gpus.device_index(device)
        free, total = self._gpus.devices[index or 0].allocator.memory_info()
        return free, total

    def host_register(self, pointer: int, num_bytes: int, flags: int) -> cudaError:
        """Page-lock host memory."""
        if pointer < _LEAST_ADDRESS or num_bytes <= 0:
            return cudaError(INVALID_VALUE)
        if pointer in self.registered:
            return cudaError(ALREADY_REGISTERED)
        self.registered[pointer] = num_bytes
        return cudaError.success

    def host_unregister(self, pointer: int) -> cudaError:
        """Undo `host_register`."""
        return cudaError(NOT_REGISTERED) if self.registered.pop(pointer, None) is None else cudaError.success

    def stream_create(self, pointer: int) -> cudaError:
        """Make a stream on the current device and write its handle to `pointer`."""
        if pointer < _LEAST_ADDRESS:
            return cudaError(INVALID_VALUE)
        self._num_streams += 1
        handle = _HANDLES + self._num_streams * _HANDLE_SPAN
        self._machine.current_device.external_stream(handle)
        ctypes.c_uint64.from_address(pointer).value = handle
        return cudaError.success

    def stream_destroy(self, handle: int) -> cudaError:
        """Destroy a stream; its pending work still runs."""
        known = any(device.find_stream(handle) is not None for device in self._gpus.devices)
        return cudaError.success if handle and known else cudaError(INVALID_HANDLE)


def install(patches: Patches, gpus: Gpus) -> None:
    """Replace torch's bindings of libcudart."""
    runtime = Runtime(gpus)
    patches.set(host_memory, "registered", runtime.registered)
    module: Any = types.ModuleType("torch._C._cudart", "The CUDA runtime of a virtual device.")
    module.cudaError = cudaError
    module.cudaGetErrorString = runtime.get_error_string
    module.cudaProfilerStart = module.cudaProfilerStop = runtime.succeed
    module.cudaDeviceSynchronize = runtime.device_synchronize
    module.cudaMemGetInfo = runtime.mem_get_info
    module.cudaHostRegister, module.cudaHostUnregister = runtime.host_register, runtime.host_unregister
    module.cudaStreamCreate, module.cudaStreamDestroy = runtime.stream_create, runtime.stream_destroy
    for owner in (torch._C, torch.cuda):
        patches.set(owner, "_cudart", module)


# Settings of CUDA libraries: the preferred libraries and cuFFT's plan cache (torch.backends.cuda).

#: The maximum number of plans from CUDA 10 on (ATen/native/cuda/CuFFTPlanCache.h).
_MAX_PLANS: Final = 4096

_PLANS: Final = (
    "cufft_plan_cache.size: the plans of cuFFT are not modelled by a virtual device. max_size can be read and set."
)
_NO_LIBRARY: Final = "the preferred library {name} is for AMD GPUs; the virtual device is a GPU of NVIDIA."


def install_libraries(patches: Patches, gpus: Gpus) -> None:
    """Replace the C functions behind ``torch.backends.cuda``'s libraries.

    No such library runs. A setting is stored and returned, and has no effect on values or times.
    """
    for library in ("linalg", "blas"):
        _install_preference(patches, library)
    caches = PlanCaches(gpus)
    module: Any = torch.backends.cuda
    kind = module.cuFFTPlanCache  # it has kept torch's functions
    setting = module.cuFFTPlanCacheAttrContextProp
    patches.set(kind, "max_size", setting(caches.get_max_size, caches.set_max_size))
    patches.set(kind, "size", setting(caches.get_size, kind.__dict__["size"].setter))
    patches.set(torch, "_cufft_get_plan_cache_max_size", caches.get_max_size)
    patches.set(torch, "_cufft_set_plan_cache_max_size", caches.set_max_size)
    patches.set(torch, "_cufft_get_plan_cache_size", caches.get_size)
    patches.set(torch, "_cufft_clear_plan_cache", caches.clear)


def _install_preference(patches: Patches, library: str) -> None:
    """Store the preferred library; this build of torch may refuse those of CUDA."""
    get = getattr(torch._C, f"_get_{library}_preferred_backend", None)
    if get is None:
        return
    stored = [get()]

    def set_preferred(backend: Any) -> None:
        if backend.name == "Ck":
            raise VirtualDeviceError(f"torch.backends.cuda: {_NO_LIBRARY.format(name='CK')}")
        stored[0] = backend

    patches.set(torch._C, f"_get_{library}_preferred_backend", lambda: stored[0])
    patches.set(torch._C, f"_set_{library}_preferred_backend", set_preferred)


class PlanCaches:
    """The cuFFT plan caches of the devices: their maximum sizes."""

    def __init__(self, gpus: Gpus) -> None:
        self._gpus, self._max_sizes = gpus, [_MAX_PLANS] * len(gpus.devices)

    def get_max_size(self, index: int) -> int:
        """Return the largest number of plans."""
        return self._max_sizes[self._checked(index)]

    def set_max_size(self, index: int, max_size: int) -> None:
        """Set the largest number of plans.

        Raises:
            RuntimeError: It is negative; torch's message.
        """
        if max_size < 0:
            raise RuntimeError(f"cuFFT plan cache size must be non-negative, but got {max_size}")
        self._max_sizes[self._checked(index)] = max_size

    def get_size(self, index: int) -> int:
        """Refuse to return the number of plans.

        Raises:
            VirtualDeviceError: Always.
        """
        raise VirtualDeviceError(_PLANS)

    def clear(self, index: int) -> None:
        """Remove the plans: there are none."""
        self._checked(index)

    def _checked(self, index: int) -> int:
        """Return the index of a device.

        Raises:
            RuntimeError: There is no such device; torch's message.
        """
        count = len(self._gpus.devices)
        if not 0 <= index < count:
            raise RuntimeError(
                f"cufft_plan_cache: expected 0 <= device index < {count}], but got device with index {index}"
            )
        return index
