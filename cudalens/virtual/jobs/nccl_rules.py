"""What torch's NCCL backend accepts: it raises for other tensors, sizes, dtypes and reductions.

A job computes with gloo, or computes nothing: both accept more. The errors are those of torch (ProcessGroupNCCL.cpp).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from cudalens.virtual.jobs.operators import OPERATORS
from cudalens.virtual.torch_cuda.comm import suggested_format

_SPARSE: Final = "NCCL does not support all_reduce with sparse tensors. Please use dense tensors instead."

#: Dtypes that NCCL does not have, with torch's names of them.
_REFUSED_DTYPES: Final = {
    torch.int16: "Short",
    torch.uint16: "UInt16",
    torch.uint32: "UInt32",
    torch.uint64: "UInt64",
}

#: Reductions that NCCL does not have.
_REFUSED_REDUCTIONS: Final = ("band", "bor", "bxor")


def check_tensors(operator: str, sent: Sequence[Tensor], received: Sequence[Tensor], reduction: str) -> None:
    """Check the tensors of a collective.

    Args:
        operator: Its name in c10d or _c10d_functional, without trailing underscores.
        sent: The tensors that the rank gives.
        received: The tensors that it gets.
        reduction: How elements are combined; "" without a reduction.

    Raises:
        RuntimeError: A tensor is sparse.
        TypeError: NCCL does not have a dtype.
        ValueError: A tensor is not contiguous, or NCCL does not have the reduction.
    """
    for tensor in (*sent, *received):
        if tensor.layout is not torch.strided:
            raise RuntimeError(_SPARSE)
        if tensor.dtype in _REFUSED_DTYPES:
            name = _REFUSED_DTYPES[tensor.dtype]
            raise TypeError(f"Input tensor data type is not supported for NCCL process group: {name}")
        if reduction == "avg" and tensor.dtype is torch.bool:
            raise TypeError("Cannot use ReduceOp.AVG with boolean inputs")
    if reduction in _REFUSED_REDUCTIONS:
        raise ValueError(f"Cannot use ReduceOp.{reduction.upper()} with NCCL")
    kernel = OPERATORS[operator]
    in_place = [*(sent if kernel.reads_in_place else ()), *(received if kernel.writes_in_place else ())]
    # Channels may be last: NCCL reads the memory in its order.
    if not all(tensor.is_contiguous(memory_format=suggested_format(tensor)) for tensor in in_place):
        raise ValueError("Tensors must be contiguous")


def check_sizes(operator: str, sent: Tensor, received: Tensor, size: int) -> None:
    """Check the sizes and dtypes of a collective of c10d with one tensor in each direction, without splits.

    Args:
        operator: Its name in c10d, without trailing underscores.
        sent: The tensor that the rank gives.
        received: The tensor that it gets.
        size: The number of ranks.

    Raises:
        RuntimeError: Tensors of an all_to_all differ.
        TypeError: The dtypes differ.
        ValueError: One must be `size` times as large as the other, and is not.
    """
    has_one_dtype = sent.dtype == received.dtype
    if operator == "_allgather_base":
        if not has_one_dtype:
            raise TypeError("output tensor must have the same type as input tensor")
        if sent.numel() * size != received.numel():
            raise ValueError("output tensor size must be equal to world_size times input tensor size")
    elif operator == "_reduce_scatter_base":
        if not has_one_dtype:
            raise TypeError("input tensor must be the same type as the output tensor.")
        if sent.numel() != received.numel() * size:
            raise ValueError("input tensor must be the same size as output size times world size")
    elif operator == "alltoall_base" and (not has_one_dtype or sent.numel() != received.numel()):
        raise RuntimeError("Tensors are not equal in size or data type")


def check_own_output(sent: Tensor, received: Sequence[Tensor], position: int) -> None:
    """Check the list of an all_gather of tensors of different sizes: NCCL sends each from its rank to the others.

    Args:
        sent: The tensor that the rank gives.
        received: The tensors that it gets.
        position: The rank in the group.

    Raises:
        ValueError: What the rank gets from itself has another size.
    """
    has_sizes = len({one.numel() for one in received}) > 1
    if has_sizes and received[position].numel() != sent.numel():
        raise ValueError("Tensor input and output of _broadcast_oop must have the same number of elements ")


def check_splits(splits: Sequence[int], tensor: Tensor, size: int) -> None:
    """Check the parts into which an all_to_all divides the first dimension of a tensor.

    Args:
        splits: The parts; none for equal ones.
        tensor: What is sent, or received.
        size: The number of ranks.

    Raises:
        RuntimeError: There is not one for each rank, or they are not the whole tensor.
    """
    if splits and len(splits) != size:
        raise RuntimeError("Number of tensor splits not equal to group size")
    if splits and sum(splits) != tensor.shape[0]:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    if tensor.shape[0] % size and not splits:
        raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
