"""The virtual device's part of a graph manager: memory pools, places in them, and their state.

What torch does by private functions on a real device (torch/csrc/cuda/Module.cpp and the caching allocator, as
torch._inductor.cudagraph_trees uses them) is done here on the model, with the same consequences: books that are brought
back, storages that own their block or do not, memory that everybody shares who knows the address.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import torch

from cudalens.device import graph_backend as protocol
from cudalens.device.graph_backend import Allocation, PoolId, PoolSize, TensorPlace
from cudalens.errors import VirtualDeviceError
from cudalens.virtual.allocator import Block, PoolState
from cudalens.virtual.dispatch.dispatch_utils import unseen
from cudalens.virtual.tensors.arenas import Arena
from cudalens.virtual.tensors.residency import KEY, ArenaResidence, Residence, Spoilt
from cudalens.virtual.torch_cuda.stacks import python_stack

if TYPE_CHECKING:
    from cudalens.virtual.allocator import CachingAllocator
    from cudalens.virtual.gpus import Gpus
    from cudalens.virtual.patching import Patches
    from cudalens.virtual.timing.machine import Device


def install(patches: Patches, gpus: Gpus) -> None:
    """Offer the backend while the virtual device is in place."""
    backend = VirtualGraphBackend(gpus)
    patches.on_restore(protocol.provide(lambda device: backend))


class VirtualGraphBackend:
    """`cudalens.device.graph_backend.GraphBackend`, for all devices of one set of virtual GPUs.

    Attributes:
        name: ``virtual:<spec>``.
    """

    def __init__(self, gpus: Gpus) -> None:
        self._gpus = gpus
        self.name = f"virtual:{gpus.spec.key}"

    def capture(
        self, graph: torch.cuda.CUDAGraph, pool: PoolId, stream: torch.cuda.Stream
    ) -> AbstractContextManager[Any]:
        """While it is entered, what this thread does on `stream`, which is current then, is captured into `graph`."""
        return protocol.capture_alone(graph, pool, stream)

    def replay(self, graph: torch.cuda.CUDAGraph) -> None:
        """Launch what `graph` holds on the current stream; the device itself tells listeners."""
        graph.replay()

    def destroy(self, graph: torch.cuda.CUDAGraph) -> None:
        """Let go of what `graph` holds; the device, which has freed it where it has ended, tells listeners."""
        if not self._gpus.is_closed:  # afterwards torch's own class is back, which may be one without reset()
            graph.reset()

    @contextmanager
    def allocate_to(self, pool: PoolId, device: int) -> Iterator[None]:
        """While it is entered, memory that this thread asks for comes from `pool`.

        Raises:
            RuntimeError: Memory goes to `pool` already, or nobody holds it; torch's own words.
        """
        place, thread = self._device(device), threading.get_ident()
        place.allocator.begin_allocate_to_pool(pool, lambda stream: threading.get_ident() == thread)
        self._gpus.serve_graphs(place, pool)
        try:
            yield
        finally:
            place.allocator.end_allocate_to_pool(pool)
            place.allocator.release_pool(pool)

    def checkpoint(self, pool: PoolId, device: int) -> PoolState:
        """Which blocks of `pool` are handed out, to be restored later.

        Raises:
            RuntimeError: The pool is not there, or another stream may still use a block of it; torch's own words.
        """
        return self._allocator(device).checkpoint_pool(pool)

    def restore(
        self, pool: PoolId, device: int, state: PoolState, live: Sequence[torch.UntypedStorage], dead: Iterable[int]
    ) -> None:
        """Bring the allocator's books to `state`, in which a replay left the memory.

        Args:
            pool: The memory pool.
            device: Index of its device.
            state: From `checkpoint`.
            live: Storages (of `tensor_at`) at addresses that `state` has handed out: from now on they own their blocks.
            dead: Addresses that `state` has handed out and nobody uses any more: they are free afterwards.

        Raises:
            RuntimeError: A storage of `live` lies where `state` has nothing, or owns its block already; something is
                handed out that `state` knows nothing of; or the allocator cannot do it. Torch's own words, where it
                has some.
        """
        allocator = self._allocator(device)
        owners = _owners(state, live)
        _check_known(allocator, pool, state)
        created = {block.address: block for block in allocator.restore_pool(state, stack=python_stack).created}
        for residence in owners:
            residence.own(created[residence.address])
        for address in dict.fromkeys(dead):
            self._delete(device, address)

    def live_allocations(self, pool: PoolId, device: int) -> list[Allocation]:
        """The blocks of `pool` that are handed out, by the allocator's books."""
        blocks = self._allocator(device).live_blocks(pool)
        return [Allocation(block.address, block.size, _frames(block)) for block in blocks]

    def has_live(self, pool: PoolId, device: int, addresses: set[int]) -> bool:
        """Whether the blocks that are handed out are exactly those at `addresses`; quicker than `live_allocations`."""
        return {block.address for block in self._allocator(device).live_blocks(pool)} == addresses

    def pool_size(self, pool: PoolId, device: int) -> PoolSize:
        """How large `pool` is now."""
        return PoolSize(*self._allocator(device).pool_bytes(pool))

    def tensor_at(self, place: TensorPlace, storage: torch.UntypedStorage | None = None) -> torch.Tensor:
        """A tensor at a place, on `storage` or on a new one that owns nothing. Its memory stays a replay's to write.

        Raises:
            VirtualDeviceError: No graph's pool has memory there.
        """
        if storage is None:
            storage = self._storage_at(place)
        with unseen():
            tensor = torch.empty(0, dtype=place.dtype)
            return place.flagged(tensor.set_(storage, place.storage_offset, place.size, place.stride))

    def disown(self, storage: torch.UntypedStorage) -> None:
        """Give the block of `storage` back to the allocator now; the storage stays where it is and owns nothing.

        Raises:
            RuntimeError: It owns none; torch's own words.
            VirtualDeviceError: It is not in a graph's pool.
        """
        residence = _residence(storage)
        if residence.block is None:
            raise RuntimeError("Expected standard deleter")
        residence.disown()

    def spoil(self, tensor: torch.Tensor | None, storage: torch.UntypedStorage, message: str) -> None:
        """Somebody else's values lie where `storage` was: whoever touches its data from now on gets `message`.

        Args:
            tensor: The tensor that was handed out, where it still lives.
            storage: Its storage, which views may share.
            message: Text of the RuntimeError that they get.
        """
        residence = storage.__dict__.get(KEY)
        if isinstance(residence, ArenaResidence):
            residence.disown()
        if residence is not None:
            storage.__dict__[KEY] = Spoilt(residence, message)

    def same_addresses(self, tensors: Sequence[torch.Tensor], addresses: Sequence[int]) -> bool:
        """Whether every tensor's data_ptr() is the address at the same position."""
        return all(tensor.data_ptr() == address for tensor, address in zip(tensors, addresses, strict=True))

    def clear_workspaces(self) -> None:
        """Forget the scratch memory that cuBLAS keeps, so that none of it outlives a warmup or a capture in a pool."""
        self._gpus.workspaces.clear()

    def without_benchmark_emptying(self) -> AbstractContextManager[None]:
        """Nothing to hold back: no convolution is measured on a virtual device, so none empties the cache."""
        return nullcontext()

    def release(self, pool: PoolId, device: int) -> None:
        """Nobody will use `pool` again: the allocator may give its free memory back."""
        if self._gpus.is_closed or self._gpus.machine.captures:
            return
        # Where the garbage collector runs within the allocator itself, the next empty_cache() gives the memory back.
        with suppress(VirtualDeviceError):
            self._allocator(device).empty_cache(pool, stack=python_stack)

    def _device(self, index: int) -> Device:
        return self._gpus.devices[index]

    def _allocator(self, device: int) -> CachingAllocator:
        allocator: CachingAllocator = self._device(device).allocator
        return allocator

    def _delete(self, device: int, address: int) -> None:
        block = self._allocator(device).find_block(address)
        if block is None:
            raise RuntimeError(f"invalid device pointer: {address:#x}")
        self._gpus.release(self._device(device), block)

    def _storage_at(self, place: TensorPlace) -> Any:
        device = self._device(place.device)
        if not place.num_bytes:
            storage: Any = torch.empty(0).untyped_storage()
            storage.__dict__[KEY] = Residence(self._gpus, device, None, 0)
            return storage
        segment = self._allocator(place.device).find_segment(place.address)
        owner = None if segment is None else segment.head.pool.owner
        if segment is None or owner is None or not owner.serves_graphs:
            raise VirtualDeviceError(
                f"there is no memory of a graph's pool at {place.address:#x} on cuda:{place.device}, where a tensor of "
                f"{place.num_bytes} bytes was asked for. Memory has a place of its own while a graph uses its pool."
            )
        return Arena.of(segment).settle(self._gpus, device, place.address, place.num_bytes)


