"""Segments of device memory, the blocks that tile them, and the sorted sets of free blocks.

A block's neighbours in its segment are its ``prev`` and ``next``. A set of free blocks is sorted as torch's comparator
sorts it: by stream, then size, then address.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any

from cudalens.virtual.allocator.interfaces import DEFAULT_POOL, PoolId
from cudalens.virtual.allocator.sizes import round_up

_ADDRESS_BITS = 48  # user space of x86-64 and AArch64 GPUs' unified addresses


class Segment:
    """One range of device addresses that cudaMalloc gave, or that was reserved for an expandable segment.

    Attributes:
        address: Its first byte.
        size: Its bytes; of an expandable segment all addresses that it reserved, mapped or not.
        stream: The stream that it serves.
        page_size: Of an expandable segment, how many bytes are mapped at a time; 0 of others.
        mapped_bytes: How much memory stands behind it.
        head: Its first block, the same as long as it lives.
        backing: What its bytes are kept in by whoever keeps them; None otherwise, and once it went back to the device.
    """

    __slots__ = ("address", "backing", "head", "mapped_bytes", "page_size", "size", "stream")

    def __init__(self, address: int, size: int, stream: int, page_size: int = 0) -> None:
        self.address, self.size, self.stream, self.page_size = address, size, stream, page_size
        self.mapped_bytes = 0 if page_size else size
        self.backing: Any = None
        self.head: Block

    @property
    def is_expandable(self) -> bool:
        """Whether it grows by mapped pages."""
        return self.page_size > 0

    def blocks(self) -> Iterator[Block]:
        """Its blocks, ascending by address."""
        block: Block | None = self.head
        while block is not None:
            yield block
            block = block.next

    def pages_around(self, address: int, num_bytes: int) -> tuple[int, int]:
        """First byte and size of the pages that the range touches."""
        first = self.address + (address - self.address) // self.page_size * self.page_size
        end = self.address + round_up(address + num_bytes - self.address, self.page_size)
        return first, end - first

    def pages_inside(self, address: int, num_bytes: int) -> tuple[int, int]:
        """First byte and size of the pages that lie wholly in the range; the size is 0 where none does."""
        first = self.address + round_up(address - self.address, self.page_size)
        end = self.address + (address + num_bytes - self.address) // self.page_size * self.page_size
        return first, max(0, end - first)


class Block:
    """A piece of a segment. Its address never changes: split, it keeps the front; joined, the leftmost block stays.

    Attributes:
        address: Its first byte; 0 of the null block that a request for nothing gets.
        size: Its bytes, rounded.
        requested_size: What was asked for when it was last handed out, in bytes.
        stream: The stream whose work may reuse it without waiting.
        segment: Where it lies.
        pool: The pool that it goes back to.
        is_allocated: Whether it is handed out.
        mapped: Whether memory stands behind it; False only of free parts of an expandable segment.
        num_fences: How many events must pass before it is free again.
        uses: Other streams that used it (:meth:`CachingAllocator.record_stream`), in that order; None for none.
        stack: The stack frames gathered when it was handed out.
        segment_stack: Of a segment's first block, those gathered when the segment was made.
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
        state = "allocated" if self.is_allocated else "active" if self.is_active else "free"
        return f"<Block {self.size} bytes at {self.address:#x}, stream {self.stream:#x}, {state}>"

    @property
    def pool_id(self) -> PoolId:
        """The id of the memory pool that it belongs to; (0, 0) is the default one."""
        return self.pool.pool_id

    @property
    def is_active(self) -> bool:
        """Whether it is handed out, or another stream may still use it."""
        return self.is_allocated or self.num_fences > 0 or bool(self.uses)

    @property
    def is_split(self) -> bool:
        """Whether it is not its whole segment."""
        return self.prev is not None or self.next is not None

    def follow(self, before: Block) -> None:
        """Take the place right behind a block."""
        after = before.next
        self.prev, self.next = before, after
        before.next = self
        if after is not None:
            after.prev = self

    def cut(self, size: int) -> Block:
        """Keep the first ``size`` bytes; the rest is a new block, in no set yet, that inherits what this one knew."""
        rest = Block(self.address + size, self.size - size, self.stream, self.segment, self.pool)
        rest.follow(self)
        rest.requested_size, rest.mapped = self.requested_size, self.mapped
        rest.segment_stack, self.segment_stack = self.segment_stack, None
        self.size = size
        return rest

    def join(self) -> tuple[Block, int]:
        """Become one with free neighbours alike; they leave their sets.

        Returns:
            The block that stays, which is the leftmost, and how many others it took in.
        """
        whole, num_joined = self, 0
        left = self.prev
        if left is not None and left.mapped is self.mapped and not (left.is_allocated or left.num_fences or left.uses):
            self.pool.discard(left)
            left.requested_size = self.requested_size
            left._swallow(self)
            whole, num_joined = left, 1
        right = whole.next
        if (
            right is not None
            and right.mapped is self.mapped
            and not (right.is_allocated or right.num_fences or right.uses)
        ):
            self.pool.discard(right)
            whole._swallow(right)
            num_joined += 1
        return whole, num_joined

    def _swallow(self, right: Block) -> None:
        self.size += right.size
        self.next = after = right.next
        if after is not None:
            after.prev = self


