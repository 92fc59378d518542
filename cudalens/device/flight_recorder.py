"""torch's FlightRecorder, which keeps the last collectives of this process: is it on, and what does it hold?

All private names of torch.distributed that cudalens uses are here.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

#: Collectives that the recorder keeps if the user has set no number.
NUM_ENTRIES: Final = 2000
_SIZE_VARIABLES: Final = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")


def request_recording() -> None:
    """Set the variable that turns the recorder on; torch reads it when the first process group is created."""
    if not any(os.environ.get(name) for name in _SIZE_VARIABLES):
        os.environ[_SIZE_VARIABLES[0]] = str(NUM_ENTRIES)


def is_initialized() -> bool:
    """Whether this process has a default process group. Does not import torch."""
    distributed = sys.modules.get("torch.distributed")
    return distributed is not None and distributed.is_available() and bool(distributed.is_initialized())


def rank_and_size() -> tuple[int, int]:
    """This process's rank, and the number of ranks."""
    import torch.distributed as distributed

    return distributed.get_rank(), distributed.get_world_size()


def groups() -> dict[str, list[int]]:
    """Ranks of each process group that this process belongs to, by name."""
    from torch.distributed import distributed_c10d as c10d

    return {name: list(c10d.get_process_group_ranks(group)) for group, name in c10d._world.pg_names.items()}


def dump() -> bytes:
    """The recorder's contents with Python stacks, as the pickle that torch writes."""
    dump_trace = _function("_dump_nccl_trace" if _has_nccl() else "_dump_fr_trace")
    return bytes(dump_trace(True, True, False))


def progress() -> bytes:
    """A text that changes when this process enters or leaves a collective."""
    dump_trace = _function("_dump_nccl_trace_json" if _has_nccl() else "_dump_fr_trace_json")
    found = dump_trace(True, True)
    return found.encode() if isinstance(found, str) else bytes(found)


def _has_nccl() -> bool:
    from torch.distributed import distributed_c10d as c10d

    return any("nccl" in str(config) for config in c10d._world.pg_backend_config.values())


def _function(name: str) -> Any:
    import torch

    return getattr(torch._C._distributed_c10d, name)
