"""The launches that a recording saves are those of the kernels that the function launches without a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import cudalens
from cudalens import virtual
from cudalens.analysis.graphs import summarize_graphs
from cudalens.frames import RunInfo, Trace
from cudalens.graphs import GraphManager


def views_and_a_sum(x: torch.Tensor) -> torch.Tensor:
    return (x.view(2, 3).t().unsqueeze(0).expand(2, 3, 2).detach() + 1)[0, 1:]


def parts(x: torch.Tensor) -> list[torch.Tensor]:
    return [part * 2 for part in x.view(2, 3).unbind(0)]


def in_place(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    y.copy_(x)
    y[1:3].add_(1).mul_(2)
    return y.view(3, 2)


def lists(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    torch._foreach_mul_([y], 2)
    return y


def a_view_alone(x: torch.Tensor) -> torch.Tensor:
    return x.view(3, 2).t()


@pytest.mark.parametrize("function", [views_and_a_sum, parts, in_place, lists, a_view_alone])
def test_launches_are_the_kernels_without_a_graph(function: Callable[[torch.Tensor], Any]) -> None:
    with virtual.device("h100"):
        manager = GraphManager()
        graphed, x = manager.wrap(function), torch.arange(6.0, device="cuda")
        for _ in range(3):
            graphed(x)
        frame = manager.frame()
        counted = frame[frame["kind"] == "recording"]["num_kernels"].tolist()
        with cudalens.profile() as recorded:
            function(x)
        manager.shutdown()
    num_kernels = int((recorded.trace.events["cat"] == "kernel").sum())
    num_copies = int((recorded.trace.events["cat"] == "gpu_memcpy").sum())
    assert counted == [num_kernels + num_copies]


def test_a_recording_in_pieces_saves_fewer_launches() -> None:
    with virtual.device("h100"):
        manager = GraphManager()
        graphed, x = manager.wrap(lambda x: ((x * 2)[x > 1].sin() + 1).cos()), torch.arange(6.0, device="cuda")
        for _ in range(5):
            graphed(x)
        frame = manager.frame()
        manager.shutdown()
    (recording,) = frame[frame["kind"] == "recording"].to_dict("records")
    assert (recording["num_kernels"], recording["num_pieces"], recording["count"]) == (5, 2, 3)
    trace = Trace(RunInfo(name="pieces", source="cuda"), graphs=frame)
    assert summarize_graphs(trace).num_launches_saved == 3 * (5 - 2)
