"""Random programs through a manager: every result is what the functions give without graphs, and no output that is
still held is overwritten unnoticed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
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


def swap(x, y):
    return y + 1, x * 0.5


def halves(x, y):
    return torch.cat([y[3:], x[:3]]), x[2:] * y[:4]


FUNCTIONS = (fresh, pair, views, argument, shrink, two, count, big, swap, halves)
OF_TWO = (two, swap, halves)


def tensors(result) -> list[torch.Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


class Model:
    """Runs one program with graphs and without, side by side."""

    def __init__(self, *, check: bool = False) -> None:
        self.manager = GraphManager(check=check, debug=True)
        self.graphed = {function: self.manager.wrap(function) for function in FUNCTIONS}
        self.held: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.number = 0
        self.weights = [torch.full((SIZE,), 0.5, device=device).requires_grad_() for device in ("cuda", "cpu")]
        self.trained = self.manager.wrap(lambda x: (x * self.weights[0]).sin().sum())
        self.fault = False
        self.faulty = self.manager.wrap(self.raises)

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
        if function in OF_TWO:
            arguments.append(self.source(other))
        if function is count:
            arguments.append((other % 3, other % 3))
        found = self.graphed[function](*(a for a, _ in arguments))
        expected = function(*(b for _, b in arguments))
        for a, b in zip(tensors(found), tensors(expected), strict=True):
            assert torch.equal(a.cpu(), b)
            self.held.append((a, b))
        self.check()

    def write(self, number: int) -> None:
        """In place, which is seen through whatever shares the memory, and only there."""
        usable = [pair for pair in self.held if is_readable(pair[0])]
        if usable:
            for tensor in usable[number % len(usable)]:
                with torch.no_grad():
                    tensor.mul_(0.5)
        self.check()

    def train(self, choice: int, backwards: int) -> None:
        """A forward, and a backward or two or none; gradients add up."""
        x, host = self.source(choice)
        weight, twin = self.weights
        if backwards == 3:
            weight.grad = twin.grad = None
        loss, expected = self.trained(x), (host * twin).sin().sum()
        torch.testing.assert_close(loss.detach().cpu(), expected.detach())
        for number in range(min(backwards, 2)):
            again = number + 1 < min(backwards, 2)
            loss.backward(retain_graph=again)
            expected.backward(retain_graph=again)
        if twin.grad is not None:
            torch.testing.assert_close(weight.grad.cpu(), twin.grad)
        self.check()

    def raises(self, x):
        y = x + 3
        if self.fault:
            raise ValueError("as requested")
        return y * 2

    def fail(self, choice: int, fault: bool) -> None:
        """A call that may raise, with no effect on later calls."""
        x, host = self.source(choice)
        self.fault = fault
        try:
            found = self.faulty(x)
        except ValueError:
            assert fault
        else:
            expected = (host + 3) * 2
            assert torch.equal(found.cpu(), expected)
            self.held.append((found, expected))
        self.fault = False
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
def programs(draw) -> tuple[list, list[tuple[int, bool]], bool]:
    """A few scripts of acts over a few functions; the steps: which script, and whether its drops happen; and whether
    the program says where its steps begin. Scripts that are alike and come again are what trees are for."""
    functions = draw(st.lists(st.sampled_from(FUNCTIONS), min_size=1, max_size=3, unique=True))
    call = st.tuples(st.just("call"), st.sampled_from(functions), st.integers(0, 3), st.integers(0, 3))
    drop = st.tuples(st.just("drop"), st.integers(0, 5), st.integers(1, 4))
    write = st.tuples(st.just("write"), st.integers(0, 5))
    train = st.tuples(st.just("train"), st.integers(0, 3), st.integers(0, 3))
    fail = st.tuples(st.just("fail"), st.integers(0, 3), st.booleans())
    act = st.one_of(call, call, call, drop, write, train, fail)
    scripts = draw(st.lists(st.lists(act, min_size=1, max_size=5), min_size=1, max_size=3))
    step = st.tuples(st.integers(0, len(scripts) - 1), st.booleans())
    order = draw(st.lists(step, min_size=3, max_size=12))
    return scripts, order, draw(st.booleans())


#: A result of an earlier step is an argument that autograd saves, of the replay that overwrites its memory.
RESULT_OF_AN_EARLIER_STEP = (
    [
        [("fail", 0, False), ("write", 0), ("train", 0, 0)],
        [("drop", 0, 1)],
        [("write", 3), ("write", 1), ("train", 1, 3), ("drop", 4, 3), ("drop", 3, 3)],
    ],
    [
        *((0, True), (1, True), (0, True), (0, False), (2, False), (2, False)),
        *((2, True), (0, True), (0, True), (2, False), (2, False)),
    ],
    False,
)


@pytest.mark.filterwarnings("ignore:cudalens:RuntimeWarning")
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(programs(), st.booleans())
@example(RESULT_OF_AN_EARLIER_STEP, True)
def test_results_equal_eager_and_nothing_held_is_overwritten_unnoticed(program, keeps) -> None:
    scripts, order, marks = program
    model = Model()
    for number, drops in order:
        if marks:
            model.manager.mark_step_begin()
        if not keeps:
            model.held.clear()
        for act in scripts[number]:
            if act[0] != "drop":
                getattr(model, act[0])(*act[1:])
            elif drops:
                first = act[1] % (len(model.held) + 1)
                del model.held[first : first + act[2]]
                model.check()
    model.manager.shutdown()
