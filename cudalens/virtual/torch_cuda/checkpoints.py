"""Replace the C functions that save and restore the state of a private memory pool, and make storages at addresses.

torch's own graph trees (``torch._inductor.cudagraph_trees``) use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from cudalens.virtual.allocator import PoolId, PoolState
from cudalens.virtual.capture.graph_backend import VirtualGraphBackend
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches


def install(patches: Patches, gpus: Gpus) -> None:
    """Replace the functions."""
    backend = VirtualGraphBackend(gpus)
    construct = getattr(torch._C, "_construct_storage_from_data_pointer", None)

    def get_state(device: int, pool_id: PoolId) -> PoolState:
        return backend.checkpoint((int(pool_id[0]), int(pool_id[1])), device)

    def set_state(device: int, state: PoolState, stale: Sequence[int], owning: Sequence[int] = ()) -> None:
        for storage in map(_storage_of, dict.fromkeys(stale)):
            backend.disown(storage)
        backend.restore(state.pool_id, device, state, [_storage_of(pointer) for pointer in owning], ())

    def construct_storage(address: int, device: Any, num_bytes: int) -> Any:
        index = gpus.device_index(device)
        if index is None and construct is not None:
            return construct(address, device, num_bytes)
        return backend.storage_at(index or 0, address, num_bytes)

    patches.set(torch._C, "_cuda_getCheckpointState", get_state)
    patches.set(torch._C, "_cuda_setCheckpointPoolState", set_state)
    patches.set(torch._C, "_construct_storage_from_data_pointer", construct_storage)
    if not hasattr(torch._C, "_cuda_CUDAAllocator_AllocatorState"):
        patches.set(torch._C, "_cuda_CUDAAllocator_AllocatorState", PoolState)


def _storage_of(pointer: int) -> torch.UntypedStorage:
    """Return the storage of torch's C++ object at an address (``_cdata``), which is alive."""
    return torch.UntypedStorage._new_with_weak_ptr(pointer)
