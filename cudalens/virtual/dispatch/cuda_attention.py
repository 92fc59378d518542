"""Attention as the operator that torch chooses on CUDA: flash attention, memory-efficient, or the plain formula."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

_aten = torch.ops.aten

#: Elements to which the memory-efficient kernel needs the last dimension aligned (sdp_utils.cpp,
#: minimum_gemm_alignment).
ALIGNMENT: Final = {torch.float32: 4, torch.float16: 8, torch.bfloat16: 8}
_FLASH_DTYPES: Final = (torch.float16, torch.bfloat16)
_FLASH_ALIGNMENT: Final = 8
_MAX_FLASH_FEATURES: Final = 256
#: The compute capability from which GPUs have flash attention, and the memory-efficient kernel has bfloat16.
_AMPERE: Final = (8, 0)
#: The memory-efficient kernel reads rows of a mask in multiples of this number.
_MASK_ALIGNMENT: Final = 16


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Call what torch chooses on CUDA: flash attention, memory-efficient attention, or the plain formula."""
    found = attend_fused(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    if found is not None:
        return found
    # the plain formula adds a mask; torch converts it before it calls this operator
    bias = None if attn_mask is None else _as_numbers(attn_mask, query.dtype)
    return _aten._scaled_dot_product_attention_math.default(
        query, key, value, bias, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
    )[0]


def attend_fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    *,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor | None:
    """Call the fused operator that torch chooses on CUDA; None if it takes the plain formula."""
    if _is_flash(query, key, value, attn_mask, is_causal, enable_gqa):
        return _flash(query, key, value, dropout_p, is_causal, scale)
    if _is_efficient(query, key, value, attn_mask, enable_gqa):
        return _efficient(query, key, value, attn_mask, dropout_p, is_causal, scale)
    return None


def _is_flash(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, enable_gqa: bool
) -> bool:
    is_possible = torch._C._get_flash_sdp_enabled() and mask is None and query.dtype in _FLASH_DTYPES
    if not is_possible or not _is_ampere(query) or not _have_plain_sizes(query, key, value):
        return False
    if is_causal and query.shape[2] != key.shape[2]:
        return False
    has_same_features = query.shape[3] == key.shape[3] == value.shape[3] <= _MAX_FLASH_FEATURES
    return bool(has_same_features and _have_equal_heads(query, key, value, enable_gqa))


def _is_efficient(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, enable_gqa: bool) -> bool:
    is_possible = torch._C._get_mem_efficient_sdp_enabled() and not enable_gqa and query.dtype in ALIGNMENT
    if not is_possible or not _have_plain_sizes(query, key, value):
        return False
    if not has_fused_kernels(query):
        return False
    if mask is not None and (mask.requires_grad or mask.dtype not in (torch.bool, query.dtype)):
        return False
    alignment = ALIGNMENT[query.dtype]
    is_aligned = query.shape[3] % alignment == 0 and value.shape[3] % alignment == 0
    return bool(is_aligned and query.shape[3] == key.shape[3] and _have_equal_heads(query, key, value, False))


def has_fused_kernels(query: Tensor) -> bool:
    """Return whether the GPU of a query has a fused kernel for its dtype: before Ampere, none has bfloat16."""
    return query.dtype != torch.bfloat16 or query.device.type != "cuda" or _is_ampere(query)


def _is_ampere(query: Tensor) -> bool:
    """Whether the GPU is of the Ampere generation or newer."""
    return torch.cuda.get_device_capability(query.device) >= _AMPERE


def _have_plain_sizes(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether they are 4-dimensional, not empty, of one dtype, with elements of a row side by side."""
    tensors = (query, key, value)
    has_dims = all(tensor.dim() == 4 and tensor.dtype == query.dtype for tensor in tensors)
    return has_dims and all(tensor.stride(3) == 1 and min(tensor.shape) > 0 for tensor in tensors)


def _have_equal_heads(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> bool:
    has_equal = query.shape[0] == key.shape[0] == value.shape[0] and key.shape[1:3] == value.shape[1:3]
    is_multiple = query.shape[1] % key.shape[1] == 0 if enable_gqa else query.shape[1] == key.shape[1]
    return bool(has_equal and is_multiple)


def _flash(query: Tensor, key: Tensor, value: Tensor, dropout_p: float, is_causal: bool, scale: float | None) -> Tensor:
    """Pad the features to a multiple of 8, as torch does for the kernel."""
    features = query.shape[3]
    missing = -features % _FLASH_ALIGNMENT
    scale = features**-0.5 if scale is None and missing else scale
    padded: list[Any] = [query, key, value]
    if missing:
        padded = [torch.nn.functional.pad(tensor, (0, missing)) for tensor in padded]
    out: Tensor = _aten._scaled_dot_product_flash_attention.default(*padded, dropout_p, is_causal, scale=scale)[0]
    return out[..., :features] if missing else out


def _efficient(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> Tensor:
    differentiates = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
    bias = None if mask is None else _as_bias(mask, query, key)
    return _aten._scaled_dot_product_efficient_attention.default(
        query, key, value, bias, differentiates, dropout_p, is_causal, scale=scale
    )[0]


def _as_bias(mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """A mask as numbers to add, in rows of aligned length."""
    mask = _as_numbers(mask, query.dtype)
    missing = -mask.shape[-1] % _MASK_ALIGNMENT
    if missing:
        mask = torch.nn.functional.pad(mask, (0, missing))[..., : mask.shape[-1]]
    return mask.expand(*query.shape[:3], key.shape[2])


def _as_numbers(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask as numbers to add: 0 where a key is allowed, else minus infinity."""
    if mask.dtype is not torch.bool:
        return mask
    allowed = torch.zeros((), dtype=dtype, device=mask.device)
    forbidden = torch.full((), float("-inf"), dtype=dtype, device=mask.device)
    return torch.where(mask, allowed, forbidden)
