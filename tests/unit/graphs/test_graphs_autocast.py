"""Autocast with graphs: the casts of weights that a region keeps, and a backward inside of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext

import pytest
import torch
from graph_scenarios import undisturbed
from graph_scenarios.cases_autocast import AUTOCAST
from graph_scenarios.hand_made import difference
from torch.utils._python_dispatch import TorchDispatchMode

from cudalens import virtual
from cudalens.graphs import GraphManager

pytestmark = pytest.mark.filterwarnings("ignore")

LOW = torch.bfloat16


@pytest.fixture(scope="module", autouse=True)
def _device() -> Iterator[None]:
    with undisturbed(), virtual.device("h100"):
        yield


@pytest.fixture
def manager() -> Iterator[GraphManager]:
    made = GraphManager()
    yield made
    made.shutdown()


@pytest.mark.parametrize("name", AUTOCAST)
def test_a_function_observes_the_same_with_graphs(name: str) -> None:
    assert difference(AUTOCAST[name]) is None


def _replays(manager: GraphManager, around: Callable[[], ExitStack], *, inside: bool = False) -> int:
    """How many of six calls of a layer replay."""
    layer = torch.nn.Linear(4, 4).cuda()

    def step(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", LOW) if inside else nullcontext():
            return layer(x)

    graphed, x = manager.wrap(step), torch.ones(2, 4, device="cuda")
    for _ in range(6):
        with around():
            graphed(x)
    return manager.functions[0].counts.replays


def _within(*managers) -> ExitStack:
    stack = ExitStack()
    for manager in managers:
        stack.enter_context(manager)
    return stack


def test_a_region_inside_of_the_function_replays(manager: GraphManager) -> None:
    assert _replays(manager, ExitStack, inside=True) == 4


def test_a_region_around_it_that_keeps_no_casts_replays(manager: GraphManager) -> None:
    assert _replays(manager, lambda: _within(torch.autocast("cuda", LOW, cache_enabled=False))) == 4


def test_a_region_around_it_in_inference_mode_replays(manager: GraphManager) -> None:
    assert _replays(manager, lambda: _within(torch.inference_mode(), torch.autocast("cuda", LOW))) == 4


def test_a_region_around_it_that_keeps_casts_runs_eager_with_the_reason(manager: GraphManager) -> None:
    assert _replays(manager, lambda: _within(torch.autocast("cuda", LOW))) == 0
    frame = manager.frame()
    assert [*frame["reason"].dropna()] == ["KEPT_CASTS"]


def _square(weight: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: (x @ weight @ weight).sin().sum()


def test_a_backward_in_a_region_casts_as_without_graphs(manager: GraphManager) -> None:
    weight = torch.randn(6, 6, device="cuda").requires_grad_()
    graphed = manager.wrap(_square(weight))
    for n in range(6):
        found = []
        for function in (graphed, graphed.fn):
            x = torch.ones(6, 6, device="cuda").requires_grad_()
            loss = function(x)
            with torch.autocast("cuda", LOW, enabled=n % 2 == 1):
                found += torch.autograd.grad(loss, x)
            del loss
        assert torch.equal(*found)
    assert manager.functions[0].counts.replays > 2


class _Operators(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_a_mode_around_the_backward_alone_observes_its_operators(manager: GraphManager) -> None:
    weight = torch.randn(6, 6, device="cuda").requires_grad_()
    graphed = manager.wrap(_square(weight))
    for _ in range(4):
        graphed(torch.ones(6, 6, device="cuda")).backward()
    loss = graphed(torch.ones(6, 6, device="cuda"))
    with _Operators() as operators:
        loss.backward()
    assert "aten.cos.default" in operators.names
