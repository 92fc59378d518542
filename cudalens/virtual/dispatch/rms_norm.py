"""RMS norm as on a GPU: one kernel that saves one number a row, with the values of the CPU's operators.

From torch 2.9, ``rms_norm`` calls ``_fused_rms_norm`` (ATen/native/layer_norm.cpp), which has a kernel for CUDA. For
CPU tensors it is composite: six operators that save several tensors of the input's size for the backward. With kernels
for the CPU, torch calls the operator for tensors of a virtual device, under the conditions of its own C++ code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from cudalens.virtual.dispatch.dispatch_utils import register_kernels

if TYPE_CHECKING:
    from cudalens.virtual.gpus import Gpus
    from cudalens.virtual.patching import Patches

_HALF: Final = (torch.float16, torch.bfloat16)
_has_kernel: Final = torch._C._dispatch_has_kernel_for_dispatch_key


def install(patches: Patches, gpus: Gpus) -> None:
    """Register the kernels, where this build of torch has the operators and no kernels of its own."""
    is_cuda_operator = hasattr(torch.ops.aten, "_fused_rms_norm_backward")  # another one before torch 2.9
    if is_cuda_operator and not _has_kernel("aten::_fused_rms_norm", "CPU"):
        register_kernels(patches, "CPU", _KERNELS)


def fused_rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, eps: float | None
) -> tuple[Tensor, Tensor]:
    """Compute the norm as the composite operator does.

    Returns:
        The result, and the reciprocal root mean square of each row, in float32 for half precision.
    """
    values, dims = _computed(input), _normalized_dims(input, normalized_shape)
    least = torch.finfo(values.dtype).eps if eps is None else eps
    scale = torch.rsqrt(values.pow(2).mean(dims, keepdim=True).add_(least))
    result = values * scale
    return (result if weight is None else result * weight).to(input.dtype), scale


def fused_rms_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    normalized_shape: Sequence[int],
    rstd: Tensor,
    weight: Tensor | None,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:
    """Compute the gradients of input and weight, rounded as autograd rounds those of the composite operator."""
    values, dims = _computed(input), _normalized_dims(input, normalized_shape)
    grad = grad_out.to(values.dtype)
    grad_weight = None
    if weight is not None and output_mask[1]:
        of_rows = grad * (values * rstd)
        rows = list(range(input.dim() - len(dims)))
        grad_weight = (of_rows.sum(rows) if rows else of_rows).to(weight.dtype)
    if not output_mask[0]:
        return None, grad_weight
    of_normalized = grad if weight is None else grad * weight
    of_scale = (of_normalized * values).sum(dims, keepdim=True)
    of_mean = -0.5 * of_scale * rstd.pow(3)
    num_elements = torch.Size(normalized_shape).numel()
    of_squares = (of_mean / num_elements).expand_as(values)
    return (of_normalized * rstd + of_squares * (values * 2)).to(input.dtype), grad_weight


_KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "_fused_rms_norm": fused_rms_norm,
    "_fused_rms_norm_backward": fused_rms_norm_backward,
}


def _computed(input: Tensor) -> Tensor:
    """Return the input in the dtype of the computation."""
    return input.float() if input.dtype in _HALF else input


def _normalized_dims(input: Tensor, normalized_shape: Sequence[int]) -> list[int]:
    return list(range(input.dim() - len(normalized_shape), input.dim()))
