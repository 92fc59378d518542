"""Graph manager backend of the virtual device: memory pools, tensors at addresses in them, and their state.

On a real device these are private functions of torch (torch/csrc/cuda/Module.cpp and the caching allocator, as used by
torch._inductor.cudagraph_trees). Here they work on the model with the same effects: allocator state that is restored,
storages with or without ownership of their block, memory that is shared by address.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import torch

from cudalens.device import graph_backend as protocol
from cudalens.device.graph_backend import Allocation, GraphWork, LaunchTimes, PoolId, PoolSize, TensorPlace
from cudalens.errors import VirtualDeviceError
from cudalens.virtual.allocator import Block, PoolState
from cudalens.virtual.capture.stream_capture import GraphCapture
from cudalens.virtual.dispatch.dispatch_utils import below_modes
from cudalens.virtual.tensors.arenas import Arena
from cudalens.virtual.tensors.residency import KEY, ArenaResidence, Invalidated, Residence
from cudalens.virtual.torch_cuda.graph_handles import state_of
from cudalens.virtual.torch_cuda.stacks import python_stack

if TYPE_CHECKING:
    from cudalens.virtual.allocator import CachingAllocator
    from cudalens.virtual.capture.stream_capture import Node
    from cudalens.virtual.gpus import Gpus
    from cudalens.virtual.patching import Patches
    from cudalens.virtual.timing.machine import Device


def install(patches: Patches, gpus: Gpus) -> None:
    """Provide the backend while the virtual device is active."""
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
        """Capture the work of this thread into `graph` inside the context, in which `stream` is current."""
        return protocol.capture_alone(graph, pool, stream)

    def is_spent(self, pool: PoolId) -> bool:
        """Whether no further capture into `pool` is possible: the device ends each capture."""
        return False

    def replay(self, graph: torch.cuda.CUDAGraph) -> None:
        """Launch `graph` on the current stream; the device notifies listeners."""
        graph.replay()

    def destroy(self, graph: torch.cuda.CUDAGraph) -> None:
        """Release the graph's resources; the device notifies listeners. An ended device has released them already."""
        if not self._gpus.is_closed:  # afterwards torch's class is restored, which may have no reset()
            graph.reset()

    @contextmanager
    def allocate_to(self, pool: PoolId, device: int) -> Iterator[None]:
        """Route this thread's allocations to `pool` inside the context.

        Raises:
            RuntimeError: Allocations are already routed to `pool`, or it has no holder; torch's message.
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
        """Save which blocks of `pool` are allocated.

        Raises:
            RuntimeError: There is no such pool, or another stream may still use a block of it; torch's message.
        """
        return self._allocator(device).checkpoint_pool(pool)

    def restore(
        self, pool: PoolId, device: int, state: PoolState, live: Sequence[torch.UntypedStorage], dead: Iterable[int]
    ) -> None:
        """Restore the allocator's state of a pool to `state`, which is the state after a replay.

        Args:
            pool: The memory pool.
            device: Index of its device.
            state: From `checkpoint`.
            live: Storages (of `tensor_at`) at addresses that are allocated in `state`; they get ownership of their
                blocks.
            dead: Addresses that are allocated in `state` but no longer used; they are freed.

        Raises:
            RuntimeError: A storage of `live` is at an address that is not allocated in `state`, or owns its block
                already; a block is allocated that `state` does not contain; or the allocator cannot restore it. torch's
                message if torch has one.
        """
        allocator = self._allocator(device)
        owners = _owners(state, live)
        known = {block.address for block in state.allocated}
        if any(block.address not in known for block in allocator.live_blocks(pool)):
            # The owner of such a block would free it twice.
            raise RuntimeError("Any stale tensors which are being manually freed must be passed to set checkpoint")
        created = {block.address: block for block in allocator.restore_pool(state, stack=python_stack).created}
        for residence in owners:
            residence.own(created[residence.address])
        for address in dict.fromkeys(dead):
            block = allocator.find_block(address)
            if block is None:
                raise RuntimeError(f"invalid device pointer: {address:#x}")
            self._gpus.release(self._device(device), block)

    def live_allocations(self, pool: PoolId, device: int) -> list[Allocation]:
        """Return the allocated blocks of `pool`."""
        blocks = self._allocator(device).live_blocks(pool)
        return [Allocation(block.address, block.size, _frames(block)) for block in blocks]

    def has_live(self, pool: PoolId, device: int, addresses: set[int]) -> bool:
        """Return whether exactly the blocks at `addresses` are allocated; faster than `live_allocations`."""
        return {block.address for block in self._allocator(device).live_blocks(pool)} == addresses

    def pool_segments(self, pool: PoolId, device: int) -> list[tuple[int, int]]:
        """Return the segments of `pool`: the first address and the size in bytes of each."""
        return self._allocator(device).pool_segments(pool)

    def pool_size(self, pool: PoolId, device: int) -> PoolSize:
        """Return the current size of `pool`."""
        return PoolSize(*self._allocator(device).pool_bytes(pool))

    def tensor_at(self, place: TensorPlace, storage: torch.UntypedStorage | None = None) -> torch.Tensor:
        """Return a tensor at a place, on `storage` or on a new storage that does not own its block.

        Raises:
            VirtualDeviceError: The place is not in a graph's pool.
        """
        if storage is None:
            storage = self.storage_at(place.device, place.address, place.num_bytes)
        with below_modes():
            tensor = torch.empty(0, dtype=place.dtype)
            return place.flagged(tensor.set_(storage, place.storage_offset, place.size, place.stride))

    def disown(self, storage: torch.UntypedStorage) -> None:
        """Free the block of `storage`; the storage keeps its address without owning the block.

        Raises:
            RuntimeError: It owns no block; torch's message.
            VirtualDeviceError: It is not in a graph's pool.
        """
        residence = _residence(storage)
        if residence.block is None:
            raise RuntimeError("Expected standard deleter")
        residence.disown()

    def invalidate(self, tensor: torch.Tensor | None, storage: torch.UntypedStorage, message: str) -> None:
        """Make each further access to the data of `storage` raise an error, because its memory was overwritten.

        Args:
            tensor: The tensor that was returned to the user, if it is alive.
            storage: Its storage, which views may share.
            message: The text of the RuntimeError.
        """
        residence = storage.__dict__.get(KEY)
        if isinstance(residence, ArenaResidence):
            residence.disown()
        if residence is not None:
            storage.__dict__[KEY] = Invalidated(residence, message)

    def same_addresses(self, tensors: list[torch.Tensor], addresses: list[int]) -> bool:
        """Return whether every tensor's data_ptr() is the address at the same position."""
        return list(map(torch.Tensor.data_ptr, tensors)) == addresses  # each replay does this, so without Python code

    def clear_workspaces(self) -> None:
        """Free the cuBLAS workspaces, so that none of them remains in a pool after a warm-up or a capture."""
        self._gpus.workspaces.clear()

    def without_benchmark_emptying(self) -> AbstractContextManager[None]:
        """Do nothing: a virtual device benchmarks no convolution, which would empty the cache."""
        return nullcontext()

    def num_captured(self) -> int | None:
        """Return the number of nodes that the capture of the current stream has; None without a capture."""
        capture = self._gpus.machine.current_stream().capture
        return len(capture.nodes) if isinstance(capture, GraphCapture) else None

    def work_of(self, graph: torch.cuda.CUDAGraph) -> list[GraphWork] | None:
        """Return the nodes of `graph` in the order of the capture; None before it is captured."""
        captured = state_of(graph).graph
        return None if captured is None else list(map(_work_of, captured.nodes))

    def now_ns(self, device: int) -> int:
        """Return the modelled clock of the host."""
        return self._device(device).machine.now_ns

    def launch_times(self, device: int) -> LaunchTimes:
        """Return the modelled times of launches."""
        spec = self._device(device).spec
        return LaunchTimes(spec.launch_ns, spec.graph_launch_ns, spec.sync_ns)

    def release(self, pool: PoolId, device: int) -> None:
        """Free the cached memory of `pool`, which will not be used again."""
        if self._gpus.is_closed or self._gpus.machine.captures:
            return
        # If the garbage collector runs within the allocator, the next empty_cache() frees the memory.
        with suppress(VirtualDeviceError):
            self._allocator(device).empty_cache(pool, stack=python_stack)

    def _device(self, index: int) -> Device:
        return self._gpus.devices[index]

    def _allocator(self, device: int) -> CachingAllocator:
        return self._device(device).allocator

    def storage_at(self, index: int, address: int, num_bytes: int) -> Any:
        """Return a storage at an address of a device, which does not own its block.

        Raises:
            VirtualDeviceError: The address is not in a graph's pool.
        """
        device = self._device(index)
        if not num_bytes:
            storage: Any = torch.empty(0).untyped_storage()
            storage.__dict__[KEY] = Residence(self._gpus, device, None, 0)
            return storage
        segment = self._allocator(index).find_segment(address)
        owner = None if segment is None else segment.head.pool.owner
        if segment is None or owner is None or not owner.serves_graphs:
            raise VirtualDeviceError(
                f"there is no memory of a graph's pool at {address:#x} on cuda:{index} for a tensor of "
                f"{num_bytes} bytes. An address is valid while a graph uses its pool."
            )
        return Arena.of(segment).place(self._gpus, device, address, num_bytes)


