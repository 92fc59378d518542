"""Random programs through a manager: every result is what the functions give without graphs, and no output that is
still held is overwritten unnoticed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudalens import virtual
from cudalens.graphs import GraphManager

SIZE = 6


@pytest.fixture(autouse=True)
def _device() -> Iterator[None]:
    with virtual.device("h100"):
        yield


def fresh(x):
    return x * 2 + 1


def pair(x):
    y = x.sin()
    return y, (y + x, {"n": 3, "none": None, "z": x.cos()})


def views(x):
    y = x + 1
    return y, y.view(2, 3), y[2:5]


def argument(x):
    return x, x.view(2, 3), x[1:3], x * 3


def shrink(x):
    return x.sum() - x


def two(x, y):
    return x - y


def count(x, n):
    return x * n


def big(x):
    return x.repeat(200).cumsum(0)[: SIZE * 100].clone(), x.sum()


FUNCTIONS = (fresh, pair, views, argument, shrink, two, count, big)


def tensors(result) -> list[torch.Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


class Model:
    """Runs one program with graphs and without, side by side."""

    def __init__(self, *, check: bool = False) -> None:
        self.manager = GraphManager(check=check, debug=True)
        self.graphed = {function: self.manager.wrap(function) for function in FUNCTIONS}
        self.held: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.number = 0

    def source(self, choice: int) -> tuple[torch.Tensor, torch.Tensor]:
        usable = [pair for pair in self.held if pair[1].shape == (SIZE,) and is_readable(pair[0])]
        if choice < len(usable):
            return usable[choice]
        self.number += 1
        host = torch.arange(SIZE, dtype=torch.float32) / 7 + self.number
        return host.cuda(), host

    def call(self, function, choice: int, other: int) -> None:
        device, host = self.source(choice)
        arguments = [(device, host)]
        if function is two:
            arguments.append(self.source(other))
        if function is count:
            arguments.append((other % 3, other % 3))
        found = self.graphed[function](*(a for a, _ in arguments))
        expected = function(*(b for _, b in arguments))
        for a, b in zip(tensors(found), tensors(expected), strict=True):
            assert torch.equal(a.cpu(), b)
            self.held.append((a, b))
        self.check()

    def check(self) -> None:
        for device, host in self.held:
            if is_readable(device):
                assert torch.equal(device.cpu(), host)


def is_readable(tensor: torch.Tensor) -> bool:
    """False for an output that a later step overwrote, which says so."""
    try:
        tensor.cpu()
    except RuntimeError as error:
        if "a later step has overwritten it" in str(error):
            return False
        raise
    return True


@st.composite
def programs(draw) -> tuple[list, list[int], bool]:
    """A few scripts of calls and drops over a few functions, the order in which they run as steps, and whether the
    program says where its steps begin. Scripts that are alike and come again are what trees are for."""
    functions = draw(st.lists(st.sampled_from(FUNCTIONS), min_size=1, max_size=3, unique=True))
    call = st.tuples(st.just("call"), st.sampled_from(functions), st.integers(0, 3), st.integers(0, 3))
    drop = st.tuples(st.just("drop"), st.integers(0, 5), st.integers(1, 4))
    scripts = draw(st.lists(st.lists(st.one_of(call, call, drop), min_size=1, max_size=5), min_size=1, max_size=3))
    order = draw(st.lists(st.integers(0, len(scripts) - 1), min_size=3, max_size=12))
    return scripts, order, draw(st.booleans())


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(programs(), st.booleans())
def test_results_equal_eager_and_nothing_held_is_overwritten_unnoticed(program, keeps) -> None:
    scripts, order, marks = program
    model = Model()
    for number in order:
        if marks:
            model.manager.mark_step_begin()
        if not keeps:
            model.held.clear()
        for act in scripts[number]:
            if act[0] == "call":
                model.call(*act[1:])
            else:
                first = act[1] % (len(model.held) + 1)
                del model.held[first : first + act[2]]
                model.check()
    model.manager.shutdown()
