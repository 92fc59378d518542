"""Call collectives as gloo accepts them, where NCCL accepts more: sizes, dtypes that are only moved, means, bools."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import torch
from torch import Tensor

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.shapes.storage import tensors_among

_REDUCED: Final = (
    "{name} of {dtype} at {line} needs NCCL on a GPU, and gloo computes the values of this job. Reduce in another "
    "dtype, or run the job without values."
)

#: Operators whose tensors may have any sizes with the right number of elements: NCCL reads them as one dimension.
_FLAT: Final = ("_allgather_base", "_reduce_scatter_base")


def is_unknown_dtype(dtype: torch.dtype) -> bool:
    """Return whether gloo does not have a dtype that NCCL has."""
    return dtype.is_floating_point and dtype.itemsize == 1


def adapt_arguments(name: str, args: tuple[Any, ...], line: str, *, combines: bool) -> tuple[Any, ...]:
    """Return the arguments of a collective with other views of the same memory, which gloo accepts.

    Args:
        name: The operator's name, without trailing underscores.
        args: Its arguments.
        line: The line of the program.
        combines: Whether it combines elements.

    Raises:
        VirtualDeviceError: It combines elements of a dtype that gloo does not have.
    """
    refused = next((one.dtype for one in tensors_among(args) if is_unknown_dtype(one.dtype)), None)
    if refused is not None and combines:
        raise VirtualDeviceError(_REDUCED.format(name=name, dtype=refused, line=line))
    if refused is not None:
        args = tuple(map_tensors(one, _as_bytes) for one in args)
    if name in _FLAT:
        output, given, *others = args
        if output.shape[1:] != given.shape[1:] or not given.dim():
            args = output.view(-1), given.view(-1), *others
    return args


def _as_bytes(tensor: Tensor) -> Tensor:
    return tensor.view(torch.uint8) if is_unknown_dtype(tensor.dtype) else tensor


def map_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return an argument of an operator, a tensor or lists of them, with other tensors."""
    if isinstance(value, list | tuple):
        return type(value)(map_tensors(one, change) for one in value)
    return change(value) if isinstance(value, Tensor) else value


def gather_uneven(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Gather tensors of different sizes, filled up to the size of the largest one; returns the work that has ended."""
    (outputs,), (given,), *others = args
    size = max(one.numel() for one in outputs)
    filled = given.new_zeros(size)
    filled[: given.numel()] = given.flatten()
    gathered = [torch.empty_like(filled) for _ in outputs]
    _, work = func([gathered], [filled], *others, **kwargs)
    torch.distributed.Work.unbox(work).wait()
    for output, whole in zip(outputs, gathered, strict=True):
        output.copy_(whole[: output.numel()].view(output.shape))
    return work


def divide(tensors: Iterable[Tensor], size: int) -> None:
    """Divide sums by the number of ranks, as NCCL does: integers towards zero."""
    for tensor in tensors:
        if tensor.is_floating_point() or tensor.is_complex():
            tensor.div_(size)
        else:
            tensor.div_(size, rounding_mode="trunc")