def _work_of(node: Node) -> GraphWork:
    work = node.work
    if work is None:
        name = "event record" if node.records is not None else "event wait"
        return GraphWork(name, "", node.stream.id, 0, 0, None, node.deps)
    return GraphWork(work.name, work.kind, node.stream.id, work.duration_ns, work.num_bytes, work.op, node.deps)


def _residence(storage: torch.UntypedStorage) -> ArenaResidence:
    residence = storage.__dict__.get(KEY)
    if not isinstance(residence, ArenaResidence):
        raise VirtualDeviceError("cannot change the owner of a block for a storage outside of graphs' memory pools.")
    return residence


def _owners(state: PoolState, live: Sequence[torch.UntypedStorage]) -> list[ArenaResidence]:
    """Return the residences of storages that get ownership of a block, one per address.

    Raises:
        RuntimeError: A storage is at an address that is not allocated in the state, or owns a block.
    """
    there = {block.address for block in state.allocated}
    owners: dict[int, ArenaResidence] = {}
    for storage in live:
        residence = _residence(storage)
        if residence.address not in there:
            raise RuntimeError(
                f"a storage at {residence.address:#x} cannot own its block: no block is allocated there in the state "
                "that is restored"
            )
        if residence.block is not None:
            raise RuntimeError(" Not expecting deleter function")
        owners[residence.address] = residence
    return list(owners.values())


def _frames(block: Block) -> tuple[tuple[str, int, str], ...]:
    stack: Any = block.stack or ()
    return tuple((frame["filename"], frame["line"], frame["name"]) for frame in stack)