class _Lane:
    """The free blocks of one stream, sorted by size, then address."""

    __slots__ = ("blocks", "keys")

    def __init__(self) -> None:
        self.keys: list[int] = []
        self.blocks: list[Block] = []


def _growable_size(block: Block) -> int:
    after = block.next
    return block.size + (after.size if after is not None and not after.mapped else 0)


class BlockPool:
    """The free blocks of the small or of the large pool.

    Attributes:
        is_small: Whether it serves requests up to 1 MiB.
        owner: The private pool that it is part of; None of the default one.
        num_searches: How often it was searched while garbage collection was on: the clock of blocks' ages.
    """

    __slots__ = ("_unmapped", "is_small", "lanes", "no_split", "num_searches", "owner", "pool_id")

    def __init__(self, *, is_small: bool, owner: PrivatePool | None = None) -> None:
        self.is_small, self.owner = is_small, owner
        self.pool_id: PoolId = DEFAULT_POOL if owner is None else owner.pool_id
        self.no_split = False
        self.lanes: dict[int, _Lane] = {}
        self._unmapped: dict[int, list[tuple[int, Block]]] = {}
        self.num_searches = 0

    def __iter__(self) -> Iterator[Block]:
        """All free blocks that memory stands behind, by stream, size and address; a snapshot, safe to change under."""
        return iter([block for stream in sorted(self.lanes) for block in self.lanes[stream].blocks])

    def insert(self, block: Block) -> None:
        """Put a free block in."""
        if not block.mapped:
            insort(self._unmapped.setdefault(block.stream, []), (block.address, block))
            return
        block.gc_base = self.num_searches
        lane = self.lanes.get(block.stream)
        if lane is None:
            lane = self.lanes[block.stream] = _Lane()
        key = block.size << _ADDRESS_BITS | block.address
        i = bisect_left(lane.keys, key)
        lane.keys.insert(i, key)
        lane.blocks.insert(i, block)

    def discard(self, block: Block) -> None:
        """Take a free block out."""
        if not block.mapped:
            self._unmapped[block.stream].remove((block.address, block))
            return
        lane = self.lanes[block.stream]
        i = bisect_left(lane.keys, block.size << _ADDRESS_BITS | block.address)
        del lane.keys[i]
        del lane.blocks[i]

    def take(self, stream: int, size: int, expandable: bool, max_split: int, rounding: int) -> Block | None:
        """Take out the smallest block that fits, the lowest of equals; None where there is none to give.

        Args:
            stream: Only blocks of this stream.
            size: At least so many bytes.
            expandable: Whether blocks of expandable segments may be given; they count with what they can grow to.
            max_split: Blocks of this size and more are not split, so they serve only requests of their order.
            rounding: By how much such a block may exceed the request.
        """
        lane = self.lanes.get(stream)
        if lane is None:
            return None
        keys, blocks = lane.keys, lane.blocks
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
        """The stream's free blocks, ascending, and the index of the first that has ``size`` bytes."""
        lane = self.lanes.get(stream)
        return ([], 0) if lane is None else (list(lane.blocks), bisect_left(lane.keys, size << _ADDRESS_BITS))

    def unmapped(self, stream: int) -> list[Block]:
        """The free parts of expandable segments without memory, ascending by address."""
        return [block for _, block in self._unmapped.get(stream, ())]

    def age(self, block: Block) -> int:
        """How many searches ago a free block was put in."""
        return self.num_searches - block.gc_base


class PrivatePool:
    """A pool of a graph or of a MemPool.

    Attributes:
        use_count: How many graphs and MemPools hold it; at 0 its memory may go back to the device.
        reserved_bytes: How much memory stands behind it.
        use_on_oom: Whether other requests may take from it rather than fail.
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
