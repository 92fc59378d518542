"""What the graph manager asks of a device beyond torch.cuda's public functions: pools, places in them, and their state.

A CUDA graph replays on the addresses that it was captured with, and the caching allocator does not notice. Whoever lets
graphs share one memory pool has to tell the allocator what a replay brought to life before anything else is recorded
there (`restore`), and has to make tensors at given addresses (`tensor_at`). A real device does that with private
functions of torch (`cudalens.graphs.backend`); a virtual one provides its own backend while it is in place.
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
    """A dense tensor by its place in memory.

    Attributes:
        address: Device pointer of its storage, not of its first element.
        num_bytes: Size of the storage.
        size: Shape.
        stride: Strides, in elements.
        storage_offset: In elements.
        dtype: Its dtype.
        device: Index of the CUDA device.
        flags: Whether it reads its memory conjugated, and negated.
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
        """The place of a CUDA tensor."""
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
        """`tensor`, which was made at this place and reads its memory as it is, reading it as told here."""
        if self.flags != (False, False):
            torch._C._set_conj(tensor, self.flags[0])
            torch._C._set_neg(tensor, self.flags[1])
        return tensor


@dataclass(frozen=True, slots=True)
class Allocation:
    """A block of a pool that is handed out.

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
        reserved_bytes: Its segments, which nobody else may use.
        allocated_bytes: Its blocks that are handed out.
    """

    reserved_bytes: int
    allocated_bytes: int


class GraphBackend(Protocol):
    """The part of a device that graph trees need.

    Attributes:
        name: ``cuda``, or ``virtual:<spec>``.
    """

    name: str

    def capture(
        self, graph: torch.cuda.CUDAGraph, pool: PoolId, stream: torch.cuda.Stream
    ) -> AbstractContextManager[Any]:
        """While it is entered, what this thread does on `stream`, which is current then, is captured into `graph`."""

    def replay(self, graph: torch.cuda.CUDAGraph) -> None:
        """Launch what `graph` holds on the current stream; listeners of `cudalens.device.gpu_trace` are told."""

    def destroy(self, graph: torch.cuda.CUDAGraph) -> None:
        """Let go of what `graph` holds; listeners are told."""

    def allocate_to(self, pool: PoolId, device: int) -> AbstractContextManager[None]:
        """While it is entered, memory that this thread asks for comes from `pool`, which a capture has used before."""

    def checkpoint(self, pool: PoolId, device: int) -> Any:
        """Which blocks of `pool` are handed out, to be restored later."""

    def restore(
        self, pool: PoolId, device: int, state: Any, live: Sequence[torch.UntypedStorage], dead: Iterable[int]
    ) -> None:
        """Bring the allocator's books to `state`, in which a replay left the memory.

        Args:
            pool: The memory pool.
            device: Index of its device.
            state: From `checkpoint`.
            live: Storages (of `tensor_at`) at addresses that `state` has handed out: from now on they own their blocks.
            dead: Addresses that `state` has handed out and nobody uses any more: they are free afterwards.

        Raises:
            RuntimeError: A storage of `live` lies where `state` has nothing.
        """

    def live_allocations(self, pool: PoolId, device: int) -> list[Allocation]:
        """The blocks of `pool` that are handed out, by the allocator's books."""

    def has_live(self, pool: PoolId, device: int, addresses: set[int]) -> bool:
        """Whether the blocks that are handed out are exactly those at `addresses`; quicker than `live_allocations`."""

    def pool_size(self, pool: PoolId, device: int) -> PoolSize:
        """How large `pool` is now."""

    def tensor_at(self, place: TensorPlace, storage: torch.UntypedStorage | None = None) -> torch.Tensor:
        """A tensor at a place, on `storage` or on a new one that owns nothing. Its memory stays a replay's to write."""

    def disown(self, storage: torch.UntypedStorage) -> None:
        """Give the block of `storage` back to the allocator now; the storage stays where it is and owns nothing."""

    def invalidate(self, tensor: torch.Tensor | None, storage: torch.UntypedStorage, message: str) -> None:
        """Somebody else's values lie where `storage` was: whoever touches its data from now on gets `message`.

        Args:
            tensor: The tensor that was handed out, where it still lives.
            storage: Its storage, which views may share.
            message: Text of the RuntimeError that they get.
        """

    def same_addresses(self, tensors: Sequence[torch.Tensor], addresses: Sequence[int]) -> bool:
        """Whether every tensor's data_ptr() is the address at the same position."""

    def clear_workspaces(self) -> None:
        """Forget the scratch memory that cuBLAS keeps, so that none of it outlives a warmup or a capture in a pool."""

    def without_benchmark_emptying(self) -> AbstractContextManager[None]:
        """While it is entered, cuDNN's benchmarks do not empty the allocator's cache."""

    def release(self, pool: PoolId, device: int) -> None:
        """Nobody will use `pool` again: the allocator may give its free memory back."""


_provided: list[Callable[[int], GraphBackend]] = []


def provide(make: Callable[[int], GraphBackend]) -> Callable[[], None]:
    """Offer a backend in place of the real device's; returns what takes it back.

    Args:
        make: The backend for a device's index.
    """
    _provided.append(make)
    return lambda: _provided.remove(make)


def provided(device: int) -> GraphBackend | None:
    """The backend that a virtual device provides for the device of that index; None where the device is real."""
    return _provided[-1](device) if _provided else None


def capture_alone(graph: torch.cuda.CUDAGraph, pool: PoolId, stream: torch.cuda.Stream) -> AbstractContextManager[Any]:
    """`GraphBackend.capture` by torch's own public way; other threads may go on using the device meanwhile."""
    handle: Any = pool
    context: AbstractContextManager[Any] = torch.cuda.graph(
        graph, pool=handle, stream=stream, capture_error_mode="thread_local"
    )
    return context
