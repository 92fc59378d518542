"""Second derivatives, function transforms and forward-mode derivatives through graphed functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.autograd import forward_ad

from cudalens.graphs import GraphManager
from graph_scenarios.stage import counts, fails, reason_row, reasons, same, scenario, values


def critic() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1)).cuda()


def gradient_penalty(call: Callable[..., Any], x: torch.Tensor) -> None:
    (slope,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
    ((slope.norm(dim=-1) - 1) ** 2).mean().backward()


def draw(n: int) -> torch.Tensor:
    return (torch.linspace(-1, 1, 24, device="cuda").view(4, 6) + n).requires_grad_()


def gradients(module: nn.Module) -> list[torch.Tensor | None]:
    return [None if p.grad is None else p.grad.clone() for p in module.parameters()]


@scenario
def a_gradient_penalty_is_what_it_is_without_graphs(m: GraphManager) -> None:
    module, twin = critic(), critic()
    step = m.wrap(module, name="critic")
    for n in range(5):
        for net, call in ((module, step), (twin, twin)):
            net.zero_grad()
            gradient_penalty(call, draw(n))
        same(gradients(module)[:3], gradients(twin)[:3])
        assert gradients(module)[3] is gradients(twin)[3] is None
    row = reason_row(m, "SECOND_DERIVATIVE")
    assert "critic" in row["detail"]
    assert "create_graph" in row["advice"]


@scenario
def a_first_second_derivative_after_replays_raises_and_the_next_is_right(m: GraphManager) -> None:
    """A replay that is already made has no second derivative; the message says so, and later calls run eager."""
    module, twin = critic(), critic()
    step = m.wrap(module, name="critic")
    for n in range(4):
        step(draw(n)).sum().backward()
    module.zero_grad()
    fails(lambda: gradient_penalty(step, draw(0)), RuntimeError, "critic", "create_graph=True", ".fn")
    for net, call in ((module, step), (twin, twin)):
        net.zero_grad()
        gradient_penalty(call, draw(0))
    same(gradients(module)[:3], gradients(twin)[:3])


@scenario
def create_graph_without_a_second_backward_is_right(m: GraphManager) -> None:
    module, twin = critic(), critic()
    step = m.wrap(module)
    for n in range(5):
        found = torch.autograd.grad(step(draw(n)).sum(), list(module.parameters()), create_graph=n > 2)
        expected = torch.autograd.grad(twin(draw(n)).sum(), list(twin.parameters()), create_graph=n > 2)
        same([grad.detach() for grad in found], [grad.detach() for grad in expected])
        del found, expected


@scenario
def first_derivatives_of_other_sizes_are_graphed_beside_a_penalty(m: GraphManager) -> None:
    step = m.wrap(critic())
    for n in range(4):
        gradient_penalty(step, draw(n))
        step(draw(n)[:2].detach()).sum().backward()
    warmups, recordings, replays, eager = counts(step)
    assert (warmups, recordings, eager) == (3, 2, 3)
    assert replays == 3


@scenario
def transforms_run_without_a_graph(m: GraphManager) -> None:
    w = values()

    def function(x: torch.Tensor) -> torch.Tensor:
        return (x * w).sin().sum()

    step = m.wrap(function, name="wave")
    batch = torch.stack([values(), values() + 1])
    transforms: list[Callable[[Any], Any]] = [
        lambda call: torch.func.grad(call)(values()),
        lambda call: torch.func.vmap(call)(batch),
        lambda call: torch.func.vmap(torch.func.grad(call))(batch),
        lambda call: torch.func.jvp(call, (values(),), (values() / 2,)),
        lambda call: torch.func.hessian(call)(values()),
        lambda call: torch.func.functionalize(call)(values()),
    ]
    for transform in transforms * 2:
        same(transform(step), transform(function))
    assert counts(step)[:3] == (0, 0, 0)
    assert reasons(m)["TRANSFORM"] == counts(step)[3]


@scenario
def dual_tensors_run_without_a_graph(m: GraphManager) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (x * x).sum()

    step = m.wrap(function)
    for n in range(4):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(values() + n, values())
            same(tuple(forward_ad.unpack_dual(step(dual))), tuple(forward_ad.unpack_dual(function(dual))))
        same(step(values() + n), function(values() + n))
    assert "forward_ad" in reason_row(m, "TRANSFORM")["detail"]
    assert counts(step) == (1, 1, 2, 4)


@scenario
def jacobians_and_batched_gradients(m: GraphManager) -> None:
    step = m.wrap(lambda x: x.sin() * x)
    for n in range(5):
        x = (values() + n).requires_grad_()
        basis = torch.eye(6, device="cuda")
        (found,) = torch.autograd.grad(step(x), x, basis, is_grads_batched=True)
        (expected,) = torch.autograd.grad(x.sin() * x, x, basis, is_grads_batched=True)
        same(found, expected)
        del found
        same(
            torch.autograd.functional.jacobian(step, x, vectorize=n % 2 == 0),
            torch.autograd.functional.jacobian(lambda x: x.sin() * x, x),
        )
