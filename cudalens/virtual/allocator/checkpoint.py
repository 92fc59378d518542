"""Save and restore the state of a private pool (torch: Note [Checkpointing PrivatePoolState]).

The replay of a CUDA graph creates tensors that the allocator has not allocated. To allocate in the graph's pool
afterwards, the allocator must first be restored to the state at the end of the capture. This follows torch, with the
same actions in the history and the same counters: all blocks of the pool are freed, every segment is allocated again
with the blocks of that state, and the blocks that were free in it are freed. Newer segments remain, free.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from cudalens.virtual.allocator.block_pools import Block, BlockPool, PrivatePool, Segment
from cudalens.virtual.allocator.conf import PoolId
from cudalens.virtual.allocator.history import StackLevel, frames_of

if TYPE_CHECKING:
    from cudalens.virtual.allocator.heap import Heap

_FREEABLE: Final = "Not expected to checkpoint freeable graph"


class BlockState(NamedTuple):
    """A saved block.

    Attributes:
        address: The first byte.
        size: The bytes.
        is_allocated: Whether it was allocated.
    """

    address: int
    size: int
    is_allocated: bool


@dataclass(frozen=True, slots=True)
class PoolState:
    """The saved state of a private pool.

    Attributes:
        pool_id: Its id.
        segments: The blocks of each segment, in address order.
    """

    pool_id: PoolId
    segments: tuple[tuple[BlockState, ...], ...]

    @property
    def allocated(self) -> Iterator[BlockState]:
        """The blocks that were allocated."""
        return (block for segment in self.segments for block in segment if block.is_allocated)


class Restored(NamedTuple):
    """The result of restoring a state.

    Attributes:
        freed: Addresses of the blocks that were allocated before.
        created: The blocks that are allocated now.
    """

    freed: list[int]
    created: list[Block]


def checkpoint(heap: Heap, pool_id: PoolId) -> PoolState:
    """Save the current state of a private pool.

    Raises:
        RuntimeError: The pool has no holder, there is none of that id, or another stream may still use a block that
            was freed; torch's message.
    """
    heap.end_deferral()
    segments = _segments(heap, _pool(heap, pool_id, "Could not find pool of id"))
    if any(block.num_fences for segment in segments for block in segment.blocks()):
        raise RuntimeError("Events should have synchronized when checkpointing block")
    return PoolState(
        pool_id,
        tuple(
            tuple(BlockState(block.address, block.size, block.is_allocated) for block in segment.blocks())
            for segment in segments
        ),
    )


def restore(heap: Heap, state: PoolState, stack: object) -> Restored:
    """Restore the state of a private pool.

    Args:
        heap: The heap of the allocator.
        state: From `checkpoint`.
        stack: The stack frames, or a function that returns them.

    Raises:
        RuntimeError: The pool has no holder, a segment no longer exists, or its blocks cannot be split as they were;
            torch's message.
    """
    frames = frames_of(stack) if heap.level >= StackLevel.STATE else None
    pool = _pool(heap, state.pool_id, "Could not find private pool id")
    freed = _free_all(heap, pool, stack)
    heads = {block.address: block for part in (pool.small, pool.large) for block in part}
    created: list[Block] = []
    for blocks in state.segments:
        head = heads.get(blocks[0].address)
        if head is None:
            raise RuntimeError(f" could not find {blocks[0].address:#x}")
        _allocate_all(heap, head, blocks, frames)
        now = list(head.segment.blocks())
        for block, saved in zip(now, blocks, strict=True):
            if block is now[-1] and head.segment.is_expandable:
                continue
            if saved.is_allocated:
                created.append(block)
            else:
                heap.free(block, stack)
    return Restored(freed, created)


def _pool(heap: Heap, pool_id: PoolId, missing: str) -> PrivatePool:
    if pool_id in heap.pools.freeable:
        raise RuntimeError(_FREEABLE)
    pool = heap.pools.private.get(pool_id)
    if pool is None:
        raise RuntimeError(missing)
    return pool


def _segments(heap: Heap, pool: PrivatePool) -> list[Segment]:
    segments = (segment for segment in heap.reserve.segments.values() if segment.head.pool.owner is pool)
    return sorted(segments, key=lambda segment: segment.address)


def _free_all(heap: Heap, pool: PrivatePool, stack: object) -> list[int]:
    freed = []
    for segment in _segments(heap, pool):
        for block in [block for block in segment.blocks() if block.is_allocated]:
            if block.num_fences:
                raise RuntimeError("Events should have synchronized when setting checkpointed block")
            freed.append(block.address)
            heap.free(block, stack)
    return freed


def _allocate_all(heap: Heap, head: Block, blocks: tuple[BlockState, ...], frames: object) -> None:
    """Allocate every block of a segment, free or not, with its saved size."""
    block: Block | None = head
    for number, state in enumerate(blocks):
        assert block is not None
        is_last = number == len(blocks) - 1
        if is_last and block.segment.is_expandable:
            # The unmapped rest is neither split nor allocated.
            _check(block.next is None, "curr_block->next == nullptr")
            _check(not block.mapped, "!curr_block->mapped")
            _check(not block.is_allocated, "curr_block->allocated == false")
            continue
        pool: BlockPool = block.pool
        pool.discard(block)
        heap.occupy(block, state.size, state.size, block.size > state.size, frames)
        _check(block.address == state.address, "curr_block->ptr == block_state.ptr")
        _check(block.size == state.size, "curr_block->size == block_state.size")
        block = block.next
        _check((block is None) is is_last, "(curr_block != nullptr) == ((i + 1) < (segment_len))")


def _check(is_so: bool, condition: str) -> None:
    if not is_so:
        raise RuntimeError(
            f"Expected {condition} to be true, but got false.  (Could this error message be improved?  If so, please "
            "report an enhancement request to PyTorch.)"
        )
