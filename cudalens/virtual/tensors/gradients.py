"""Check that gradients are on the virtual device of their tensors, which torch's C++ cannot check here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.tensors.residency import residence_of


def install(patches: Patches, gpus: Gpus) -> None:
    """Check assignments to ``Tensor.grad``."""
    original: Any = torch._C.TensorBase.grad

    def set_grad(self: torch.Tensor, grad: Any) -> None:
        if isinstance(grad, torch.Tensor) and not _on_same_device(self, grad):
            raise RuntimeError("assigned grad has data located on a different device")
        original.__set__(self, grad)

    patches.set(torch.Tensor, "grad", property(original.__get__, set_grad, original.__delete__, original.__doc__))


def check_roots(outputs: Sequence[Any], grads: Sequence[Any]) -> None:
    """Check the gradients passed to ``backward``.

    Raises:
        RuntimeError: A gradient is not on the device of its tensor; torch's message.
    """
    for position, (output, grad) in enumerate(zip(outputs, grads, strict=False)):
        if isinstance(output, torch.Tensor) and isinstance(grad, torch.Tensor) and not _on_same_device(output, grad):
            raise RuntimeError(
                f"invalid gradient at index {position} - expected device {output.device} but got {grad.device}"
            )


def _on_same_device(tensor: torch.Tensor, grad: torch.Tensor) -> bool:
    ours, theirs = residence_of(tensor), residence_of(grad)
    if (ours and ours.device) is (theirs and theirs.device):
        return True
    return not (_has_storage(tensor) and _has_storage(grad))


def _has_storage(tensor: torch.Tensor) -> bool:
    """Whether a tensor has a storage; the wrappers of torch.func do not, and their contents are checked instead."""
    try:
        tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):
        return False
    return True
