"""Attention whose heads or positions are divided over ranks, in jobs with values."""

import sys

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import context_parallel_unshard
from torch.nn.attention import SDPBackend, sdpa_kernel

import cudalens
from tests.unit.virtual.jobs.programs_of_ranks import start

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="jobs with values fork")


def attention_inputs():
    """Query, key, value and the gradient of the output; (batch, heads, positions, features)."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(1, 4, 64, 16, generator=generator).bfloat16().cuda() for _ in range(4)]


def gradients_of_attention(query, key, value, gradient, **options):
    """Run causal attention; returns the output and the gradients of query, key and value."""
    inputs = [one.detach().requires_grad_() for one in (query, key, value)]
    out = nn.functional.scaled_dot_product_attention(*inputs, is_causal=True, **options)
    out.backward(gradient)
    return [out.detach(), *(one.grad for one in inputs)]


def divided_sequence():
    """Attention of two ranks that have a part of the positions, and of all positions."""
    start()
    given = attention_inputs()
    wanted = gradients_of_attention(*given)
    mesh = init_device_mesh("cuda", (2,))
    with context_parallel(mesh, buffers=given, buffer_seq_dims=[2] * 4), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        found = gradients_of_attention(*given)
        whole = context_parallel_unshard(mesh, found, [2] * 4)
    return whole, wanted


def test_context_parallel_attention_is_that_of_the_whole_sequence():
    for whole, wanted in cudalens.virtual.job(divided_sequence, "h100x2", values=True).results.values():
        for found, expected in zip(whole, wanted, strict=True):
            torch.testing.assert_close(found, expected, atol=0.04, rtol=0.02)  # the parts round to bfloat16


def divided_heads(dtype, groups):
    """Attention of two ranks that have a part of the heads as DTensors, and of all heads."""

    def run():
        start()
        query, key, value, gradient = (one.to(dtype) for one in attention_inputs())
        given = [query, key[:, ::groups], value[:, ::groups], gradient]
        mesh = init_device_mesh("cuda", (2,))
        shards = [distribute_tensor(one.contiguous(), mesh, [Shard(1)]) for one in given]
        options = {"enable_gqa": groups > 1}
        found = gradients_of_attention(*shards, **options)
        return [one.full_tensor() for one in found], gradients_of_attention(*given, **options)

    return run


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_attention_of_divided_heads_is_that_of_all_heads(dtype):
    job = cudalens.virtual.job(divided_heads(dtype, groups=1), "h100x2", values=True)
    for rank in range(2):
        found, wanted = job.results[rank]
        assert all(map(torch.equal, found, wanted))


def test_attention_of_divided_heads_can_share_keys_among_queries():
    found, wanted = cudalens.virtual.job(divided_heads(torch.bfloat16, groups=2), "h100x2", values=True).results[1]
    for one, expected in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, expected, atol=0.04, rtol=0.02)  # a shared key's gradients round
