"""CUDA's flash attention operators, with the values of the CPU's: code of torch.compile calls them by name."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from cudalens.virtual.dispatch.attention import Attention, AttentionBackward
from cudalens.virtual.torch_cuda.rng import Replacement, SwappedState

_aten = torch.ops.aten
_efficient: Final[Any] = _aten._scaled_dot_product_efficient_attention
_efficient_backward: Final[Any] = _aten._scaled_dot_product_efficient_attention_backward


class FlashAttention(SwappedState):
    """Computes ``_scaled_dot_product_flash_attention``."""

    def __call__(  # type: ignore[override]
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        return_debug_mask: bool = False,
        *,
        scale: float | None = None,
        generator: torch.Generator,
    ) -> Any:
        """Compute the values. Keys may have fewer heads than queries, which the CPU's kernel supports."""
        heads = query.shape[1] // key.shape[1] if dropout_p else 1
        keys, values = (_repeat_heads(tensor, heads) for tensor in (key, value))
        out, statistics, number, _ = Attention(_efficient.default)(
            query, keys, values, None, True, dropout_p, is_causal, scale=scale, generator=generator
        )
        sums = statistics[..., : query.shape[2]].contiguous()
        state = torch.tensor([int(number), 0], dtype=torch.uint64)
        unused, debug_mask = torch.empty((), dtype=torch.uint64), query.new_empty(0)
        result = torch.empty_like(query).copy_(out)
        return result, sums, None, None, query.shape[2], key.shape[2], state, unused, debug_mask


class FlashAttentionBackward(Replacement):
    """Computes ``_scaled_dot_product_flash_attention_backward``."""

    def __call__(
        self,
        grad_out: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        out: Tensor,
        logsumexp: Tensor,
        cum_seq_q: Tensor | None,
        cum_seq_k: Tensor | None,
        max_q: int,
        max_k: int,
        dropout_p: float,
        is_causal: bool,
        philox_seed: Tensor,
        philox_offset: Tensor,
        *,
        scale: float | None = None,
    ) -> Any:
        """Compute the gradients of query, key and value."""
        heads = query.shape[1] // key.shape[1] if dropout_p else 1
        keys, values = (_repeat_heads(tensor, heads) for tensor in (key, value))
        number = philox_seed.to(torch.int64)[0]
        grads = AttentionBackward(_efficient_backward.default)(
            grad_out,
            query,
            keys,
            values,
            None,
            out,
            logsumexp,
            number,
            philox_offset,
            dropout_p,
            [True, True, True, False],
            is_causal,
            scale=scale,
        )
        grad_key, grad_value = grads[1:3]
        if heads > 1:  # sum the gradients of repeated heads
            grad_key, grad_value = (
                grad.reshape(grad.shape[0], key.shape[1], -1, *grad.shape[2:]).sum(2) for grad in grads[1:3]
            )
        pairs = ((grads[0], query), (grad_key, key), (grad_value, value))
        return tuple(torch.empty_like(like).copy_(grad) for grad, like in pairs)


def _repeat_heads(tensor: Tensor, times: int) -> Tensor:
    """Repeat each head; one that is not repeated keeps its layout, by which the CPU chooses how it adds products."""
    return tensor.repeat_interleave(times, 1) if times > 1 else tensor


#: Replacements of operator implementations, by operator name.
REPLACEMENTS: Final[dict[str, Replacement]] = {
    "_scaled_dot_product_flash_attention": FlashAttention(_aten._scaled_dot_product_flash_attention.default),
    "_scaled_dot_product_flash_attention_backward": FlashAttentionBackward(
        _aten._scaled_dot_product_flash_attention_backward.default
    ),
}
