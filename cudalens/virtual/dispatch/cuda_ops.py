"""Operators that torch implements for CUDA and not for the CPU: integer histograms, and batch normalisation in parts.

``SyncBatchNorm`` uses the parts. The formulas are those of ATen/native/cuda/Normalization.cuh and SummaryOps.cu.
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor

from cudalens.virtual.torch_cuda.rng import Replacement

_aten = torch.ops.aten


class _Replaced(Replacement):
    """An operator that a function computes."""

    def __init__(self, func: Any, function: Any) -> None:
        super().__init__(func)
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the values."""
        return self._function(*args, **kwargs)


def histc(values: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """``torch.histc``: integers are counted in integer arithmetic, as CUDA does and the CPU refuses to."""
    if values.is_floating_point():
        return torch.histc(values, bins, min, max)
    low, high = int(min), int(max)
    if low == high and values.numel():
        low, high = int(values.min()), int(values.max())
    if low == high:
        low, high = low - 1, high + 1
    if bins <= 0 or low > high:
        raise RuntimeError("bins must be > 0" if bins <= 0 else "max must be larger than min")
    inside = values[(values >= low) & (values <= high)].long()
    positions = ((inside - low) * bins).div(high - low, rounding_mode="floor").clamp_(max=bins - 1)
    return torch.bincount(positions, minlength=bins).to(values.dtype)


def _per_channel(statistic: Tensor, like: Tensor) -> Tensor:
    """Return a statistic of each channel, in a shape that broadcasts over a batch."""
    return statistic.view(1, -1, *([1] * (like.dim() - 2)))


def _others(value: Tensor) -> list[int]:
    """Return the dimensions besides the channels."""
    return [dim for dim in range(value.dim()) if dim != 1]


def _batch_norm_stats(value: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and inverse standard deviation of each channel."""
    value = _accumulated(value)
    mean = value.mean(_others(value))
    variance = (value - _per_channel(mean, value)).square().mean(_others(value))
    return mean, (variance + eps).rsqrt()


def _accumulated(value: Tensor) -> Tensor:
    return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value


def _gather_stats_with_counts(
    value: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """Mean and inverse standard deviation over all ranks (rows), which also update the running statistics."""
    average, squares, num = torch.zeros_like(mean[0]), torch.zeros_like(mean[0]), 0.0
    for rank, count in enumerate(counts.tolist()):
        factor = 1.0 / (num + count) if num + count else math.inf  # as on the GPU
        squares = squares + (invstd[rank].reciprocal().square() - eps) * count
        squares = squares + (average - mean[rank]).square() * (num * count * factor)
        average = average * (num * factor) + mean[rank] * (count * factor)
        num += count
    if running_mean is not None:
        running_mean.copy_((1 - momentum) * running_mean + momentum * average)
    if running_var is not None:
        running_var.copy_((1 - momentum) * running_var + momentum * squares / (num - 1))
    return average, (squares / num + eps).rsqrt()


def _gather_stats(value: Tensor, mean: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    counts = torch.full((len(mean),), float(others[-1]))
    return _gather_stats_with_counts(*(value, mean, *others[:-1], counts))


def _elemt(
    value: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, eps: float
) -> Tensor:
    """Normalise by the given statistics."""
    scale = invstd if weight is None else invstd * weight
    out = (_accumulated(value) - _per_channel(mean, value)) * _per_channel(scale, value)
    return (out if bias is None else out + _per_channel(bias, value)).to(value.dtype)


def _backward_reduce(
    grad: Tensor,
    value: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    needs_input: bool,
    needs_weight: bool,
    needs_bias: bool,
) -> tuple[Tensor | None, ...]:
    """Return the sums of the backward pass, and the gradients of weight and bias."""
    grad, value = _accumulated(grad), _accumulated(value)
    total = grad.sum(_others(grad))
    products = (grad * (value - _per_channel(mean, value))).sum(_others(grad))
    dtype = total.dtype if weight is None else weight.dtype
    return (
        total if needs_input else None,
        products if needs_input else None,
        (products * invstd).to(dtype) if needs_weight else None,
        total.to(dtype, copy=True) if needs_bias else None,
    )


def _backward_elemt(
    grad: Tensor,
    value: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    total: Tensor,
    products: Tensor,
    counts: Tensor,
) -> Tensor:
    """Return the gradient of the input."""
    num = counts.sum().item()
    centred = _accumulated(value) - _per_channel(mean, value)
    rest = _accumulated(grad) - _per_channel(total / num, grad)
    scale = invstd if weight is None else invstd * weight
    out = (rest - centred * _per_channel(invstd.square() * products / num, grad)) * _per_channel(scale, grad)
    return out.to(value.dtype)


_FUNCTIONS: Final = {
    "histc": histc,
    "batch_norm_stats": _batch_norm_stats,
    "batch_norm_gather_stats": _gather_stats,
    "batch_norm_gather_stats_with_counts": _gather_stats_with_counts,
    "batch_norm_elemt": _elemt,
    "batch_norm_backward_reduce": _backward_reduce,
    "batch_norm_backward_elemt": _backward_elemt,
}

#: Replacements of operator implementations, by operator name.
REPLACEMENTS: Final[dict[str, Replacement]] = {
    name: _Replaced(getattr(_aten, name).default, function) for name, function in _FUNCTIONS.items()
}
