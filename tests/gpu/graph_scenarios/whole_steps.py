"""Whole training steps in one function: zero_grad, forward, backward, clipping, optimizer, moving averages."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from cudalens.graphs import GraphManager
from graph_scenarios.networks import batch, small
from graph_scenarios.stage import counts, fails, reasons, same, scenario

#: A step, and a function that returns what it changes and that acts between the calls.
Made = tuple[Callable[[torch.Tensor], Any], Callable[[], list[torch.Tensor]]]


def gradients_of(module: nn.Module) -> list[torch.Tensor | None]:
    return [None if p.grad is None else p.grad.detach() for p in module.parameters()]


def state_of(module: nn.Module, *optimizers: torch.optim.Optimizer) -> list[Any]:
    """Copies of the parameters, gradients with their versions, and states of optimizers."""
    state = [value for one in optimizers for of in one.state.values() for value in of.values()]
    tensors = [*module.parameters(), *gradients_of(module), *(one for one in state if isinstance(one, torch.Tensor))]
    versions = [None if p.grad is None else p.grad._version for p in module.parameters()]
    copies = [None if one is None else one.detach().clone() for one in tensors]
    return copies + [torch.tensor([version or 0]) for version in versions]


def compare_steps(m: GraphManager, make: Callable[[], Made], *, num_calls: int = 7) -> Any:
    """Run a step graphed and eagerly, and compare results and states after each call; returns the graphed step."""
    runs = []
    for is_graphed in (True, False):
        torch.manual_seed(0)
        step, state = make()
        called = m.wrap(step) if is_graphed else step
        runs.append(_states(called, state, num_calls))
        if is_graphed:
            graphed = called
    for first, second in zip(*runs, strict=True):
        same([one is None for one in first], [one is None for one in second])
        assert all(torch.equal(*pair) for pair in zip(first, second, strict=True) if pair[0] is not None)
    return graphed


def _states(call: Callable[[torch.Tensor], Any], state: Callable[[], list[Any]], num_calls: int) -> Iterator[list[Any]]:
    for n in range(num_calls):
        result = call(batch(n)[0])
        yield [result.detach().clone(), *state()]
        del result


def training(optimizer_of: Callable[[Any], torch.optim.Optimizer], *, clips: bool = False) -> Callable[[], Made]:
    def make() -> Made:
        module = small()
        optimizer = optimizer_of(module.parameters())

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            if clips:
                nn.utils.clip_grad_norm_(module.parameters(), 0.1)
            optimizer.step()
            return loss

        return step, lambda: state_of(module, optimizer)

    return make


@scenario
def gradients_that_are_none_at_the_start_are_made_in_the_graph(m: GraphManager) -> None:
    step = compare_steps(m, training(lambda parameters: torch.optim.SGD(parameters, lr=0.1)))
    assert counts(step) == (2, 1, 4, 0)


def _layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).cuda()


@scenario
def a_step_of_several_layers_returns_its_loss(m: GraphManager) -> None:
    """The optimizer overwrites weights that the backward of the loss needed, and which ran before."""

    def make() -> Made:
        module = _layers()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(module(x), x[:, :3])
            loss.backward()
            optimizer.step()
            return loss

        return step, lambda: state_of(module, optimizer)

    assert counts(compare_steps(m, make)) == (2, 1, 4, 0)


@scenario
def a_second_backward_of_a_returned_loss_fails_as_without_a_graph(m: GraphManager) -> None:
    module = _layers()

    def step(x: torch.Tensor) -> torch.Tensor:
        module.zero_grad()
        loss = module(x).square().mean()
        loss.backward()
        return loss

    graphed = m.wrap(step)
    for n in range(5):
        loss = graphed(batch(n)[0])
        assert loss.requires_grad
        assert not loss.is_leaf
        fails(lambda loss=loss: loss.backward(), RuntimeError, "backward through the graph a second time")
        del loss
    assert counts(graphed)[2] > 0


@scenario
def a_loss_whose_history_is_kept_has_a_second_backward(m: GraphManager) -> None:
    module = _layers()

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = module(x).square().mean()
        torch.autograd.grad(loss, [module[2].bias], retain_graph=True)
        return loss

    graphed = m.wrap(step)
    for n in range(5):
        x = batch(n)[0]
        found = torch.autograd.grad(graphed(x), list(module.parameters()))
        same(found, torch.autograd.grad(module(x).square().mean(), list(module.parameters())))


@scenario
def a_loss_of_which_only_a_part_is_freed_keeps_the_rest(m: GraphManager) -> None:
    module = _layers()
    scale = torch.ones(2, device="cuda", requires_grad=True)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = module(x).square().mean()
        torch.autograd.grad(loss, [module[2].bias])
        return loss + scale.exp().sum()

    graphed = m.wrap(step)
    for n in range(5):
        (found,) = torch.autograd.grad(graphed(batch(n)[0]), [scale])
        same(found, scale.exp().detach())


@scenario
def a_scripted_module_is_trained(m: GraphManager) -> None:
    def make() -> Made:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = torch.jit.script(_layers())
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, lambda: state_of(module, optimizer)

    assert counts(compare_steps(m, make))[2] > 0


@scenario
def gradients_are_clipped_and_the_optimizer_has_momentum(m: GraphManager) -> None:
    made = training(lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9), clips=True)
    assert counts(compare_steps(m, made)) == (2, 1, 4, 0)


@scenario(check=True)
def a_checked_step_has_the_gradients_of_eager_execution(m: GraphManager) -> None:
    made = training(lambda parameters: torch.optim.AdamW(parameters, lr=0.1, capturable=True), clips=True)
    assert counts(compare_steps(m, made)) == (2, 1, 4, 0)
    assert all(node.check is not None and node.check.is_equal for node in m.nodes())


@scenario
def gradients_accumulate_over_two_calls(m: GraphManager) -> None:
    """The first call of two makes the gradients, the second adds to them: a recording each."""

    def make() -> Made:
        module, num_calls = small(), [0]
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)

        def backward(x: torch.Tensor) -> torch.Tensor:
            loss = module(x).square().mean() / 2
            loss.backward()
            return loss.detach()

        def between() -> list[Any]:
            num_calls[0] += 1
            before = state_of(module)
            if num_calls[0] % 2 == 0:
                nn.utils.clip_grad_norm_(module.parameters(), 0.1)
                optimizer.step()
                optimizer.zero_grad()
            return before + state_of(module, optimizer)

        return backward, between

    assert counts(compare_steps(m, make, num_calls=8)) == (2, 2, 4, 0)


@scenario
def a_gradient_that_the_program_keeps_has_its_values(m: GraphManager) -> None:
    def make() -> Made:
        module = small()
        kept: list[Any] = []

        def step(x: torch.Tensor) -> torch.Tensor:
            module.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            return loss.detach()

        def between() -> list[Any]:
            kept.append(module[0].weight.grad)
            return [one.clone() for one in kept]

        return step, between

    assert counts(compare_steps(m, make)) == (2, 1, 4, 0)


@scenario
def a_view_of_a_gradient_that_the_program_keeps_is_not_overwritten(m: GraphManager) -> None:
    def make() -> Made:
        module = small()
        kept: list[Any] = []

        def step(x: torch.Tensor) -> torch.Tensor:
            module.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            return loss.detach()

        def between() -> list[Any]:
            if len(kept) < 5:
                kept.append(module[0].weight.grad[0])
            return [one.clone() for one in kept]

        return step, between

    compare_steps(m, make, num_calls=8)
    assert reasons(m)["GRADIENT_HELD"] >= 1


@scenario
def a_gradient_with_other_memory_is_made_again(m: GraphManager) -> None:
    """What a program does to a gradient between two calls has no consequence for the next one."""

    def make() -> Made:
        module = small()
        num_calls = [0]

        def step(x: torch.Tensor) -> torch.Tensor:
            module.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            return loss.detach()

        def between() -> list[Any]:
            state = state_of(module)
            num_calls[0] += 1
            gradient = module[0].weight.grad
            if num_calls[0] == 3:
                gradient.data = torch.ones_like(gradient)
            elif num_calls[0] == 4:
                gradient.requires_grad_()
            elif num_calls[0] == 5:
                module[0].bias.grad.mul_(3)
            elif num_calls[0] == 6:
                module[0].weight.grad = torch.ones_like(gradient)
            return state

        return step, between

    assert counts(compare_steps(m, make, num_calls=8)) == (2, 1, 5, 0)


@scenario
def another_parameter_in_the_same_place_gets_the_gradient(m: GraphManager) -> None:
    def make() -> Made:
        module = small()
        old: list[nn.Parameter] = []

        def step(x: torch.Tensor) -> torch.Tensor:
            module.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            return loss.detach()

        def between() -> list[Any]:
            state = [*state_of(module), *(p.grad.clone() for p in old if p.grad is not None)]
            if len(state) and not old and module[0].weight.grad is not None:
                old.append(module[0].weight)
                module[0].weight = nn.Parameter(old[0].data)  # the same memory
            return state

        return step, between

    compare_steps(m, make, num_calls=8)


@scenario
def a_returned_gradient_is_refused(m: GraphManager) -> None:
    def make() -> Made:
        module = small()

        def step(x: torch.Tensor) -> torch.Tensor | None:
            module.zero_grad()
            module(x).square().mean().backward()
            return module[0].weight.grad

        return step, lambda: state_of(module)

    assert counts(compare_steps(m, make, num_calls=4))[2] == 0
    assert reasons(m)["NEW_GRADIENT"] >= 1


@scenario
def a_scaler_of_gradients_decides_on_the_device(m: GraphManager) -> None:
    def make() -> Made:
        module = small()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, fused=True)
        scaler = torch.amp.GradScaler("cuda", init_scale=2.0**15, growth_interval=2)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = module(x).float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss.detach()

        return step, lambda: [*state_of(module), scaler._scale.clone(), scaler._growth_tracker.clone()]

    assert counts(compare_steps(m, make)) == (2, 1, 4, 0)


@scenario
def an_average_of_the_weights_is_part_of_the_step(m: GraphManager) -> None:
    def make() -> Made:
        module, average = small(), small()
        optimizer = torch.optim.RMSprop(module.parameters(), lr=0.01, capturable=True)

        def step(x: torch.Tensor) -> torch.Tensor:
            loss = module(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            with torch.no_grad():
                for mean, parameter in zip(average.parameters(), module.parameters(), strict=True):
                    mean.lerp_(parameter, 0.1)
            return loss.detach()

        return step, lambda: [*state_of(module, optimizer), *state_of(average)]

    assert counts(compare_steps(m, make)) == (2, 1, 4, 0)


@scenario
def two_optimizers_in_one_step(m: GraphManager) -> None:
    """As a GAN: the second backward makes gradients of the first network anew, too."""

    def make() -> Made:
        generator, critic = small(), small()
        critic = nn.Sequential(nn.Linear(3, 1), nn.Tanh()).cuda()
        first = torch.optim.SGD(generator.parameters(), lr=0.1)
        second = torch.optim.Adam(critic.parameters(), lr=0.01, capturable=True)

        def step(x: torch.Tensor) -> torch.Tensor:
            second.zero_grad()
            fake = generator(x)
            loss = critic(fake.detach()).mean() - critic(torch.ones_like(fake)).mean()
            loss.backward()
            second.step()
            first.zero_grad()
            other = -critic(fake).mean()
            other.backward()
            first.step()
            return loss.detach() + other.detach()

        return step, lambda: [*state_of(generator, first), *state_of(critic, second)]

    assert counts(compare_steps(m, make)) == (2, 1, 4, 0)


@scenario
def gradients_by_a_function_transform(m: GraphManager) -> None:
    """torch.func disables hooks of saved tensors; a step whose results need no gradient does without such hooks."""

    def make() -> Made:
        module = small()
        parameters = {name: parameter.detach() for name, parameter in module.named_parameters()}

        def loss(parameters: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
            return torch.func.functional_call(module, parameters, (x,)).square().mean()

        gradients = torch.func.grad_and_value(loss)

        def step(x: torch.Tensor) -> torch.Tensor:
            found, value = gradients(parameters, x)
            for name, parameter in parameters.items():
                parameter.sub_(found[name], alpha=0.1)
            return value

        return step, lambda: [one.clone() for one in parameters.values()]

    assert counts(compare_steps(m, make, num_calls=5)) == (1, 1, 3, 0)


@scenario
def attention_with_dropout_in_a_step(m: GraphManager) -> None:
    def make() -> Made:
        torch.manual_seed(1)
        module = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True, dropout=0.1).cuda()

        def step(x: torch.Tensor) -> torch.Tensor:
            module.zero_grad()
            loss = module(x[None]).square().mean()
            loss.backward()
            return loss.detach()

        return step, lambda: [one.clone() for one in gradients_of(module) if one is not None]

    (step, state), (twin, twin_state) = make(), make()
    graphed = m.wrap(step)
    runs = []
    for call, changed in ((graphed, state), (twin, twin_state)):
        torch.manual_seed(2)  # both draw the same numbers
        runs.append(list(_states(call, changed, 5)))
    assert all(torch.equal(*pair) for pairs in zip(*runs, strict=True) for pair in zip(*pairs, strict=True))
    assert counts(graphed) == (2, 1, 2, 0)


@scenario
def layers_are_frozen_and_unfrozen_during_the_training(m: GraphManager) -> None:
    def make() -> Made:
        module = nn.Sequential(small(), nn.Linear(3, 3).cuda())
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        calls = iter(range(40))

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        def state() -> list[Any]:
            number = next(calls)
            if number in (5, 11):  # only the next call sets the gradients of the frozen layer to None
                module[0].requires_grad_(number == 11)
            return state_of(module, optimizer)

        return step, state

    step = compare_steps(m, make, num_calls=18)
    assert counts(step)[3] == 0, reasons(m)
    assert counts(step)[2] >= 8
