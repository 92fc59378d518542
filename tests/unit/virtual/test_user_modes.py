"""A user's own torch modes above those of a virtual device."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cudalens.virtual import device


@pytest.fixture(autouse=True)
def _gpu():
    with device("h100"):
        yield


class Passes(TorchDispatchMode):
    """A user's dispatch mode that calls each operator and returns what it returned."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class TwoOutputs(torch.autograd.Function):
    """Two outputs; autograd fills the gradient of an unused one with zeros."""

    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, first, second):
        return first * 2 + second * 3


class MakesOnHost(torch.autograd.Function):
    """Its backward makes a tensor of the host by the operator's own name."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        assert torch.ops.aten.zeros.default([2], device=torch.device("cpu")).device.type == "cpu"
        assert torch.ops.aten.zeros_like.default(grad, device=torch.device("cpu")).device.type == "cpu"
        return grad * 2


def test_the_gradient_of_an_unused_output_is_zeros_of_the_device():
    x = torch.arange(4.0, device="cuda").requires_grad_()
    with Passes():
        used, _ = TwoOutputs.apply(x)
        used.sum().backward()
    assert x.grad.device == torch.device("cuda:0")
    assert x.grad.tolist() == [2.0] * 4


@pytest.mark.parametrize("mode", [Passes, None])
def test_backward_code_that_names_the_host_gets_tensors_of_the_host(mode):
    x = torch.ones(2, device="cuda", requires_grad=True)
    if mode is None:
        MakesOnHost.apply(x).sum().backward()
    else:
        with mode():
            MakesOnHost.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
