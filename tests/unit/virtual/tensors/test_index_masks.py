"""Indices that are masks: which of them make the host wait, and what modes see of a copy to the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cudalens import virtual


@pytest.fixture(autouse=True)
def _device() -> Iterator[None]:
    with virtual.device("h100"):
        yield


def captured(x: torch.Tensor, write: Any) -> torch.Tensor:
    """What a graph that writes to a copy of `x` gives."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 1
        write(y)
    graph.replay()
    return y


def test_a_number_at_a_mask_is_captured_as_masked_fill_is():
    def write(y: torch.Tensor) -> None:
        y[y > 1] = 7

    x = torch.tensor([0.0, 1.0, 2.0, 3.0], device="cuda")
    assert captured(x, write).tolist() == [0, 1, 7, 7]


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y.__setitem__(y > 1, torch.tensor(7.0, device="cuda")),
        lambda y: y.index_put_((y > 1,), torch.tensor(7.0), accumulate=True),
        lambda y: y.view(2, 2).__setitem__((torch.tensor([True, False], device="cuda"), 1), 7.0),
    ],
    ids=["a number on the device", "a sum", "another index"],
)
def test_other_values_at_a_mask_wait_for_their_number(write):
    with pytest.raises(RuntimeError, match="captur"):
        captured(torch.arange(4.0, device="cuda"), write)


def test_a_mode_sees_the_copy_of_tolist():
    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(func._schema.name)
            return func(*args, **(kwargs or {}))

    names: list[str] = []
    for x in (torch.arange(2.0, device="cuda"), torch.arange(2.0, device="cuda").requires_grad_()):
        with Names():
            assert x.tolist() == [0.0, 1.0]
    assert names == ["aten::_to_copy"] * 2
