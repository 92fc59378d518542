"""``torch.cuda.cudart()`` on a virtual device: the functions of the CUDA runtime with Python bindings in torch."""

from __future__ import annotations

import ctypes
import types
from typing import Any, Final

import torch

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