def _residence(storage: torch.UntypedStorage) -> ArenaResidence:
    residence = storage.__dict__.get(KEY)
    if not isinstance(residence, ArenaResidence):
        raise VirtualDeviceError("a storage outside of graphs' memory pools was to give up its block, or to get one.")
    return residence


def _owners(state: PoolState, live: Sequence[torch.UntypedStorage]) -> list[ArenaResidence]:
    """Where storages are that get a block, each place once.

    Raises:
        RuntimeError: One lies where the state has nothing, or owns a block.
    """
    there = {block.address for block in state.allocated}
    owners: dict[int, ArenaResidence] = {}
    for storage in live:
        residence = _residence(storage)
        if residence.address not in there:
            raise RuntimeError(
                f"a storage at {residence.address:#x} is to own its block, and the state of the pool that is brought "
                "back has none there"
            )
        if residence.block is not None:
            raise RuntimeError(" Not expecting deleter function")
        owners[residence.address] = residence
    return list(owners.values())


def _check_known(allocator: CachingAllocator, pool: PoolId, state: PoolState) -> None:
    """Whoever has memory now that the state knows nothing of would free it a second time."""
    there = {block.address for block in state.allocated}
    if any(block.address not in there for block in allocator.live_blocks(pool)):
        raise RuntimeError("Any stale tensors which are being manually freed must be passed to set checkpoint")


def _frames(block: Block) -> tuple[tuple[str, int, str], ...]:
    stack: Any = block.stack or ()
    return tuple((frame["filename"], frame["line"], frame["name"]) for frame in stack)
