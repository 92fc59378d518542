"""What CUDA implementations of operators compute on the side: memory and kernels that their CPU twins do without.

Only what PyTorch's source says to the byte. What depends on an algorithm that a library picks (cuDNN, CUB) is left out:
convolutions, sorts and reductions of a million elements take scratch memory on a real GPU that is not modelled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch

from cudalens.virtual.timing import cost

if TYPE_CHECKING:
    from cudalens.virtual.allocator import Block
    from cudalens.virtual.gpus import Gpus
    from cudalens.virtual.timing.machine import Device

_aten = torch.ops.aten

#: From an operator's arguments: the overload that runs first, its arguments, and one like its result.
Side = Callable[[tuple[Any, ...]], tuple[Any, tuple[Any, ...], torch.Tensor]]


def _softmax_backward(args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...], torch.Tensor]:
    """``grad * output`` is a tensor of its own (softmax_backward_cuda_out, ATen/native/cuda/SoftMax.cu)."""
    grad, output = args[:2]
    return _aten.mul.Tensor, (grad, output), grad


#: By the operator's name.
SIDES: Final[dict[str, Side]] = {"_softmax_backward_data": _softmax_backward}


def compute(gpus: Gpus, device: Device, side: Side, args: tuple[Any, ...]) -> Block:
    """Run what comes first; returns its memory, which the caller gives back when the operator has been issued.

    Raises:
        torch.OutOfMemoryError: There is no room for it; torch's own words.
    """
    func, arguments, like = side(args)
    block = gpus.reserve(device, like.numel() * like.element_size())
    gpus.launch(device, cost.kernel_work(gpus.spec, func, arguments, {}, like))
    return block
