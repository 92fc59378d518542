"""Tensors without values after the end of their virtual device: each use raises an error.

torch's CPU kernels would read their null pointer otherwise.
"""

from __future__ import annotations

import functools
import gc
from typing import Any, Final

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.shapes.reading import describe
from cudalens.virtual.shapes.storage import lacks_values

_Tensor: Final = torch.Tensor
_SIZES: Final = frozenset(
    {_Tensor.size, _Tensor.dim, _Tensor.numel, _Tensor.stride, _Tensor.__len__, _Tensor.element_size, _Tensor.__hash__}
    | {
        getattr(_Tensor, name).__get__
        for name in ("shape", "dtype", "requires_grad", "is_leaf", "layout", "ndim", "nbytes", "itemsize", "grad")
    }
)


class EndedTensor(torch.Tensor):
    """A tensor without values whose virtual device has ended."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer what needs no values, and refuse everything else.

        Raises:
            VirtualDeviceError: The function needs values.
        """
        with torch._C.DisableTorchFunctionSubclass():
            if func is torch.Tensor.__repr__:
                return describe(args[0])
            if func in _SIZES:
                return func(*args, **(kwargs or {}))
        raise VirtualDeviceError(
            "this tensor belongs to a virtual device without values (values=False) that has ended, so that there is "
            "nothing to compute with. Use it inside the block of its device, or create it again."
        )


def end_tensors() -> None:
    """Turn all tensors without values into `EndedTensor`."""
    for found in gc.get_objects():
        kind: Any = type(found)
        if issubclass(kind, torch.Tensor) and not issubclass(kind, EndedTensor) and lacks_values(found):
            try:
                found.__class__ = EndedTensor
            except TypeError:  # its class has slots, as that of DTensor
                found.__class__ = _ended(kind)


@functools.cache
def _ended(kind: Any) -> type[torch.Tensor]:
    """Return an `EndedTensor` with the slots of a class."""
    return type(f"Ended{kind.__name__}", (EndedTensor, kind), {"__slots__": ()})
