"""Graphs that make_fx traces on a virtual device: their nodes make tensors on the device that the program named."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import cudalens.virtual

FUNCTIONS = {
    "zeros": lambda x: (x @ x.T).relu() + torch.zeros(2, device=x.device),
    "like": lambda x: x + torch.ones_like(x) + x.new_ones(3),
    "arange": lambda x: x * torch.arange(3, device=x.device),
    "factory alone": lambda x: torch.full((2,), 3.0, device=x.device),
    "copy to the host": lambda x: x.cpu() + torch.ones(3),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_traced_graph_makes_what_the_function_makes(function) -> None:
    with cudalens.virtual.device("h100"):
        x = torch.arange(6.0, device="cuda").view(2, 3)
        expected, found = function(x), make_fx(function)(x)(x)
        assert found.device == expected.device
        assert found.tolist() == expected.tolist()


def test_a_traced_random_factory_draws_on_the_device() -> None:
    with cudalens.virtual.device("h100"):
        traced = make_fx(lambda x: x + torch.rand(3, device="cuda"))(torch.zeros(3, device="cuda"))
        torch.manual_seed(0)
        expected = torch.rand(3, device="cuda")
        torch.manual_seed(0)
        found = traced(torch.zeros(3, device="cuda"))
        assert found.is_cuda
        assert found.tolist() == expected.tolist()
