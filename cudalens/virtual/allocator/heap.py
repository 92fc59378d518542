"""Allocate and free blocks: best fit, splitting, coalescing, retries when no block fits.

Not reentrant; :class:`cudalens.virtual.allocator.caching.CachingAllocator` makes calls exclusive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from cudalens.virtual.allocator import sizes
from cudalens.virtual.allocator.block_pools import Block, BlockPool, Pools, PrivatePool
from cudalens.virtual.allocator.conf import DEFAULT_POOL, AllocatorConf, Fence, Host, PoolId
from cudalens.virtual.allocator.history import StackLevel, frames_of
from cudalens.virtual.allocator.reserve import AllocatorState, Reserve
from cudalens.virtual.allocator.sizes import EXBIBYTE, MIN_BLOCK, SMALL_LIMIT, UNLIMITED, round_size, segment_size

_Retire = Callable[[Block], None]


class PendingFrees:
    """The blocks whose free was requested and is not complete.

    Attributes:
        is_empty: Whether there is no such block (a plain attribute, because every malloc reads it).
    """

    __slots__ = ("_captured_uses", "_deferred", "_fences", "_host", "is_empty")

    def __init__(self, host: Host) -> None:
        self._host = host
        self._fences: dict[int, deque[tuple[Fence, Block]]] = {}
        self._deferred: dict[Block, None] = {}
        self._captured_uses: dict[Block, set[int]] = {}
        self.is_empty = True

    def use(self, block: Block, stream: int) -> None:
        """Record that another stream uses a block."""
        if block.uses is None:
            block.uses = {}
        block.uses[stream] = None
        if self._host.is_capturing():
            self._captured_uses.setdefault(block, set()).add(stream)

    def add(self, block: Block) -> None:
        """Request to free a block that other streams used."""
        self.is_empty = False
        if self._host.is_capturing():  # an event recorded now would belong to the graph and could not be queried
            self._deferred[block] = None
        else:
            self._record_fences(block)

    def _record_fences(self, block: Block) -> None:
        uses, block.uses = block.uses or {}, None
        for stream in uses:
            block.num_fences += 1
            self._fences.setdefault(stream, deque()).append((self._host.fence(stream), block))

    def end_deferral(self, retire: _Retire) -> None:
        """If no graph is being captured: record the events that could not be recorded during a capture."""
        if self._host.is_capturing():
            return
        deferred, self._deferred = self._deferred, {}
        for block in deferred:
            captured = self._captured_uses.pop(block, None)
            if captured and block.uses:  # uses inside the capture are ordered by the graph
                block.uses = {stream: None for stream in block.uses if stream not in captured}
            self._record_fences(block)
            if block.num_fences == 0:
                retire(block)

    def process(self, retire: _Retire) -> None:
        """Free the blocks whose events are complete; per stream, events are queried up to the first incomplete one."""
        if self._host.is_capturing():
            return
        self.end_deferral(retire)
        for stream, queue in list(self._fences.items()):
            while queue and queue[0][0].is_done():
                self._complete(queue.popleft()[1], retire)
            if not queue:
                del self._fences[stream]
        self._update_is_empty()

    def synchronize(self, retire: _Retire, pool: PrivatePool | None) -> None:
        """Wait for the events of all pools, or of one private pool, and free their blocks.

        Raises:
            RuntimeError: A graph is being captured (as torch's internal assertion).
        """
        if self._host.is_capturing():
            raise RuntimeError(
                "num_active_captures_ == 0 INTERNAL ASSERT FAILED: the allocator cannot synchronize "
                "while a CUDA graph is being captured; empty the cache after the capture."
            )
        self.end_deferral(retire)
        for stream, queue in list(self._fences.items()):
            kept: deque[tuple[Fence, Block]] = deque()
            for fence, block in queue:
                if pool is not None and block.pool.owner is not pool:
                    kept.append((fence, block))
                    continue
                fence.wait()
                self._complete(block, retire)
            if kept:
                self._fences[stream] = kept
            else:
                del self._fences[stream]
        self._update_is_empty()

    def _complete(self, block: Block, retire: _Retire) -> None:
        block.num_fences -= 1
        if block.num_fences == 0:
            retire(block)

    def _update_is_empty(self) -> None:
        self.is_empty = not self._fences and not self._deferred


_STATE, _ALL = int(StackLevel.STATE), int(StackLevel.ALL)


class Heap:
    """Allocates and frees the blocks of one device.

    Attributes:
        pools: The free blocks.
        reserve: The segments.
        pending: The deferred frees.
    """

    def __init__(self, device: int, state: AllocatorState, reserve: Reserve) -> None:
        self.device, self.reserve = device, reserve
        self.pools = Pools()
        self.pending = PendingFrees(state.host)
        self._state, self._history, self._stats = state, state.history, state.stats
        self._small, self._large = self.pools.small, self.pools.large
        self._all_usage = state.stats.all.usage
        self._usage = {True: state.stats.small.usage, False: state.stats.large.usage}
        self.limit: int | None = None
        self.set_conf(state.conf)

    def set_conf(self, conf: AllocatorConf) -> None:
        """Change the options."""
        self._state.conf = conf
        self._divisions = conf.roundup_power2_divisions if max(conf.roundup_power2_divisions) > 1 else None
        self._expandable, self._max_split = conf.expandable_segments, conf.max_split_size
        self._rounding = conf.max_non_split_rounding
        self._set_collects()

    def set_limit(self, num_bytes: int | None) -> None:
        """Limit the reserved bytes; None for all of the device's memory."""
        self.limit = num_bytes
        self._set_collects()

    def _set_collects(self) -> None:
        self._collects = self.limit is not None and self._state.conf.garbage_collection_threshold > 0.0

    def malloc(self, num_bytes: int, stream: int, stack: object) -> Block:
        """Allocate a block of at least one byte; raises :class:`Exhausted`."""
        stack = frames_of(stack) if self._history.level >= _STATE else None
        if not self.pending.is_empty:
            self.pending.process(lambda block: self._retire(block, stack))
        divisions = self._divisions
        size = (num_bytes + MIN_BLOCK - 1) & -MIN_BLOCK if divisions is None else round_size(num_bytes, divisions)
        if self.pools.routes:
            pool = self.pools.choose(size, stream)
        else:
            pool = self._small if size <= SMALL_LIMIT else self._large
        block = self._take(pool, stream, size, self._expandable)
        expandable = self._expandable
        if block is None:
            block = self._obtain(pool, stream, size, stack)
            expandable = expandable and block.pool is pool
        pool, rest = block.pool, block.size - size
        is_cut = rest >= MIN_BLOCK if pool.is_small or expandable else rest > SMALL_LIMIT and size < self._max_split
        return self.occupy(block, size, num_bytes, is_cut and not pool.no_split, stack)

    def _take(self, pool: BlockPool, stream: int, size: int, expandable: bool) -> Block | None:
        if self._collects:
            pool.num_searches += 1
        return pool.take(stream, size, expandable, self._max_split, self._rounding)

    def occupy(self, block: Block, size: int, num_bytes: int, is_cut: bool, stack: object) -> Block:
        """Allocate a free block that is in no set.

        Args:
            block: The block.
            size: The rounded size.
            num_bytes: The requested size.
            is_cut: Whether to split off the rest beyond `size`.
            stack: The stack frames.
        """
        pool = block.pool
        if is_cut:
            self._split(block, size)
        elif (block.prev is not None or block.next is not None) and not block.segment.page_size:
            self._count_inactive(pool.is_small, -1, -block.size)
        block.is_allocated = True
        block.requested_size = num_bytes
        block.stack = stack
        history = self._history
        if history.is_on or history.listeners:
            self._state.record_block("alloc", block, num_bytes, stack)
        size = block.size
        self._all_usage.take(size, num_bytes)
        self._usage[pool.is_small].take(size, num_bytes)
        if size >= self._max_split:
            self._stats.oversize_allocations.change(1)
        return block

    def _split(self, block: Block, size: int) -> None:
        was_split, pool = block.prev is not None or block.next is not None, block.pool
        rest = block.split(size)
        pool.insert(rest)
        if not block.segment.page_size:  # free parts of expandable segments can be unmapped, so they do not count
            self._count_inactive(pool.is_small, 0 if was_split else 1, -size if was_split else rest.size)

    def _count_inactive(self, small: bool, num_blocks: int, num_bytes: int) -> None:
        self._stats.all.change_split(num_blocks, num_bytes)
        (self._stats.small if small else self._stats.large).change_split(num_blocks, num_bytes)

    def free(self, block: Block, stack: object) -> None:
        """Free a block, now or after the other streams that used it have reached this point."""
        stack = frames_of(stack) if self._history.level >= _ALL else None
        block.is_allocated = False
        size = block.size
        self._all_usage.drop(size)
        self._usage[block.pool.is_small].drop(size)
        history = self._history
        if history.is_on or history.listeners:
            self._state.record_block(
                "free_requested", block, block.requested_size, block.stack if stack is None else stack
            )
        if size >= self._max_split:
            self._stats.oversize_allocations.change(-1)
        if block.uses:
            self.pending.add(block)
        else:
            self._retire(block, stack)

    def _retire(self, block: Block, stack: object) -> None:
        """Add a block to the free blocks, merged with its free neighbours."""
        history = self._history
        requested, size, pool = block.requested_size, block.size, block.pool
        if history.is_on or history.listeners:
            self._state.record_block("free_completed", block, requested, block.stack if stack is None else stack)
        block.stack = None
        if block.prev is not None or block.next is not None:
            block, num_merged = block.merge()
            if not block.segment.page_size:
                if block.is_split:
                    self._count_inactive(pool.is_small, 1 - num_merged, size)
                else:
                    self._count_inactive(pool.is_small, -num_merged, size - block.size)
        pool.insert(block)
        self._all_usage.retire(size, requested)
        self._usage[pool.is_small].retire(size, requested)

    @property
    def level(self) -> StackLevel:
        """For which actions stack frames are recorded."""
        return self._history.level

    def end_deferral(self) -> None:
        """Stop deferring the frees that waited for the end of a graph capture; some still wait for events."""
        self.pending.end_deferral(lambda block: self._retire(block, None))

    def _obtain(self, pool: BlockPool, stream: int, size: int, stack: object) -> Block:
        """Allocate device memory, after freeing cached memory if needed; raises :class:`Exhausted`."""
        wanted = segment_size(size, self._state.conf.large_segment_size)
        if self._collects:
            self._collect_garbage(stack)
        block = self._from_device(pool, stream, size, wanted, stack) or self._from_overflow_pools(pool, stream, size)
        if block is None and self._release_oversize(pool, stream, size, stack):
            block = self._from_device(pool, stream, size, wanted, stack)
        if block is None and not self._state.host.is_capturing():
            self.release_cached(stack, DEFAULT_POOL)
            self._stats.num_alloc_retries += 1
            block = self._from_device(pool, stream, size, wanted, stack)
        if block is None:
            raise self._exhausted(pool, stream, size, wanted, stack)
        return block

    def _from_device(self, pool: BlockPool, stream: int, size: int, wanted: int, stack: object) -> Block | None:
        if self.limit is not None and self.reserve.reserved_bytes + wanted > self.limit:
            return None
        if self._expandable:
            return self.reserve.grow(pool, stream, size, stack)
        return self.reserve.new_segment(pool, stream, wanted, stack)

    def _from_overflow_pools(self, pool: BlockPool, stream: int, size: int) -> Block | None:
        if pool.owner is not None:
            return None
        for private in self.pools.private.values():
            if private.use_on_oom and private.use_count:
                block = self._take(private.small if size <= SMALL_LIMIT else private.large, stream, size, False)
                if block is not None:
                    return block
        return None

    def _collect_garbage(self, stack: object) -> None:
        """Free cached large segments, those of at least average age first, until below the threshold."""
        threshold = int(self._state.conf.garbage_collection_threshold * (self.limit or 0))
        target = self.reserve.reserved_bytes - threshold
        pool = self._large
        candidates = [block for block in pool if not block.is_split]
        total_age, num_left = sum(pool.age(block) for block in candidates), len(candidates)
        candidates = [block for block in candidates if not block.segment.page_size]
        while target > 0 and num_left > 0:
            average = total_age / num_left
            old = [block for block in candidates if pool.age(block) >= average]
            if not old:
                return
            for block in old:
                target -= block.size
                total_age -= pool.age(block)
                num_left -= 1
                candidates.remove(block)
                self.reserve.release(block, stack)

    def _release_oversize(self, pool: BlockPool, stream: int, size: int, stack: object) -> bool:
        """Free unsplit oversize segments of the stream: the smallest large enough, else from the largest down."""
        if self._max_split == UNLIMITED:
            return False
        needed = max(size, self._max_split)
        blocks, i = pool.at_least(stream, needed)
        if i < len(blocks) and not blocks[i].segment.page_size:
            self.reserve.release(blocks[i], stack)
            return True
        released = 0
        for block in reversed(blocks[:i]):
            if released >= needed or block.size < self._max_split:
                break
            if not block.segment.page_size:
                released += block.size
                self.reserve.release(block, stack)
        return released >= needed

    def empty_cache(self, stack: object, pool_id: PoolId) -> None:
        """Free the cached memory; see :meth:`release_cached`."""
        self.release_cached(frames_of(stack) if self._history.level >= _ALL else None, pool_id)

    def release_cached(self, stack: object, pool_id: PoolId) -> None:
        """Free the cached memory of one private pool without holders, or of all such pools and the default pools."""
        if pool_id == DEFAULT_POOL and not self._state.host.is_capturing():
            self._synchronize(stack, None)
            self.reserve.release_free(self._large, stack)
            self.reserve.release_free(self._small, stack)
        for freeable_id, pool in list(self.pools.freeable.items()):
            if pool_id not in (DEFAULT_POOL, freeable_id):
                continue
            if pool_id == freeable_id:
                self._synchronize(stack, pool)
            self.reserve.release_free(pool.small, stack)
            self.reserve.release_free(pool.large, stack)
            if pool.reserved_bytes == 0:
                self.pools.remove(freeable_id)

    def _synchronize(self, stack: object, pool: PrivatePool | None) -> None:
        self._stats.num_sync_all_streams += 1
        self.pending.synchronize(lambda block: self._retire(block, stack), pool)

    def _exhausted(self, pool: BlockPool, stream: int, size: int, wanted: int, stack: object) -> sizes.Exhausted:
        memory, stats = self.reserve.memory, self._stats
        self._state.record("oom", memory.free_bytes, size, stream, pool.pool_id, stack)
        stats.num_ooms += 1
        text = sizes.message(
            device=self.device,
            wanted=wanted,
            total=memory.total_bytes,
            free=memory.free_bytes,
            process=memory.context_bytes + memory.used_bytes,
            allowed=self.limit,
            allocated=self._all_usage.allocated_bytes,
            reserved=self.reserve.reserved_bytes,
            private=sum(
                block.size
                for private in self.pools.private.values()
                for part in (private.small, private.large)
                for block in part
            ),
        )
        limit = memory.total_bytes if self.limit is None else self.limit
        return sizes.Exhausted(text, wanted=wanted, limit=limit, device_free=memory.free_bytes)


def too_large(num_bytes: int) -> bool:
    """Return whether a request exceeds the largest size that torch accepts."""
    return num_bytes >= EXBIBYTE
