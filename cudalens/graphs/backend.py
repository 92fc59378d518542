"""The graph backend of a real device. All private functions of torch that graph trees need are called here.

They are those of torch/_inductor/cudagraph_trees.py, from torch 2.9 to 2.15. Builds without CUDA have none of them.
"""

from __future__ import annotations

import functools
import inspect
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

import torch

from cudalens.device.graph_backend import (
    Allocation,
    GraphBackend,
    GraphWork,
    LaunchTimes,
    PoolId,
    PoolSize,
    TensorPlace,
    capture_alone,
    provided,
)
from cudalens.errors import GraphError

_NEEDED: Final = (
    "_construct_CUDA_Tensor_From_Storage_And_Metadata",
    "_construct_storage_from_data_pointer",
    "_cuda_beginAllocateCurrentThreadToPool",
    "_cuda_checkPoolLiveAllocations",
    "_cuda_clearCublasWorkspaces",
    "_cuda_cudaCachingAllocator_raw_delete",
    "_cuda_endAllocateToPool",
    "_cuda_getCheckpointState",
    "_cuda_releasePool",
    "_cuda_setCheckpointPoolState",
    "_free_And_Remove_DeleterFn",
    "_has_Standard_Deleter",
    "_set_storage_access_error_msg",
    "_set_storage_data_ptr_access_error_msg",
    "_tensors_data_ptrs_at_indices_equal",
)


def backend_for(device: int) -> GraphBackend:
    """The backend of a device: the virtual one's, where one is in place.

    Raises:
        GraphError: This build of torch has no CUDA graphs, or lacks a function that they need.
    """
    return provided(device) or _real()


def is_present(device: int, backend: GraphBackend) -> bool:
    """Whether a device still has this backend: a virtual device may have ended, or another one is in its place."""
    current = provided(device)
    return current is backend or (current is None and backend.name == "cuda")


@functools.cache
def _real() -> GraphBackend:
    missing = [name for name in _NEEDED if not hasattr(torch._C, name)]
    if missing:
        raise GraphError(
            f"torch {torch.__version__} lacks {', '.join(missing)}, which graph trees need. Use a CUDA build of torch "
            "2.9 to 2.15, or a virtual device (`%cudadevice virtual h100`)."
        )
    if (allocator := torch.cuda.get_allocator_backend()) != "native":
        raise GraphError(
            f"graph trees need torch's own caching allocator, and this process has {allocator}. Leave `backend:` out "
            "of PYTORCH_CUDA_ALLOC_CONF and restart."
        )
    return CudaBackend()


