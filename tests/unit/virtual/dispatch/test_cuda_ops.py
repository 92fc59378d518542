"""Operators that only CUDA implements, compared with other ways to compute their values."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from cudalens.virtual import device


@pytest.fixture(autouse=True)
def _gpu():
    with device("h100"):
        yield


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8])
@pytest.mark.parametrize(("bins", "low", "high"), [(8, 0, 7), (5, 2, 11), (4, 0, 0), (3, 3, 3), (100, 0, 20)])
def test_histogram_of_integers(dtype, bins, low, high):
    values = torch.randint(0, 13, (500,), dtype=dtype)
    counted = torch.histc(values.cuda(), bins, low, high)
    assert counted.dtype is dtype
    assert counted.is_cuda
    assert counted.cpu().tolist() == torch.histc(values.double(), bins, low, high).tolist()


def test_histogram_of_one_number():
    assert torch.histc(torch.tensor([4, 4], device="cuda"), bins=2).tolist() == [0, 2]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.parametrize("is_affine", [True, False])
def test_batch_normalisation_in_parts(dtype, is_affine):
    """Two ranks' statistics, gathered, are those of the whole batch; so are output, gradients and running values."""
    parts = [torch.randn(4, 3, 5, device="cuda", dtype=dtype), torch.randn(2, 3, 5, device="cuda", dtype=dtype) * 3 + 1]
    accumulated = torch.float32 if dtype is torch.float16 else dtype
    near = {"atol": 2e-2, "rtol": 2e-2} if dtype is torch.float16 else {"atol": 1e-5, "rtol": 1e-5}
    weight, bias = (torch.rand(3, device="cuda", dtype=accumulated) for _ in range(2)) if is_affine else (None, None)
    running = [torch.zeros(3, device="cuda", dtype=accumulated), torch.ones(3, device="cuda", dtype=accumulated)]
    statistics = [torch.batch_norm_stats(part, 1e-5) for part in parts]
    counts = torch.tensor([20.0, 10.0], device="cuda", dtype=accumulated)
    mean, invstd = torch.batch_norm_gather_stats_with_counts(
        parts[0], *(torch.stack(values) for values in zip(*statistics, strict=True)), *running, 0.1, 1e-5, counts
    )
    outputs = [torch.batch_norm_elemt(part, weight, bias, mean, invstd, 1e-5) for part in parts]

    whole = torch.cat(parts).to(accumulated).detach().requires_grad_()
    leaves = [value.detach().clone().requires_grad_() for value in (weight, bias) if value is not None]
    expected_running = [torch.zeros_like(running[0]), torch.ones_like(running[1])]
    expected = functional.batch_norm(whole, *expected_running, *(leaves or (None, None)), training=True)
    torch.testing.assert_close(torch.cat(outputs).to(accumulated), expected.detach(), **near)
    torch.testing.assert_close(running, expected_running, **near)

    grads = [torch.randn_like(part) for part in parts]
    expected.backward(torch.cat(grads).to(accumulated))
    sums = [
        torch.batch_norm_backward_reduce(grad, part, mean, invstd, weight, True, is_affine, is_affine)
        for grad, part in zip(grads, parts, strict=True)
    ]
    total, products = (sum(values) for values in list(zip(*sums, strict=True))[:2])
    gradients = [
        torch.batch_norm_backward_elemt(grad, part, mean, invstd, weight, total, products, counts.int())
        for grad, part in zip(grads, parts, strict=True)
    ]
    torch.testing.assert_close(torch.cat(gradients).to(accumulated), whole.grad, **near)
    for position, leaf in enumerate(leaves):
        torch.testing.assert_close(sums[0][2 + position] + sums[1][2 + position], leaf.grad, **near)


def test_gathered_statistics_of_equal_counts():
    parts = torch.randn(2, 4, 3, 5, device="cuda")
    mean, invstd = (
        torch.stack(values) for values in zip(*(torch.batch_norm_stats(p, 1e-5) for p in parts), strict=True)
    )
    gathered = torch.batch_norm_gather_stats(parts[0], mean, invstd, None, None, 0.1, 1e-5, 20)
    torch.testing.assert_close(gathered, torch.batch_norm_stats(parts.flatten(0, 1), 1e-5))
