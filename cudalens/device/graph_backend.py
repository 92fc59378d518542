"""The interface between the graph manager and a device: memory pools, their state, and tensors at given addresses.

A CUDA graph replays on the addresses that it was captured with, and the caching allocator does not notice. If graphs
share a memory pool, the allocator's state must be updated after a replay, before the next recording in that pool
(`restore`), and tensors must be created at given addresses (`tensor_at`). A real device does this with private
functions of torch (`cudalens.graphs.backend`); an active virtual device provides its own backend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch

#: A memory pool, as ``torch.cuda.graph_pool_handle()`` gives it.
PoolId: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """The memory layout of a dense tensor.

    Attributes:
        address: Device pointer of its storage, not of its first element.
        num_bytes: Size of the storage.
        size: Shape.
        stride: Strides, in elements.
        storage_offset: In elements.
        dtype: Its dtype.
        device: Index of the CUDA device.
        flags: Its conjugate bit and its negative bit.
    """

    address: int
    num_bytes: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    storage_offset: int
    dtype: torch.dtype
    device: int
    flags: tuple[bool, bool] = (False, False)

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorPlace:
        """Return the place of a CUDA tensor."""
        storage = tensor.untyped_storage()
        return cls(
            storage.data_ptr(),
            storage.nbytes(),
            tuple(tensor.shape),
            tensor.stride(),
            int(tensor.storage_offset()),
            tensor.dtype,
            tensor.get_device(),
            (tensor.is_conj(), tensor.is_neg()),
        )

    def flagged(self, tensor: torch.Tensor) -> torch.Tensor:
        """Set the conjugate and negative bits on `tensor`, which was created at this place without them; returns it."""
        if self.flags != (False, False):
            torch._C._set_conj(tensor, self.flags[0])
            torch._C._set_neg(tensor, self.flags[1])
        return tensor


@dataclass(frozen=True, slots=True)
class Allocation:
    """An allocated block of a pool.

    Attributes:
        address: Its first byte.
        num_bytes: Its size.
        stack: Where it was allocated, innermost first, as (file, line, function); empty unless memory history is on.
    """

    address: int
    num_bytes: int
    stack: tuple[tuple[str, int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PoolSize:
    """How large a pool is.

    Attributes:
        reserved_bytes: Size of its segments; other pools cannot use them.
        allocated_bytes: Size of its allocated blocks.
    """

    reserved_bytes: int
    allocated_bytes: int


@dataclass(frozen=True, slots=True)
class LaunchTimes:
    """Modelled times of a device's launches, on the host.

    Attributes:
        launch_ns: Of a kernel.
        graph_launch_ns: Of a graph.
        read_ns: Of a wait for the device, when it has nothing left to do.
    """

    launch_ns: int
    graph_launch_ns: int
    read_ns: int


@dataclass(frozen=True, slots=True)
class GraphWork:
    """A kernel, copy or memset of a graph, or an event node without work.

    Attributes:
        name: The kernel's name, or what else it is.
        kind: Kineto's category; "" of an event node.
        stream: Number of the stream that issued it in the capture.
        dur_ns: Its time alone, ns.
        num_bytes: What it reads and writes, or copies.
        operator: The aten operator that issued it; None if unknown.
        after: Positions of the nodes that it depends on.
    """

    name: str
    kind: str
    stream: int
    dur_ns: int
    num_bytes: int
    operator: str | None
    after: tuple[int, ...]


class GraphBackend(Protocol):
    """The part of a device that graph trees need.

    Attributes:
        name: ``cuda``, or ``virtual:<spec>``.
    """

    name: str

    def capture(
        self, graph: torch.cuda.CUDAGraph, pool: PoolId, stream: torch.cuda.Stream
    ) -> AbstractContextManager[Any]:
        """Return a context that makes `stream` current and captures the work of this thread on it into `graph`."""

    def is_spent(self, pool: PoolId) -> bool:
        """Return whether no further capture into `pool` is possible, because one of its captures could not be ended."""

    def replay(self, graph: torch.cuda.CUDAGraph) -> None:
        """Launch `graph` on the current stream."""

    def destroy(self, graph: torch.cuda.CUDAGraph) -> None:
        """Reset `graph`, which releases its memory."""

    def allocate_to(self, pool: PoolId, device: int) -> AbstractContextManager[None]:
        """Return a context in which this thread allocates from `pool`; a capture must have used the pool before."""

    def checkpoint(self, pool: PoolId, device: int) -> Any:
        """Return which blocks of `pool` are allocated; `restore` takes the result."""

    def restore(
        self, pool: PoolId, device: int, state: Any, live: Sequence[torch.UntypedStorage], dead: Iterable[int]
    ) -> None:
        """Set the allocator's record of the pool to `state`, the state after a replay.

        Args:
            pool: The memory pool.
            device: Index of its device.
            state: From `checkpoint`.
            live: Storages (of `tensor_at`) at addresses that are allocated in `state`: from now on they own their
                blocks.
            dead: Addresses that are allocated in `state` and no longer used: they are freed.

        Raises:
            RuntimeError: A storage of `live` is at an address that is not allocated in `state`.
        """

    def live_allocations(self, pool: PoolId, device: int) -> list[Allocation]:
        """Return the allocated blocks of `pool`, as the allocator reports them."""

    def has_live(self, pool: PoolId, device: int, addresses: set[int]) -> bool:
        """Return whether the allocated blocks are those at `addresses`; faster than `live_allocations`."""

    def pool_segments(self, pool: PoolId, device: int) -> list[tuple[int, int]]:
        """Return the segments of `pool`: the first address and the size in bytes of each."""

    def pool_size(self, pool: PoolId, device: int) -> PoolSize:
        """Return how large `pool` is now."""

    def tensor_at(self, place: TensorPlace, storage: torch.UntypedStorage | None = None) -> torch.Tensor:
        """A tensor at a place, on `storage` or on a new one that owns no memory. Replays still write its memory."""

    def disown(self, storage: torch.UntypedStorage) -> None:
        """Free the block of `storage` now; the storage keeps its address and no longer owns memory."""

    def invalidate(self, tensor: torch.Tensor | None, storage: torch.UntypedStorage, message: str) -> None:
        """Make every later access to the data of `storage` raise: its memory was overwritten.

        Args:
            tensor: The tensor that was returned to the program, if it is alive.
            storage: Its storage, which views may share.
            message: Text of the RuntimeError.
        """

    def same_addresses(self, tensors: list[torch.Tensor], addresses: list[int]) -> bool:
        """Return whether every tensor's data_ptr() is the address at the same position."""

    def clear_workspaces(self) -> None:
        """Free the workspaces that cuBLAS keeps, so that none of them outlives a warm-up or a capture in a pool."""

    def without_benchmark_emptying(self) -> AbstractContextManager[None]:
        """Return a context in which cuDNN's benchmarks do not empty the allocator's cache."""

    def num_captured(self) -> int | None:
        """Return the number of nodes that the capture of the current stream has; None if that is unknown."""

    def work_of(self, graph: torch.cuda.CUDAGraph) -> list[GraphWork] | None:
        """Return the nodes of `graph` in the order of the capture; None if they are unknown."""

    def now_ns(self, device: int) -> int:
        """Return the host's clock; of a virtual device, its modelled clock."""

    def launch_times(self, device: int) -> LaunchTimes | None:
        """Return the modelled times of launches; None on a real device, where they are measured."""

    def release(self, pool: PoolId, device: int) -> None:
        """End the use of `pool`: the allocator may return its free memory to the device."""


_provided: list[Callable[[int], GraphBackend]] = []


def provide(make: Callable[[int], GraphBackend]) -> Callable[[], None]:
    """Register a backend that replaces the real device's; returns a function that removes it.

    Args:
        make: The backend for a device's index.
    """
    _provided.append(make)
    return lambda: _provided.remove(make)


def provided(device: int) -> GraphBackend | None:
    """Return the backend that a virtual device provides for the device of that index; None where the device is real."""
    return _provided[-1](device) if _provided else None


def capture_alone(graph: torch.cuda.CUDAGraph, pool: PoolId, stream: torch.cuda.Stream) -> AbstractContextManager[Any]:
    """`GraphBackend.capture` with torch's public API; other threads may use the device during the capture."""
    handle: Any = pool
    return torch.cuda.graph(graph, pool=handle, stream=stream, capture_error_mode="thread_local")
