"""``torch.accelerator`` on a virtual device: the accelerator is CUDA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.cuda

from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches, run_source
from cudalens.virtual.torch_cuda import generic_handles, graph_handles, handles
from cudalens.virtual.torch_cuda import memory as memory_api


def install(patches: Patches, gpus: Gpus) -> None:
    """Replace the C functions of torch.accelerator that this version of torch has."""
    for name, function in (_device_table(gpus) | _memory_table(gpus)).items():
        if hasattr(torch._C, name):
            patches.set(torch._C, name, function)
    _install_graphs(patches, gpus)
    uncached = getattr(getattr(torch.accelerator, "get_device_capability", None), "__wrapped__", None)
    if uncached is not None:  # torch caches the results for the process, but the virtual device is temporary
        patches.set(torch.accelerator, "get_device_capability", uncached)


def _install_graphs(patches: Patches, gpus: Gpus) -> None:
    """Replace ``torch.accelerator.Graph``, if torch has it, by its own source on a virtual base class."""
    if not hasattr(torch._C, "_acceleratorGraph"):
        return
    methods = graph_handles.graph_methods(gpus)
    begin = methods["capture_begin"]

    def capture_begin(self: Any, pool: Any = None, capture_error_mode: str = "default") -> None:
        begin(self, pool, "global" if capture_error_mode == "default" else capture_error_mode)

    base = type("_acceleratorGraph", (), methods | {"capture_begin": capture_begin})
    patches.set(torch._C, "_acceleratorGraph", base)
    module = torch.accelerator.graphs
    handles.replace_everywhere(patches, {module.Graph: run_source(module)["Graph"]})


def _device_table(gpus: Gpus) -> dict[str, Callable[..., Any]]:
    cuda = torch.device("cuda")
    get: Any = torch._C._cuda_getDevice
    exchange: Any = torch._C._cuda_exchangeDevice

    def set_index(index: int) -> None:
        exchange(index)

    def set_stream(stream: Any) -> None:
        torch.cuda._lazy_init()  # type: ignore[no-untyped-call]
        found = handles.stream_of(gpus, stream)
        gpus.machine.set_device(found.device.index)
        gpus.machine.set_stream(found)

    def get_stream(index: int) -> Any:
        torch.cuda._lazy_init()  # type: ignore[no-untyped-call]
        device = handles.checked_device(gpus, index)
        return generic_handles.wrap_stream(gpus, gpus.machine.current_stream(device))

    def synchronize(index: int) -> None:
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            gpus.devices[gpus.device_index(index) or 0].synchronize()

    return {
        "_accelerator_getAccelerator": lambda: cuda,
        "_get_accelerator": lambda check=False: cuda,
        "_accelerator_getDeviceIndex": get,
        "_accelerator_setDeviceIndex": set_index,
        "_accelerator_exchangeDevice": exchange,
        "_accelerator_maybeExchangeDevice": exchange,
        "_accelerator_getDeviceCapability": lambda index: {"supported_dtypes": _dtypes()},
        "_accelerator_getStream": get_stream,
        "_accelerator_setStream": set_stream,
        "_accelerator_synchronizeDevice": synchronize,
        "_accelerator_hooks_device_count": lambda: len(gpus.devices),
        "_accelerator_hooks_set_current_device": set_index,
        "_accelerator_hooks_get_current_device": get,
        "_accelerator_hooks_exchange_device": exchange,
        "_accelerator_hooks_maybe_exchange_device": exchange,
    }


def _memory_table(gpus: Gpus) -> dict[str, Callable[..., Any]]:
    memory = memory_api.MemoryFunctions(gpus)
    return {
        "_accelerator_isAllocatorInitialized": torch.cuda.is_initialized,
        "_accelerator_emptyCache": memory.empty_cache,
        "_accelerator_emptyHostCache": lambda: None,
        "_accelerator_getDeviceStats": memory.stats,
        "_accelerator_resetAccumulatedStats": memory.reset_accumulated_stats,
        "_accelerator_resetPeakStats": memory.reset_peak_stats,
        "_accelerator_getMemoryInfo": lambda index: memory.allocator(index).memory_info(),
        "_accelerator_getAllocatorSettings": memory.get_settings,
        "_accelerator_setAllocatorSettings": memory.set_settings,
    }


def _dtypes() -> set[torch.dtype]:
    """Return all dtypes of torch: every dtype can be allocated on a CUDA device."""
    return {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
