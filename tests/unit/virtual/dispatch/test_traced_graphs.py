"""Graphs that make_fx traces on a virtual device: their nodes make tensors on the device that the program named."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import cudalens.virtual

HOST = torch.tensor([5.0, 6.0, 7.0])
FUNCTIONS = {
    "zeros": lambda x: (x @ x.T).relu() + torch.zeros(2, device=x.device),
    "like": lambda x: x + torch.ones_like(x) + x.new_ones(3),
    "arange": lambda x: x * torch.arange(3, device=x.device),
    "factory alone": lambda x: torch.full((2,), 3.0, device=x.device),
    "copy to the host": lambda x: x.cpu() + torch.ones(3),
    "constant": lambda x: x * torch.tensor([1.0, 2.0, 3.0], device="cuda"),
    "number": lambda x: torch.tensor(2.0, device="cuda").expand(2),
    "constant of a list": lambda x: x + torch.as_tensor([1.0, 2.0, 3.0], device="cuda"),
    "constant of an array": lambda x: x + torch.tensor(HOST.numpy(), device="cuda"),
    "new_tensor": lambda x: x + x.new_tensor([1.0, 2.0, 3.0]),
    "index": lambda x: x[:, torch.tensor([0, 2], device="cuda")],
    "written constant": lambda x: torch.tensor([1.0, 2.0, 3.0], device="cuda").mul_(2) + x,
    "host tensor": lambda x: x + HOST.to("cuda") + HOST.cuda() + HOST.to(x) + HOST.to(x.device, torch.float64),
    "host tensor of another dtype": lambda x: x * HOST.long().to(x),
    "there and back": lambda x: x.to("cpu").to("cuda") * 2,
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
