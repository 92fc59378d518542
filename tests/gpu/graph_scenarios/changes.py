"""The changes that reasons state, and what they do: after the change, the same loop replays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from cudalens.errors import GraphError
from cudalens.graphs import GraphManager, capturable
from graph_scenarios.networks import batch, small
from graph_scenarios.stage import counts, same, scenario


def changes(m: GraphManager) -> set[str]:
    """The changes that the frame states, without comments."""
    frame = m.frame()
    return {change.partition("  #")[0] for change in frame["change"].dropna()}


def follow(m: GraphManager, make: Callable[[], tuple[Any, torch.optim.Optimizer]], change: str, **options: Any) -> None:
    """The loop states a change; after it, all but three calls replay, and the results are those of eager execution."""
    step, _ = make()
    run = m.wrap(step)
    for n in range(4):
        run(batch(n)[0])
    assert counts(run)[2] == 0
    assert change in changes(m)
    sides = [make(), make()]
    assert [capturable(optimizer, **options) != "" for _, optimizer in sides] == [True, True]
    run = m.wrap(sides[0][0])
    for n in range(7):
        x = batch(n)[0]
        found, expected = run(x).clone(), sides[1][0](x)
        assert torch.equal(found, expected)
    assert counts(run) == (2, 1, 4, 0)


@scenario
def an_optimizer_with_counters_on_the_host(m: GraphManager) -> None:
    def make() -> tuple[Any, torch.optim.Optimizer]:
        module = small()
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, optimizer

    follow(m, make, "+ cudalens.graphs.capturable(optimizer)")


@scenario
def a_learning_rate_that_a_scheduler_changes(m: GraphManager) -> None:
    def make() -> tuple[Any, torch.optim.Optimizer]:
        module = small()
        sgd = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(sgd, 0.9)

        def train(x: torch.Tensor) -> torch.Tensor:
            sgd.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            sgd.step()
            return loss.detach()

        return _then(train, scheduler.step), sgd

    follow_scheduled(m, make)


def _then(step: Callable[[torch.Tensor], Any], after: Callable[[], Any]) -> Any:
    step.after = after  # type: ignore[attr-defined]
    return step


def follow_scheduled(m: GraphManager, make: Callable[[], tuple[Any, torch.optim.Optimizer]]) -> None:
    step, _ = make()
    run = m.wrap(step)
    for n in range(4):
        run(batch(n)[0])
        step.after()
    assert counts(run)[2] == 0
    assert "+ cudalens.graphs.capturable(sgd)" in changes(m)
    (one, optimizer), (other, twin) = make(), make()
    assert "fused=True" in capturable(optimizer)
    capturable(twin)
    assert capturable(optimizer) == ""
    run = m.wrap(one)
    for n in range(8):
        x = batch(n)[0]
        found, expected = run(x).clone(), other(x)
        assert torch.equal(found, expected)
        one.after()
        other.after()
    assert counts(run) == (2, 1, 5, 0)


@scenario
def a_scaler_that_asks_the_device(m: GraphManager) -> None:
    def make() -> tuple[Any, torch.optim.Optimizer]:
        module = small()
        adam = torch.optim.Adam(module.parameters(), lr=0.01)
        scaler = torch.amp.GradScaler("cuda", init_scale=64.0)

        def step(x: torch.Tensor) -> torch.Tensor:
            adam.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = module(x).float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(adam)
            scaler.update()
            return loss.detach()

        return step, adam

    follow(m, make, "+ cudalens.graphs.capturable(adam, fused=True)", fused=True)


@scenario
def an_optimizer_that_has_begun(m: GraphManager) -> None:
    """The counters go to the device; the numbers of the next steps are close to those without the change."""
    module, twin = small(), small()
    optimizers = [torch.optim.NAdam(net.parameters(), lr=0.01) for net in (module, twin)]

    def train(net: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()

    for n in range(4):
        if n == 2:
            assert "counters" in capturable(optimizers[0])
        for net, optimizer in zip((module, twin), optimizers, strict=True):
            train(net, optimizer, batch(n)[0])
    same(list(module.parameters()), list(twin.parameters()))
    state = optimizers[0].state[module[0].weight]
    assert state["step"].is_cuda
    assert int(state["step"]) == 4


@scenario
def an_optimizer_without_such_a_form(m: GraphManager) -> None:
    with pytest.raises(GraphError, match=r"Adagrad has no option capturable\. Call optimizer\.step\(\) outside"):
        capturable(torch.optim.Adagrad(small().parameters()))
    with pytest.raises(GraphError, match="have to be on one CUDA device; found cpu"):
        capturable(torch.optim.Adam([torch.ones(2, requires_grad=True)]))
    with pytest.raises(GraphError, match="RMSprop has no fused form"):
        capturable(torch.optim.RMSprop(small().parameters()), fused=True)


@scenario
def a_result_that_is_read_on_the_host(m: GraphManager) -> None:
    module = small()

    def function(x: torch.Tensor) -> Any:
        y = module(x).sum()
        return y.item()

    step = m.wrap(function)
    for n in range(3):
        step(batch(n)[0])
    assert changes(m) == {"- return y.item()\n+ return y.detach()"}


@scenario
def a_distribution_that_checks_its_parameters(m: GraphManager) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        return torch.distributions.Normal(x, x.exp()).log_prob(x * 2)

    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(True)  # torch.compile sets it to False
    try:
        run = m.wrap(step)
        for n in range(6):
            same(run(batch(n)[0]), step(batch(n)[0]))
        assert counts(run)[2] > 0
    finally:
        torch.distributions.Distribution.set_default_validate_args(before)
