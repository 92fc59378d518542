"""Tensor subclasses that wrap other tensors, and name a device when they are made."""

from __future__ import annotations

import pytest
import torch
from torch.utils._pytree import tree_map

from cudalens.virtual import device

N = 8


class Wrapper(torch.Tensor):
    """Holds a tensor, and runs each operator on it."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        inside = [value.inner if isinstance(value, Wrapper) else value for value in args]
        out = func(*inside, **(kwargs or {}))
        return tree_map(lambda value: Wrapper(value) if isinstance(value, torch.Tensor) else value, out)


@pytest.fixture(autouse=True)
def _gpus():
    with device("h100x2"):
        yield


@pytest.mark.parametrize("place", ["cpu", "cuda:0", "cuda:1"])
def test_a_wrapper_is_where_its_tensor_is(place):
    made = Wrapper(torch.ones(N, device=place))
    assert (made.device, (made + 1).device) == (torch.device(place),) * 2
    assert made.is_cuda == (place != "cpu")


def test_a_parameter_that_wraps_a_tensor_gets_a_gradient():
    weight = torch.nn.Parameter(Wrapper(torch.ones(N, device="cuda")))
    (weight * torch.arange(N, device="cuda")).sum().backward()
    assert weight.grad.device == torch.device("cuda", 0)
    assert weight.grad.inner.tolist() == list(range(N))


def test_a_wrapper_has_no_memory_of_its_own():
    inner = torch.ones(N, device="cuda")
    before = torch.cuda.memory_allocated()
    made = Wrapper(inner)
    assert torch.cuda.memory_allocated() == before
    assert made.inner is inner
