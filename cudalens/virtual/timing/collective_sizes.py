"""Times of torch.distributed's collectives, from the arguments of their operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from cudalens.gpus.predict import COLLECTIVES, collective_time
from cudalens.virtual.timing.kernel_sizes import Timed

if TYPE_CHECKING:
    from cudalens.gpus.registry import DeviceSpec

#: Operators of the namespaces c10d and _c10d_functional, without trailing underscores: the collective of each.
_OPERATORS: Final = {
    "_allgather_base": "all_gather",
    "_reduce_scatter_base": "reduce_scatter",
    "all_gather_into_tensor": "all_gather",
    "all_gather_into_tensor_coalesced": "all_gather",
    "all_reduce": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "all_to_all_single": "all_to_all",
    "allgather": "all_gather",
    "allgather_into_tensor_coalesced": "all_gather",
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
}
_NAMESPACES: Final = ("c10d", "_c10d_functional")


def collective_ns(spec: DeviceSpec, func: torch._ops.OpOverload, args: Sequence[Any], out: Any) -> Timed | None:
    """Time of a collective on GPUs of one node; None for other operators and for groups of one process."""
    namespace, _, name = func._schema.name.partition("::")
    op = _OPERATORS.get(name.rstrip("_")) if namespace in _NAMESPACES else None
    num_gpus = _group_size(func, args) if op is not None else 1
    if op is None or num_gpus < 2:
        return None
    # The larger side is the message: the output of all_gather, the input of reduce_scatter.
    message_bytes = max(sum(tensor.nbytes for tensor in _tensors((value,))) for value in (*args, out))
    return Timed(collective_time(spec, op, num_gpus, message_bytes), COLLECTIVES[op])


def _group_size(func: torch._ops.OpOverload, args: Sequence[Any]) -> int:
    """The number of processes of the operator's group."""
    group_type = torch.distributed.ProcessGroup
    for argument, value in zip(func._schema.arguments, args, strict=False):
        if argument.name == "process_group":
            return int(group_type.unbox(value).size())
        if argument.name == "group_name":
            resolve: Any = getattr(torch.distributed.distributed_c10d, "_resolve_process_group")  # noqa: B009
            return int((resolve(value) if isinstance(value, str) else value).size())
    return 1


def _tensors(values: Sequence[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
