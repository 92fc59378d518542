"""Replace the C functions that torch.cuda calls: devices, streams, synchronisation, build information.

torch's package torch.cuda runs unchanged on top of them. Every ``torch._C._cuda_*`` function is set, whether this build
of torch has it or not, so that a CPU build and a CUDA build behave the same.
"""

from __future__ import annotations

import copy
import functools
import os
import warnings
import weakref
from collections.abc import Callable
from typing import Any, Final

import torch
import torch.cuda
from torch import _C
from torch.autograd import profiler, profiler_util

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches, refusal
from cudalens.virtual.specs.properties import DeviceProperties, device_uuid, properties_of
from cudalens.virtual.timing.interfaces import Work
from cudalens.virtual.timing.machine import NO_GPUS, Device
from cudalens.virtual.torch_cuda import (
    comm as comm_functions,
)
from cudalens.virtual.torch_cuda import cudart, generic_handles, handles, nvml, nvtx
from cudalens.virtual.torch_cuda import (
    memory as memory_api,
)
from cudalens.virtual.torch_cuda.handles import CUDA_TYPE

_HANDLES: Final = 0x5700_0000_0000
_HANDLE_SPAN: Final = 0x1000
_BLAS, _SOLVER = 0, 1
#: cuDNN 9.10.2, which the CUDA 12.8 wheels of torch 2.9 to 2.15 include.
_CUDNN_VERSION: Final = 91002
#: NCCL 2.27.5, which the wheels of torch 2.9 require: major, minor and patch in 32, 16 and 16 bits.
_NCCL_VERSION: Final = 2 << 32 | 27 << 16 | 5

_SYNC_MODE_WARNING: Final = (
    "Synchronization debug mode is a prototype feature and does not yet detect all synchronizing operations"
)
_GPU_CODE: Final = "is code for a GPU, which a virtual device cannot run. Use torch's own operators instead."
_OWN_ALLOCATOR: Final = (
    "allocates real device memory; a virtual device models PyTorch's allocator. Do not use it while the virtual "
    "device is active."
)
_NO_TUNING: Final = (
    "torch.cuda.tunable: TunableOp measures kernels of a real GPU; a virtual device has none. Keep it disabled while "
    "the virtual device is active."
)
_TUNABLE: Final = (
    "get_filename",
    "get_max_tuning_duration",
    "get_max_tuning_iterations",
    "get_results",
    "get_rotating_buffer_size",
    "get_validators",
    "read_file",
    "set_filename",
    "set_max_tuning_duration",
    "set_max_tuning_iterations",
    "set_numerical_check_tolerances",
    "set_rotating_buffer_size",
    "write_file",
    "write_file_on_exit",
)
_NCCL: Final = (
    "needs NCCL and a GPU; a virtual device has neither. Use torch.cuda.comm within a process, or the collectives of "
    "torch.distributed."
)
_REFUSED: Final = {
    **{
        f"_nccl_{name}": f"torch.cuda.nccl.{name} {_NCCL}"
        for name in ("unique_id", "init_rank", "all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter")
    },
    **{f"_cuda_tunableop_{name}": _NO_TUNING for name in _TUNABLE},
    "_cuda_getAllocator": f"torch.cuda.memory._get_current_allocator returns an allocator that {_OWN_ALLOCATOR}",
    "_cuda_jiterator_compile_and_launch_kernel": f"torch.cuda.jiterator: a jiterator function {_GPU_CODE}",
    "_cuda_customAllocator": f"torch.cuda.CUDAPluggableAllocator {_OWN_ALLOCATOR}",
    "_cuda_changeCurrentAllocator": f"torch.cuda.change_current_allocator {_OWN_ALLOCATOR}",
}


