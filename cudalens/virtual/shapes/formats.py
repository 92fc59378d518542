"""Memory formats that torch's shape functions leave out or get wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch


def _convolution(out: torch.Tensor, args: tuple[Any, ...]) -> torch.Tensor:
    """The memory format of a convolution's result: that of the CPU's backend, as with values."""
    source, weight, bias = args[:3]
    if weight.dim() < 4:
        return out
    names = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    backend = torch._C._select_conv_backend(source, weight, bias=bias, **dict(zip(names, args[3:9], strict=True)))
    return out.to(memory_format=torch._C._conv_determine_backend_memory_format(source, weight, backend))


def _with_number(out: torch.Tensor, args: tuple[Any, ...]) -> torch.Tensor:
    """The result of a tensor and a number, with the strides that torch's iterator gives dimensions of size 1.

    The meta device gives them others, except where the number is a tensor of the meta device.
    """
    (tensor,) = (arg for arg in args if isinstance(arg, torch.Tensor))
    if 1 not in out.shape or out.shape != tensor.shape:
        return out
    like = torch.empty_strided(tensor.shape, tensor.stride(), device="meta") + torch.empty((), device="meta")
    return out.as_strided(out.shape, like.stride())


def _is_of_one(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether an operator goes over the elements of one tensor into a new one."""
    schema = func._schema
    is_new = not schema.is_mutable and all(argument.alias_info is None for argument in schema.returns)
    num_tensors = sum(isinstance(arg, torch.Tensor) for arg in args)
    return torch.Tag.pointwise in func.tags and is_new and num_tensors == 1 and len(schema.returns) == 1


def _has_number(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether an operator makes a tensor of a number, and goes over both."""
    for value, wanted in zip(args, func._schema.arguments, strict=False):
        if isinstance(value, int | float | complex):
            return "Tensor" in str(wanted.type) or func._overloadname in _WRAPPING
    return False


#: Overloads whose number becomes a tensor.
_WRAPPING: Final = ("Scalar", "Scalar_mode")

#: By operator name: the result in its memory format, from the meta result and the arguments of the call.
_FORMATS: Final[dict[str, Callable[[Any, tuple[Any, ...]], Any]]] = {"convolution": _convolution}


def format_of(func: Any, args: tuple[Any, ...]) -> Callable[[Any, tuple[Any, ...]], Any] | None:
    """What gives the result of a call its memory format, from the meta result and the arguments; None for as it is."""
    name = func._schema.name.partition("::")[2]
    if _is_of_one(func, args) and _has_number(func, args):
        return _with_number
    return _FORMATS.get(name)
