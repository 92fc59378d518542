"""CPU tensors in graphed functions: constants, small tensors from outside, arguments, pinned memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cudalens.graphs import GraphManager
from graph_scenarios.stage import counts, fails, reasons, same, scenario, values


def replays(m: GraphManager, function: Callable[..., Any], *make: Callable[[int], Any], calls: int = 7) -> Any:
    """Compare calls with those of the function itself; at least one is a replay. Returns the graphed function."""
    step = m.wrap(function)
    for n in range(calls):
        same(step(*(f(n) for f in make)), function(*(f(n) for f in make)))
    assert counts(step)[2] > 0, reasons(m)
    return step


def numbered(n: int) -> torch.Tensor:
    """Other values for each call."""
    return values() + n


@scenario
def constants_of_the_code(m: GraphManager) -> None:
    def function(x):
        weights = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], device="cuda")
        steps = torch.arange(6).to("cuda", torch.float32)
        half = torch.tensor([0.5] * 6, dtype=torch.float64).to(x)
        return x * weights + steps - half

    assert counts(replays(m, function, numbered)) == (1, 1, 5, 0)


@scenario
def a_constant_that_the_function_overwrites(m: GraphManager) -> None:
    def function(x):
        total = torch.tensor([1.0] * 6, device="cuda")
        total += x
        total[0] = 7.0
        return total * 2

    replays(m, function, numbered)


@scenario
def a_constant_as_result(m: GraphManager) -> None:
    def function(x):
        return x + 1, torch.tensor([1.0, 2.0], device="cuda")

    step = m.wrap(function)
    for n in range(6):
        _, constant = step(numbered(n))
        same(constant, torch.tensor([1.0, 2.0]))
        constant.fill_(9)
        del constant


@scenario
def a_constant_of_a_value_from_outside(m: GraphManager) -> None:
    numbers = [1.0, 2.0]

    def function(x):
        return x[:2] * torch.tensor(numbers, device="cuda")

    step = m.wrap(function)
    for n in range(9):
        numbers[0] = float(n // 3)
        same(step(values()), function(values()))


@scenario
def an_index_that_the_host_makes(m: GraphManager) -> None:
    def function(x):
        y = x.clone()
        y[torch.tensor([0, 2])] = 5.0
        return y[[1, 3, 5]], y

    replays(m, function, numbered)


@scenario
def python_data_in_each_form(m: GraphManager) -> None:
    """torch hides the copy of Python data to the device from dispatch modes."""

    def function(x):
        made = torch.as_tensor([1, 2, 3], dtype=torch.float32, device="cuda"), x.new_tensor((4, 5, 6))
        with torch.device("cuda"):
            there = torch.tensor([[0.5, 1.5]]).sum()
        y = x[[1, 3, 5]] * made[0] + made[1] * torch.asarray(2, device="cuda") + there
        y[[0, 1]] = torch.tensor(3.0, device=x.device)
        return y, x[np.array([[0, 1], [2, 3]]), None]

    before = torch.tensor, torch.Tensor.__getitem__, torch.Tensor.__setitem__
    replays(m, function, numbered)
    assert before == (torch.tensor, torch.Tensor.__getitem__, torch.Tensor.__setitem__)


@scenario
def python_data_that_needs_a_gradient(m: GraphManager) -> None:
    def function(x):
        scale = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], device="cuda", requires_grad=True)
        (grad,) = torch.autograd.grad((scale * x).square().sum(), scale)
        return grad

    replays(m, function, numbered)


@scenario
def a_mask_of_python_data(m: GraphManager) -> None:
    step = m.wrap(lambda x: x[[True, False, True, True, False, True]] * 2)
    for n in range(4):
        same(step(numbered(n)), numbered(n)[[0, 2, 3, 5]] * 2)
    assert counts(step)[1:3] == (0, 0)


@scenario
def a_constructor_under_another_name(m: GraphManager) -> None:
    """In a capture its copy is not replaced."""
    make = torch.tensor

    def function(x):
        return x * make([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], device="cuda")

    step = m.wrap(function)
    for n in range(4):
        same(step(numbered(n)), function(numbered(n)))
    assert counts(step)[1:3] == (0, 0)


@scenario
def values_of_the_host_that_are_put(m: GraphManager) -> None:
    places = torch.tensor([1, 4], device="cuda")

    def function(x, value):
        y = x.clone()
        y[places] = value
        y[[0, 2]] = -1.5
        return y.index_put((torch.tensor([5]),), torch.tensor(2.5), accumulate=True)

    replays(m, function, numbered, lambda n: torch.tensor(float(n)))


@scenario
def a_conversion_on_the_way_to_the_device(m: GraphManager) -> None:
    """torch converts on the CPU, where numbers out of range become other integers than on a GPU."""

    def function(x):
        return x + torch.tensor([1e20, -1.5, float("nan"), 300.0, -7.0, 0.0]).to("cuda", torch.int32)

    replays(m, function, numbered)


@scenario
def a_batch_that_is_copied_inside(m: GraphManager) -> None:
    def function(x, y):
        return x * y.to("cuda"), y.to("cuda", non_blocking=True)[1:]

    replays(m, function, numbered, lambda n: torch.arange(6.0) * n)


@scenario
def a_view_of_a_batch_that_is_copied_inside(m: GraphManager) -> None:
    def function(x, batch):
        images, labels = batch[:, 1:], batch[:, 0]
        return x[:3] * images.cuda().sum(1) + labels.to("cuda", torch.float64)

    replays(m, function, numbered, lambda n: (torch.arange(24.0).reshape(6, 4) * n)[1::2])


@scenario
def a_pinned_batch_that_is_copied_inside(m: GraphManager) -> None:
    def function(x, y):
        return x * y.to("cuda", non_blocking=True)

    replays(m, function, numbered, lambda n: (torch.arange(6.0) * n).pin_memory())


@scenario
def a_batch_that_a_side_stream_copies_from_pinned_memory(m: GraphManager) -> None:
    weight = values()

    def function(x):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            on_device = x.pin_memory().to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        on_device.record_stream(torch.cuda.current_stream())
        return on_device * weight

    assert counts(replays(m, function, lambda n: torch.arange(6.0) + n)) == (1, 1, 5, 0)


@scenario
def a_part_of_a_copy_of_a_batch(m: GraphManager) -> None:
    def function(x):
        copy = x[:, 2:].clone()
        return copy[1:, 1:].to("cuda") + x[0, 3:].pin_memory().to("cuda", torch.float64)

    step = m.wrap(function)
    for n in range(5):
        same(step(torch.arange(24.0).view(4, 6) * n), function(torch.arange(24.0).view(4, 6) * n))
    assert counts(step)[2] == 0  # the copy has other strides than the part

    def contiguous(x):
        copy = x[2:].clone()
        return copy[1:, 1:].to("cuda") + x[0, 1:].pin_memory().to("cuda", torch.float64)

    assert counts(replays(m, contiguous, lambda n: torch.arange(24.0).view(4, 6) * n)) == (1, 1, 5, 0)


@scenario
def a_copy_of_a_batch_that_the_function_overwrites(m: GraphManager) -> None:
    def function(x):
        copy = x.pin_memory()
        copy += 1
        return copy.to("cuda", non_blocking=True)

    step = m.wrap(function)
    for n in range(5):
        same(step(torch.arange(6.0) + n), values() + n)
    assert reasons(m)["CPU_INPUT"] > 0


@scenario
def a_copy_of_a_batch_that_the_host_reads(m: GraphManager) -> None:
    step = m.wrap(lambda x: x.clone().sum().item() + values())
    for n in range(5):
        same(step(torch.arange(6.0) + n), values() + 15 + 6 * n)
    assert reasons(m)["CPU_INPUT"] > 0


@scenario
def a_pinned_batch_that_changes_while_its_copy_is_read(m: GraphManager) -> None:
    """The function copies it, so it does not matter what becomes of it after the call."""
    step = m.wrap(lambda x: x.clone().to("cuda", non_blocking=True) * 2)
    for n in range(6):
        batch = (torch.arange(6.0) + n).pin_memory()
        result = step(batch)
        batch.zero_()
        same(result, (values() - 1 + n) * 2)
    assert counts(step)[2] > 0


@scenario
def a_batch_that_is_copied_into_a_buffer(m: GraphManager) -> None:
    buffer = torch.zeros(6, device="cuda")

    def function(y):
        buffer.copy_(y)
        return buffer * 2

    replays(m, function, lambda n: torch.arange(6.0) * n)


@scenario
def a_batch_whose_elements_the_host_reads(m: GraphManager) -> None:
    reads = {
        "item": lambda x, y: x * y.to("cuda") + y[0].item(),
        "tolist": lambda x, y: x * y.to("cuda") + y.tolist()[0],
        "numpy": lambda x, y: x * y.to("cuda") + float(y.numpy()[0]),
        "bool": lambda x, y: x * y.to("cuda") if y[1] > 2 else x,
        "iteration": lambda x, y: x * sum(float(one) for one in y),
    }
    for function in reads.values():
        step = m.wrap(function)
        for n in range(6):
            y = torch.arange(6.0) * n
            same(step(values(), y), function(values(), y))
        assert counts(step)[2] == 0


@scenario
def a_batch_that_the_function_overwrites(m: GraphManager) -> None:
    def function(x, y):
        y.add_(1)
        return x * y.to("cuda")

    step = m.wrap(function)
    for n in range(6):
        one, other = (torch.arange(6.0) * n for _ in range(2))
        same(step(values(), one), function(values(), other))
        same(one, other)


@scenario
def a_number_of_the_host_from_outside(m: GraphManager) -> None:
    factor = torch.tensor(2.0)
    step = m.wrap(lambda x: x * factor)
    for n in range(12):
        factor.fill_(n // 4)
        same(step(numbered(n)), numbered(n) * (n // 4))
    assert counts(step)[2] >= 3
    assert reasons(m)["NEW_VALUE"] == 2


@scenario
def a_number_of_the_host_that_is_replaced(m: GraphManager) -> None:
    held = {"factor": torch.tensor(2.0)}
    step = m.wrap(lambda x: x * held["factor"].item() + held["factor"].to("cuda"))
    for n in range(12):
        held["factor"] = torch.tensor(float(n // 4), dtype=torch.float64 if n % 2 else torch.float32)
        same(step(values()), values() * (n // 4) + held["factor"].cuda())


@scenario
def a_list_of_a_host_tensor_from_outside(m: GraphManager) -> None:
    factors = torch.tensor([2.0, 3.0])
    step = m.wrap(lambda x: x * factors.tolist()[0] + float(factors.numpy()[1]))
    for n in range(12):
        factors.fill_(n // 4)
        same(step(values()), values() * (n // 4) + n // 4)
    assert counts(step)[2] >= 3


@scenario
def a_host_tensor_that_each_call_changes(m: GraphManager) -> None:
    count = torch.zeros(())

    def function(x):
        count.add_(1)
        return x * count

    step = m.wrap(function)
    for n in range(6):
        same(step(values()), values() * (n + 1))


@scenario
def pinned_memory_of_another_tensor_in_its_place(m: GraphManager) -> None:
    held = [torch.full((6,), 2.0).pin_memory()]
    step = m.wrap(lambda x: x * held[0].to("cuda", non_blocking=True))
    for n in range(12):
        if n % 3 == 0:
            held[0] = torch.full((6,), float(n)).pin_memory()
        held[0].add_(1)
        same(step(values()), values() * held[0].cuda())
        torch.cuda.synchronize()
    assert counts(step)[2] > 0


@scenario
def pinned_memory_that_the_call_makes(m: GraphManager) -> None:
    replays(m, lambda x: x * torch.arange(6.0).pin_memory().to("cuda", non_blocking=True), numbered)


@scenario(check=True)
def checked_calls_with_constants_and_batches(m: GraphManager) -> None:
    def function(x, y):
        return x * y.to("cuda") + torch.tensor([1.0] * 6, device="cuda")

    replays(m, function, numbered, lambda n: torch.arange(6.0) * n)
    assert all(node.check is None or node.check.is_equal for node in m.nodes())


@scenario
def gradients_with_constants_and_batches(m: GraphManager) -> None:
    weight = torch.ones(6, device="cuda", requires_grad=True)

    def function(y):
        return (weight * y.to("cuda") * torch.arange(6.0).to("cuda")).square().sum()

    step = m.wrap(function)
    for n in range(7):
        y = torch.arange(6.0) + n
        (found,) = torch.autograd.grad(step(y), [weight])
        (expected,) = torch.autograd.grad(function(y), [weight])
        same(found, expected)
    assert counts(step)[2] > 0


@scenario
def gradients_through_an_index_of_the_code(m: GraphManager) -> None:
    weight = torch.ones(6, device="cuda", requires_grad=True)
    rows = [0, 2]

    def function(x):
        return (x * weight)[rows] * torch.tensor([2.0, 3.0], device="cuda")

    step = m.wrap(function)
    for n in range(10):
        rows[1] = 2 if n < 5 else 4
        result, expected = step(numbered(n)), function(numbered(n))
        same(result, expected)
        same(*(torch.autograd.grad(one.sum(), [weight]) for one in (result, expected)))
    assert counts(step)[2] >= 6


@scenario
def gradients_through_an_index_that_is_an_argument(m: GraphManager) -> None:
    weight = torch.ones(6, device="cuda", requires_grad=True)
    step = m.wrap(lambda rows: (weight * 2)[rows])
    for n in range(5):
        (found,) = torch.autograd.grad(step(torch.tensor([n, 5])).sum(), [weight])
        same(found, torch.tensor([2.0 if row in (n, 5) else 0.0 for row in range(6)]))
    assert [row["detail"] for row in m.frame().to_dict("records") if row["kind"] == "skip"] == [
        "returns a CPU tensor: one that autograd keeps for the backward"
    ]


@scenario
def a_batch_that_requires_a_gradient(m: GraphManager) -> None:
    step = m.wrap(lambda y: (y.cuda() * 2).sum())
    for n in range(4):
        y = (torch.arange(6.0) + n).requires_grad_()
        step(y).backward()
        same(y.grad, torch.full((6,), 2.0))
    fails(lambda: step(None), AttributeError)
