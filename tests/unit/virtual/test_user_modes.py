"""A user's own torch modes above those of a virtual device."""

from __future__ import annotations

import pickle
from typing import ClassVar

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from cudalens.virtual import device

#: As a library keeps it that was imported before the virtual device begins.
KEEPS_CLASS = frozenset({torch.Tensor.to, torch.Tensor.clone})


@pytest.fixture(autouse=True)
def _gpu():
    with device("h100"):
        yield


class Passes(TorchDispatchMode):
    """A user's dispatch mode that calls each operator and returns what it returned."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class TwoOutputs(torch.autograd.Function):
    """Two outputs; autograd fills the gradient of an unused one with zeros."""

    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, first, second):
        return first * 2 + second * 3


class MakesOnHost(torch.autograd.Function):
    """Its backward makes a tensor of the host by the operator's own name."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        assert torch.ops.aten.zeros.default([2], device=torch.device("cpu")).device.type == "cpu"
        assert torch.ops.aten.zeros_like.default(grad, device=torch.device("cpu")).device.type == "cpu"
        return grad * 2


def test_the_gradient_of_an_unused_output_is_zeros_of_the_device():
    x = torch.arange(4.0, device="cuda").requires_grad_()
    with Passes():
        used, _ = TwoOutputs.apply(x)
        used.sum().backward()
    assert x.grad.device == torch.device("cuda:0")
    assert x.grad.tolist() == [2.0] * 4


@pytest.mark.parametrize("mode", [Passes, None])
def test_backward_code_that_names_the_host_gets_tensors_of_the_host(mode):
    x = torch.ones(2, device="cuda", requires_grad=True)
    if mode is None:
        MakesOnHost.apply(x).sum().backward()
    else:
        with mode():
            MakesOnHost.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


CALLS = {
    "device": lambda x: x.device,
    "is_cuda": lambda x: x.is_cuda,
    "get_device": lambda x: x.get_device(),
    "to": lambda x: x.to("cpu"),
    "a dtype": lambda x: x.to(torch.float64),
    "cpu": lambda x: x.cpu(),
    "cuda": lambda x: x.cuda(),
    "numpy": lambda x: x.cpu().numpy(),
    "data_ptr": lambda x: x.data_ptr(),
    "type": lambda x: x.type(),
    "type_as": lambda x: x.type_as(x),
    "is_pinned": lambda x: x.is_pinned(),
    "new_tensor": lambda x: x.new_tensor([1.0]),
    "record_stream": lambda x: x.record_stream(torch.cuda.current_stream()),
}
#: What torch calls where `CALLS` calls another function besides the one of its name.
NAMES = {"device": ["__get__"], "is_cuda": ["__get__"], "a dtype": ["to"], "numpy": ["cpu", "numpy"]}


class Counted(torch.Tensor):
    """A class of tensors that notes which functions are called."""

    seen: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Counts(TorchFunctionMode):
    """A user's function mode that notes which functions are called."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", CALLS)
def test_a_class_of_tensors_sees_the_functions_that_a_program_calls(name):
    x = torch.ones(2, device="cuda").as_subclass(Counted)
    Counted.seen.clear()
    result = CALLS[name](x)
    assert Counted.seen == NAMES.get(name, [name])
    assert type(result) is Counted or not isinstance(result, torch.Tensor)


@pytest.mark.parametrize("name", CALLS)
def test_a_function_mode_sees_the_functions_that_a_program_calls(name):
    x = torch.ones(2, device="cuda")
    with Counts() as mode:
        result = CALLS[name](x)
    assert mode.seen == NAMES.get(name, [name])
    if isinstance(result, torch.Tensor):
        assert result.device.type == ("cpu" if name in ("to", "cpu") else "cuda")


def test_a_table_of_functions_from_before_the_device_has_those_of_the_device():
    class Kept(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            with torch._C.DisableTorchFunctionSubclass():
                out = func(*args, **(kwargs or {}))
            return out.as_subclass(cls) if func in KEEPS_CLASS else out

    x = torch.ones(2).as_subclass(Kept)
    moved = x.to("cuda")
    assert (type(moved), moved.device.type) == (Kept, "cuda")
    assert type(moved.cpu()) is torch.Tensor
    assert torch.Tensor.to in KEEPS_CLASS
    assert pickle.loads(pickle.dumps(torch.Tensor.to)) is torch.Tensor.to
