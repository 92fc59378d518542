"""State that the parts of one caching allocator share: options, counters, history and host."""

from __future__ import annotations

from cudalens.virtual.allocator.block_pools import Block
from cudalens.virtual.allocator.conf import AllocatorConf
from cudalens.virtual.allocator.history import History
from cudalens.virtual.allocator.interfaces import Host, PoolId
from cudalens.virtual.allocator.stats import PoolCounters, Stats


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
