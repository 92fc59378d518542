"""Route requests to memory pools: the default pools, or a private pool of a graph or a MemPool."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cudalens.virtual.allocator.block_pools import BlockPool, PrivatePool
from cudalens.virtual.allocator.interfaces import PoolId
from cudalens.virtual.allocator.sizes import SMALL_LIMIT

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
