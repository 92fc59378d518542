"""FakeTensorMode inside of a virtual device: fake tensors are on the device that the program names."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import cudalens
from cudalens.virtual import device


@pytest.fixture(autouse=True)
def _gpus():
    with device("h100x2"):
        yield


MAKES = {
    "zeros": lambda d: torch.zeros(2, 3, device=d),
    "randn": lambda d: torch.randn(2, 3, device=d),
    "tensor": lambda d: torch.tensor([1.0, 2.0], device=d),
    "as_tensor": lambda d: torch.as_tensor([1.0, 2.0], device=d),
    "to": lambda d: torch.ones(2).to(d),
    "to, by name": lambda d: torch.ones(2).to(device=d),
    "like": lambda d: torch.zeros_like(torch.ones(2, device=d)),
    "operator": lambda d: torch.ones(2, 2, device=d) @ torch.ones(2, 2, device=d),
}


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
@pytest.mark.parametrize("spelling", ["cuda", "cuda:1", 1, "cpu"])
def test_a_fake_tensor_is_where_it_was_made(make, spelling):
    before = torch.cuda.memory_allocated()
    with FakeTensorMode():
        made = make(spelling)
    expected = {"cuda": "cuda:0", 1: "cuda:1"}.get(spelling, spelling)
    assert isinstance(made, FakeTensor)
    assert made.device == torch.device(expected)
    assert torch.cuda.memory_allocated() == before


def test_a_real_tensor_becomes_a_fake_one_of_its_device():
    real = torch.ones(2, device="cuda:1")
    mode = FakeTensorMode()
    assert mode.from_tensor(real).device == torch.device("cuda", 1)
    with mode:
        assert (mode.from_tensor(real) * 2).device == torch.device("cuda", 1)


@pytest.mark.parametrize("place", ["cpu", "cuda"])
def test_the_sanitizer_lets_fake_tensors_pass(place):
    with cudalens.sanitize() as san, FakeTensorMode():
        made = torch.ones(2, 2, device=place) @ torch.ones(2, 2, device=place)
    assert (made.device.type, tuple(made.shape)) == (place, (2, 2))
    assert (san.error, san.races) == (None, [])


@pytest.mark.parametrize("change", [lambda x: x.copy_(x + 1), lambda x: x.uniform_(), lambda x: x.t().contiguous()])
def test_a_fake_tensor_is_changed_without_a_gpu_in_cpp(change):
    with FakeTensorMode():
        changed = change(torch.empty(2, 3, device="cuda:1"))
    assert isinstance(changed, FakeTensor)
    assert changed.device == torch.device("cuda", 1)
    assert changed.is_contiguous()
