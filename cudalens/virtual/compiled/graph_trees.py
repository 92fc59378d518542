"""Functions of ``torch._C`` that torch's CUDA-graph trees need and a build of torch without CUDA lacks.

``torch._inductor.cudagraph_trees`` itself is unchanged. The functions do on the modelled allocator what torch's C++
does on CUDA's (torch/csrc/cuda/Module.cpp); `cudalens.virtual.torch_cuda.checkpoints` has the others.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.capture.graph_backend import VirtualGraphBackend
from cudalens.virtual.dispatch.dispatch_utils import below_modes
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.tensors.residency import KEY, Invalidated, residence_of

#: Attribute of a storage whose memory the next recording may overwrite: the message of torch's error.
_MESSAGE_KEY: Final = "_cudalens_freed_message"


def install(patches: Patches, gpus: Gpus) -> None:
    """Add the functions."""
    backend = VirtualGraphBackend(gpus)
    empties_cache = [True]

    def free(pointer: int) -> None:
        storage = _storage_of(pointer)
        backend.disown(storage)
        message = storage.__dict__.get(_MESSAGE_KEY)
        if message is not None:
            backend.invalidate(None, storage, message)

    def set_tensor_message(tensor: torch.Tensor, message: str) -> None:
        # The trees free the storage next, with the same reason.
        tensor.untyped_storage().__dict__[_MESSAGE_KEY] = message

    def set_storage_message(pointer: int, message: str) -> None:
        backend.invalidate(None, _storage_of(pointer), message)

    construct: Any = torch._C._construct_storage_from_data_pointer

    def storage_at(address: int, device: Any, num_bytes: int) -> Any:
        try:
            return construct(address, device, num_bytes)
        except VirtualDeviceError:  # an input outside of the pool whose address is fixed: a parameter
            storage = _live_storage(address, num_bytes)
            if storage is None:
                raise
            return storage

    functions: dict[str, Callable[..., Any]] = {
        "_construct_CUDA_Tensor_From_Storage_And_Metadata": _make_tensor,
        "_construct_storage_from_data_pointer": storage_at,
        "_cudnn_set_conv_benchmark_empty_cache": lambda value: empties_cache.__setitem__(0, value),
        "_cuda_get_conv_benchmark_empty_cache": lambda: empties_cache[0],
        "_free_And_Remove_DeleterFn": free,
        "_has_Standard_Deleter": _owns_block,
        "_set_storage_access_error_msg": set_tensor_message,
        "_set_storage_data_ptr_access_error_msg": set_storage_message,
        "_tensors_data_ptrs_at_indices_equal": _are_at_addresses,
    }
    for name, function in functions.items():
        patches.set(torch._C, name, function)


def _live_storage(address: int, num_bytes: int) -> torch.UntypedStorage | None:
    """The storage of a live tensor of the device at an address."""
    for value in gc.get_objects():
        if not issubclass(type(value), torch.Tensor):  # isinstance() calls a dead weak proxy
            continue
        residence = residence_of(value)
        if residence is not None and not isinstance(residence, Invalidated) and residence.address == address:
            storage = value.untyped_storage()
            if storage.nbytes() >= num_bytes:
                return storage
    return None


def _make_tensor(metadata: dict[str, Any], storage: torch.UntypedStorage) -> torch.Tensor:
    with below_modes():
        tensor = torch.empty(0, dtype=metadata["dtype"])
        return tensor.set_(storage, metadata["storage_offset"], metadata["size"], metadata["stride"])


def _owns_block(pointer: int) -> bool:
    residence = _storage_of(pointer).__dict__.get(KEY)
    return residence is not None and residence.block is not None


def _are_at_addresses(tensors: Sequence[Any], addresses: Sequence[int], indices: Sequence[int]) -> bool:
    return all(tensors[index].data_ptr() == addresses[index] for index in indices)


def _storage_of(pointer: int) -> torch.UntypedStorage:
    """The storage of torch's C++ object at an address (``_cdata``), which is alive; or the storage itself."""
    if isinstance(pointer, torch.UntypedStorage):
        return pointer
    return torch.UntypedStorage._new_with_weak_ptr(pointer)
