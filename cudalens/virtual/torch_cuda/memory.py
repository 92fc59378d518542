"""Replace the C functions of ``torch.cuda.memory``: statistics, snapshots and history of the modelled allocators."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

import torch
import torch.cuda

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.allocator import DEFAULT_POOL, Block, CachingAllocator, combine, parse_conf
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.timing.machine import Device
from cudalens.virtual.torch_cuda import host_memory
from cudalens.virtual.torch_cuda.host_memory import HostMemory
from cudalens.virtual.torch_cuda.stacks import python_stack

_UNBOUNDED: Final = sys.maxsize
_HOST_ALLOCATOR: Final = 0x5880_0000_0000


def install(patches: Patches, gpus: Gpus) -> None:
    """Make torch.cuda.memory use the modelled allocators."""
    memory = HostMemory(gpus.machine)
    patches.set(host_memory, "_current", memory)
    of_host = {
        "_cuda_hostMemoryStats": memory.stats,
        "_cuda_resetAccumulatedHostMemoryStats": memory.reset_accumulated_stats,
        "_cuda_resetPeakHostMemoryStats": memory.reset_peak_stats,
        "_cuda_cudaHostAllocator": lambda: _HOST_ALLOCATOR,
        "_host_emptyCache": memory.empty_cache,
    }
    for name, function in (MemoryFunctions(gpus).table() | of_host).items():
        patches.set(torch._C, name, function)


class MemoryFunctions:
    """The functions, for one set of virtual GPUs."""

    def __init__(self, gpus: Gpus) -> None:
        self._gpus = gpus
        self._raw: dict[int, tuple[Device, Block]] = {}

    def table(self) -> dict[str, Callable[..., Any]]:
        """Return all functions by their name in ``torch._C``."""
        return {
            "_cuda_memoryStats": self.stats,
            "_cuda_resetAccumulatedMemoryStats": self.reset_accumulated_stats,
            "_cuda_resetPeakMemoryStats": self.reset_peak_stats,
            "_cuda_emptyCache": self.empty_cache,
            "_cuda_getMemoryFraction": lambda device: self.allocator(device).memory_fraction,
            "_cuda_setMemoryFraction": lambda fraction, device: self.allocator(device).set_memory_fraction(fraction),
            "_cuda_getAllocatorBackend": lambda: "native",
            "_cuda_cudaCachingAllocator_set_allocator_settings": self.set_settings,
            "_cuda_memorySnapshot": self.snapshot,
            "_cuda_record_memory_history": self.record_history,
            "_cuda_record_memory_history_legacy": self.record_history_legacy,
            "_cuda_isHistoryEnabled": lambda: any(allocator.is_recording for allocator in self._allocators()),
            "_cuda_allocationTraceback": self.allocation_traceback,
            "_cuda_attach_out_of_memory_observer": self.attach_observer,
            "_cuda_setMemoryMetadata": self.set_metadata,
            "_cuda_getMemoryMetadata": lambda: next((a.user_metadata for a in self._allocators()), ""),
            "_cuda_memoryMetadataSupported": lambda: True,
            "_cuda_annotateMemory": self.annotate,
            "_cuda_cudaCachingAllocator_raw_alloc": self.raw_alloc,
            "_cuda_cudaCachingAllocator_raw_delete": self.raw_delete,
            "_cuda_cudaCachingAllocator_enable": self.enable,
            "_cuda_cudaCachingAllocator_is_enabled": lambda: True,
        }

    def allocator(self, device: int) -> CachingAllocator:
        """Return the allocator of a device.

        Raises:
            RuntimeError: There is no such device; torch's message.
        """
        if not 0 <= device < len(self._gpus.devices):
            raise RuntimeError(f"Invalid device argument {device}: did you call init?")
        return self._gpus.devices[device].allocator

    def _allocators(self) -> list[CachingAllocator]:
        return [device.allocator for device in self._gpus.devices]

    def stats(self, device: int) -> dict[str, Any]:
        """As ``torch._C._cuda_memoryStats``; rows per private pool only if torch's Python code supports them."""
        stats = self.allocator(device).stats()
        if "_format_key" not in torch.cuda.memory.memory_stats.__code__.co_cellvars:
            del stats["reserved_bytes_by_private_pools"]
        return stats

    def reset_accumulated_stats(self, device: int) -> None:
        """Reset the accumulated statistics."""
        self.allocator(device).reset_accumulated_stats()

    def reset_peak_stats(self, device: int) -> None:
        """Reset the peaks."""
        self.allocator(device).reset_peak_stats()

    def empty_cache(self) -> None:
        """Free the cached memory of all devices."""
        for allocator in self._allocators():
            allocator.empty_cache(stack=python_stack)

    def get_settings(self) -> str:
        """Return the text of the current options."""
        return next((allocator.conf.text for allocator in self._allocators()), "")

    def set_settings(self, text: str) -> None:
        """Change the options; text as in PYTORCH_CUDA_ALLOC_CONF."""
        for allocator in self._allocators():
            allocator.set_conf(parse_conf(text, allocator.conf))

    def snapshot(self, pool: tuple[Any, ...] | None = None) -> dict[str, Any]:
        """As ``torch._C._cuda_memorySnapshot``.

        Args:
            pool: A memory pool's id, in torch 2.12 and later followed by whether to include the history; None and
                (0, 0) mean all memory.
        """
        pool_id = None if pool is None or tuple(pool[:2]) == DEFAULT_POOL else (int(pool[0]), int(pool[1]))
        include_traces = bool(pool[2]) if pool is not None and len(pool) > 2 else True
        return combine(self._allocators(), pool_id=pool_id, include_traces=include_traces)

    def record_history(
        self,
        enabled: str | None = "all",
        context: str | None = "all",
        stacks: str = "all",
        max_entries: int = _UNBOUNDED,
        clear_history: bool = False,
        compile_context: bool = False,
        global_record_annotations: bool = False,
        skip_actions: Iterable[str] = (),
        record_pinned_host_memory: bool = False,
        record_cuda: bool = True,
    ) -> None:
        """Record the allocators' actions. Stack frames are Python frames; C++ frames are not recorded.

        Raises:
            VirtualDeviceError: The history of pinned memory is wanted (torch 2.15).
        """
        if record_pinned_host_memory:
            raise VirtualDeviceError(
                "The history of pinned host memory is not recorded on a virtual device. Remove "
                "record_pinned_host_memory=True; torch.cuda.host_memory_stats() counts its allocations."
            )
        for allocator in self._allocators() if record_cuda else ():
            allocator.record_history(
                enabled, context, stacks, max_entries, clear_history=clear_history, skip_actions=skip_actions
            )

    def record_history_legacy(
        self,
        enabled: bool,
        record_context: bool = True,
        trace_alloc_max_entries: int = 1,
        trace_alloc_record_context: bool = False,
        record_context_cpp: bool = False,
        clear_history: bool = False,
        compile_context: bool = False,
        global_record_annotations: bool = False,
        skip_actions: Iterable[str] = (),
        record_pinned_host_memory: bool = False,
        record_cuda: bool = True,
    ) -> None:
        """The same, with the arguments of torch 2.0."""
        context = "state" if record_context else None
        if trace_alloc_record_context:
            context = "alloc"
        self.record_history(
            "all" if enabled else None,
            context,
            "all" if record_context_cpp else "python",
            trace_alloc_max_entries,
            clear_history,
            skip_actions=skip_actions,
            record_pinned_host_memory=record_pinned_host_memory,
            record_cuda=record_cuda,
        )

    def allocation_traceback(self, address: int) -> Any:
        """Return the stack frames of the allocation at an address, or None if none were recorded."""
        for allocator in self._allocators():
            for block in allocator.live_blocks():
                if block.address == address:
                    return block.stack
        return None

    def attach_observer(self, observer: Callable[[int, int, int, int], Any]) -> None:
        """Call `observer` before an out-of-memory error is raised."""
        for allocator in self._allocators():
            allocator.out_of_memory_observers.append(observer)

    def set_metadata(self, text: str) -> None:
        """Store a text with every following action."""
        for allocator in self._allocators():
            allocator.user_metadata = text

    def annotate(self, address: int, text: str) -> None:
        """Add a text about the allocation at an address to the history; as torch 2.15, no effect without one."""
        for allocator in self._allocators():
            allocator.annotate(address, text, stack=python_stack)

    def raw_alloc(self, num_bytes: int, stream: int) -> int:
        """Allocate memory of the current device without a tensor; returns its address."""
        device = self._gpus.machine.current_device
        block: Block = device.allocator.malloc(num_bytes, stream, stack=python_stack)
        self._gpus.machine.signals.memory_allocated(block.address)
        self._raw[block.address] = device, block
        return block.address

    def raw_delete(self, address: int) -> None:
        """Free memory of `raw_alloc`, or a block that no tensor owns after the state of its pool was restored.

        Raises:
            RuntimeError: No block begins at the address; torch's message.
        """
        device, block = self._raw.pop(address, (None, None))
        for other in self._gpus.devices:
            if block is None:
                device, block = other, other.allocator.find_block(address)
        if device is None or block is None:
            raise RuntimeError(f"invalid device pointer: {address:#x}")
        self._gpus.release(device, block)

    def enable(self, value: bool) -> None:
        """Refuse to disable caching.

        Raises:
            VirtualDeviceError: `value` is False.
        """
        if not value:
            raise VirtualDeviceError(
                "The caching allocator of a virtual device cannot be disabled "
                "(torch.cuda.caching_allocator_enable(False), caching_allocator_disabled()). Remove that call."
            )
