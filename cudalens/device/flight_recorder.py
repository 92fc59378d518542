"""torch's FlightRecorder, which keeps the last collectives of this process: is it on, and what does it hold?

All private names of torch.distributed that cudalens uses are here.
"""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Any, Final

#: Collectives that the recorder keeps if the user has set no number.
NUM_ENTRIES: Final = 2000
#: Functions that wait for another rank, and their arguments that state it; with ``group_`` its number in the group.
_TRANSFERS: Final = {"send": "dst", "recv": "src"}
_SIZE_VARIABLES: Final = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")


def request_recording() -> None:
    """Set the variable that turns the recorder on; torch reads it when the first process group is created."""
    if not any(os.environ.get(name) for name in _SIZE_VARIABLES):
        os.environ[_SIZE_VARIABLES[0]] = str(NUM_ENTRIES)


def is_initialized() -> bool:
    """Return whether this process has a default process group. Does not import torch."""
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
    """Return the recorder's contents with Python stacks, as the pickle that torch writes."""
    dump_trace = _function("_dump_nccl_trace" if _has_nccl() else "_dump_fr_trace")
    return bytes(dump_trace(True, True, False))


def transfer_in(frame: FrameType | None) -> dict[str, Any] | None:
    """The send or receive in which a thread is: ``op``, ``group``, ``src``, ``dst`` (ranks of the job); None for none.

    gloo's recorder has no sends and receives. The arguments are read from the frame of ``torch.distributed.send`` or
    ``recv``; those of a work that was started before and is waited for are not known.

    Args:
        frame: The innermost frame of the thread.
    """
    from torch.distributed import distributed_c10d as c10d

    while frame is not None and not (frame.f_code.co_filename == c10d.__file__ and frame.f_code.co_name in _TRANSFERS):
        frame = frame.f_back
    if frame is None:
        return None
    op, values = frame.f_code.co_name, frame.f_locals
    name = _TRANSFERS[op]
    group: Any = values.get("group") or c10d._world.default_pg
    other, in_group = values.get(name), values.get(f"group_{name}")
    if isinstance(in_group, int):
        other = c10d.get_global_rank(group, in_group)
    if not isinstance(other, int):
        return None
    src, dst = (c10d.get_rank(), other) if op == "send" else (other, c10d.get_rank())
    return {"op": op, "group": c10d._world.pg_names[group], "src": src, "dst": dst}


def progress() -> bytes:
    """Return a text that changes when this process enters or leaves a collective."""
    dump_trace = _function("_dump_nccl_trace_json" if _has_nccl() else "_dump_fr_trace_json")
    found = dump_trace(True, True)
    return found.encode() if isinstance(found, str) else bytes(found)


def _has_nccl() -> bool:
    from torch.distributed import distributed_c10d as c10d

    return any("nccl" in str(config) for config in c10d._world.pg_backend_config.values())


def _function(name: str) -> Any:
    import torch

    return getattr(torch._C._distributed_c10d, name)
