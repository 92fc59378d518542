"""Dropout as on a GPU: one kernel and a byte mask, where the CPU creates a float mask in several operators.

``torch.dropout`` is composite: for CUDA tensors it calls ``native_dropout``, for CPU tensors several operators that
save one float per element for backward (ATen/native/Dropout.cpp). torch's C++ takes tensors of a virtual device for CPU
tensors, so the Python functions are replaced by calls of ``native_dropout``. Its values equal those of the CPU's
operators bit by bit. For dropout inside of attention, see `attention`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from cudalens.virtual.tensors.residency import residence_of
from cudalens.virtual.torch_cuda.rng import Replacement, SwappedState

if TYPE_CHECKING:
    from cudalens.virtual.gpus import Gpus
    from cudalens.virtual.patching import Patches

_aten = torch.ops.aten
_dropout: Final = torch.dropout


def install(patches: Patches, gpus: Gpus) -> None:
    """Make ``torch.dropout`` and torch.nn's dropout call the operator that a GPU uses."""
    for owner in (torch, torch._VF):
        patches.set(owner, "dropout", dropout)


def dropout(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    """As ``torch.dropout``; the conditions are those of the fused kernel."""
    if train and 0.0 < p < 1.0 and residence_of(input) is not None and input.numel():
        return torch.native_dropout(input, p, True)[0]
    return _dropout(input, p, train)


class Dropout(SwappedState):
    """Computes ``native_dropout`` with the values of the CPU's ``dropout``."""

    def __call__(self, *args: Any, generator: torch.Generator, **kwargs: Any) -> Any:
        """Compute the values.

        Args:
            args: The tensor, the probability, and the training flag.
            generator: The random generator.
            kwargs: Unused.
        """
        tensor, p, *train = args
        if not 0.0 < p < 1.0 or (train and train[0] is False):
            return super().__call__(*args, generator=generator, **kwargs)
        factors = torch.empty_like(tensor).bernoulli_(1 - p, generator=generator).div_(1 - p)
        return tensor * factors, factors.bool()


class DropoutBackward(Replacement):
    """Computes ``native_dropout_backward``: the gradient times the same factors."""

    def __call__(self, grad: torch.Tensor, mask: torch.Tensor, scale: float, **kwargs: Any) -> Any:
        """Compute the values; a factor is ``1 / (1 - p)`` in the gradient's dtype."""
        if not scale:
            return grad * 0.0
        return grad * mask.to(grad.dtype).div_(1 / scale)


#: Replacements of operator implementations, by operator name.
REPLACEMENTS: Final[dict[str, Replacement]] = {
    "native_dropout": Dropout(_aten.native_dropout.default),
    "native_dropout_backward": DropoutBackward(_aten.native_dropout_backward.default),
}
