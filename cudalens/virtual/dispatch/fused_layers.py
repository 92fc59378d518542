"""Dropout, RMS norm and softmax of half precision as on a GPU: one kernel each, where the CPU runs several operators.

``torch.dropout`` is composite: for CUDA tensors it calls ``native_dropout``, for CPU tensors several operators that
save one float per element for backward (ATen/native/Dropout.cpp). torch's C++ takes tensors of a virtual device for CPU
tensors, so the Python functions are replaced by calls of ``native_dropout``. Its values equal those of the CPU's
operators bit by bit. For dropout inside of attention, see `attention`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from cudalens.virtual.dispatch.dispatch_utils import register_kernels
from cudalens.virtual.tensors.residency import residence_of
from cudalens.virtual.torch_cuda.comm import suggested_format
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
        factors = mask.to(grad.dtype).div_(1 / scale) if scale else 0.0
        return (grad * factors).contiguous(memory_format=suggested_format(grad))  # cuda/Dropout.cu


# RMS norm as on a GPU: one kernel that saves one number a row, with the values of the CPU's operators.

_HALF: Final = (torch.float16, torch.bfloat16)
_has_kernel: Final = torch._C._dispatch_has_kernel_for_dispatch_key


def install_rms_norm(patches: Patches, gpus: Gpus) -> None:
    """Register the kernels, where this build of torch has the operators and no kernels of its own.

    From torch 2.9, ``rms_norm`` calls ``_fused_rms_norm`` (ATen/native/layer_norm.cpp), which has a kernel for CUDA.
    For CPU tensors it is composite: six operators that save several tensors of the input's size for the backward. With
    kernels for the CPU, torch calls the operator for tensors of a virtual device, under the conditions of its own C++
    code.
    """
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
    values, dims = _computed(input.contiguous()), _normalized_dims(input, normalized_shape)
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
    values, dims = _computed(input.contiguous()), _normalized_dims(input, normalized_shape)
    grad = grad_out.to(values.dtype).contiguous()
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


# Softmax of float16 with a result in float32, as under autocast: one kernel without a float32 copy of the input.
#
# ``softmax(x, dim, dtype)`` is composite: for CUDA tensors of float16 it calls ``_softmax`` with ``half_to_float``, for
# others it converts the input first (ATen/native/SoftMax.cpp). The values are those of the conversion.

_COMPOSITE: Final = torch._C.DispatchKey.CompositeImplicitAutograd


def install_softmax(patches: Patches, gpus: Gpus) -> None:
    """Make softmax and log-softmax of a float16 tensor of the device convert within their kernel."""
    kernels = {func.name().removeprefix("aten::"): kernel for func, kernel in COMPOSITES.items()}
    register_kernels(patches, "AutogradCPU", kernels)


def _softmax(input: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """As ``torch.softmax``."""
    if _converts_in_kernel(input, dtype):
        return _aten._softmax.default(input, dim, True)
    return _aten.softmax.int._op_dk(_COMPOSITE, input, dim, dtype)


def _log_softmax(input: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """As ``torch.log_softmax``."""
    if _converts_in_kernel(input, dtype):
        return _aten._log_softmax.default(input, dim, True)
    return _aten.log_softmax.int._op_dk(_COMPOSITE, input, dim, dtype)


def _converts_in_kernel(input: Tensor, dtype: torch.dtype | None) -> bool:
    """The condition of ATen/native/SoftMax.cpp, for a tensor of the device instead of a CUDA tensor."""
    is_half = input.dtype is torch.float16 and dtype is torch.float32
    return is_half and residence_of(input) is not None and not any(getattr(input, "names", ()))


#: What a composite operator is run as: by its kernel for autograd, and in inference mode, which has none.
COMPOSITES: Final[dict[Any, Callable[..., Tensor]]] = {_aten.softmax.int: _softmax, _aten.log_softmax.int: _log_softmax}


class Softmax(Replacement):
    """Computes ``_softmax`` or ``_log_softmax``, also with ``half_to_float``, which the CPU lacks."""

    def __call__(self, input: Tensor, dim: int, half_to_float: bool) -> Tensor:
        """Compute the values."""
        return self._func(input.float() if half_to_float else input, dim, False)


class SoftmaxBackward(Replacement):
    """Computes the gradient of `Softmax`, in the dtype of its input."""

    def __call__(self, grad: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
        """Compute the values."""
        return self._func(grad, output, dim, output.dtype).to(input_dtype)


#: Replacements of operator implementations, by operator name.
REPLACEMENTS: Final[dict[str, Replacement]] = {
    "native_dropout": Dropout(_aten.native_dropout.default),
    "native_dropout_backward": DropoutBackward(_aten.native_dropout_backward.default),
    "_softmax": Softmax(_aten._softmax.default),
    "_log_softmax": Softmax(_aten._log_softmax.default),
    "_softmax_backward_data": SoftmaxBackward(_aten._softmax_backward_data.default),
    "_log_softmax_backward_data": SoftmaxBackward(_aten._log_softmax_backward_data.default),
}
