"""Fused attention is the operator that torch chooses on CUDA: policies of selective checkpointing compare its name."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from cudalens.virtual import device

_aten = torch.ops.aten


class Names(TorchDispatchMode):
    """The operators of attention that are called."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if "attention" in str(func):
            self.seen.append(func)
        return func(*args, **(kwargs or {}))


def _keep_attention(context, operator, *args, **kwargs):
    kept = _aten._scaled_dot_product_flash_attention.default
    return CheckpointPolicy.MUST_SAVE if operator is kept else CheckpointPolicy.PREFER_RECOMPUTE


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [
        (torch.bfloat16, _aten._scaled_dot_product_flash_attention.default),
        (torch.float32, _aten._scaled_dot_product_efficient_attention.default),
    ],
)
def test_the_operator_is_that_of_cuda(values, dtype, wanted):
    with device("h100", values=values), Names() as names:
        query = torch.ones(1, 2, 8, 16, device="cuda", dtype=dtype)
        scaled_dot_product_attention(query, query, query, is_causal=True)
    assert names.seen == [wanted]


@pytest.mark.parametrize("values", [True, False])
def test_only_the_backends_that_the_program_allows_are_chosen(values):
    with device("h100", values=values), Names() as names:
        query = torch.ones(1, 2, 8, 16, device="cuda", dtype=torch.bfloat16)
        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
            scaled_dot_product_attention(query, query, query)
        with sdpa_kernel(SDPBackend.MATH):
            scaled_dot_product_attention(query, query, query)
    assert names.seen == [_aten._scaled_dot_product_efficient_attention.default]


@pytest.mark.parametrize("values", [True, False])
def test_a_policy_that_keeps_the_result_of_attention_keeps_it(values):
    with device("h100", values=values):
        query = torch.ones(1, 2, 64, 16, device="cuda", dtype=torch.bfloat16, requires_grad=True)

        def attend(query):
            return scaled_dot_product_attention(query.sin(), query, query, is_causal=True).cos()

        def contexts():
            return create_selective_checkpoint_contexts(_keep_attention)

        out = checkpoint(attend, query, use_reentrant=False, context_fn=contexts)
        with Names() as names:
            out.sum().backward()
    assert names.seen == [_aten._scaled_dot_product_flash_attention_backward.default]


@pytest.mark.parametrize("key_heads", [4, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_values_and_gradients_are_those_of_the_cpu(key_heads, dtype):
    def run(place):
        torch.manual_seed(0)
        made = [torch.randn(2, heads, 33, 16, dtype=dtype) for heads in (4, key_heads, key_heads)]
        query, key, value = (one.to(place).requires_grad_() for one in made)
        out = scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=key_heads < 4)
        grads = torch.autograd.grad((out * out).sum(), (query, key, value))
        return [one.detach().cpu() for one in (out, *grads)]

    with device("h100"):
        found = run("cuda")
    assert all(map(torch.equal, found, run("cpu")))


@pytest.mark.parametrize("gpu", ["v100", "t4"])
@pytest.mark.parametrize("values", [True, False])
def test_gpus_before_ampere_have_no_flash_attention(gpu, values):
    with device(gpu, values=values), Names() as names:
        query = torch.ones(1, 2, 8, 16, device="cuda", dtype=torch.float16)
        scaled_dot_product_attention(query, query, query, is_causal=True)
        wide = query.bfloat16()
        scaled_dot_product_attention(wide, wide, wide)  # its kernel has no bfloat16 there: the plain formula
    assert names.seen == [_aten._scaled_dot_product_efficient_attention.default]
