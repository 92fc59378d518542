"""Replace ``torch.cuda.MemPool`` and the C functions of ``use_mem_pool``."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.allocator import PoolId
from cudalens.virtual.capture.graph_state import new_pool_id
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches, fill, fill_function, is_dummy, run_source
from cudalens.virtual.timing.machine import Device
from cudalens.virtual.torch_cuda import errors
from cudalens.virtual.torch_cuda.handles import stream_of

POOL_KEY: Final = "_cudalens_pool"

#: In some releases of torch the fourth argument is an option for symmetric memory instead of `no_split`.
_FOURTH_IS_SYMMETRIC: Final = "symmetric" in inspect.signature(torch.cuda.memory.MemPool.__init__).parameters


def install(patches: Patches, gpus: Gpus, *, in_place: bool | None = None) -> None:
    """Make torch.cuda's memory pools virtual.

    Args:
        patches: Undone at the end.
        gpus: The virtual GPUs.
        in_place: Whether to add methods to torch's class or to create a new class; by default depends on torch's build.
    """
    memory = torch.cuda.memory
    for name, function in pool_functions(gpus).items():
        fill_function(patches, name, function, (memory,))
    if is_dummy(torch._C._MemPool) if in_place is None else in_place:
        fill(patches, torch._C._MemPool, pool_methods(gpus))
        return
    patches.set(torch._C, "_MemPool", type("_MemPool", (), pool_methods(gpus)))
    made = run_source(memory)["MemPool"]
    for owner in (memory, torch.cuda):
        patches.set(owner, "MemPool", made)


class PoolState:
    """The state of a ``MemPool`` object: it holds a memory pool of the device that was current."""

    def __init__(self, gpus: Gpus, *, is_user_created: bool, use_on_oom: bool, no_split: bool) -> None:
        self.gpus, self.device = gpus, gpus.machine.current_device
        self.id = new_pool_id(is_user_created=is_user_created)
        self.device.allocator.create_or_hold_pool(self.id, use_on_oom=use_on_oom, no_split=no_split)

    def __del__(self) -> None:
        if hasattr(self, "id") and not self.gpus.is_closed:
            self.device.allocator.release_pool(self.id)
            if not self.gpus.machine.captures:
                # If the garbage collector runs within the allocator, the next empty_cache() frees the memory.
                with suppress(VirtualDeviceError):
                    self.device.allocator.empty_cache(self.id)


def pool_methods(gpus: Gpus) -> dict[str, Any]:
    """Return the methods of ``_MemPool`` by name."""

    def init(
        self: Any,
        allocator: Any = None,
        is_user_created: bool = True,
        use_on_oom: bool = False,
        no_split: bool = False,
        *others: Any,
    ) -> None:
        if allocator is not None or any(others) or (no_split and _FOURTH_IS_SYMMETRIC):
            raise VirtualDeviceError(
                "A MemPool with a custom allocator or symmetric memory calls CUDA functions that a virtual device does "
                "not have. Create the pool without them: torch.cuda.MemPool()."
            )
        self.__dict__[POOL_KEY] = PoolState(
            gpus, is_user_created=is_user_created, use_on_oom=use_on_oom, no_split=no_split
        )
        gpus.handles.add(self, "pool")

    return {
        "__new__": staticmethod(lambda cls, *args, **kwargs: object.__new__(cls)),
        "__init__": init,
        "id": property(lambda self: state_of(self).id),
        "allocator": property(lambda self: None),
        "use_count": lambda self: state_of(self).device.allocator.pool_use_count(state_of(self).id),
    }


def state_of(pool: Any) -> PoolState:
    """Return the state of a ``MemPool`` object.

    Raises:
        VirtualDeviceError: The object was created for a real device.
    """
    state: PoolState | None = vars(pool).get(POOL_KEY)
    if state is None:
        raise VirtualDeviceError(
            "This MemPool was created outside of the virtual device. Create it inside the block that uses it."
        )
    if state.gpus.is_closed:
        errors.refuse("pool")
    return state


def pool_functions(gpus: Gpus) -> dict[str, Any]:
    """Return the functions of ``torch._C`` that route allocations to a pool, by name."""

    def device_of(index: int) -> Device:
        return gpus.devices[gpus.device_index(int(index)) or 0]

    def begin(device: int, pool_id: PoolId) -> None:
        device_of(device).allocator.begin_allocate_to_pool(tuple(pool_id), lambda stream: True)

    def begin_on_thread(device: int, pool_id: PoolId) -> None:
        thread = threading.get_ident()
        accepts = lambda stream: threading.get_ident() == thread  # noqa: E731
        device_of(device).allocator.begin_allocate_to_pool(tuple(pool_id), accepts)

    def begin_on_stream(device: int, *stream_and_pool: Any) -> None:
        *stream, pool_id = stream_and_pool  # torch 2.6 means the current stream
        handle = (stream_of(gpus, stream[0]) if stream else gpus.machine.current_stream(device_of(device))).handle
        device_of(device).allocator.begin_allocate_to_pool(tuple(pool_id), lambda number: number == handle)

    def are_live(device: int, pool_id: PoolId, addresses: Iterable[int]) -> bool:
        blocks = device_of(device).allocator.live_blocks(tuple(pool_id))
        return {block.address for block in blocks} == set(addresses)

    def end(device: int, pool_id: PoolId) -> None:
        device_of(device).allocator.end_allocate_to_pool(tuple(pool_id))

    return {
        "_cuda_checkPoolLiveAllocations": are_live,
        "_cuda_beginAllocateToPool": begin,
        "_cuda_beginAllocateCurrentThreadToPool": begin_on_thread,
        "_cuda_beginAllocateCurrentStreamToPool": begin_on_stream,
        "_cuda_endAllocateToPool": end,
        "_cuda_endAllocateCurrentStreamToPool": end,
        "_cuda_releasePool": lambda device, pool_id: device_of(device).allocator.release_pool(tuple(pool_id)),
    }
