"""A model of PyTorch's caching allocator for CUDA memory: bookkeeping only, without memory and without torch.

`CachingAllocator(device, total_bytes, host)` has `malloc(num_bytes, stream)` and `free(block)`.
The same program of mallocs, frees and stream uses produces the same counters, segments and actions as in PyTorch.
"""

from __future__ import annotations

from cudalens.virtual.allocator.block_pools import Block, Segment
from cudalens.virtual.allocator.caching import CachingAllocator
from cudalens.virtual.allocator.checkpoint import PoolState
from cudalens.virtual.allocator.conf import (
    DEFAULT_POOL,
    Action,
    AllocatorConf,
    Fence,
    Host,
    PoolId,
    conf_from_environment,
    parse_conf,
)
from cudalens.virtual.allocator.reserve import AddressSpace
from cudalens.virtual.allocator.snapshot import combine

__all__ = [
    "DEFAULT_POOL",
    "Action",
    "AddressSpace",
    "AllocatorConf",
    "Block",
    "CachingAllocator",
    "Fence",
    "Host",
    "PoolId",
    "PoolState",
    "Segment",
    "combine",
    "conf_from_environment",
    "parse_conf",
]
