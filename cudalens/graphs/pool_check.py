"""Finds memory of a pool that belongs to no output: the next recording could overwrite it."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from cudalens.errors import GraphError
from cudalens.graphs.liveness import OutputRef

if TYPE_CHECKING:
    from cudalens.device.graph_backend import Allocation, GraphBackend, PoolId


def check_pool(backend: GraphBackend, pool: PoolId, device: int, live: Sequence[OutputRef]) -> None:
    """Compare the allocated blocks of a pool with the outputs that are alive.

    Raises:
        GraphError: They differ; the message says which memory, and where it was allocated.
    """
    addresses = {ref.address for ref in live}
    if backend.has_live(pool, device, addresses):
        return
    gc.collect()
    torch.cuda.synchronize()
    found = {allocation.address: allocation for allocation in backend.live_allocations(pool, device)}
    if missing := addresses - found.keys():
        raise GraphError(f"outputs at {_listed(missing)} are in use, and the pool {pool} has them free.")
    if extra := [found[address] for address in sorted(found.keys() - addresses)]:
        raise GraphError(
            f"{len(extra)} blocks of the graph pool {pool} are in use and no output of a recording: the program keeps "
            f"a tensor that a graphed function made. Return it, or make it outside.\n"
            + "\n".join(map(_described, extra))
        )


def _described(allocation: Allocation) -> str:
    lines = [f"  {allocation.num_bytes} bytes at {allocation.address:#x}, allocated at"]
    lines += [f"    {file}:{line} in {function}" for file, line, function in allocation.stack]
    hint = "    (unknown: switch on torch.cuda.memory._record_memory_history() before)"
    return "\n".join(lines if allocation.stack else [*lines, hint])


def _listed(addresses: set[int]) -> str:
    return ", ".join(f"{address:#x}" for address in sorted(addresses))
