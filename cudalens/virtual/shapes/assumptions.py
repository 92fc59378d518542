"""`assume`: give a tensor without values the values that a program needs."""

from __future__ import annotations

from typing import Any

import torch

from cudalens.virtual.dispatch.dispatch_utils import below_modes
from cudalens.virtual.shapes.storage import NO_VALUES_KEY, lacks_values
from cudalens.virtual.tensors.arenas import set_storage


def assume(tensor: torch.Tensor, value: Any = None, *, count: int | None = None) -> torch.Tensor:
    """Give a tensor the values to use on a virtual device without values (``values=False``).

    The program can then read it (``.item()``, ``.cpu()``, a branch), and use it where a size depends on values. What is
    computed from small tensors with values has values too. The values are kept until an operator without values writes
    the tensor. Without such a device, or for a tensor with values, the call does nothing.

    Args:
        tensor: A tensor without values. Views of it that exist already remain without values.
        value: A number, or numbers in the shape of the tensor.
        count: Instead: the number of true (non-zero) elements, such as the rows that ``x[tensor]`` selects.

    Returns:
        `tensor`.

    Raises:
        ValueError: Not one of `value` and `count` is given; or `count` exceeds the number of elements.
        RuntimeError: `value` does not have the shape of the tensor; torch's message.
    """
    if (value is None) == (count is None):
        raise ValueError("assume() takes a value or a count: assume(loss, 2.5), or assume(mask, count=100).")
    if count is not None and not 0 <= count <= tensor.numel():
        raise ValueError(f"count is {count}; expected a number from 0 to {tensor.numel()}, the elements of the tensor.")
    if lacks_values(tensor):
        with below_modes():
            _set_values(tensor, value, count)
    return tensor


def _set_values(tensor: torch.Tensor, value: Any, count: int | None) -> None:
    before: Any = tensor.untyped_storage()
    storage: Any = torch.zeros(before.nbytes(), dtype=torch.uint8).untyped_storage()
    there = torch.empty(0, dtype=tensor.dtype).set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
    if count is None:
        there.copy_(torch.as_tensor(value))
    else:
        there.copy_((torch.arange(tensor.numel()) < count).view(tensor.shape))
    storage.__dict__.update({key: kept for key, kept in before.__dict__.items() if key != NO_VALUES_KEY})
    set_storage(tensor, storage)
