"""Fused attention with dropout: one kernel in each direction, as on a GPU, with the values of the CPU's operators.

The CPU has no fused kernel with dropout: torch decomposes ``scaled_dot_product_attention`` for tensors that it takes
for CPU tensors. Where CUDA's memory-efficient kernel supports the call, its operators are called instead. They compute
what the decomposition computes, with the same random numbers. The backward operator draws them again, as CUDA's does:
its seed is the number of a saved state of the generator.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.dispatch.cuda_attention import ALIGNMENT, attend_fused, has_fused_kernels
from cudalens.virtual.tensors.residency import residence_of
from cudalens.virtual.torch_cuda.rng import Replacement, SwappedState

if TYPE_CHECKING:
    from cudalens.virtual.gpus import Gpus
    from cudalens.virtual.patching import Patches

_aten = torch.ops.aten
_attention: Final[Any] = torch.nn.functional.scaled_dot_product_attention
_HALF: Final = (torch.float16, torch.bfloat16)

#: The kernel rounds the queries of its statistics up to this number.
_ROWS: Final = 32

#: As many states of generators (5 KB each) are kept for backward passes.
_MAX_STATES: Final = 8192
_LOST_STATE: Final = (
    f"the random state of a fused attention with dropout was dropped: more than {_MAX_STATES} of them ran before its "
    "backward pass. Run backward earlier, or set dropout_p to 0."
)


def install(patches: Patches, gpus: Gpus) -> None:
    """Replace the function for calls within torch's own functions, such as multi-head attention."""
    patches.set(torch.nn.functional, "scaled_dot_product_attention", scaled_dot_product_attention)


def scaled_dot_product_attention(*args: Any, **kwargs: Any) -> Tensor:
    """As torch's function; a call that torch's modes do not see runs on the fused operator if CUDA has one."""
    return _attention(*args, **kwargs) if torch._C._len_torch_function_stack() else attend(*args, **kwargs)


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
    """Run ``scaled_dot_product_attention`` on the fused operator with dropout if CUDA has one, else as the CPU does."""
    if attn_mask is None and _is_sharded(query):
        return _attend_to_shards(query, key, value, dropout_p, is_causal, scale, enable_gqa)
    if dropout_p and not enable_gqa and is_fused(query, key, value, attn_mask, dropout_p, is_causal):
        return _run_fused(query, key, value, attn_mask, dropout_p, is_causal, scale)
    if attn_mask is None and not dropout_p and _is_plain((query, key, value)):
        found = _attend_by_name(query, key, value, 0.0, is_causal, scale, enable_gqa)
        if found is not None:
            return found
    given = {"attn_mask": attn_mask, "dropout_p": dropout_p, "is_causal": is_causal}
    with cpu_backends(), nullcontext() if has_fused_kernels(query) else sdpa_kernel(SDPBackend.MATH):
        result: Tensor = _attention(query, key, value, **given, scale=scale, enable_gqa=enable_gqa)
    return result


@contextmanager
def cpu_backends() -> Iterator[None]:
    """Enable CPU attention backends if only CUDA's memory-efficient or cuDNN attention is selected."""
    flash, math = torch._C._get_flash_sdp_enabled(), torch._C._get_math_sdp_enabled()
    others = torch._C._get_mem_efficient_sdp_enabled() or torch._C._get_cudnn_sdp_enabled()
    if flash or math or not others:
        yield
        return
    torch._C._set_sdp_use_flash(True)
    torch._C._set_sdp_use_math(True)
    try:
        yield
    finally:
        torch._C._set_sdp_use_flash(flash)
        torch._C._set_sdp_use_math(math)


def _is_sharded(query: Tensor) -> bool:
    """Whether a tensor is a DTensor whose part is on the device."""
    local = getattr(query, "_local_tensor", None)
    return isinstance(local, Tensor) and residence_of(local) is not None


