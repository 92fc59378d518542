"""Allocate and free device memory: whole segments, and pages of expandable segments."""

from __future__ import annotations

from bisect import bisect_left, insort

from cudalens.virtual.allocator.block_pools import Block, BlockPool, Segment
from cudalens.virtual.allocator.conf import AllocatorConf, Host, PoolId
from cudalens.virtual.allocator.history import History
from cudalens.virtual.allocator.sizes import DRIVER_PAGE, SMALL_SEGMENT, round_up
from cudalens.virtual.allocator.stats import PoolCounters, Stats


class AddressSpace:
    """Allocates device addresses: the lowest gap that fits, in steps of 2 MiB.

    The addresses of a real driver are not specified. This rule is deterministic: equal programs get equal addresses.
    """

    __slots__ = ("_end", "_gaps")

    def __init__(self, base_address: int) -> None:
        self._end = round_up(base_address, DRIVER_PAGE)
        self._gaps: list[tuple[int, int]] = []  # (address, size), ascending, no two touch

    def reserve(self, num_bytes: int) -> int:
        """Reserve a range of that many bytes; returns its first address."""
        size = round_up(num_bytes, DRIVER_PAGE)
        for i, (address, gap) in enumerate(self._gaps):
            if gap >= size:
                self._gaps[i : i + 1] = [(address + size, gap - size)] if gap > size else []
                return address
        address, self._end = self._end, self._end + size
        return address

    def release(self, address: int, num_bytes: int) -> None:
        """Return a range."""
        size = round_up(num_bytes, DRIVER_PAGE)
        insort(self._gaps, (address, size))
        i = bisect_left(self._gaps, (address, size))
        for left in (i, i - 1):
            if 0 <= left < len(self._gaps) - 1 and sum(self._gaps[left]) == self._gaps[left + 1][0]:
                self._gaps[left : left + 2] = [(self._gaps[left][0], self._gaps[left][1] + self._gaps[left + 1][1])]
        if self._gaps and sum(self._gaps[-1]) == self._end:
            self._end = self._gaps.pop()[0]


class Memory:
    """The physical memory of the device, in bytes.

    Attributes:
        total_bytes: The memory of the device.
        context_bytes: Used by the CUDA context.
        used_bytes: Used by the allocator.
    """

    __slots__ = ("context_bytes", "total_bytes", "used_bytes")

    def __init__(self, total_bytes: int, context_bytes: int) -> None:
        self.total_bytes, self.context_bytes, self.used_bytes = total_bytes, context_bytes, 0

    @property
    def free_bytes(self) -> int:
        """The free memory that cudaMemGetInfo returns."""
        return self.total_bytes - self.context_bytes - self.used_bytes

    def allocate(self, num_bytes: int) -> bool:
        """Allocate physical memory; False if there is not enough."""
        size = round_up(num_bytes, DRIVER_PAGE)
        if size > self.free_bytes:
            return False
        self.used_bytes += size
        return True

    def release(self, num_bytes: int) -> None:
        """Free physical memory."""
        self.used_bytes -= round_up(num_bytes, DRIVER_PAGE)


