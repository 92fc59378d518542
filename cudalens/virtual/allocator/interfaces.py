"""Interfaces between the caching allocator and the virtual device: host, fence, recorded action."""

from __future__ import annotations

from typing import NamedTuple, Protocol

PoolId = tuple[int, int]
DEFAULT_POOL: PoolId = (0, 0)


class Fence(Protocol):
    """An event recorded on a stream."""

    def is_done(self) -> bool:
        """Return whether the stream has reached it at the host's current time (cudaEventQuery)."""
        ...

    def wait(self) -> None:
        """Block the host until the stream has reached it (cudaEventSynchronize)."""
        ...


class Host(Protocol):
    """What the allocator of one device needs from the virtual device."""

    def fence(self, stream: int) -> Fence:
        """Record an event on the stream now."""
        ...

    def now_us(self) -> int:
        """Return the virtual time in microseconds."""
        ...

    def is_capturing(self) -> bool:
        """Return whether a CUDA graph is being captured on this device.

        During a capture, frees of blocks that other streams used are deferred.
        """
        ...

    def synchronize(self) -> None:
        """Block the host until the device is idle (cudaFree does this)."""
        ...

    def on_segment(self, action: str, address: int, num_bytes: int) -> None:
        """Notify that device memory was allocated or freed.

        Args:
            action: segment_alloc, segment_free, segment_map or segment_unmap.
            address: The first byte.
            num_bytes: The size.
        """
        ...


class Action(NamedTuple):
    """One action of the allocator, with the fields of torch's TraceEntry.

    Attributes:
        kind: alloc, free_requested, free_completed, segment_alloc, segment_free, segment_map, segment_unmap,
            snapshot, annotate or oom.
        address: The first byte; for oom, the free bytes of the device; for snapshot, 0.
        num_bytes: For alloc and free, the requested size; for oom, the rounded size; for snapshot, the active bytes.
        stream: The stream's handle.
        time_us: The virtual time.
        pool_id: The memory pool; (0, 0) is the default pool.
        stack: Its stack frames; None if none were recorded.
        block_bytes: For alloc and free, the rounded size of the block; 0 otherwise.
    """

    kind: str
    address: int
    num_bytes: int
    stream: int
    time_us: int
    pool_id: PoolId
    stack: object
    block_bytes: int = 0