def _attend_to_shards(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    """Call CUDA's fused operator, which DTensor divides over ranks and context parallelism replaces.

    FlashAttention computes what cuDNN's attention does, if that alone is selected.
    """
    if enable_gqa:
        groups = query.shape[1] // key.shape[1]
        key, value = (tensor.repeat_interleave(groups, dim=1) for tensor in (key, value))
    found = _attend_by_name(query, key, value, dropout_p, is_causal, scale, False)
    if found is None:
        with cpu_backends():
            found = _attend_by_name(query, key, value, dropout_p, is_causal, scale, False)
    if found is not None:
        return found
    with sdpa_kernel(SDPBackend.MATH):
        result: Tensor = _attention(query, key, value, None, dropout_p, is_causal, scale=scale)
    return result


def _attend_by_name(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor | None:
    """Call CUDA's fused operator by its name, which checkpointing policies compare; None if CUDA has none."""
    dtype = _dtype_of_call(query)
    if dtype != query.dtype:
        query, key, value = (tensor.to(dtype) for tensor in (query, key, value))
    return attend_fused(query, key, value, None, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


def _is_plain(tensors: Iterable[Tensor]) -> bool:
    """Whether tensors are of the device, without subclasses and transformations that need the composite operator."""
    return not _is_transformed() and all(
        type(tensor) in (Tensor, torch.nn.Parameter) and residence_of(tensor) is not None for tensor in tensors
    )


def is_fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, is_causal: bool) -> bool:
    """Return whether a fused kernel of CUDA runs an attention with dropout (sdp_utils.cpp)."""
    tensors = [query, key, value] if mask is None else [query, key, value, mask]
    is_plain = all(type(tensor) in (Tensor, torch.nn.Parameter) for tensor in tensors)
    if not is_plain or not 0.0 < dropout_p < 1.0 or _is_transformed():
        return False
    is_enabled = torch._C._get_mem_efficient_sdp_enabled() or torch._C._get_flash_sdp_enabled()
    residences = [residence_of(tensor) for tensor in tensors]
    devices = {None if residence is None else residence.device for residence in residences}
    if not is_enabled or None in devices or len(devices) > 1:
        return False
    dtypes = {_dtype_of_call(tensor) for tensor in (query, key, value)}
    if len(dtypes) > 1 or not dtypes <= ALIGNMENT.keys():
        return False
    if mask is not None and (is_causal or mask.requires_grad or mask.dtype not in (torch.bool, query.dtype)):
        return False
    if {query.dim(), key.dim(), value.dim()} != {4} or not (query.numel() and key.numel() and value.numel()):
        return False
    same_heads = query.shape[:2] == key.shape[:2] == value.shape[:2] and key.shape[2] == value.shape[2]
    alignment = ALIGNMENT[dtypes.pop()]
    is_aligned = query.shape[3] % alignment == 0 and value.shape[3] % alignment == 0
    has_rows = all(tensor.stride(3) == 1 for tensor in (query, key, value))
    return same_heads and is_aligned and has_rows and query.shape[3] == key.shape[3]


def _is_transformed() -> bool:
    """Return whether torch.func or forward differentiation, for which the kernel has no formula, is active."""
    return torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0


def _dtype_of_call(tensor: Tensor) -> torch.dtype:
    """Return the dtype after autocast, which casts the arguments of attention."""
    if torch.is_autocast_enabled("cuda") and tensor.dtype in ALIGNMENT:
        return torch.get_autocast_dtype("cuda")
    return tensor.dtype


def _run_fused(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, p: float, is_causal: bool, scale: float | None
) -> Tensor:
    dtype = _dtype_of_call(query)
    query, key, value = (tensor.to(dtype) for tensor in (query, key, value))
    if mask is None:
        found = attend_fused(query, key, value, None, p, is_causal, scale=scale, enable_gqa=False)
        if found is not None:
            return found
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=dtype).masked_fill_(mask.logical_not(), float("-inf"))
        mask = mask.to(dtype).expand(*query.shape[:3], key.shape[2])
    differentiates = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
    fused = _aten._scaled_dot_product_efficient_attention
    return fused(query, key, value, mask, differentiates, p, is_causal, scale=scale)[0]


class SavedStates:
    """States of generators by number, the newest `_MAX_STATES` of them."""

    def __init__(self) -> None:
        self._states: dict[int, Tensor] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def save(self, state: Tensor) -> int:
        """Save a state and return its number."""
        with self._lock:
            number = next(self._numbers)
            self._states[number] = state
            if len(self._states) > _MAX_STATES:
                del self._states[next(iter(self._states))]
            return number

    def find(self, number: int) -> Tensor:
        """Return the state of a number.

        Raises:
            VirtualDeviceError: It was dropped.
        """
        with self._lock:
            state = self._states.get(number)
        if state is None:
            raise VirtualDeviceError(_LOST_STATE)
        return state


_saved: Final = SavedStates()


class Attention(SwappedState):
    """Computes ``_scaled_dot_product_efficient_attention`` with dropout as the CPU's decomposition."""

    def __call__(  # type: ignore[override]
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_bias: Tensor | None,
        compute_log_sumexp: bool,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        generator: torch.Generator,
    ) -> Any:
        """Compute the values; with dropout, whose backward pass does not read them, the statistics are zeros."""
        num_rows = -(-query.shape[2] // _ROWS) * _ROWS if compute_log_sumexp else 0
        statistics = torch.zeros(*query.shape[:2], num_rows)
        if not dropout_p:
            out, sums = _aten._scaled_dot_product_flash_attention_for_cpu.default(
                query, key, value, 0.0, is_causal, attn_mask=attn_bias, scale=scale
            )
            if compute_log_sumexp:
                statistics[..., : query.shape[2]] = sums
            return _in_layout(out, query.dtype), statistics, torch.tensor(0), torch.tensor(0)
        number = _saved.save(generator.get_state())
        parts = _Parts(query, key, value, attn_bias, dropout_p, is_causal, scale, generator)
        out = torch.matmul(parts.dropped, parts.value).to(query.dtype)
        out = out.transpose(1, 2).contiguous().transpose(1, 2)  # the kernel's layout
        return out, statistics, torch.tensor(number), torch.tensor(0)


class AttentionBackward(Replacement):
    """Computes ``_scaled_dot_product_efficient_attention_backward``."""

    def __call__(
        self,
        grad_out: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_bias: Tensor | None,
        out: Tensor,
        logsumexp: Tensor,
        philox_seed: Tensor,
        philox_offset: Tensor,
        dropout_p: float,
        grad_input_mask: list[bool],
        is_causal: bool = False,
        *,
        scale: float | None = None,
    ) -> Any:
        """Compute the gradients of query, key and value; with dropout by the formulas of the decomposition."""
        if not dropout_p:
            sums = logsumexp[..., : query.shape[2]]
            grads = _aten._scaled_dot_product_flash_attention_for_cpu_backward.default(
                grad_out, query, key, value, out, sums, 0.0, is_causal, attn_mask=attn_bias, scale=scale
            )
            return (*(_in_layout(one, query.dtype) for one in grads), None)
        generator = torch.Generator()
        generator.set_state(_saved.find(int(philox_seed)))
        parts = _Parts(query, key, value, attn_bias, dropout_p, is_causal, scale, generator)
        grad = grad_out.to(parts.value.dtype)
        grad_dropped, grad_value = _product_gradients(grad, parts.dropped, parts.value)
        grad_shares = grad_dropped * parts.factors
        grad_scores = torch._softmax_backward_data(grad_shares, parts.shares, -1, parts.shares.dtype)
        grad_queries, grad_keys = _product_gradients(grad_scores, parts.queries, parts.keys)
        grad_query = grad_queries * parts.factor
        grad_key = grad_keys.transpose(-2, -1) * parts.factor
        grads = [_in_layout(one, query.dtype) for one in (grad_query, grad_key, grad_value)]
        return (*grads, None)


class _Parts:
    """What the decomposition computes (ATen/native/transformers/attention.cpp, _scaled_dot_product_attention_math).

    Attributes:
        factor: The square root of the scale.
        queries: Scaled, (batch, heads, queries, features).
        keys: Scaled and transposed, (batch, heads, features, keys).
        value: (batch, heads, keys, features).
        shares: The softmax of the scores, (batch, heads, queries, keys).
        factors: 0, or 1 / (1 - p), for each share.
        dropped: Their product.
    """

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        p: float,
        is_causal: bool,
        scale: float | None,
        generator: torch.Generator,
    ) -> None:
        if query.dtype in _HALF and not torch._C._get_math_sdp_allow_fp16_bf16_reduction():
            query, key, value = query.float(), key.float(), value.float()
            bias = None if bias is None else bias.float()
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        self.factor = abs(scale) ** 0.5
        self.queries = query * (self.factor if scale >= 0 else -self.factor)
        self.keys = key.transpose(-2, -1) * self.factor
        self.value = value
        scores = torch.matmul(self.queries, self.keys)
        if is_causal:
            is_allowed = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
            bias = torch.zeros(scores.shape[-2:], dtype=query.dtype).masked_fill_(~is_allowed, float("-inf"))
        if bias is not None:
            scores = scores + bias
        self.shares = _aten._safe_softmax.default(scores, -1)
        self.factors = torch.empty_like(self.shares).bernoulli_(1 - p, generator=generator).div_(1 - p)
        self.dropped = self.shares * self.factors


def _product_gradients(grad: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of both factors of ``torch.matmul``, rounded as those of autograd.

    ``torch.matmul`` folds both factors into batches of matrices, and their strides decide how the products are rounded.
    """
    grads, lefts, rights = (tensor.reshape(-1, *tensor.shape[-2:]) for tensor in (grad, left, right))
    of_left, of_right = grads.bmm(rights.transpose(1, 2)), lefts.transpose(1, 2).bmm(grads)
    return of_left.reshape(left.shape), of_right.reshape(right.shape)


def _in_layout(grad: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a gradient with positions before heads in memory, as the kernel writes it."""
    return grad.to(dtype).transpose(1, 2).contiguous().transpose(1, 2)


#: Replacements of operator implementations, by operator name.
REPLACEMENTS: Final[dict[str, Replacement]] = {
    "_scaled_dot_product_efficient_attention": Attention(_aten._scaled_dot_product_efficient_attention.default),
    "_scaled_dot_product_efficient_attention_backward": AttentionBackward(
        _aten._scaled_dot_product_efficient_attention_backward.default
    ),
}