class CudaBackend:
    """CUDA graphs on a real device."""

    name = "cuda"

    def __init__(self) -> None:
        self._spent: set[PoolId] = set()

    @contextmanager
    def capture(self, graph: torch.cuda.CUDAGraph, pool: PoolId, stream: torch.cuda.Stream) -> Iterator[None]:
        """Capture what this thread does on `stream` into `graph`."""
        try:
            with capture_alone(graph, pool, stream):
                yield
        finally:
            if not _has_ended(graph) and not _recover(graph, pool, stream):
                self._spent.add(pool)

    def is_spent(self, pool: PoolId) -> bool:
        """Whether no further capture into `pool` is possible, because one of its captures could not be ended."""
        return pool in self._spent

    def replay(self, graph: torch.cuda.CUDAGraph) -> None:
        """Launch `graph` on the current stream."""
        graph.replay()

    def destroy(self, graph: torch.cuda.CUDAGraph) -> None:
        """Free `graph`."""
        graph.reset()

    @contextmanager
    def allocate_to(self, pool: PoolId, device: int) -> Iterator[None]:
        """While it is entered, memory that this thread asks for comes from `pool`."""
        torch._C._cuda_beginAllocateCurrentThreadToPool(device, pool)
        try:
            yield
        finally:
            torch._C._cuda_endAllocateToPool(device, pool)
            torch._C._cuda_releasePool(device, pool)

    def checkpoint(self, pool: PoolId, device: int) -> Any:
        """The state of `pool`: which blocks are allocated."""
        return torch._C._cuda_getCheckpointState(device, pool)

    def restore(
        self, pool: PoolId, device: int, state: Any, live: Sequence[torch.UntypedStorage], dead: Iterable[int]
    ) -> None:
        """Set the allocator to `state`; storages of `live` own their blocks then, `dead` ones are free."""
        torch._C._cuda_setCheckpointPoolState(device, state, [], [storage._cdata for storage in live])
        for address in dead:
            torch._C._cuda_cudaCachingAllocator_raw_delete(address)

    def live_allocations(self, pool: PoolId, device: int) -> list[Allocation]:
        """The allocated blocks of `pool`."""
        return list(_blocks(_segments(pool, device)))

    def has_live(self, pool: PoolId, device: int, addresses: set[int]) -> bool:
        """Whether exactly the blocks at `addresses` are allocated."""
        return bool(torch._C._cuda_checkPoolLiveAllocations(device, pool, addresses))

    def pool_segments(self, pool: PoolId, device: int) -> list[tuple[int, int]]:
        """The segments of `pool`: the first address and the size in bytes of each."""
        return [(segment["address"], segment["total_size"]) for segment in _segments(pool, device)]

    def pool_size(self, pool: PoolId, device: int) -> PoolSize:
        """How large `pool` is now."""
        segments = _segments(pool, device)
        return PoolSize(sum(s["total_size"] for s in segments), sum(s["allocated_size"] for s in segments))

    def tensor_at(self, place: TensorPlace, storage: torch.UntypedStorage | None = None) -> torch.Tensor:
        """A tensor at a place, on `storage` or on a new one that owns nothing."""
        device = torch.device("cuda", place.device)
        if storage is None:
            storage = _storage_at(place, device)
        metadata = {
            "nbytes": place.num_bytes,
            "data_ptr": place.address,
            "size": place.size,
            "stride": place.stride,
            "dtype": place.dtype,
            "device": device,
            "storage_offset": place.storage_offset,
        }
        made: torch.Tensor = torch._C._construct_CUDA_Tensor_From_Storage_And_Metadata(metadata, cast("Any", storage))
        return place.flagged(made)

    def disown(self, storage: torch.UntypedStorage) -> None:
        """Give the block of `storage` back now, unless it came from elsewhere than torch's allocator."""
        if torch._C._has_Standard_Deleter(storage._cdata):
            torch._C._free_And_Remove_DeleterFn(storage._cdata)

    def invalidate(self, tensor: torch.Tensor | None, storage: torch.UntypedStorage, message: str) -> None:
        """Using the data of `storage` raises an error with `message` from now on."""
        if tensor is not None:
            torch._C._set_storage_access_error_msg(tensor, message)
        torch._C._set_storage_data_ptr_access_error_msg(storage._cdata, message)

    def same_addresses(self, tensors: list[torch.Tensor], addresses: list[int]) -> bool:
        """Whether every tensor's data_ptr() is the address at its position."""
        compare: Any = torch._C._tensors_data_ptrs_at_indices_equal
        return bool(compare(tensors, addresses, _positions(len(addresses))))

    def clear_workspaces(self) -> None:
        """Forget the scratch memory that cuBLAS keeps."""
        torch._C._cuda_clearCublasWorkspaces()

    @contextmanager
    def without_benchmark_emptying(self) -> Iterator[None]:
        """While it is entered, cuDNN's benchmarks do not empty the allocator's cache."""
        get = getattr(torch._C, "_cuda_get_conv_benchmark_empty_cache", None)
        put = getattr(torch._C, "_cudnn_set_conv_benchmark_empty_cache", None)
        if get is None or put is None:
            yield
            return
        before = get()
        put(False)
        try:
            yield
        finally:
            put(before)

    def num_captured(self) -> int | None:
        """None: torch has no function for it."""
        return None

    def work_of(self, graph: torch.cuda.CUDAGraph) -> list[GraphWork] | None:
        """None: torch has no function for it; a trace of replays has the nodes."""
        return None

    def now_ns(self, device: int) -> int:
        """The host's clock."""
        return time.perf_counter_ns()

    def launch_times(self, device: int) -> LaunchTimes | None:
        """Return None: on a real device times are measured."""
        return None

    def release(self, pool: PoolId, device: int) -> None:
        """Empty the allocator's cache after the graphs of `pool` were freed, so that its memory is released."""
        torch.cuda.empty_cache()


