"""The caching allocator of one virtual device: PyTorch's ``native`` backend, with equal sizes and addresses.

The model is ``c10/cuda/CUDACachingAllocator.cpp`` of torch 2.13 (captures and MemPool scopes are separate, memory pools
may overflow before cached memory is freed). Numbers, addresses and actions depend only on the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import RLock

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.allocator.block_pools import Accepts, Block, BlockPool, Segment
from cudalens.virtual.allocator.checkpoint import PoolState, Restored, checkpoint, restore
from cudalens.virtual.allocator.conf import DEFAULT_POOL, Action, AllocatorConf, Host, PoolId
from cudalens.virtual.allocator.heap import Heap, too_large
from cudalens.virtual.allocator.history import History, StackLevel, frames_of
from cudalens.virtual.allocator.reserve import AddressSpace, AllocatorState, Memory, Reserve
from cudalens.virtual.allocator.sizes import Exhausted
from cudalens.virtual.allocator.snapshot import segment_records, settings_record

_BASE_ADDRESS = 0x7F00_0000_0000
_DEVICE_SPAN = 1 << 42  # one expandable segment reserves 9/8 of the memory, per stream and pool

OutOfMemoryObserver = Callable[[int, int, int, int], None]


class CachingAllocator:
    """The allocator of one device.

    It may be called from several threads. ``free`` may also be called from a finalizer that runs during another call of
    the same thread: the block is then freed at the end of that call.

    Attributes:
        device: The device's index.
        listeners: Called with every :class:`Action`; they must not call the allocator.
        out_of_memory_observers: Called before an out-of-memory error is raised, with the device, the bytes passed to
            cudaMalloc, the bytes that the process may reserve, and the free bytes of the device.
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
        """Create an allocator without memory.

        Args:
            device: The device's index.
            total_bytes: The device's memory.
            host: The virtual device.
            conf: The options; None for torch's defaults.
            context_bytes: Device memory used by the CUDA context.
            out_of_memory: The exception class for torch.OutOfMemoryError.
            space: Allocates the addresses of segments; None for the lowest gap in a range of addresses per device.
        """
        self.device, self._out_of_memory = device, out_of_memory
        conf = AllocatorConf() if conf is None else conf
        self._state = AllocatorState(host, conf)
        if space is None:
            space = AddressSpace(_BASE_ADDRESS - device * _DEVICE_SPAN)
        self._reserve = Reserve(self._state, Memory(total_bytes, context_bytes), space)
        self._heap = Heap(device, self._state, self._reserve)
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
        return self._state.history

    @property
    def conf(self) -> AllocatorConf:
        """The current options."""
        return self._state.conf

    def set_conf(self, conf: AllocatorConf) -> None:
        """Change the options (:func:`parse_conf` with ``previous``)."""
        self._run(lambda: self._heap.set_conf(conf))

    def _run(self, work: Callable[[], object]) -> None:
        """Run a function exclusively, then the frees that finalizers requested during it."""
        with self._lock:
            self._enter()
            try:
                work()
            finally:
                self._leave()

    def _enter(self) -> None:
        if self._is_busy:
            raise VirtualDeviceError(
                f"device {self.device}: a finalizer, a listener or the virtual device called the allocator during "
                "another call of the same thread; only free() is allowed there."
            )
        self._is_busy = True

    def _leave(self) -> None:
        while self._late_frees:
            block, stack = self._late_frees.pop(0)
            self._heap.free(block, stack)
        self._is_busy = False

    def malloc(self, num_bytes: int, stream: int, *, stack: object = None) -> Block:
        """Allocate a block.

        Args:
            num_bytes: The size; for 0 the result is the null block (address 0), which ``free`` ignores.
            stream: The handle of the stream that uses it first.
            stack: The stack frames (``[{"filename", "line", "name"}]``) or a function that returns them; used only
                while the history records stack frames.

        Raises:
            Exception: ``out_of_memory`` with torch's message, if nothing more can be freed.
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
        """Free a block. Other streams that used it (:meth:`record_stream`) delay its reuse, not this call.

        Raises:
            RuntimeError: The block is not allocated (torch's message).
        """
        if not block.is_allocated:
            if block is self._null:
                return
            block = self._current_block(block)
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

    def _current_block(self, block: Block) -> Block:
        """The block that is now allocated at the address of a block: restoring a pool may have replaced the object.

        Raises:
            RuntimeError: No block is (torch's message).
        """
        found = self.find_block(block.address)
        if found is None:
            raise RuntimeError(f"invalid device pointer: {block.address:#x}")
        return found

    def record_stream(self, block: Block, stream: int) -> None:
        """Record that another stream uses the block: it is reused only after that stream has reached the free."""
        if block is self._null or stream == block.stream:
            return
        with self._lock:
            self._heap.pending.use(block if block.is_allocated else self._current_block(block), stream)

    def empty_cache(self, pool_id: PoolId | None = None, *, stack: object = None) -> None:
        """Free the cached memory.

        Args:
            pool_id: Only this memory pool, if it is not held; None for the default pools and all private pools that are
                not held.
            stack: As for :meth:`malloc`.
        """
        self._run(lambda: self._heap.empty_cache(stack, DEFAULT_POOL if pool_id is None else pool_id))

    # -- counters ------------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, object]:
        """As ``torch._C._cuda_memoryStats``; ``reserved_bytes_by_private_pools`` is of torch 2.12 and later."""
        with self._lock:
            return self._state.stats.as_dict()

    def reset_peak_stats(self) -> None:
        """As ``torch.cuda.reset_peak_memory_stats``."""
        with self._lock:
            self._state.stats.reset_peak()

    def reset_accumulated_stats(self) -> None:
        """As ``torch.cuda.reset_accumulated_memory_stats``."""
        with self._lock:
            self._state.stats.reset_accumulated()

    @property
    def allocated_bytes(self) -> int:
        """The allocated bytes."""
        return self._state.stats.all.usage.allocated_bytes

    @property
    def reserved_bytes(self) -> int:
        """The reserved bytes."""
        return self._reserve.reserved_bytes

    def memory_info(self) -> tuple[int, int]:
        """Return the free and the total bytes of the device, as cudaMemGetInfo returns them."""
        return self._reserve.memory.free_bytes, self._reserve.memory.total_bytes

    @property
    def memory_fraction(self) -> float:
        """The fraction of the device's memory that may be reserved."""
        limit = self._heap.limit
        return 1.0 if limit is None else limit / self._reserve.memory.total_bytes

    def set_memory_fraction(self, fraction: float) -> None:
        """Limit the reserved memory to a fraction of the device's memory.

        Raises:
            RuntimeError: The fraction is not between 0 and 1 (torch's message).
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
            enabled: "all" records actions, "state" only the last one, None records none and clears the history.
            context: For which actions stack frames are recorded: "all", "alloc" (all but frees), "state" (allocated
                blocks), None.
            stacks: "python" or "all"; the caller decides which frames a stack contains.
            max_entries: The number of actions kept; older ones are dropped.
            clear_history: Clear the history first.
            skip_actions: Kinds of actions that are not recorded.

        Raises:
            RuntimeError: A value is not allowed (torch's message).
        """
        with self._lock:
            self._history.configure(
                enabled, context, stacks, max_entries, clear_history=clear_history, skip_actions=skip_actions
            )

    @property
    def is_recording(self) -> bool:
        """Whether the history is on (``torch._C._cuda_isHistoryEnabled``)."""
        return self._history.is_on

    @property
    def user_metadata(self) -> str:
        """Stored with every following action (``torch.cuda.memory._set_memory_metadata``)."""
        return self._history.user_metadata

    @user_metadata.setter
    def user_metadata(self, text: str) -> None:
        self._history.user_metadata = text

    def annotate(self, address: int, text: str, *, stack: object) -> None:
        """Add a text about the allocated block at an address to the history, as ``torch._C._cuda_annotateMemory``."""
        with self._lock:
            block, history = self.find_block(address), self._history
            if block is not None:
                frames = frames_of(stack) if history.level >= StackLevel.ALLOC else None
                when, pool_id = self._state.host.now_us(), block.pool.pool_id
                history.keep(
                    Action("annotate", address, block.requested_size, block.stream, when, pool_id, frames), text
                )

    def snapshot(self, include_traces: bool = True, *, pool_id: PoolId | None = None) -> dict[str, object]:
        """This device's part of a snapshot: ``segments``, ``trace`` and ``allocator_settings``.

        :func:`combine` merges the devices. The history gets a "snapshot" entry, which appears in the trace of the next
        snapshot, as in PyTorch.
        """
        with self._lock:
            trace = self._history.entries() if include_traces else []
            wanted = None if pool_id in (None, DEFAULT_POOL) else pool_id
            segments = list(segment_records(self._reserve.segments.values(), self.device, wanted))
            active = sum(int(str(segment["active_size"])) for segment in segments)
            self._state.record("snapshot", 0, active, 0, pool_id or DEFAULT_POOL, None)
        return {"segments": segments, "trace": trace, "allocator_settings": settings_record(self.conf)}

    # -- private pools -------------------------------------------------------------------------------------------------

    def create_or_hold_pool(self, pool_id: PoolId, *, use_on_oom: bool = False, no_split: bool = False) -> None:
        """Create a private pool, or add one holder (``torch.cuda.MemPool``).

        Args:
            pool_id: The id; not (0, 0).
            use_on_oom: Whether other requests may use its free blocks instead of failing.
            no_split: Whether its segments are never split.
        """
        with self._lock:
            pool = self._heap.pools.hold(pool_id)
            pool.use_on_oom = pool.use_on_oom or use_on_oom
            for part in (pool.small, pool.large):
                part.no_split = part.no_split or no_split

    def begin_allocate_to_pool(self, pool_id: PoolId, accepts: Accepts) -> None:
        """Route requests to a private pool, and hold it.

        Args:
            pool_id: The id; the pool is created if it does not exist.
            accepts: Returns whether a request on a stream is routed; called for every request, so it may check the
                thread.

        Raises:
            RuntimeError: The pool is already routed to, or all its holders have released it (torch's message).
        """
        with self._lock:
            self._heap.pools.add_route(pool_id, accepts)

    def end_allocate_to_pool(self, pool_id: PoolId) -> None:
        """Stop routing requests to a private pool; it is held until :meth:`release_pool`.

        Raises:
            RuntimeError: No requests are routed to it (torch's message).
        """
        with self._lock:
            self._heap.pools.remove_route(pool_id)

    def serve_graphs(self, pool_id: PoolId) -> None:
        """Mark a private pool as used by a graph capture."""
        self._heap.pools.find(pool_id).serves_graphs = True

    def checkpoint_pool(self, pool_id: PoolId) -> PoolState:
        """Return the state of a private pool (``torch._C._cuda_getCheckpointState``).

        Raises:
            RuntimeError: The state is not available (:func:`checkpoint.checkpoint`).
        """
        with self._lock:
            return checkpoint(self._heap, pool_id)

    def restore_pool(self, state: PoolState, *, stack: object = None) -> Restored:
        """Restore the state of a private pool (``setCheckpointPoolState``); `stack` as for :meth:`malloc`.

        Raises:
            RuntimeError: The state cannot be restored (:func:`checkpoint.restore`).
        """
        done: list[Restored] = []
        self._run(lambda: done.append(restore(self._heap, state, stack)))
        return done[0]

    def release_pool(self, pool_id: PoolId) -> None:
        """Remove one holder of a private pool; without holders, :meth:`empty_cache` can free its memory."""
        with self._lock:
            self._heap.pools.release(pool_id)

    def pool_use_count(self, pool_id: PoolId) -> int:
        """Return the number of holders of a private pool."""
        return self._heap.pools.find(pool_id).use_count

    def pool_ids(self) -> list[PoolId]:
        """Return the ids of the private pools that are held or have memory."""
        return list(self._heap.pools.private)

    def pool_bytes(self, pool_id: PoolId) -> tuple[int, int]:
        """Return the reserved and the allocated bytes of a private pool; 0 if there is no such pool."""
        pool = self._heap.pools.private.get(pool_id)
        reserved = 0 if pool is None else pool.reserved_bytes
        return reserved, sum(block.size for block in self.live_blocks(pool_id))

    def pool_segments(self, pool_id: PoolId) -> list[tuple[int, int]]:
        """Return the first address and the bytes of physical memory of each segment of a private pool."""
        with self._lock:
            known = [one for one in self._reserve.segments.values() if one.head.pool_id == pool_id]
        return sorted((segment.address, segment.mapped_bytes) for segment in known)

    def find_segment(self, address: int) -> Segment | None:
        """Return the segment that contains an address, or None if there is none."""
        for segment in self._reserve.segments.values():
            if 0 <= address - segment.address < segment.size:
                return segment
        return None

    def find_block(self, address: int) -> Block | None:
        """Return the allocated block that begins at an address, or None if there is none."""
        segment = self.find_segment(address)
        blocks = () if segment is None else segment.blocks()
        return next((block for block in blocks if block.address == address and block.is_allocated), None)

    def live_blocks(self, pool_id: PoolId | None = None) -> list[Block]:
        """Return the allocated blocks in address order; of one memory pool, or of all for None."""
        with self._lock:
            segments = sorted(self._reserve.segments.values(), key=lambda segment: segment.address)
            blocks = [block for segment in segments for block in segment.blocks() if block.is_allocated]
        return [block for block in blocks if pool_id in (None, block.pool_id)]
