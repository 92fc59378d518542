"""The caching allocator of one virtual device: PyTorch's ``native`` backend, to the byte.

What it follows: ``c10/cuda/CUDACachingAllocator.cpp`` of torch 2.13 (captures and MemPool scopes are told apart, memory
pools may overflow before cached memory is freed). Numbers, addresses and actions depend on the program alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import RLock

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.allocator.blocks import Block, BlockPool, Segment
from cudalens.virtual.allocator.checkpoint import PoolState, Restored, checkpoint, restore
from cudalens.virtual.allocator.conf import AllocatorConf
from cudalens.virtual.allocator.heap import Heap, too_large
from cudalens.virtual.allocator.history import History
from cudalens.virtual.allocator.interfaces import DEFAULT_POOL, Action, Host, PoolId
from cudalens.virtual.allocator.oom import Exhausted
from cudalens.virtual.allocator.pools import Accepts
from cudalens.virtual.allocator.reserve import Reserve
from cudalens.virtual.allocator.snapshot import segment_records, settings_record
from cudalens.virtual.allocator.space import AddressSpace, Memory
from cudalens.virtual.allocator.state import Books

_BASE_ADDRESS = 0x7F00_0000_0000
_DEVICE_SPAN = 1 << 42  # an expandable segment alone reserves 9/8 of the memory, per stream and pool

OutOfMemoryObserver = Callable[[int, int, int, int], None]


class CachingAllocator:
    """The allocator of one device.

    It may be called from several threads, and ``free`` also from a finalizer that runs while another call is at work in
    the same thread: such a free is done when that call ends.

    Attributes:
        device: The device's index.
        listeners: Called with every :class:`Action`; they must not call the allocator.
        out_of_memory_observers: Called before an out-of-memory error is raised, with the device, the bytes asked of
            cudaMalloc, the bytes that the process may have, and the bytes that the device has left.
    """

    def __init__(
        self,
        device: int,
        total_bytes: int,
        host: Host,
        *,
        conf: AllocatorConf | None = None,
        context_bytes: int = 0,
        out_of_memory: type[Exception] = MemoryError,
        space: AddressSpace | None = None,
    ) -> None:
        """An allocator that holds nothing.

        Args:
            device: The device's index.
            total_bytes: The device's memory.
            host: The machine around.
            conf: The options; None for torch's defaults.
            context_bytes: What the driver's context takes of the device's memory.
            out_of_memory: Raised with torch's message where torch raises OutOfMemoryError.
            space: Where segments get their addresses; None for the lowest gap in a place of its own per device.
        """
        self.device, self._out_of_memory = device, out_of_memory
        conf = AllocatorConf() if conf is None else conf
        self._books = Books(host, conf)
        if space is None:
            space = AddressSpace(_BASE_ADDRESS - device * _DEVICE_SPAN)
        self._reserve = Reserve(self._books, Memory(total_bytes, context_bytes), space)
        self._heap = Heap(device, self._books, self._reserve)
        self._null = Block(0, 0, 0, Segment(0, 0, 0), BlockPool(is_small=True))
        self._lock, self._is_busy, self._late_frees = RLock(), False, list[tuple[Block, object]]()
        self.out_of_memory_observers: list[OutOfMemoryObserver] = []
        self.set_memory_fraction(conf.per_process_memory_fraction)

    @property
    def listeners(self) -> list[Callable[[Action], None]]:
        """Called with every action."""
        return self._history.listeners

    @property
    def _history(self) -> History:
        return self._books.history

    @property
    def conf(self) -> AllocatorConf:
        """The options in force."""
        return self._books.conf

    def set_conf(self, conf: AllocatorConf) -> None:
        """Take other options from now on (:func:`parse_conf` with ``previous``)."""
        self._run(lambda: self._heap.use(conf))

    def _run(self, work: Callable[[], object]) -> None:
        """Do something alone, then the frees that finalizers asked for meanwhile."""
        with self._lock:
            self._enter()
            try:
                work()
            finally:
                self._leave()

    def _enter(self) -> None:
        if self._is_busy:
            raise VirtualDeviceError(
                f"device {self.device}: the allocator was called from a finalizer, a listener or the machine "
                "while it was at work in the same thread; only free() may be."
            )
        self._is_busy = True

    def _leave(self) -> None:
        while self._late_frees:
            block, stack = self._late_frees.pop(0)
            self._heap.free(block, stack)
        self._is_busy = False

    def malloc(self, num_bytes: int, stream: int, *, stack: object = None) -> Block:
        """Hand out a block.

        Args:
            num_bytes: How much; for 0 there is one null block (address 0), which ``free`` passes over.
            stream: The handle of the stream whose work will use it first.
            stack: The stack frames (``[{"filename", "line", "name"}]``) or what returns them; looked at only while
                history with context is recorded.

        Raises:
            Exception: ``out_of_memory`` with torch's message, when nothing more can be freed.
        """
        if num_bytes == 0:
            return self._null
        if too_large(num_bytes):
            raise self._out_of_memory("CUDA out of memory. Tried to allocate more than 1EB memory.")
        try:
            with self._lock:
                if self._is_busy:
                    self._enter()
                self._is_busy = True
                try:
                    return self._heap.malloc(num_bytes, stream, stack)
                finally:
                    if self._late_frees:
                        self._leave()
                    self._is_busy = False
        except Exhausted as exhausted:
            failure = exhausted
        for observer in tuple(self.out_of_memory_observers):
            observer(self.device, failure.wanted, failure.limit, failure.device_free)
        raise self._out_of_memory(failure.message)

    def free(self, block: Block, *, stack: object = None) -> None:
        """Take a block back. Other streams that used it (:meth:`record_stream`) delay its reuse, not this call.

        Raises:
            RuntimeError: The block is not handed out (torch's words).
        """
        if not block.is_allocated:
            if block is self._null:
                return
            block = self._present(block)
        with self._lock:
            if self._is_busy:
                self._late_frees.append((block, stack))
                return
            self._is_busy = True
            try:
                self._heap.free(block, stack)
            finally:
                if self._late_frees:
                    self._leave()
                self._is_busy = False

    def _present(self, block: Block) -> Block:
        """What is handed out at a block's address now: bringing a pool's state back may have cut its segment anew.

        Raises:
            RuntimeError: Nothing is (torch's words).
        """
        found = self.find_block(block.address)
        if found is None:
            raise RuntimeError(f"invalid device pointer: {block.address:#x}")
        return found

    def record_stream(self, block: Block, stream: int) -> None:
        """Another stream uses the block: once freed it is reused only when that stream has passed the free."""
        if block is self._null or stream == block.stream:
            return
        with self._lock:
            self._heap.pending.use(block if block.is_allocated else self._present(block), stream)

    def empty_cache(self, pool_id: PoolId | None = None, *, stack: object = None) -> None:
        """Give the device what is free.

        Args:
            pool_id: Only what is free in this memory pool, if nobody holds it; None for the default pools and all
                private ones that nobody holds.
            stack: As for :meth:`malloc`.
        """
        self._run(lambda: self._heap.empty_cache(stack, DEFAULT_POOL if pool_id is None else pool_id))

    # -- counters ------------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, object]:
        """As ``torch._C._cuda_memoryStats``; ``reserved_bytes_by_private_pools`` is of torch 2.12 and later."""
        with self._lock:
            return self._books.stats.as_dict()

    def reset_peak_stats(self) -> None:
        """As ``torch.cuda.reset_peak_memory_stats``."""
        with self._lock:
            self._books.stats.reset_peak()

    def reset_accumulated_stats(self) -> None:
        """As ``torch.cuda.reset_accumulated_memory_stats``."""
        with self._lock:
            self._books.stats.reset_accumulated()

    @property
    def allocated_bytes(self) -> int:
        """What is handed out now."""
        return self._books.stats.all.usage.allocated_bytes

    @property
    def reserved_bytes(self) -> int:
        """What the allocator holds now."""
        return self._reserve.reserved_bytes

    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes of the device, as cudaMemGetInfo."""
        return self._reserve.memory.free_bytes, self._reserve.memory.total_bytes

    @property
    def memory_fraction(self) -> float:
        """Which share of the device's memory may be reserved."""
        limit = self._heap.limit
        return 1.0 if limit is None else limit / self._reserve.memory.total_bytes

    def set_memory_fraction(self, fraction: float) -> None:
        """Reserve at most this share of the device's memory.

        Raises:
            RuntimeError: It is not within 0 and 1 (torch's words).
        """
        if not 0 <= fraction <= 1:
            raise RuntimeError(f"invalid fraction:{fraction:g}. Please set within [0, 1].")
        with self._lock:
            self._heap.set_limit(int(fraction * self._reserve.memory.total_bytes) if fraction < 1.0 else None)

    # -- history and snapshot ------------------------------------------------------------------------------------------

    def record_history(
        self,
        enabled: str | None = "all",
        context: str | None = "all",
        stacks: str = "all",
        max_entries: int = 2**63 - 1,
        *,
        clear_history: bool = False,
        skip_actions: Iterable[str] = (),
    ) -> None:
        """As ``torch._C._cuda_record_memory_history``.

        Args:
            enabled: "all" keeps actions, "state" only the last one, None none (and forgets).
            context: For what stack frames are gathered: "all", "alloc" (all but frees), "state" (what is allocated
                now), None.
            stacks: "python" or "all"; who gives the stacks decides what is in them.
            max_entries: How many actions are kept at most, the last ones.
            clear_history: Forget what was kept so far.
            skip_actions: Kinds that are not kept.

        Raises:
            RuntimeError: A word is not allowed (torch's words).
        """
        with self._lock:
            self._history.switch(
                enabled, context, stacks, max_entries, clear_history=clear_history, skip_actions=skip_actions
            )

    @property
    def is_recording(self) -> bool:
        """Whether history is kept (``torch._C._cuda_isHistoryEnabled``)."""
        return self._history.is_on

    @property
    def user_metadata(self) -> str:
        """Kept with every action from now on (``torch.cuda.memory._set_memory_metadata``)."""
        return self._history.user_metadata

    @user_metadata.setter
    def user_metadata(self, text: str) -> None:
        self._history.user_metadata = text

    def snapshot(self, include_traces: bool = True, *, pool_id: PoolId | None = None) -> dict[str, object]:
        """This device's part of a snapshot: ``segments``, ``trace`` and ``allocator_settings``.

        :func:`combine` joins devices to the whole. The history gets a "snapshot" entry, which is in the next
        snapshot's trace, as with torch.
        """
        with self._lock:
            trace = self._history.entries() if include_traces else []
            wanted = None if pool_id in (None, DEFAULT_POOL) else pool_id
            segments = list(segment_records(self._reserve.segments.values(), self.device, wanted))
            active = sum(int(str(segment["active_size"])) for segment in segments)
            self._books.record("snapshot", 0, active, 0, pool_id or DEFAULT_POOL, None)
        return {"segments": segments, "trace": trace, "allocator_settings": settings_record(self.conf)}

    # -- private pools -------------------------------------------------------------------------------------------------

    def create_or_hold_pool(self, pool_id: PoolId, *, use_on_oom: bool = False, no_split: bool = False) -> None:
        """Make a private pool, or hold it once more (``torch.cuda.MemPool``).

        Args:
            pool_id: Its id, not (0, 0).
            use_on_oom: Other requests may take its free blocks rather than fail.
            no_split: Its segments are not split.
        """
        with self._lock:
            pool = self._heap.pools.hold(pool_id)
            pool.use_on_oom = pool.use_on_oom or use_on_oom
            for part in (pool.small, pool.large):
                part.no_split = part.no_split or no_split

    def begin_allocate_to_pool(self, pool_id: PoolId, accepts: Accepts) -> None:
        """Send requests to a private pool from now on, and hold it.

        Args:
            pool_id: Its id; it is made where there is none.
            accepts: Whether a request on this stream is meant (asked anew each time: it may look at the thread too).

        Raises:
            RuntimeError: It is switched on already, or everybody had let go of it (torch's words).
        """
        with self._lock:
            self._heap.pools.switch_on(pool_id, accepts)

    def end_allocate_to_pool(self, pool_id: PoolId) -> None:
        """Send it no more requests; it stays held until :meth:`release_pool`.

        Raises:
            RuntimeError: It is not switched on (torch's words).
        """
        with self._lock:
            self._heap.pools.switch_off(pool_id)

    def serve_graphs(self, pool_id: PoolId) -> None:
        """A graph capture uses a private pool from now on."""
        self._heap.pools.find(pool_id).serves_graphs = True

    def checkpoint_pool(self, pool_id: PoolId) -> PoolState:
        """The state of a private pool (``torch._C._cuda_getCheckpointState``).

        Raises:
            RuntimeError: It cannot be told (:func:`checkpoint.checkpoint`).
        """
        with self._lock:
            return checkpoint(self._heap, pool_id)

    def restore_pool(self, state: PoolState, *, stack: object = None) -> Restored:
        """Bring a private pool back to a state (``setCheckpointPoolState``); `stack` as for :meth:`malloc`.

        Raises:
            RuntimeError: It cannot be done (:func:`checkpoint.restore`).
        """
        done: list[Restored] = []
        self._run(lambda: done.append(restore(self._heap, state, stack)))
        return done[0]

    def release_pool(self, pool_id: PoolId) -> None:
        """Hold a private pool once less; when nobody does, :meth:`empty_cache` may give its memory back."""
        with self._lock:
            self._heap.pools.let_go(pool_id)

    def pool_use_count(self, pool_id: PoolId) -> int:
        """How many hold it."""
        return self._heap.pools.find(pool_id).use_count

    def pool_ids(self) -> list[PoolId]:
        """The private pools that are held or still have memory."""
        return list(self._heap.pools.private)

    def pool_bytes(self, pool_id: PoolId) -> tuple[int, int]:
        """What a private pool holds, and what of it is handed out, bytes; nothing where there is no such pool."""
        pool = self._heap.pools.private.get(pool_id)
        reserved = 0 if pool is None else pool.reserved_bytes
        return reserved, sum(block.size for block in self.live_blocks(pool_id))

    def find_segment(self, address: int) -> Segment | None:
        """The segment that has the address."""
        for segment in self._reserve.segments.values():
            if 0 <= address - segment.address < segment.size:
                return segment
        return None

    def find_block(self, address: int) -> Block | None:
        """The block that is handed out and begins at the address."""
        segment = self.find_segment(address)
        blocks = () if segment is None else segment.blocks()
        return next((block for block in blocks if block.address == address and block.is_allocated), None)

    def live_blocks(self, pool_id: PoolId | None = None) -> list[Block]:
        """The blocks handed out, ascending by address; of one memory pool, or of all for None."""
        with self._lock:
            segments = sorted(self._reserve.segments.values(), key=lambda segment: segment.address)
            blocks = [block for segment in segments for block in segment.blocks() if block.is_allocated]
        return [block for block in blocks if pool_id in (None, block.pool_id)]
