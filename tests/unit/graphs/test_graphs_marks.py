"""Marks of steps belong to the managers of devices that are still there."""

from __future__ import annotations

import torch

import cudalens
from cudalens import virtual


def test_a_mark_after_the_end_of_a_device_is_for_the_next_manager() -> None:
    with virtual.device("h100"):
        cudalens.cudagraph(lambda x: x * 2)(torch.ones(4, device="cuda"))
    cudalens.graphs.mark_step_begin()
    with virtual.device("a100"):
        function = cudalens.cudagraph(lambda x: x + 1)
        x = torch.ones(4, device="cuda")
        function(x)
        kept = function(x)
        function(x)  # marks say where steps begin: no new one begins because the function is called again
        assert cudalens.graphs.manager().tree.steps.generation == 1
        assert kept.tolist() == [2.0] * 4
        cudalens.graphs.reset()