#: Graphs whose capture could not be begun or ended: torch's allocators continue to call them.
_unfinished: Final[list[torch.cuda.CUDAGraph]] = []


def _has_ended(graph: torch.cuda.CUDAGraph) -> bool:
    try:
        graph.pool()
    except RuntimeError:  # torch says so of a graph whose capture was not ended
        return False
    return True


def _recover(graph: torch.cuda.CUDAGraph, pool: PoolId, stream: torch.cuda.Stream) -> bool:
    """Undo what torch leaves where a capture cannot be ended (`CUDAGraph::capture_end` stops at the first error).

    Its allocator still sends a capture's memory to `pool` and holds the pool for `graph`. Its allocator of pinned
    memory does so, too, which no function of torch undoes: another capture into the pool then fails (seen with torch
    2.11). Before torch 2.10 the default generator is still marked as captured, which the end of any capture corrects.

    Returns:
        Whether another capture into the pool is possible.
    """
    if not _stop_allocating(graph, pool, stream):
        return True
    if _try_empty_capture(pool, stream):
        return True
    _try_empty_capture(torch.cuda.graph_pool_handle(), stream)
    return False


def _stop_allocating(graph: torch.cuda.CUDAGraph, pool: PoolId, stream: torch.cuda.Stream) -> bool:
    """End the use of `pool` by a capture; returns whether it was in use."""
    _unfinished.append(graph)
    try:
        torch._C._cuda_endAllocateToPool(stream.device_index, pool)
    except RuntimeError:
        return False
    torch._C._cuda_releasePool(stream.device_index, pool)
    return True


def _try_empty_capture(pool: PoolId, stream: torch.cuda.Stream) -> bool:
    """Capture an empty graph into `pool`; returns whether that was possible."""
    probe = torch.cuda.CUDAGraph()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*CUDA Graph is empty.*")
        try:
            with capture_alone(probe, pool, stream):
                pass
        except RuntimeError:
            _stop_allocating(probe, pool, stream)
            return False
    return True


@functools.cache
def _positions(num: int) -> list[int]:
    """All positions in a list of so many items; the same list in each call."""
    return list(range(num))


def _storage_at(place: TensorPlace, device: torch.device) -> torch.UntypedStorage:
    made: Any = torch._C._construct_storage_from_data_pointer(place.address, device, place.num_bytes)
    return cast("torch.UntypedStorage", made)


@functools.cache
def _without_traces() -> dict[str, bool]:
    """Keeps the memory history out of a snapshot, where torch (2.10 on) can."""
    known = inspect.signature(torch.cuda.memory_snapshot).parameters
    return {"include_traces": False} if "include_traces" in known else {}


def _segments(pool: PoolId, device: int) -> list[dict[str, Any]]:
    return [
        segment
        for segment in torch.cuda.memory_snapshot(pool, **_without_traces())  # type: ignore[no-untyped-call]
        if tuple(segment["segment_pool_id"]) == tuple(pool) and segment["device"] == device
    ]


def _blocks(segments: Iterable[dict[str, Any]]) -> Iterator[Allocation]:
    for segment in segments:
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                stack = tuple((f["filename"], f["line"], f["name"]) for f in block.get("frames", ()))
                yield Allocation(address, block["size"], stack)
            address += block["size"]