def install(patches: Patches, gpus: Gpus) -> None:
    """Make torch.cuda use the virtual devices."""
    functions = CudaFunctions(gpus)
    _installed.add(functions)
    for name, function in functions.table().items():
        patches.set(torch._C, name, function)
    for name, why in _REFUSED.items():
        patches.set(torch._C, name, refusal(why))
    for name in ("_compile_kernel", "_load_module"):  # by release of torch
        if hasattr(torch.cuda, name):
            patches.set(torch.cuda, name, refusal(f"torch.cuda.{name}: a kernel in CUDA C++ {_GPU_CODE}"))
    gpus.on_first_use = functions.begin
    patches.on_restore(gpus.handles.end)
    _install_state(patches, gpus, functions)
    _install_backends(patches, gpus, functions)
    handles.install(patches, gpus)
    generic_handles.install(patches, gpus)
    memory_api.install(patches, gpus)
    cudart.install(patches, gpus)
    cudart.install_libraries(patches, gpus)
    nvtx.install(patches, gpus)
    nvml.install(patches, gpus)
    generic_handles.install_accelerator(patches, gpus)
    comm_functions.install(patches, gpus)


_installed: Final[weakref.WeakSet[CudaFunctions]] = weakref.WeakSet()


def _after_fork() -> None:
    for functions in list(_installed):
        functions.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class CudaFunctions:
    """The functions, for one set of virtual GPUs."""

    def __init__(self, gpus: Gpus) -> None:
        self._gpus, self._machine = gpus, gpus.machine
        self._has_warned = False
        self._benchmark_limit = 10
        self._process_id: int | None = None
        self.properties = [
            properties_of(gpus.spec, ordinal, device_uuid(gpus.spec.key, ordinal)) for ordinal in gpus.ordinals
        ]

    def table(self) -> dict[str, Callable[..., Any]]:
        """Return all functions by their name in ``torch._C``."""
        major, minor = (int(part) for part in (torch.version.cuda or self._gpus.spec.cuda_version).split(".")[:2])
        return {
            # Devices.
            "_cuda_init": self.init,
            "_cuda_isInBadFork": self.is_in_bad_fork,
            "_cuda_getDeviceCount": lambda: len(self._gpus.devices),
            "_cuda_getDevice": self.get_device,
            "_cuda_setDevice": self.set_device,
            "_cuda_exchangeDevice": self.exchange_device,
            "_cuda_maybeExchangeDevice": self.maybe_exchange_device,
            "_cuda_canDeviceAccessPeer": self.can_access_peer,
            "_cuda_hasPrimaryContext": lambda device: self._device(device).has_context,
            "_cuda_synchronize": lambda: self._machine.current_device.synchronize(),
            "_cuda_ipc_collect": lambda: None,
            # Streams.
            "_cuda_getCurrentStream": lambda device: self._triple(self._machine.current_stream(self._device(device))),
            "_cuda_getCurrentRawStream": self.raw_stream,
            "_cuda_getDefaultStream": lambda device: self._triple(self._device(device).default_stream),
            "_cuda_getStreamFromExternal": lambda pointer, device: self._triple(
                self._device(device).external_stream(pointer)
            ),
            "_cuda_setStream": self.set_stream,
            "_cuda_sleep": self.sleep,
            "_cuda_set_sync_debug_mode": self.set_sync_debug_mode,
            "_cuda_get_sync_debug_mode": lambda: self._gpus.sync_debug_mode,
            # The build, and libraries.
            "_cuda_getArchFlags": lambda: " ".join(self._gpus.spec.arch_list),
            "_cuda_getCompiledVersion": lambda: major * 1000 + minor * 10,
            "_nccl_version": lambda: _NCCL_VERSION,
            "_nccl_version_suffix": lambda: b"",
            "_cuda_getCurrentBlasHandle": lambda: self._library_handle(_BLAS),
            "_cuda_getCurrentSolverHandle": lambda: self._library_handle(_SOLVER),
            "_cuda_get_cudnn_benchmark_limit": lambda: self._benchmark_limit,
            "_cuda_set_cudnn_benchmark_limit": self.set_benchmark_limit,
            "_cuda_get_conv_benchmark_empty_cache": lambda: False,
            "_cuda_tunableop_is_enabled": lambda: False,
            "_cuda_tunableop_tuning_is_enabled": lambda: False,
            "_cuda_record_untuned_is_enabled": lambda: False,
            "_cuda_tunableop_enable": self.refuse_tuning,
            "_cuda_tunableop_tuning_enable": self.refuse_tuning,
            "_cuda_record_untuned_enable": self.refuse_tuning,
        }

    def init(self) -> None:
        """Initialize CUDA.

        Raises:
            RuntimeError: CUDA_VISIBLE_DEVICES hides all GPUs.
        """
        if not self._gpus.devices:
            raise RuntimeError(NO_GPUS)
        self._process_id = os.getpid()

    def is_in_bad_fork(self) -> bool:
        """Return whether this process was forked after CUDA had been initialised, which makes CUDA unusable."""
        return self._process_id is not None and self._process_id != os.getpid()

    def after_fork(self) -> None:
        """In a forked process, make the next tensor initialize torch.cuda again, which raises as with a GPU."""
        if self._process_id is not None:
            self._gpus.on_first_use = self.begin

    def begin(self) -> None:
        """Initialize torch.cuda before the first tensor is created."""
        torch.cuda._lazy_init()  # type: ignore[no-untyped-call]
        self._gpus.on_first_use = None

    def raw_stream(self, index: int) -> int:
        """Return the handle of the thread's stream on a device.

        Raises:
            RuntimeError: There is no such device.
        """
        pointer = self._machine.stream_pointer(index)
        return self._machine.current_stream(self._device(index)).handle if pointer is None else pointer

    def get_device(self) -> int:
        """Return the thread's device."""
        torch.cuda._lazy_init()  # type: ignore[no-untyped-call]
        return self._machine.current_device.index

    def set_device(self, index: int) -> None:
        """Set the thread's device.

        Raises:
            RuntimeError: There is no such device; torch's message.
        """
        torch.cuda._lazy_init()  # type: ignore[no-untyped-call]
        if index < 0:
            raise RuntimeError("device id must be positive!")
        self._gpus.device_index(index)
        self._machine.set_device(index)
        self._machine.current_device.has_context = True

    def exchange_device(self, index: int) -> int:
        """Set the thread's device and return the previous one; a negative index does nothing and returns -1."""
        if index < 0:
            return -1
        before = self.get_device()
        if before != index:
            self.set_device(index)
        return before

    def maybe_exchange_device(self, index: int) -> int:
        """As `exchange_device`, without creating the primary context of the device."""
        if index < 0:
            return -1
        before = self.get_device()
        self._gpus.device_index(index)
        self._machine.set_device(index)
        return before

    def can_access_peer(self, device: int, peer_device: int) -> bool:
        """Return whether one device can access another's memory; False for its own."""
        torch.cuda._lazy_init()  # type: ignore[no-untyped-call]
        return self._gpus.spec.can_access_peer and device != peer_device

    def set_stream(self, stream_id: int, device_index: int, device_type: int) -> None:
        """Set the thread's stream and device."""
        stream = handles.known_stream(self._gpus, stream_id, device_index)
        self._machine.set_device(stream.device.index)
        self._machine.set_stream(stream)

    def sleep(self, cycles: int) -> None:
        """Launch a kernel of one thread that spins for that many cycles of the SM clock."""
        spec = self._gpus.spec
        self._machine.current_stream().launch(
            Work(
                "kernel",
                "at::cuda::(anonymous namespace)::spin_kernel(long)",
                max(cycles * 1000 // spec.clock_mhz, spec.kernel_fixed_ns),
                room=1 / (spec.num_sms * spec.max_blocks_per_sm),
                grid=(1, 1, 1),
                block=(1, 1, 1),
            )
        )

    def set_sync_debug_mode(self, mode: int) -> None:
        """Set what implicit synchronisations do: 0 nothing, 1 a warning, 2 an error.

        Raises:
            RuntimeError: The mode is not valid; torch's message.
        """
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(_SYNC_MODE_WARNING, UserWarning, stacklevel=3)
        if mode not in (0, 1, 2):
            raise RuntimeError("invalid value of debug_mode, expected one of 0,1,2")
        self._gpus.sync_debug_mode = mode

    def set_benchmark_limit(self, limit: int) -> None:
        """Store ``torch.backends.cudnn.benchmark_limit``; nothing is benchmarked."""
        self._benchmark_limit = limit

    def refuse_tuning(self, value: bool) -> None:
        """Refuse to enable TunableOp: no GPU kernel runs.

        Raises:
            VirtualDeviceError: `value` is True.
        """
        if value:
            raise VirtualDeviceError(_NO_TUNING)

    def get_properties(self, index: int) -> DeviceProperties:
        """Return the properties of a device."""
        return self.properties[index]

    def _device(self, index: int) -> Device:
        return handles.checked_device(self._gpus, index)

    @staticmethod
    def _triple(stream: Any) -> tuple[int, int, int]:
        return stream.id, stream.device.index, CUDA_TYPE

    def _library_handle(self, library: int) -> int:
        """Return a number in the place of the device's cuBLAS or cuSOLVER handle."""
        index = self._machine.current_device.index
        return _HANDLES + (2 * index + library) * _HANDLE_SPAN


def _install_state(patches: Patches, gpus: Gpus, functions: CudaFunctions) -> None:
    """Replace the state of the module torch.cuda: not initialised, and the names it imported from torch._C."""
    cuda: Any = torch.cuda
    state = {
        "_initialized": False,
        "_queued_calls": [call for call in cuda._queued_calls if call[0].__name__ != "_register_triton_kernels"],
        "_lazy_seed_tracker": copy.copy(cuda._lazy_seed_tracker),
        "_cached_device_count": None,
        "_is_in_bad_fork": functions.is_in_bad_fork,
        "_exchange_device": functions.exchange_device,
        "_maybe_exchange_device": functions.maybe_exchange_device,
        "_get_device_properties": functions.get_properties,
        "_CudaDeviceProperties": DeviceProperties,
        "_device_count_nvml": lambda: len(gpus.devices),
        "_raw_device_count_nvml": lambda: len(gpus.devices),
        "default_generators": tuple(gpus.generators),
        "_check_bf16_tensor_supported": functools.lru_cache(cuda._check_bf16_tensor_supported.__wrapped__),
    }
    for name, value in state.items():
        patches.set(cuda, name, value)
    patches.set(torch._C, "_CudaDeviceProperties", DeviceProperties)


def _install_backends(patches: Patches, gpus: Gpus, functions: CudaFunctions) -> None:
    """Replace build information. cuDNN is available but accepts no tensor, so recurrent layers use the plain path."""
    patches.set(torch._C, "_has_cuda", True)
    patches.set(torch._C, "_has_cudnn", True)
    if torch.version.cuda is None:  # else the build's version stays: torchvision compares it with its own
        patches.set(torch.version, "cuda", gpus.spec.cuda_version)
    if getattr(torch.version, "hip", None) is not None:
        patches.set(torch.version, "hip", None)
    cudnn = getattr(torch.backends.cudnn, "m", torch.backends.cudnn)
    for name, answer in {
        "is_available": lambda: True,
        "is_acceptable": lambda tensor: False,
        "version": lambda: _CUDNN_VERSION,
        "_init": lambda: True,
    }.items():
        patches.set(cudnn, name, answer)


# Make torch's profilers record only the host on a virtual device; `cudalens.profile` records the device.

_NOTE: Final = (
    "These are times of the host, without the virtual {device}: torch's profiler records no work of it. "
    "cudalens.profile() shows its simulated times."
)


def install_profilers(patches: Patches, gpus: Gpus) -> None:
    """Make torch.autograd.profiler.profile, and torch.profiler, skip the device.

    For a device that Kineto does not support, torch falls back to timing every operator with CUDA events in C++, which
    fails with many warnings per operator.
    """
    original = profiler.profile.__init__

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if self.use_device == "cuda":
            self.use_device = None
            self.profiler_kind = _C._profiler.ProfilerState.KINETO

    patches.set(profiler.profile, "__init__", made)
    table: Any = profiler_util.EventList.table

    @functools.wraps(table)
    def table_with_note(self: Any, *args: Any, **kwargs: Any) -> str:
        return f"{table(self, *args, **kwargs)}{_NOTE.format(device=gpus.spec.key)}\n"

    patches.set(profiler_util.EventList, "table", table_with_note)
