"""What the allocator asks of the rest of the virtual device, and what it tells."""

from __future__ import annotations

from typing import NamedTuple, Protocol

PoolId = tuple[int, int]
DEFAULT_POOL: PoolId = (0, 0)


class Fence(Protocol):
    """An event recorded on a stream."""

    def is_done(self) -> bool:
        """Whether the stream has passed it at the host's present time (cudaEventQuery)."""
        ...

    def wait(self) -> None:
        """Block the host until the stream has passed it (cudaEventSynchronize)."""
        ...


class Host(Protocol):
    """The machine around the allocator of one device."""

    def fence(self, stream: int) -> Fence:
        """Record an event on the stream now."""
        ...

    def now_us(self) -> int:
        """The virtual clock, in microseconds."""
        ...

    def is_capturing(self) -> bool:
        """Whether a CUDA graph is being captured on this device.

        Frees of blocks that other streams used wait meanwhile.
        """
        ...

    def synchronize(self) -> None:
        """Block the host until the device has done everything (cudaFree does that)."""
        ...

    def on_segment(self, action: str, address: int, num_bytes: int) -> None:
        """Device memory was taken or given back: segment_alloc, segment_free, segment_map or segment_unmap."""
        ...


class Action(NamedTuple):
    """One thing that the allocator did, as torch's TraceEntry tells it.

    Attributes:
        kind: alloc, free_requested, free_completed, segment_alloc, segment_free, segment_map, segment_unmap,
            snapshot or oom.
        address: Where; of an oom how many bytes the device had free; of a snapshot 0.
        num_bytes: How much: of alloc and free what was requested; of an oom the rounded size; of a snapshot the
            active bytes.
        stream: The stream's handle.
        time_us: The virtual clock.
        pool_id: Of the memory pool, (0, 0) the default one.
        stack: The stack frames gathered for it, None where none were.
        block_bytes: Size of the block of alloc and free, rounding included; 0 for the others.
    """

    kind: str
    address: int
    num_bytes: int
    stream: int
    time_us: int
    pool_id: PoolId
    stack: object
    block_bytes: int = 0
