"""Segments of device memory, their blocks, and sorted sets of free blocks.

The neighbours of a block in its segment are its ``prev`` and ``next``. A set of free blocks has the order of torch's
comparator: stream, then size, then address.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from typing import Any

from cudalens.virtual.allocator.conf import DEFAULT_POOL, PoolId
from cudalens.virtual.allocator.sizes import SMALL_LIMIT, round_up

_ADDRESS_BITS = 48  # user space of x86-64 and AArch64 GPUs' unified addresses


class Segment:
    """A range of device addresses that cudaMalloc returned, or that an expandable segment reserved.

    Attributes:
        address: The first byte.
        size: The bytes; of an expandable segment, all reserved addresses, mapped or not.
        stream: The handle of its stream.
        page_size: Of an expandable segment, the bytes that are mapped at a time; 0 otherwise.
        mapped_bytes: The physical memory of the segment.
        head: Its first block, the same object for the lifetime of the segment.
        backing: Where the contents of the segment are stored; None if they are not, and after the segment was freed.
    """

    __slots__ = ("address", "backing", "head", "mapped_bytes", "page_size", "size", "stream")

    def __init__(self, address: int, size: int, stream: int, page_size: int = 0) -> None:
        self.address, self.size, self.stream, self.page_size = address, size, stream, page_size
        self.mapped_bytes = 0 if page_size else size
        self.backing: Any = None
        self.head: Block

    @property
    def is_expandable(self) -> bool:
        """Whether it grows by mapping pages."""
        return self.page_size > 0

    def blocks(self) -> Iterator[Block]:
        """Yield its blocks in address order."""
        block: Block | None = self.head
        while block is not None:
            yield block
            block = block.next

    def pages_around(self, address: int, num_bytes: int) -> tuple[int, int]:
        """First byte and size of the pages that overlap the range."""
        first = self.address + (address - self.address) // self.page_size * self.page_size
        end = self.address + round_up(address + num_bytes - self.address, self.page_size)
        return first, end - first

    def pages_inside(self, address: int, num_bytes: int) -> tuple[int, int]:
        """First byte and size of the pages inside the range; the size is 0 if there is none."""
        first = self.address + round_up(address - self.address, self.page_size)
        end = self.address + (address + num_bytes - self.address) // self.page_size * self.page_size
        return first, max(0, end - first)


class Block:
    """A part of a segment. Its address never changes: a split keeps the front, a merge keeps the leftmost block.

    Attributes:
        address: The first byte; 0 for the null block, which a request for 0 bytes gets.
        size: The rounded bytes.
        requested_size: The bytes requested by its last allocation.
        stream: The handle of the stream that may reuse it without waiting.
        segment: Its segment.
        pool: The pool that it returns to.
        is_allocated: Whether it is allocated.
        mapped: Whether it has physical memory; False only for free parts of an expandable segment.
        num_fences: The number of events that must complete before it is free.
        uses: The other streams that used it (:meth:`CachingAllocator.record_stream`), in that order; None if there are
            none.
        stack: The stack frames of its allocation.
        segment_stack: For the first block of a segment, the stack frames of the segment's allocation.
    """

    __slots__ = (
        "address",
        "gc_base",
        "is_allocated",
        "mapped",
        "next",
        "num_fences",
        "pool",
        "prev",
        "requested_size",
        "segment",
        "segment_stack",
        "size",
        "stack",
        "stream",
        "uses",
    )

    def __init__(self, address: int, size: int, stream: int, segment: Segment, pool: BlockPool) -> None:
        self.address, self.size, self.stream, self.segment, self.pool = address, size, stream, segment, pool
        self.requested_size = self.num_fences = self.gc_base = 0
        self.is_allocated = False
        self.mapped = True
        self.prev: Block | None = None
        self.next: Block | None = None
        self.uses: dict[int, None] | None = None
        self.stack: object = None
        self.segment_stack: object = None

    def __repr__(self) -> str:
        state = "active" if self.is_active else "free"
        if self.is_allocated:
            state = "allocated"
        return f"<Block {self.size} bytes at {self.address:#x}, stream {self.stream:#x}, {state}>"

    @property
    def pool_id(self) -> PoolId:
        """The id of its memory pool; (0, 0) is the default pool."""
        return self.pool.pool_id

    @property
    def is_active(self) -> bool:
        """Whether it is allocated, or another stream may still use it."""
        return self.is_allocated or self.num_fences > 0 or bool(self.uses)

    @property
    def is_split(self) -> bool:
        """Whether it is smaller than its segment."""
        return self.prev is not None or self.next is not None

    def insert_after(self, before: Block) -> None:
        """Become the next neighbour of a block."""
        after = before.next
        self.prev, self.next = before, after
        before.next = self
        if after is not None:
            after.prev = self

    def split(self, size: int) -> Block:
        """Keep the first ``size`` bytes; returns the rest as a new block with the same attributes, in no set yet."""
        rest = Block(self.address + size, self.size - size, self.stream, self.segment, self.pool)
        rest.insert_after(self)
        rest.requested_size, rest.mapped = self.requested_size, self.mapped
        rest.segment_stack, self.segment_stack = self.segment_stack, None
        self.size = size
        return rest

    def merge(self) -> tuple[Block, int]:
        """Merge with free neighbours that have the same mapping state, and remove these from their sets.

        Returns:
            The remaining block, which is the leftmost, and the number of blocks merged into it.
        """
        whole, num_merged = self, 0
        left = self.prev
        if left is not None and left.mapped is self.mapped and not (left.is_allocated or left.num_fences or left.uses):
            self.pool.discard(left)
            left.requested_size = self.requested_size
            left._absorb(self)
            whole, num_merged = left, 1
        right = whole.next
        if (
            right is not None
            and right.mapped is self.mapped
            and not (right.is_allocated or right.num_fences or right.uses)
        ):
            self.pool.discard(right)
            whole._absorb(right)
            num_merged += 1
        return whole, num_merged

    def _absorb(self, right: Block) -> None:
        self.size += right.size
        self.next = after = right.next
        if after is not None:
            after.prev = self


class _FreeList:
    """The free blocks of one stream, ordered by size, then address."""

    __slots__ = ("blocks", "keys")

    def __init__(self) -> None:
        self.keys: list[int] = []
        self.blocks: list[Block] = []


def _growable_size(block: Block) -> int:
    after = block.next
    return block.size + (after.size if after is not None and not after.mapped else 0)


class BlockPool:
    """The free blocks of a small or a large pool.

    Attributes:
        is_small: Whether it is for requests up to 1 MiB.
        owner: Its private pool; None for the default pool.
        num_searches: The number of searches while garbage collection was on; block ages are counted in searches.
    """

    __slots__ = ("_free_lists", "_unmapped", "is_small", "no_split", "num_searches", "owner", "pool_id")

    def __init__(self, *, is_small: bool, owner: PrivatePool | None = None) -> None:
        self.is_small, self.owner = is_small, owner
        self.pool_id: PoolId = DEFAULT_POOL if owner is None else owner.pool_id
        self.no_split = False
        self._free_lists: dict[int, _FreeList] = {}
        self._unmapped: dict[int, list[tuple[int, Block]]] = {}
        self.num_searches = 0

    def __iter__(self) -> Iterator[Block]:
        """All mapped free blocks by stream, size and address; a copy, so the pool may change during the iteration."""
        return iter([block for stream in sorted(self._free_lists) for block in self._free_lists[stream].blocks])

    def insert(self, block: Block) -> None:
        """Add a free block."""
        if not block.mapped:
            insort(self._unmapped.setdefault(block.stream, []), (block.address, block))
            return
        block.gc_base = self.num_searches
        free_list = self._free_lists.get(block.stream)
        if free_list is None:
            free_list = self._free_lists[block.stream] = _FreeList()
        key = block.size << _ADDRESS_BITS | block.address
        i = bisect_left(free_list.keys, key)
        free_list.keys.insert(i, key)
        free_list.blocks.insert(i, block)

    def discard(self, block: Block) -> None:
        """Remove a free block."""
        if not block.mapped:
            self._unmapped[block.stream].remove((block.address, block))
            return
        free_list = self._free_lists[block.stream]
        i = bisect_left(free_list.keys, block.size << _ADDRESS_BITS | block.address)
        del free_list.keys[i]
        del free_list.blocks[i]

    def take(self, stream: int, size: int, expandable: bool, max_split: int, rounding: int) -> Block | None:
        """Remove and return the smallest block that fits, at the lowest address; None if there is none.

        Args:
            stream: Only blocks of this stream.
            size: The least number of bytes.
            expandable: Whether blocks of expandable segments qualify; the size that they can grow to counts.
            max_split: Blocks of this size and more are not split; they are used only for requests of similar size.
            rounding: By how many bytes such a block may exceed the request.
        """
        free_list = self._free_lists.get(stream)
        if free_list is None:
            return None
        keys, blocks = free_list.keys, free_list.blocks
        i = bisect_left(keys, size << _ADDRESS_BITS)
        if i == len(keys):
            return None
        block = blocks[i]
        if block.segment.page_size:
            i = self._past_expandable(blocks, i, expandable=expandable)
            if i == len(keys):
                return None
            block = blocks[i]
        if block.size >= max_split and (size < max_split or block.size >= size + rounding):
            return None
        del keys[i]
        del blocks[i]
        return block

    @staticmethod
    def _past_expandable(blocks: list[Block], i: int, *, expandable: bool) -> int:
        end = len(blocks)
        if not expandable:
            while i < end and blocks[i].segment.page_size:
                i += 1
            return i
        while blocks[i].segment.page_size and i + 1 < end:
            if _growable_size(blocks[i + 1]) >= _growable_size(blocks[i]):
                break
            i += 1
        return i

    def at_least(self, stream: int, size: int) -> tuple[list[Block], int]:
        """The free blocks of a stream in order of size, and the index of the first with at least ``size`` bytes."""
        free_list = self._free_lists.get(stream)
        return (
            ([], 0)
            if free_list is None
            else (list(free_list.blocks), bisect_left(free_list.keys, size << _ADDRESS_BITS))
        )

    def unmapped(self, stream: int) -> list[Block]:
        """Return the unmapped parts of expandable segments of a stream, in address order."""
        return [block for _, block in self._unmapped.get(stream, ())]

    def age(self, block: Block) -> int:
        """The number of searches since a free block was added."""
        return self.num_searches - block.gc_base


class PrivatePool:
    """A private pool of CUDA graphs or of a MemPool.

    Attributes:
        use_count: The number of graphs and MemPools that hold it; at 0 its memory can be freed.
        reserved_bytes: Its reserved memory.
        use_on_oom: Whether other requests may use it instead of failing.
        serves_graphs: Whether a graph capture has used it.
    """

    __slots__ = ("large", "pool_id", "reserved_bytes", "serves_graphs", "small", "use_count", "use_on_oom")

    def __init__(self, pool_id: PoolId) -> None:
        self.pool_id = pool_id
        self.use_count = 1
        self.reserved_bytes = 0
        self.use_on_oom = self.serves_graphs = False
        self.small = BlockPool(is_small=True, owner=self)
        self.large = BlockPool(is_small=False, owner=self)


# Route requests to memory pools: the default pools, or a private pool of a graph or a MemPool.

Accepts = Callable[[int], bool]


class Pools:
    """The memory pools of one allocator.

    Attributes:
        small: The default pool for requests up to 1 MiB.
        large: The default pool for the others.
        private: The private pools that are held or have memory.
        routes: The private pools that requests are routed to, oldest route first, each with a filter for streams.
        freeable: The private pools without holders; their cached memory can be freed.
    """

    __slots__ = ("freeable", "large", "private", "routes", "small")

    def __init__(self) -> None:
        self.small, self.large = BlockPool(is_small=True), BlockPool(is_small=False)
        self.private: dict[PoolId, PrivatePool] = {}
        self.routes: list[tuple[PoolId, Accepts]] = []
        self.freeable: dict[PoolId, PrivatePool] = {}

    def __iter__(self) -> Iterator[BlockPool]:
        yield self.small
        yield self.large
        for private in self.private.values():
            yield private.small
            yield private.large

    def choose(self, size: int, stream: int) -> BlockPool:
        """The pool for a rounded size on a stream: the newest route that accepts the stream, else a default pool."""
        owner: Pools | PrivatePool = self
        for pool_id, accepts in reversed(self.routes):
            if accepts(stream):
                owner = self.private[pool_id]
                break
        return owner.small if size <= SMALL_LIMIT else owner.large

    def hold(self, pool_id: PoolId) -> PrivatePool:
        """Create a private pool, or add one holder.

        Raises:
            RuntimeError: All its holders have released it (as torch's internal assertion).
        """
        pool = self.private.get(pool_id)
        if pool is None:
            pool = self.private[pool_id] = PrivatePool(pool_id)
            return pool
        if pool.use_count == 0:
            raise RuntimeError(
                f"it->second->use_count > 0 INTERNAL ASSERT FAILED: memory pool {pool_id} was released by all its "
                "holders and cannot be used again; create a new one (torch.cuda.graph_pool_handle())."
            )
        pool.use_count += 1
        return pool

    def find(self, pool_id: PoolId) -> PrivatePool:
        """Return a private pool.

        Raises:
            RuntimeError: There is none of that id (as torch's internal assertion).
        """
        pool = self.private.get(pool_id)
        if pool is None:
            raise RuntimeError(f"it != graph_pools.end() INTERNAL ASSERT FAILED: there is no memory pool {pool_id}")
        return pool

    def release(self, pool_id: PoolId) -> None:
        """Remove one holder of a private pool."""
        pool = self.find(pool_id)
        if pool.use_count == 0:
            raise RuntimeError(f"uc >= 0 INTERNAL ASSERT FAILED: memory pool {pool_id} was released too often")
        pool.use_count -= 1
        if pool.use_count == 0:
            self.freeable[pool_id] = pool

    def add_route(self, pool_id: PoolId, accepts: Accepts) -> None:
        """Route the requests of accepted streams to a private pool, and hold it."""
        if any(routed == pool_id for routed, _ in self.routes):
            raise RuntimeError("beginAllocateToPool: already recording to mempool_id")
        self.hold(pool_id)
        self.routes.append((pool_id, accepts))

    def remove_route(self, pool_id: PoolId) -> None:
        """Remove the route to a private pool; it is still held."""
        for i, (routed, _) in enumerate(self.routes):
            if routed == pool_id:
                del self.routes[i]
                return
        raise RuntimeError("endAllocatePool: not currently recording to mempool_id")

    def remove(self, pool_id: PoolId) -> None:
        """Delete a private pool without holders and memory."""
        del self.private[pool_id], self.freeable[pool_id]
