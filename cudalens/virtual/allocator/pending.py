"""Deferred frees: they wait for events on other streams that used the block, or for the end of a graph capture."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from cudalens.virtual.allocator.block_pools import Block, PrivatePool
from cudalens.virtual.allocator.interfaces import Fence, Host

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
