"""Tensors without values: CPU tensors whose storage has a size and no memory.

torch's C++ takes them for CPU tensors, so that it makes the same decisions as with values: dispatch keys, autograd,
composite operators. Their data pointer is null, and torch raises an error where a program asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import torch

from cudalens.virtual.tensors.residency import KEY

#: Attribute of a storage without values.
NO_VALUES_KEY: Final = "_cudalens_no_values"

#: Attribute of a storage without values: the value of all its elements, if they have one (`shapes.uniform`).
UNIFORM_KEY: Final = "_cudalens_uniform"

#: Attribute of a storage that a CUDA graph writes: each replay may write other values, so that they remain unknown.
CAPTURED_KEY: Final = "_cudalens_captured"

_CPU: Final = torch.device("cpu")
_storage_at: Final[Any] = torch._C._construct_storage_from_data_pointer
_refuse_pointer: Final[Any] = torch._C._set_throw_on_mutable_data_ptr


def storage_without_values(num_bytes: int) -> torch.UntypedStorage:
    """Return a storage of that size without memory."""
    storage: Any = _storage_at(0, _CPU, num_bytes)
    storage.__dict__[NO_VALUES_KEY] = True
    return storage


def tensor_in(storage: torch.UntypedStorage, dtype: torch.dtype, offset: int, shape: Any, stride: Any) -> torch.Tensor:
    """Return a tensor in a storage without values."""
    made = torch.empty(0, dtype=dtype).set_(storage, offset, shape, stride)
    _refuse_pointer(made)
    return made


def without_values(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor without values, with the size, strides and dtype of `tensor`, in a storage of its own."""
    storage = storage_without_values(tensor.untyped_storage().nbytes())
    return tensor_in(storage, tensor.dtype, int(tensor.storage_offset()), tensor.shape, tensor.stride())


def lacks_values(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has no values."""
    try:
        return NO_VALUES_KEY in tensor.untyped_storage().__dict__
    except (RuntimeError, NotImplementedError):  # no storage
        return False


def forget(tensor: torch.Tensor) -> None:
    """Mark the values of a tensor as unknown, because an operator without values has written it.

    Those of host memory, which a program may read by other means, become NaN, or the least integer.
    """
    attributes = tensor.untyped_storage().__dict__
    attributes.pop(UNIFORM_KEY, None)
    if NO_VALUES_KEY in attributes or not tensor.untyped_storage().nbytes():
        return
    attributes[NO_VALUES_KEY] = True
    if KEY not in attributes and tensor.dtype is not torch.bool:
        is_real = tensor.dtype.is_floating_point or tensor.dtype.is_complex
        tensor.detach().fill_(float("nan") if is_real else torch.iinfo(tensor.dtype).min)


def tensors_among(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors among `values` and in nested lists."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_among(value)
