"""Model the extra memory and kernels of CUDA implementations that the CPU implementation of an operator does not have.

Only what PyTorch's source defines exactly. What depends on an algorithm chosen by a library (cuDNN, CUB) is not
modelled: convolutions, sorts and reductions of a million elements use additional scratch memory on a real GPU.
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

#: Computes from an operator's arguments the overload that runs first, its arguments, and a tensor like its result.
Side = Callable[[tuple[Any, ...]], tuple[Any, tuple[Any, ...], torch.Tensor]]


def _softmax_backward(args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...], torch.Tensor]:
    """``grad * output`` is a separate tensor (softmax_backward_cuda_out, ATen/native/cuda/SoftMax.cu)."""
    grad, output = args[:2]
    return _aten.mul.Tensor, (grad, output), grad


#: By operator name.
SIDES: Final[dict[str, Side]] = {"_softmax_backward_data": _softmax_backward}


def compute(gpus: Gpus, device: Device, side: Side, args: tuple[Any, ...]) -> Block:
    """Run the first operator; returns its memory, which the caller frees after the operator was issued.

    Raises:
        torch.OutOfMemoryError: The virtual device is full; torch's message.
    """
    func, arguments, like = side(args)
    block = gpus.reserve(device, like.numel() * like.element_size())
    gpus.launch(device, cost.kernel_work(gpus.spec, func, arguments, {}, like))
    return block
