"""Dropout as a GPU does it: one kernel and a mask of bytes, where the CPU makes a tensor of factors.

``torch.dropout`` is composite: for CUDA tensors it becomes ``native_dropout``, for CPU tensors several operators that
keep a float an element for backward (ATen/native/Dropout.cpp). torch's C++ takes the tensors of a virtual device for
the CPU's, so Python's ways to it are led to ``native_dropout``. Its values are computed as the CPU's several operators
do, to the bit. C++ that drops out by itself (``scaled_dot_product_attention`` with ``dropout_p``) still does it the
long way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from cudalens.virtual.tensors.residency import residence_of
from cudalens.virtual.torch_cuda.rng import Borrower, Instead

if TYPE_CHECKING:
    from cudalens.virtual.gpus import Gpus
    from cudalens.virtual.patching import Patches

_aten = torch.ops.aten
_dropout: Final = torch.dropout


def install(patches: Patches, gpus: Gpus) -> None:
    """Lead ``torch.dropout`` and torch.nn's dropout to the operator that a GPU has."""
    for owner in (torch, torch._VF):
        patches.set(owner, "dropout", dropout)


def dropout(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    """As ``torch.dropout``; the conditions are those of its fused kernel."""
    if train and 0.0 < p < 1.0 and residence_of(input) is not None and input.numel():
        return torch.native_dropout(input, p, True)[0]
    return _dropout(input, p, train)


class Dropout(Borrower):
    """Values of ``native_dropout``: equal to those of the CPU's ``dropout``."""

    def __call__(self, *args: Any, generator: torch.Generator, **kwargs: Any) -> Any:
        """Call it.

        Args:
            args: The tensor, the probability, and whether it is for training.
            generator: Where it draws from.
            kwargs: None that torch knows.
        """
        tensor, p, *train = args
        if not 0.0 < p < 1.0 or (train and train[0] is False):
            return super().__call__(*args, generator=generator, **kwargs)
        factors = torch.empty_like(tensor).bernoulli_(1 - p, generator=generator).div_(1 - p)
        return tensor * factors, factors.bool()


class DropoutBackward(Instead):
    """Values of ``native_dropout_backward``: the gradient times the same factors."""

    def __call__(self, grad: torch.Tensor, mask: torch.Tensor, scale: float, **kwargs: Any) -> Any:
        """Call it; a factor is what ``1 / (1 - p)`` is in the gradient's dtype."""
        if not scale:
            return grad * 0.0
        return grad * mask.to(grad.dtype).div_(1 / scale)


#: What computes the values of an operator in its place, by its name.
INSTEAD: Final[dict[str, Instead]] = {
    "native_dropout": Dropout(_aten.native_dropout.default),
    "native_dropout_backward": DropoutBackward(_aten.native_dropout_backward.default),
}
