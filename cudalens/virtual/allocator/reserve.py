"""Taking memory from the device and giving it back: whole segments, and pages of expandable ones."""

from __future__ import annotations

from cudalens.virtual.allocator.blocks import Block, BlockPool, Segment
from cudalens.virtual.allocator.sizes import SMALL_SEGMENT, round_up
from cudalens.virtual.allocator.space import AddressSpace, Memory
from cudalens.virtual.allocator.state import Books


class Reserve:
    """The segments that the allocator holds.

    Attributes:
        memory: The device's physical memory.
        space: The device's addresses.
        segments: The live segments by address.
    """

    def __init__(self, books: Books, memory: Memory, space: AddressSpace) -> None:
        self._books, self.memory, self.space = books, memory, space
        self.segments: dict[int, Segment] = {}

    @property
    def reserved_bytes(self) -> int:
        """How much memory the allocator holds."""
        return self._books.stats.all.reserved_bytes.current

    def new_segment(self, pool: BlockPool, stream: int, size: int, stack: object) -> Block | None:
        """A segment as one block, which is in no set yet; None where the device has too little memory."""
        if not self.memory.take(size):
            return None
        block = self._open(Segment(self.space.reserve(size), size, stream), pool)
        block.segment_stack = stack
        self._count(pool, size)
        self._count_segment(pool, size, 1)
        self._books.host.on_segment("segment_alloc", block.address, size)
        self._books.record_block("segment_alloc", block, size, stack)
        return block

    def release(self, block: Block, stack: object) -> None:
        """Give back a segment that is one free block (cudaFree, which waits for the whole device)."""
        self._books.record_block("segment_free", block, block.size, stack if stack is not None else block.segment_stack)
        self._books.host.synchronize()
        self._books.host.on_segment("segment_free", block.address, block.size)
        block.pool.discard(block)
        self._close(block.segment)
        self.memory.give_back(block.size)
        self._count(block.pool, -block.size)
        self._count_segment(block.pool, block.size, -1)

    def release_free(self, pool: BlockPool, stack: object) -> None:
        """Give back every segment of a pool that is one free block, and every free page of expandable ones."""
        growing = []
        for block in pool:
            if block.segment.is_expandable:
                growing.append(block)
            elif not block.is_split:
                self.release(block, stack)
        for block in growing:
            self._unmap(block, stack)

    def grow(self, pool: BlockPool, stream: int, size: int, stack: object) -> Block | None:
        """Memory mapped into an expandable segment, as one block in no set; None where the device has too little.

        What was mapped before the memory ran out stays, as free blocks.
        """
        block: Block | None = self._lowest_room(pool, stream, size)
        if block is not None and not block.mapped:
            block = self._map(block, min(block.size, size), stack)
        while block is not None and block.size < size and block.next is not None:
            block = self._map(block.next, min(size - block.size, block.next.size), stack)
        if block is not None:
            pool.discard(block)
        return block

    def _lowest_room(self, pool: BlockPool, stream: int, size: int) -> Block:
        """The first of neighbours, free or unmapped, that hold ``size`` bytes together; in a new segment if need be."""
        for block in pool.unmapped(stream):
            start = block.prev if block.prev is not None and not block.prev.is_active else block
            if _room_from(start, size):
                return start
        page_size = SMALL_SEGMENT if pool.is_small else self._books.conf.large_segment_size
        # Addresses for 9/8 of the device's memory, so that a page can be mapped again further on.
        length = round_up(self.memory.total_bytes + self.memory.total_bytes // 8, page_size)
        block = self._open(Segment(self.space.reserve(length), length, stream, page_size), pool)
        block.mapped = False
        pool.insert(block)
        return block

    def _map(self, block: Block, size: int, stack: object) -> Block | None:
        """Put memory behind the first ``size`` bytes of an unmapped block; returns what these became part of."""
        pool = block.pool
        address, num_bytes = block.segment.pages_around(block.address, size)
        if not self.memory.take(num_bytes):
            return None
        pool.discard(block)
        block.mapped = True
        if num_bytes < block.size:
            rest = block.cut(num_bytes)
            rest.mapped = False
            pool.insert(rest)
        block, _ = block.join()
        pool.insert(block)
        self._count_pages(block, address, num_bytes, "segment_map", stack)
        if block.prev is None and block.segment_stack is None:
            block.segment_stack = stack
        return block

    def _unmap(self, block: Block, stack: object) -> None:
        segment, pool = block.segment, block.pool
        address, num_bytes = segment.pages_inside(block.address, block.size)
        if num_bytes == 0:
            return
        self._books.host.fence(block.stream).wait()  # unmapping, unlike cudaFree, does not wait by itself
        pool.discard(block)
        if address > block.address:
            front, block = block, block.cut(address - block.address)
            front.requested_size = 0
            pool.insert(front)
        if num_bytes < block.size:
            known = block.segment_stack
            back = block.cut(num_bytes)
            back.requested_size, back.segment_stack, block.segment_stack = 0, None, known
            pool.insert(back)
        block.mapped = False
        block, _ = block.join()
        pool.insert(block)
        self._count_pages(
            block, address, -num_bytes, "segment_unmap", stack if stack is not None else block.segment_stack
        )
        if not block.is_split:
            pool.discard(block)
            self._close(segment)

    def _open(self, segment: Segment, pool: BlockPool) -> Block:
        block = segment.head = Block(segment.address, segment.size, segment.stream, segment, pool)
        self.segments[segment.address] = segment
        return block

    def _close(self, segment: Segment) -> None:
        del self.segments[segment.address]
        segment.backing = None
        self.space.release(segment.address, segment.size)

    def _count(self, pool: BlockPool, num_bytes: int) -> None:
        stats = self._books.stats
        if num_bytes > 0:
            stats.num_device_alloc += 1
        else:
            stats.num_device_free += 1
        if pool.owner is not None:
            pool.owner.reserved_bytes += num_bytes
        stats.reserve(num_bytes, small=pool.is_small, pool_id=None if pool.owner is None else pool.pool_id)

    def _count_segment(self, pool: BlockPool, size: int, step: int) -> None:
        for counters in self._books.counters(small=pool.is_small):
            counters.segment.change(step)
        if size >= self._books.conf.max_split_size:
            self._books.stats.oversize_segments.change(step)

    def _count_pages(self, block: Block, address: int, num_bytes: int, kind: str, stack: object) -> None:
        block.segment.mapped_bytes += num_bytes
        if num_bytes < 0:
            self.memory.give_back(-num_bytes)
        self._count(block.pool, num_bytes)
        self._books.host.on_segment(kind, address, abs(num_bytes))
        self._books.record(kind, address, abs(num_bytes), block.stream, block.pool.pool_id, stack)


def _room_from(block: Block | None, size: int) -> bool:
    room = 0
    while block is not None and room < size and not block.is_active:
        room += block.size
        block = block.next
    return room >= size
