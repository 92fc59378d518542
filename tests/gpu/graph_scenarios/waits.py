"""Functions that read a value of the device on the host: recorded as several graphs, split at the reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import torch
from torch import nn

from cudalens.graphs import GraphManager
from cudalens.graphs.undo import MOST_SAVED_BYTES
from graph_scenarios.networks import batch, small
from graph_scenarios.stage import counts, fails, is_captured, reason_row, reasons, recordings, same, scenario, values


def compare(m: GraphManager, make: Callable[[], Any], inputs: Sequence[Any], **options: Any) -> Any:
    """Call a function graphed and eagerly with the same seed, and compare the results bit for bit; returns the first.

    Args:
        m: The manager.
        make: Makes the function.
        inputs: The argument of each call.
        options: Of the graphed function.
    """
    graphed, eager = m.wrap(make(), **options), make()
    found, expected = [], []
    for results, call in ((found, graphed), (expected, eager)):
        torch.manual_seed(0)
        for given in inputs:
            result = call(given)
            results.append([one.detach().clone() for one in torch.utils._pytree.tree_leaves(result)])
            del result
        results.append([torch.rand(3, device="cuda")])  # the generators went on equally
    same(found, expected)
    assert [[bits(one) for one in results] for results in found] == [[bits(one) for one in at] for at in expected]
    return graphed


def bits(tensor: torch.Tensor) -> list[int]:
    return tensor.cpu().contiguous().reshape(-1).view(torch.uint8).tolist()


def signs(number: int) -> list[torch.Tensor]:
    """Inputs whose sums are positive and negative in turn."""
    return [values() * (1 if n % 2 == 0 else -1) + n / 8 for n in range(number)]


@scenario
def each_branch_on_a_value_of_the_device_has_a_recording(m: GraphManager) -> None:
    def make() -> Any:
        return lambda x: (x * 2).exp() if x.sum() > 0 else x - 1

    step = compare(m, make, signs(12))
    assert counts(step) == (1, 2, 9, 0)
    assert reasons(m) == {"NEW_VALUE": 1}
    assert "read from the device: False → True" in reason_row(m, "NEW_VALUE")["detail"]


@scenario
def a_recording_names_the_reads_that_it_is_split_at(m: GraphManager) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        positive = x[x > 0]
        return positive * 2 if positive.sum() > 1 else positive

    graphed, whole = m.wrap(step), m.wrap(lambda x: x * 2)
    for _ in range(3):
        graphed(values(1, -1, 2))
        whole(values())
    split, single = recordings(m)["detail"].tolist()
    assert split.startswith("as 3 graphs; each replay waits for the device 2 times, to read size [2] at ")
    assert ", True at " in split
    assert pd.isna(single)


@scenario
def a_number_that_is_read_and_used_is_that_of_the_call(m: GraphManager) -> None:
    def make() -> Any:
        return lambda x: x * x.max().item()

    inputs = [values(1, 2), values(1, 3)] * 5
    assert counts(compare(m, make, inputs)) == (1, 2, 7, 0)


@scenario
def a_function_whose_values_differ_in_each_call_runs_without_graphs(m: GraphManager) -> None:
    def make() -> Any:
        return lambda x: x * x.max().item()

    step = compare(m, make, [values(1, n) for n in range(14)])
    assert step._function.counts.replays == 0
    assert step._function.counts.recordings < 10
    row = reason_row(m, "SYNCHRONISES")
    assert "a value that it reads was new in 8 of 8 calls" in row["detail"]
    assert "item()" in row["source"]


@scenario
def random_numbers_before_a_value_that_differs_are_drawn_once(m: GraphManager) -> None:
    def make() -> Any:
        def step(x: torch.Tensor) -> torch.Tensor:
            noise = torch.rand_like(x)
            return x * noise + torch.rand_like(x) if (x + noise * 0.1).sum() > 0 else noise - 1

        return step

    assert counts(compare(m, make, signs(12))) == (1, 2, 9, 0)


@scenario
def a_loop_ends_when_a_value_of_the_device_is_small_enough(m: GraphManager) -> None:
    def make() -> Any:
        def halve(x: torch.Tensor) -> tuple[torch.Tensor, int]:
            number = 0
            while x.abs().max() > 1:
                x, number = x / 2, number + 1
            return x, number

        return lambda x: halve(x)[0] + halve(x)[1]

    inputs = [values(1, n) for n in (3, 9, 3, 17, 9, 3, 17, 33, 3, 9)]
    step = compare(m, make, inputs)
    assert counts(step) == (1, 4, 5, 0)


@scenario
def sizes_that_are_copied_to_the_host_split_a_tensor(m: GraphManager) -> None:
    def make() -> Any:
        def step(sizes: torch.Tensor) -> list[torch.Tensor]:
            return [part.cumsum(0) for part in torch.ones(9, device="cuda").split(sizes.cpu().tolist())]

        return step

    inputs = [torch.tensor(sizes, device="cuda") for sizes in ([4, 5], [2, 7], [4, 5], [2, 7], [4, 5], [2, 7])]
    assert counts(compare(m, make, inputs)) == (1, 2, 3, 0)


@scenario
def values_are_compared_by_their_bits(m: GraphManager) -> None:
    def make() -> Any:
        return lambda x: x + math.copysign(1, x.min().item())

    step = compare(m, make, [values(0.0), values(-0.0), values(math.nan)] * 4)
    assert step._function.counts.recordings == 3
    assert step._function.counts.replays == 8


@scenario
def what_is_written_outside_before_a_read_is_not_written_twice(m: GraphManager) -> None:
    made: list[torch.Tensor] = []

    def make() -> Any:
        total = values(0, 0, 0, 0, 0, 0)
        made.append(total)

        def step(x: torch.Tensor) -> torch.Tensor:
            total.add_(x)
            return total * 2 if total.sum() > 0 else total - 1

        return step

    inputs = [values() * (-1.5 if n % 3 == 0 else 1) for n in range(12)]
    step = compare(m, make, inputs)
    same(*made)
    assert counts(step) == (1, 2, 9, 0)
    assert "read from the device" in reason_row(m, "NEW_VALUE")["detail"]


@scenario
def a_static_argument_that_is_written_before_a_read_is_set_back(m: GraphManager) -> None:
    cache, other = torch.zeros(6, device="cuda"), torch.zeros(6, device="cuda")

    def step(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        cache[1:4] = x[1:4]
        return cache * 2 if cache.sum() > 0 else cache - x

    graphed = m.wrap(step, static=("cache",))
    for x in signs(12):
        same(graphed(x, cache), step(x, other))
        same(cache, other)
    assert counts(graphed) == (1, 2, 9, 0)


@scenario
def a_function_that_fails_behind_a_read_writes_once(m: GraphManager) -> None:
    totals = [torch.zeros(2, device="cuda") for _ in range(2)]

    def make(total: torch.Tensor) -> Any:
        def step(x: torch.Tensor) -> torch.Tensor:
            total.add_(x)
            number = int(x.max())
            return total * torch.tensor([float(n) for n in range(number)], device="cuda").sum()

        return step

    graphed, eager = m.wrap(make(totals[0])), make(totals[1])
    for n in (3, 4, 3, 4, 5):
        same(graphed(values(1, n)), eager(values(1, n)))
        same(*totals)


@scenario
def a_large_memory_that_is_written_before_a_read_is_not_saved(m: GraphManager) -> None:
    large = torch.zeros(MOST_SAVED_BYTES // 4 + 1, device="cuda")

    def step(x: torch.Tensor) -> torch.Tensor:
        large[:6].add_(x)
        return x * 2 if large[:6].sum() > 0 else x - 1

    graphed = m.wrap(step)
    for x in signs(6):
        graphed(x)
    assert graphed._function.counts.recordings == 0
    assert "local_scalar_dense" in reason_row(m, "SYNCHRONISES")["detail"]


def _sized(change: Callable[[torch.Tensor], Any]) -> Any:
    """An operator whose result has a size that depends on values: two sizes in turn, each with a recording."""

    @scenario
    def run(m: GraphManager) -> None:
        inputs = [torch.tensor([n, 1.0, -2.0, 3.0, 3.0, n % 2 * 2 - 1], device="cuda") for n in range(12)]
        step = compare(m, lambda: change, inputs)
        assert counts(step)[0] == 1
        assert counts(step)[2] >= 7
        assert counts(step)[3] == 0

    return run


elements_at_a_mask = _sized(lambda x: (x[x > 0] * 2, x[x > 2]))
elements_at_a_mask_as_they_are = _sized(lambda x: x[x > 0])
rows_at_a_mask = _sized(lambda x: x.view(3, 2)[x.view(3, 2).sum(1) > 0].t())
indices_of_elements = _sized(lambda x: (x > 0).nonzero())
indices_of_elements_as_a_tuple = _sized(lambda x: x[torch.where(x > 0)].cumsum(0))
different_elements = _sized(lambda x: torch.unique(x.sign(), return_inverse=True, return_counts=True))
different_rows = _sized(lambda x: torch.unique(x.view(3, 2).sign(), dim=0, return_inverse=True))
different_neighbours = _sized(lambda x: torch.unique_consecutive(x.sign(), return_counts=True))
selected_elements = _sized(lambda x: torch.masked_select(x, x > 0).sum() * x)
counts_of_numbers = _sized(lambda x: torch.bincount((x > 0).long() + (x > 8).long()))
repeated_elements = _sized(lambda x: torch.repeat_interleave(x, (x > 0).long() + 1))
elements_that_are_replaced_at_a_mask = _sized(lambda x: _replaced(x * 2))
a_list_of_values = _sized(lambda x: x * len([one for one in (x > 0).tolist() if one]))
equal_tensors = _sized(lambda x: x * 2 if torch.equal(x.abs(), x) else x - 1)
eigenvalues = _sized(lambda x: torch.linalg.eig(torch.diag(x)).eigenvalues.real)
no_elements = _sized(lambda x: x[x > 1000])


def _masked_training(loss_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Any:
    """A whole training step whose loss has elements at a mask: the backward reads no number of elements."""

    @scenario
    def run(m: GraphManager) -> None:
        def make() -> Any:
            weight = torch.ones(6, device="cuda", requires_grad=True)

            def step(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
                weight.grad = None
                loss = loss_of(weight * x, x > 0)
                loss.backward()
                return loss.detach(), weight.grad.clone()

            return step

        inputs = [torch.tensor([n, 1.0, -2.0, 3.0, 3.0, n % 2 * 2 - 1], device="cuda") for n in range(12)]
        assert compare(m, make, inputs)._function.counts.replays >= 7

    return run


a_loss_at_a_mask = _masked_training(lambda y, mask: y[mask].square().sum())
a_loss_at_a_mask_that_is_used_twice = _masked_training(lambda y, mask: (y[mask] * y[mask].exp()).sum())
a_loss_at_views_of_a_mask = _masked_training(
    lambda y, mask: y[mask].sum() + y.view(2, 3)[:, mask[3:]].exp().sum() + y.view(3, 2)[mask[:3]].sum()
)
a_loss_at_a_mask_of_two_dimensions = _masked_training(lambda y, mask: y.view(2, 3)[mask.view(2, 3)].cos().sum())


@scenario
def a_mask_that_changes_is_read_again(m: GraphManager) -> None:
    def make() -> Any:
        def step(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            mask = x > 0
            first = x[mask]
            mask.logical_not_()
            return first, x[mask], x[mask] * 2

        return step

    step = compare(m, make, signs(12))
    assert counts(step) == (1, 3, 8, 0)


def _replaced(y: torch.Tensor) -> torch.Tensor:
    y[y > 0] = y[y > 0].flip(0)
    return y + 1


@scenario
def memory_outside_is_replaced_at_a_mask_once(m: GraphManager) -> None:
    made: list[torch.Tensor] = []

    def make() -> Any:
        table = torch.zeros(6, device="cuda")
        made.append(table)

        def step(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            table[x > 0] = x[x > 0] + table[x > 0]
            return table.clone(), table[table > 3].sum()

        return step

    step = compare(m, make, [values(1, -1, 1, -1, 1, n % 2 * 2 - 1) for n in range(14)])
    same(*made)
    assert step._function.counts.replays > 4


@scenario
def a_number_at_a_mask_needs_no_read(m: GraphManager) -> None:
    def make() -> Any:
        def step(x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            y[y > 0] = 0.5
            return y

        return step

    step = compare(m, make, signs(6))
    assert counts(step) == (1, 1, 4, 0)


@scenario
def another_number_at_a_mask_is_another_recording(m: GraphManager) -> None:
    settings = {"fill": 0.5}

    def step(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[y > 0] = settings["fill"]
        return y

    graphed = m.wrap(step)
    for n, x in enumerate(signs(12)):
        settings["fill"] = 0.5 if n < 6 else 1.5
        same(graphed(x), step(x))
    assert graphed._function.counts.replays > 5


@scenario
def a_matrix_that_cannot_be_factored_raises_the_error_of_torch(m: GraphManager) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.cholesky(torch.diag(x)) * 2

    graphed = m.wrap(step)
    for n in range(1, 6):
        same(graphed(values(1, n)), step(values(1, n)))
    assert graphed._function.counts.replays == 3
    fails(lambda: graphed(values(1, -1)), torch.linalg.LinAlgError, "positive-definite")
    same(graphed(values(1, 4)), step(values(1, 4)))


@scenario
def what_is_written_outside_behind_a_read_is_replayed(m: GraphManager) -> None:
    made: list[torch.Tensor] = []

    def make() -> Any:
        total = values(0, 0, 0, 0, 0, 0)
        made.append(total)

        def step(x: torch.Tensor) -> torch.Tensor:
            if (x * 2).sum() > 0:
                total.add_(x)
            return total.clone()

        return step

    step = compare(m, make, signs(12))
    same(*made)
    assert counts(step) == (1, 2, 9, 0)


@scenario
def an_argument_that_is_overwritten_before_a_read_is_not_overwritten_twice(m: GraphManager) -> None:
    given: list[torch.Tensor] = []

    def make() -> Any:
        def step(x: torch.Tensor) -> torch.Tensor:
            x.mul_(3)
            return x + 1 if x.sum() > 0 else x - 1

        return step

    for _ in range(2):
        given += [made.clone() for made in signs(6)]
    graphed, eager = m.wrap(make(), mutations="copy"), make()
    same([graphed(x).clone() for x in given[:6]], [eager(x) for x in given[6:]])
    same(given[:6], given[6:])


@scenario
def gradients_flow_through_a_function_that_reads(m: GraphManager) -> None:
    module = small()

    def loss_of(x: torch.Tensor) -> torch.Tensor:
        hidden = module(x)
        return hidden.square().mean() if hidden.sum() > 0 else hidden.abs().mean()

    step = m.wrap(loss_of)
    for n in range(10):
        found = []
        for call in (step, loss_of):
            module.zero_grad()
            loss = call(batch(n)[0] * (1 if n % 2 else -1))
            loss.backward()
            found.append([loss.detach().clone(), *(p.grad.clone() for p in module.parameters())])
            del loss
        same(*found)
    assert step._function.counts.replays > 4
    assert step._function.counts.eager == 0


@scenario
def a_training_step_that_looks_for_padding_replays(m: GraphManager) -> None:
    def make() -> Any:
        torch.manual_seed(1)
        module = small()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)

        def step(x: torch.Tensor) -> list[torch.Tensor]:
            optimizer.zero_grad()
            if (x == 0).any():
                x = x + 1
            loss = module(x).square().mean()
            loss.backward()
            optimizer.step()
            return [loss.detach(), *(p.detach().clone() for p in module.parameters())]

        return step

    step = compare(m, make, [batch(n)[0] for n in range(8)])
    assert counts(step)[2:] == (5, 0)


@scenario
def batch_statistics_that_are_counted_before_a_read_are_counted_once(m: GraphManager) -> None:
    module, other = nn.BatchNorm1d(6).cuda(), nn.BatchNorm1d(6).cuda()

    def make(module: nn.Module) -> Any:
        def step(x: torch.Tensor) -> torch.Tensor:
            y = module(torch.stack([x, x * 2]))
            return y * 2 if x.sum() > 0 else y

        return step

    graphed, eager = m.wrap(make(module)), make(other)
    for x in signs(12):
        same(graphed(x).detach(), eager(x).detach())
    same(module.state_dict(), other.state_dict())
    assert graphed._function.counts.replays > 4


@scenario
def outputs_of_another_graph_are_read(m: GraphManager) -> None:
    double = m.wrap(lambda x: x * 2)
    choose = m.wrap(lambda x: x.exp() if x.sum() > 0 else x - 1)
    for n, x in enumerate(signs(14)):
        same(choose(double(x)), (x * 2).exp() if n % 2 == 0 else x * 2 - 1)
    assert choose._function.counts.replays > 4


@scenario
def an_output_of_the_step_before_is_the_argument(m: GraphManager) -> None:
    step = m.wrap(lambda x: x * -0.5 if x.sum() > 0 else x * 3 + 1)
    found = expected = values()
    with torch.no_grad():
        for _ in range(12):
            found = step(found)
            expected = expected * -0.5 if expected.sum() > 0 else expected * 3 + 1
            same(found, expected)
    assert step._function.counts.replays > 4


@scenario
def an_error_behind_a_read_is_raised_in_each_call(m: GraphManager) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        noise = torch.rand_like(x)
        if x.sum() < 0:
            raise ValueError("negative")
        return x * noise

    graphed = m.wrap(step)
    for n in range(4):
        graphed(values() + n)
    for _ in range(3):
        fails(lambda: graphed(-values()), ValueError, "negative")
    torch.manual_seed(0)
    found = graphed(values()).clone()
    torch.manual_seed(0)
    same(found, step(values()))


@scenario(check=True)
def replays_with_reads_are_checked(m: GraphManager) -> None:
    def make() -> Any:
        return lambda x: torch.rand_like(x) * x if x.sum() > 0 else x - 1

    step = compare(m, make, signs(10))
    assert step._function.counts.replays == 7
    checked = recordings(m)["is_equal"]
    assert len(checked) == 2
    assert checked.astype(bool).all()


@scenario
def a_capture_that_fails_behind_a_read_names_the_read(m: GraphManager) -> None:
    def make() -> Any:
        return lambda x: x * torch.tensor([float(n) for n in range(int(x.max()))], device="cuda").sum()

    step = compare(m, make, [values(1, n) for n in (3, 4, 3, 4)])
    assert step._function.counts.replays == 0
    row = reason_row(m, "SYNCHRONISES")
    assert row["detail"].startswith("makes the host wait for the device: the read of 4.0, then GraphError")
    assert "int(x.max())" in row["source"]


@scenario
def work_on_another_stream_is_not_split(m: GraphManager) -> None:
    side = torch.cuda.Stream()

    def step(x: torch.Tensor) -> torch.Tensor:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            positive = bool(x.sum() > 0)
        torch.cuda.current_stream().wait_stream(side)
        return x * 2 if positive else x - 1

    graphed = m.wrap(step)
    for x in signs(6):
        same(graphed(x), step(x))
    assert graphed._function.counts.replays == 0
    assert reasons(m)["SYNCHRONISES"] > 0


@scenario
def a_read_that_a_library_leaves_out_while_it_is_captured_is_named(m: GraphManager) -> None:
    def make() -> Any:
        scales = {True: [1.0, 2.0], False: [3.0]}

        def step(x: torch.Tensor) -> torch.Tensor:
            is_positive = is_captured() or bool(x.sum() > 0)
            return x * torch.tensor(scales[is_positive], device="cuda").sum()

        return step

    step = compare(m, make, signs(6))
    assert step._function.counts.replays == 0
    row = reason_row(m, "SYNCHRONISES")
    assert "a read that is left out in a recording" in row["detail"]
    assert "bool(x.sum() > 0)" in row["source"]
