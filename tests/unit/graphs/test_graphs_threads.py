"""A real device's backward runs on a thread of autograd's, while the thread that waits for it may hold the manager."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from cudalens import virtual
from cudalens.graphs.manager import GraphManager
from cudalens.graphs.observer import Observer, is_inside_observer


def _elsewhere(work: Callable[[], Any]) -> None:
    """Run `work` on another thread, and wait for it as an engine would: the caller goes on only afterwards."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it waits for the thread that waits for it"
    if failures:
        raise failures[0]


def test_a_backward_within_a_function_that_runs_without_a_graph() -> None:
    with virtual.device("h100"):
        manager = GraphManager()
        w = torch.randn(4, 4, device="cuda", requires_grad=True)
        layer = manager.wrap(lambda x: (x @ w).relu())

        def step(x: torch.Tensor) -> float:
            loss = layer(x).sum()
            _elsewhere(loss.backward)
            return float(loss.detach().item())

        whole = manager.wrap(step)
        x = torch.randn(4, 4, device="cuda")
        expected = torch.autograd.grad((x @ w).relu().sum(), w)[0]
        for _ in range(4):
            w.grad = None
            whole(x)
            assert w.grad is not None
            torch.testing.assert_close(w.grad, expected)


def test_a_backward_while_its_manager_is_held_runs_without_a_graph() -> None:
    with virtual.device("h100"):
        manager = GraphManager()
        w = torch.randn(4, 4, device="cuda", requires_grad=True)
        layer = manager.wrap(lambda x: (x @ w).relu())
        x = torch.randn(4, 4, device="cuda")
        for _ in range(3):
            w.grad = None
            layer(x).sum().backward()
        loss, expected = layer(x).sum(), w.grad
        w.grad = None
        with manager.tree.lock:
            _elsewhere(loss.backward)
        assert w.grad is not None
        assert expected is not None
        torch.testing.assert_close(w.grad, expected)


@pytest.mark.parametrize("is_inside", [True, False])
def test_an_observer_is_active_inside_its_block_only(is_inside: bool) -> None:
    if not is_inside:
        assert not is_inside_observer()
        return
    with Observer([], 0):
        assert is_inside_observer()
    assert not is_inside_observer()


def test_replays_on_two_streams_follow_each_other_also_behind_the_default_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with virtual.device("h100"):
        manager = GraphManager()
        double = manager.wrap(lambda x: x * 2)
        x = torch.ones(4, device="cuda")
        for _ in range(4):
            double(x)
        assert torch.cuda.current_stream().cuda_stream == torch.cuda.default_stream().cuda_stream
        side, waited = torch.cuda.Stream(), list[int]()
        kind = type(torch.cuda.current_stream())
        wait = kind.wait_stream

        def noted(self: Any, other: Any) -> None:
            waited.append(other.cuda_stream)
            wait(self, other)

        monkeypatch.setattr(kind, "wait_stream", noted)
        with torch.cuda.stream(side):
            double(x)
        assert torch.cuda.default_stream().cuda_stream in waited
        monkeypatch.undo()
