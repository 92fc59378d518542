"""Attributes that each call sets to a tensor that it makes: a replay sets them to tensors of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from cudalens.graphs import GraphManager
from graph_scenarios.observed_state import REPLAYS, Expected, Wrap, like_eager
from graph_scenarios.stage import counts, fails, reasons, same, scenario, values

ESCAPES = Expected(replays=False, reason="ESCAPED_TENSOR")


class Scaled(nn.Module):
    """A module that keeps the scale of its latest call, as observers of quantisation do."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(values())
        self.scale: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.scale = (x * self.weight).amax().clamp(min=1).reshape(1)
        return x * self.scale


def outcomes(
    step: Any, read: Callable[[], Any], change: Callable[[], Any] = lambda: None, *, num_calls: int = 9
) -> list[Any]:
    """Results of calls with what they stored; `change` runs before one of them."""
    found = []
    for n in range(num_calls):
        if n == 5:
            change()
        result = step(values() + n)
        found.append((result.tolist(), [one.tolist() for one in read()]))
    return found


@like_eager(REPLAYS)
def an_attribute_of_a_module(wrap: Wrap) -> Any:
    module = Scaled().cuda()
    with torch.no_grad():
        return outcomes(wrap(module), lambda: [module.scale])


@scenario
def calls_that_store_an_attribute(m: GraphManager) -> None:
    module = Scaled().cuda()
    step = m.wrap(module)
    with torch.no_grad():
        for n in range(9):
            step(values() + n)
            same(module.scale, ((values() + n) * values()).amax().reshape(1))
            assert module.scale._version == 0
    assert counts(step) == (2, 1, 6, 0)
    assert reasons(m) == {"POOL_RENEWED": 1}  # the first call found None


@scenario
def a_check_compares_what_is_stored(m: GraphManager) -> None:
    module = Scaled().cuda()
    step = m.wrap(module, check=True)
    with torch.no_grad():
        for n in range(6):
            step(values() + n)
            same(module.scale, ((values() + n) * values()).amax().reshape(1))
    assert m.nodes()[0].check is not None
    assert m.nodes()[0].check.is_equal


@like_eager(REPLAYS)
def tensors_that_the_program_keeps_of_it(wrap: Wrap) -> Any:
    module, kept = Scaled().cuda(), []
    with torch.no_grad():
        step = wrap(module)
        for n in range(9):
            step(values() + n)
            kept.append(module.scale)
    return [one.tolist() for one in kept]


@like_eager(Expected(reason="GRADIENT_HELD", words="scale"))
def a_view_that_the_program_keeps_of_it(wrap: Wrap) -> Any:
    module, kept = Scaled().cuda(), []
    with torch.no_grad():
        step = wrap(module)
        for n in range(9):
            step(values() + n)
            kept += [module.scale[:]] if n == 5 else []
    return [one.tolist() for one in (*kept, module.scale)]


@like_eager(REPLAYS)
def another_tensor_between_the_calls(wrap: Wrap) -> Any:
    module = Scaled().cuda()
    with torch.no_grad():
        return outcomes(wrap(module), lambda: [module.scale], lambda: setattr(module, "scale", values(7)))


@like_eager(REPLAYS)
def none_between_the_calls(wrap: Wrap) -> Any:
    module = Scaled().cuda()
    with torch.no_grad():
        return outcomes(wrap(module), lambda: [module.scale], lambda: setattr(module, "scale", None))


@like_eager(REPLAYS)
def a_tensor_that_needs_a_gradient_between_the_calls(wrap: Wrap) -> Any:
    module = Scaled().cuda()
    with torch.no_grad():
        return outcomes(wrap(module), lambda: [module.scale], lambda: module.scale.requires_grad_())


@like_eager(REPLAYS)
def an_attribute_that_is_deleted_between_the_calls(wrap: Wrap) -> Any:
    module = Scaled().cuda()
    with torch.no_grad():
        return outcomes(wrap(module), lambda: [module.scale], lambda: delattr(module, "scale"))


@like_eager(REPLAYS)
def in_place_changes_between_the_calls(wrap: Wrap) -> Any:
    module = Scaled().cuda()
    with torch.no_grad():
        return outcomes(wrap(module), lambda: [module.scale], lambda: module.scale.mul_(3))


@like_eager(REPLAYS)
def an_item_of_a_dict(wrap: Wrap) -> Any:
    held = {"last": values()}

    def step(x: torch.Tensor) -> torch.Tensor:
        held["last"] = x * 2
        return held["last"] + 1

    return outcomes(wrap(step), lambda: [held["last"]])


