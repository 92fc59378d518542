"""Gradients that a formula of torch's C++ makes of nothing are on the device of their tensor."""

from __future__ import annotations

import pytest
import torch

from cudalens.virtual import device


@pytest.fixture(params=["cuda:0", "cuda:1"])
def place(request: pytest.FixtureRequest):
    with device("h100x2"):
        yield torch.device(request.param)


def test_zeros_that_a_formula_returns_are_on_the_device(place: torch.device) -> None:
    magnitude, sign = (torch.tensor([1.0, -2.0], device=place, requires_grad=True) for _ in range(2))
    grads = torch.autograd.grad(torch.copysign(magnitude, sign).sum(), (magnitude, sign))
    assert [grad.device for grad in grads] == [place, place]
    before = torch.cuda.memory_allocated(place)
    torch.copysign(magnitude, sign).sum().backward()
    assert sign.grad is not None
    assert (sign.grad.device, sign.grad.tolist()) == (place, [0.0, 0.0])
    assert torch.cuda.memory_allocated(place) == before + 1024
    (torch.copysign(magnitude, sign) * 2 * sign).sum().backward()
    assert (sign.grad.device, sign.grad.tolist()) == (place, [2.0, -4.0])


def test_such_a_gradient_of_a_captured_step_is_in_the_memory_of_its_graph() -> None:
    with device("h100"):
        magnitude, sign = (torch.tensor([1.0, -2.0], device="cuda", requires_grad=True) for _ in range(2))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.copysign(magnitude, sign).sum().backward()
        graph.replay()
        assert sign.grad is not None
        assert (sign.grad.device.type, sign.grad.tolist()) == ("cuda", [0.0, 0.0])