class Reserve:
    """The segments that the allocator holds.

    Attributes:
        memory: The device's physical memory.
        space: The device's addresses.
        segments: The live segments by address.
    """

    def __init__(self, state: AllocatorState, memory: Memory, space: AddressSpace) -> None:
        self._state, self.memory, self.space = state, memory, space
        self.segments: dict[int, Segment] = {}

    @property
    def reserved_bytes(self) -> int:
        """The reserved bytes."""
        return self._state.stats.all.reserved_bytes.current

    def new_segment(self, pool: BlockPool, stream: int, size: int, stack: object) -> Block | None:
        """Allocate a segment as one block that is in no set; None if the device has too little memory."""
        if not self.memory.allocate(size):
            return None
        block = self._open(Segment(self.space.reserve(size), size, stream), pool)
        block.segment_stack = stack
        self._count(pool, size)
        self._count_segment(pool, size, 1)
        self._state.host.on_segment("segment_alloc", block.address, size)
        self._state.record_block("segment_alloc", block, size, stack)
        return block

    def release(self, block: Block, stack: object) -> None:
        """Free a segment that is one free block (cudaFree, which waits for the whole device)."""
        self._state.record_block("segment_free", block, block.size, stack if stack is not None else block.segment_stack)
        self._state.host.on_segment("segment_free", block.address, block.size)
        block.pool.discard(block)
        self._close(block.segment)
        self.memory.release(block.size)
        self._count(block.pool, -block.size)
        self._count_segment(block.pool, block.size, -1)

    def release_free(self, pool: BlockPool, stack: object) -> None:
        """Free every segment of a pool that is one free block, and every free page of expandable segments."""
        growing = []
        for block in pool:
            if block.segment.is_expandable:
                growing.append(block)
            elif not block.is_split:
                self.release(block, stack)
        for block in growing:
            self._unmap(block, stack)

    def grow(self, pool: BlockPool, stream: int, size: int, stack: object) -> Block | None:
        """Map memory into an expandable segment; returns one block in no set, None if the device has too little memory.

        Pages that were mapped before the memory ran out remain, as free blocks.
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
        """Return the first of neighbouring inactive blocks with ``size`` bytes in total; in a new segment if needed."""
        for block in pool.unmapped(stream):
            start = block.prev if block.prev is not None and not block.prev.is_active else block
            room = 0
            neighbour: Block | None = start
            while neighbour is not None and room < size and not neighbour.is_active:
                room += neighbour.size
                neighbour = neighbour.next
            if room >= size:
                return start
        page_size = SMALL_SEGMENT if pool.is_small else self._state.conf.large_segment_size
        # Addresses for 9/8 of the device's memory, so that a page can be mapped again at another address.
        length = round_up(self.memory.total_bytes + self.memory.total_bytes // 8, page_size)
        block = self._open(Segment(self.space.reserve(length), length, stream, page_size), pool)
        block.mapped = False
        pool.insert(block)
        return block

    def _map(self, block: Block, size: int, stack: object) -> Block | None:
        """Map the first ``size`` bytes of an unmapped block; returns the block that contains them."""
        pool = block.pool
        address, num_bytes = block.segment.pages_around(block.address, size)
        if not self.memory.allocate(num_bytes):
            return None
        pool.discard(block)
        block.mapped = True
        if num_bytes < block.size:
            rest = block.split(num_bytes)
            rest.mapped = False
            pool.insert(rest)
        block, _ = block.merge()
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
        self._state.host.fence(block.stream).wait()  # unlike cudaFree, unmapping does not synchronize
        pool.discard(block)
        if address > block.address:
            front, block = block, block.split(address - block.address)
            front.requested_size = 0
            pool.insert(front)
        if num_bytes < block.size:
            known = block.segment_stack
            back = block.split(num_bytes)
            back.requested_size, back.segment_stack, block.segment_stack = 0, None, known
            pool.insert(back)
        block.mapped = False
        block, _ = block.merge()
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
        stats = self._state.stats
        if num_bytes > 0:
            stats.num_device_alloc += 1
        else:
            stats.num_device_free += 1
        if pool.owner is not None:
            pool.owner.reserved_bytes += num_bytes
        stats.reserve(num_bytes, small=pool.is_small, pool_id=None if pool.owner is None else pool.pool_id)

    def _count_segment(self, pool: BlockPool, size: int, step: int) -> None:
        for counters in self._state.counters(small=pool.is_small):
            counters.segment.change(step)
        if size >= self._state.conf.max_split_size:
            self._state.stats.oversize_segments.change(step)

    def _count_pages(self, block: Block, address: int, num_bytes: int, kind: str, stack: object) -> None:
        block.segment.mapped_bytes += num_bytes
        if num_bytes < 0:
            self.memory.release(-num_bytes)
        self._count(block.pool, num_bytes)
        self._state.host.on_segment(kind, address, abs(num_bytes))
        self._state.record(kind, address, abs(num_bytes), block.stream, block.pool.pool_id, stack)


# State that the parts of one caching allocator share: options, counters, history and host.


class AllocatorState:
    """The shared state of one allocator."""

    __slots__ = ("conf", "history", "host", "stats")

    def __init__(self, host: Host, conf: AllocatorConf) -> None:
        self.host, self.conf = host, conf
        self.stats = Stats(conf.max_split_size)
        self.history = History()

    def counters(self, *, small: bool) -> tuple[PoolCounters, PoolCounters]:
        """Return the counters of all pools, and those of the small or the large pools."""
        return self.stats.all, self.stats.small if small else self.stats.large

    def record(
        self,
        kind: str,
        address: int,
        num_bytes: int,
        stream: int,
        pool_id: PoolId,
        stack: object,
        block_bytes: int = 0,
    ) -> None:
        """Record an action if the history is on or has listeners."""
        history = self.history
        if history.is_on or history.listeners:
            history.record(kind, address, num_bytes, stream, self.host.now_us(), pool_id, stack, block_bytes)

    def record_block(self, kind: str, block: Block, num_bytes: int, stack: object) -> None:
        """Record an action on a block."""
        self.record(kind, block.address, num_bytes, block.stream, block.pool.pool_id, stack, block.size)