@like_eager(REPLAYS)
def an_attribute_of_a_parameter(wrap: Wrap) -> Any:
    weight: Any = nn.Parameter(values())
    weight.statistics = values()

    def step(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            weight.statistics = (x * weight).cumsum(0)
            return x + weight

    return outcomes(wrap(step), lambda: [weight.statistics])


@like_eager(REPLAYS)
def a_part_of_a_tensor_that_the_call_makes(wrap: Wrap) -> Any:
    held = {"last": values(1, 2, 3)}

    def step(x: torch.Tensor) -> torch.Tensor:
        held["last"] = (x * 2)[::2]
        return x + 1

    return [*outcomes(wrap(step), lambda: [held["last"]]), held["last"].stride()]


@like_eager(REPLAYS)
def gradients_and_an_attribute(wrap: Wrap) -> Any:
    module = Scaled().cuda()

    def step(x: torch.Tensor) -> torch.Tensor:
        module.zero_grad()
        loss: torch.Tensor = (module(x) * module.weight).sum()
        loss.backward()
        return loss.detach()

    return outcomes(wrap(step), lambda: [module.scale, module.weight.grad])


@like_eager(REPLAYS)
def an_attribute_that_two_functions_set(wrap: Wrap) -> Any:
    held, found = {"last": values()}, []

    def one(x: torch.Tensor) -> torch.Tensor:
        held["last"] = x * 2
        return x + 1

    def other(x: torch.Tensor) -> torch.Tensor:
        held["last"] = x - 1
        return x + 3

    steps = wrap(one), wrap(other)
    for n in range(12):
        result = steps[n % 3 // 2](values() + n)
        found.append((result.tolist(), held["last"].tolist()))
        del result
    return found


@like_eager(REPLAYS)
def an_attribute_that_a_function_sets_and_another_reads(wrap: Wrap) -> Any:
    held, found = {"last": values()}, []

    def one(x: torch.Tensor) -> torch.Tensor:
        held["last"] = x * 2
        return x + 1

    steps = wrap(one), wrap(lambda x: x + held["last"])
    for n in range(12):
        found.append([step(values() + n).tolist() for step in steps])
    return found


@like_eager(REPLAYS)
def an_object_that_is_replaced_between_the_calls(wrap: Wrap) -> Any:
    outer = nn.ModuleList([Scaled()]).cuda()

    def step(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = outer[0](x)
            return found

    before = outer[0]
    return outcomes(wrap(step), lambda: [before.scale, outer[0].scale], lambda: outer.__setitem__(0, Scaled().cuda()))


@like_eager(REPLAYS)
def a_tensor_that_is_compared_by_identity(wrap: Wrap) -> Any:
    first = values()
    held = {"last": first}

    def step(x: torch.Tensor) -> torch.Tensor:
        is_first = held["last"] is first
        held["last"] = x * 2
        return x + 100 if is_first else x + 1

    return outcomes(wrap(step), lambda: [held["last"]], lambda: held.update(last=first), num_calls=12)


@like_eager(ESCAPES)
def an_attribute_that_the_next_call_uses(wrap: Wrap) -> Any:
    held = {"last": values()}

    def step(x: torch.Tensor) -> torch.Tensor:
        held["last"] = held["last"] * 0.5 + x
        return x + 1

    return outcomes(wrap(step), lambda: [held["last"]])


@like_eager(ESCAPES)
def one_tensor_in_two_attributes(wrap: Wrap) -> Any:
    held = {"last": values(), "best": values()}

    def step(x: torch.Tensor) -> torch.Tensor:
        held["last"] = held["best"] = x * 2
        return x + 1

    def change() -> None:
        held["last"].add_(5)

    return outcomes(wrap(step), lambda: [held["last"], held["best"]], change)


@like_eager(ESCAPES)
def an_attribute_that_is_also_returned(wrap: Wrap) -> Any:
    held = {"last": values()}

    def step(x: torch.Tensor) -> torch.Tensor:
        held["last"] = x * 2
        return held["last"]

    return outcomes(wrap(step), lambda: [held["last"]])


@like_eager(ESCAPES)
def an_attribute_with_a_history(wrap: Wrap) -> Any:
    weight, held = nn.Parameter(values()), {"loss": values(0)}

    def step(x: torch.Tensor) -> torch.Tensor:
        held["loss"] = (x * weight).sum().reshape(1)
        return x + 1

    return outcomes(wrap(step), lambda: [held["loss"]])


@like_eager(Expected(replays=False))
def an_attribute_that_is_memory_of_a_parameter(wrap: Wrap) -> Any:
    weight, held = nn.Parameter(values()), {"last": values()}

    def step(x: torch.Tensor) -> torch.Tensor:
        held["last"] = weight.detach()
        return x + held["last"]

    def change() -> None:
        with torch.no_grad():
            weight.add_(1)

    return outcomes(wrap(step), lambda: [held["last"]], change)


@like_eager(Expected(replays=False))
def an_attribute_of_another_size_in_each_call(wrap: Wrap) -> Any:
    held = {"last": values()}

    def step(x: torch.Tensor) -> torch.Tensor:
        held["last"] = x.repeat(2) if held["last"].numel() == 6 else x * 2
        return x + 1

    return outcomes(wrap(step), lambda: [held["last"]])


@like_eager(Expected(replays=False))
def an_attribute_that_a_backward_after_the_call_needs(wrap: Wrap) -> Any:
    """Eager execution notices that the program overwrites it in between."""
    module, found = Scaled().cuda(), []
    step = wrap(module)
    for n in range(7):
        result = step((values() + n).requires_grad_())
        if n == 5:
            module.scale.add_(1)
            message = fails(lambda result=result: result.sum().backward(), RuntimeError, "inplace operation")
            found.append(type(message).__name__)
        else:
            result.sum().backward()
        found.append(module.scale.tolist())
    return found
