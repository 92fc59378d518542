"""Compare how many tensors are read from their memory with one call of torch, which a Python loop takes long for.

The class is that of torch.compile's guards (torch/csrc/dynamo/guards.cpp). It is private, so it is optional.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from cudalens.device.tensors import PLAIN_TYPES


class TensorForms:
    """Class, sizes, strides, dtype, conjugation, index of the real device and requires_grad of some tensors.

    Args:
        tensors: As they are now.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._check: Callable[..., bool] | None = None
        make = _tensor_guards()
        is_plain = all(type(tensor) in PLAIN_TYPES and tensor.layout is torch.strided for tensor in tensors)
        if make is not None and is_plain and len(set(map(id, tensors))) == len(tensors):  # it takes each tensor once
            self._check = make(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check

    def are_as_before(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether these tensors have the same forms; False also where that is not known.

        It is not known of tensors of other classes, of one tensor in two places, and in another mode of torch.
        """
        return self._check is not None and self._check(*tensors)


@cache
def _tensor_guards() -> Any:
    """The class of torch; None if this version of torch has none that distinguishes strides and requires_grad."""
    try:
        from torch._C._dynamo import guards

        make: Any = guards.TensorGuards
        one = torch.empty(2, 3, device="cpu")
        check = make(one, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
        others = [torch.empty(3, 2, device="cpu").t(), torch.empty(2, 3, device="cpu").requires_grad_()]
        if check(one) is not True or any(check(other) is not False for other in others):
            return None
    except (ImportError, AttributeError, TypeError, RuntimeError):
        return None
    return make
