"""The collectives of torch.distributed: their operators, and the methods of a process group that call them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator that communicates.

    Attributes:
        kind: A name in torch.distributed; "send" and "recv" between two ranks.
        methods: Methods of a process group that call it; an operator of _c10d_functional has none.
        reads_in_place: Whether NCCL's kernel reads the tensors that the rank gives; for the others torch copies them.
        writes_in_place: Whether NCCL's kernel writes the tensors that the rank gets.
        averages_on_gloo: Whether gloo computes a mean of floating-point numbers.
    """

    kind: str
    methods: tuple[str, ...] = ()
    reads_in_place: bool = False
    writes_in_place: bool = False
    averages_on_gloo: bool = False


#: The operators of the namespaces c10d and _c10d_functional, by their names without trailing underscores.
OPERATORS: Final = {
    "_allgather_base": Operator(
        "all_gather", ("_allgather_base", "all_gather_single"), reads_in_place=True, writes_in_place=True
    ),
    "_reduce_scatter_base": Operator(
        "reduce_scatter",
        ("_reduce_scatter_base", "reduce_scatter_single"),
        reads_in_place=True,
        writes_in_place=True,
        averages_on_gloo=True,
    ),
    "all_gather_into_tensor": Operator("all_gather"),
    "all_gather_into_tensor_coalesced": Operator("all_gather"),
    "all_gather_into_tensor_out": Operator("all_gather"),
    "all_reduce": Operator("all_reduce"),
    "all_reduce_coalesced": Operator("all_reduce"),
    "all_to_all_single": Operator("all_to_all"),
    "allgather": Operator("all_gather", ("allgather",), reads_in_place=True),
    "allgather_coalesced": Operator("all_gather", ("allgather_coalesced",)),
    "allgather_into_tensor_coalesced": Operator(
        "all_gather", ("allgather_into_tensor_coalesced", "all_gather_single_coalesced")
    ),
    "allreduce": Operator("all_reduce", ("allreduce",), reads_in_place=True),
    "allreduce_coalesced": Operator("all_reduce", ("allreduce_coalesced",)),
    "alltoall": Operator("all_to_all", ("alltoall",), reads_in_place=True, writes_in_place=True),
    "alltoall_base": Operator(
        "all_to_all", ("alltoall_base", "all_to_all_single"), reads_in_place=True, writes_in_place=True
    ),
    "broadcast": Operator("broadcast", ("broadcast",), reads_in_place=True),
    "gather": Operator("gather", ("gather",), reads_in_place=True),
    "irecv": Operator("recv"),
    "isend": Operator("send"),
    "recv": Operator("recv", ("recv",)),
    "recv_any_source": Operator("recv", ("recv_anysource",)),
    "reduce": Operator("reduce", ("reduce",), reads_in_place=True),
    "reduce_scatter": Operator("reduce_scatter", ("reduce_scatter",), writes_in_place=True),
    "reduce_scatter_tensor": Operator("reduce_scatter"),
    "reduce_scatter_tensor_coalesced": Operator(
        "reduce_scatter",
        ("reduce_scatter_tensor_coalesced", "reduce_scatter_single_coalesced"),
        averages_on_gloo=True,
    ),
    "reduce_scatter_tensor_out": Operator("reduce_scatter"),
    "scatter": Operator("scatter", ("scatter",), writes_in_place=True),
    "send": Operator("send", ("send",)),
}

#: Kinds between two ranks.
PAIRS: Final = ("send", "recv")
#: Kinds with a root.
ROOTED: Final = ("broadcast", "gather", "reduce", "scatter")
#: Kinds that combine elements.
REDUCING: Final = ("all_reduce", "reduce", "reduce_scatter")
