"""Memory formats of tensors that move to a virtual device: as on the CPU, also for tensors that require gradients."""

from __future__ import annotations

import pytest
import torch

from cudalens.virtual import device

LAST = torch.channels_last

MOVES = {
    "to": lambda x, place: x.to(place, memory_format=LAST),
    "to, with a dtype": lambda x, place: x.to(place, torch.float64, memory_format=LAST),
    "the operator": lambda x, place: torch.ops.aten._to_copy(x, device=torch.device(place), memory_format=LAST),
    "contiguous": lambda x, place: x.to(place).contiguous(memory_format=LAST),
    "clone": lambda x, place: x.to(place).clone(memory_format=LAST),
    "kept": lambda x, place: x.contiguous(memory_format=LAST).to(place),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_moved_tensor_has_the_format_that_it_was_given(move, requires_grad):
    x = torch.randn(2, 3, 4, 5, requires_grad=requires_grad)
    expected = move(x, "cpu").stride()
    with device("h100"):
        moved = move(x, "cuda")
        assert (moved.device.type, moved.stride()) == ("cuda", expected)


def test_a_module_has_the_format_that_it_was_given():
    with device("h100"):
        weight = torch.nn.Conv2d(3, 8, 3).to("cuda", memory_format=LAST).weight
        assert weight.is_contiguous(memory_format=LAST)
