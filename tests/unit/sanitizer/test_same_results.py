"""Under the sanitizer a program computes what it computes without it."""

from __future__ import annotations

import gc
import os
from contextlib import nullcontext

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import cudalens


class TwoOutputs(torch.autograd.Function):
    """Two outputs; autograd fills the gradient of an unused one with zeros."""

    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, first, second):
        return first * 2 + second * 3


def unused_output():
    x = torch.arange(4.0, device="cuda").requires_grad_()
    used, _ = TwoOutputs.apply(x)
    used.square().sum().backward()
    return [x.grad]


def gradcheck():
    x = torch.linspace(0.1, 0.9, 6, dtype=torch.float64, device="cuda").requires_grad_()
    torch.autograd.gradcheck(TwoOutputs.apply, (x,))
    torch.autograd.gradcheck(lambda t: TwoOutputs.apply(t)[0], (x,), fast_mode=True)
    torch.autograd.gradgradcheck(lambda t: (t.sin() * t).sum(), (x,))
    return []


def data_parallel_step():
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to("cuda")
        parallel = torch.nn.parallel.DistributedDataParallel(module, device_ids=[0])
        for _ in range(2):
            parallel(torch.ones(3, 4, device="cuda")).square().sum().backward()
        return [parameter.grad for parameter in module.parameters()]
    finally:
        parallel = None
        gc.collect()  # before the group: C++ joins the group's threads with the GIL held where the reducer goes last
        torch.distributed.destroy_process_group()


def checkpointed():
    torch.manual_seed(1)
    module = torch.nn.Linear(4, 4).to("cuda")
    x = torch.ones(2, 4, device="cuda", requires_grad=True)
    torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False).sum().backward()
    return [x.grad, *(parameter.grad for parameter in module.parameters())]


def hessian():
    x = torch.linspace(0.1, 0.9, 4, device="cuda")
    return [torch.autograd.functional.hessian(lambda t: (t**3).sum(), x)]


class DoublesSines(TorchDispatchMode):
    """A user's dispatch mode that computes something else, and keeps what it sees."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.seen.append(f"{func} of {[arg.device.type for arg in args if isinstance(arg, torch.Tensor)]}")
        return out * 2 if func is torch.ops.aten.sin.default else out


def dispatch_mode():
    torch.manual_seed(2)
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.3)).to("cuda")
    x = torch.randn(3, 4, device="cuda").requires_grad_()
    side, mode = torch.cuda.Stream(), DoublesSines()
    with mode:
        net(x).sin().sum().backward()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            other = x.detach().sin()
        torch.cuda.current_stream().wait_stream(side)
    seen = torch.tensor([hash(text) for text in mode.seen])
    return [x.grad, other + 1, seen, *(parameter.grad for parameter in net.parameters())]


PROGRAMS = {
    "dispatch mode": dispatch_mode,
    "unused output": unused_output,
    "gradcheck": gradcheck,
    "DistributedDataParallel": data_parallel_step,
    "checkpoint": checkpointed,
    "hessian": hessian,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_values_and_devices_are_those_without_the_sanitizer(gpu, program):
    if program is data_parallel_step and os.name == "nt":
        pytest.skip("gloo needs a network interface that CI machines with Windows lack")
    plain = program()
    with cudalens.sanitize() as san:
        watched = program()
    assert san.error is None
    for with_san, without in zip(watched, plain, strict=True):
        assert with_san.device == without.device
        assert torch.equal(with_san, without)


class Counts(TorchFunctionMode):
    """A user's function mode that counts calls of operators."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


def seen_by_function_mode(context):
    x = torch.ones(3, requires_grad=True)
    loss = (x * 2).exp().sum()
    with Counts() as counts, context:
        torch.autograd.graph._engine_run_backward((loss,), (torch.ones(()),), False, False, (), accumulate_grad=True)
    return counts.calls


def test_function_modes_see_the_calls_that_they_see_without_the_sanitizer():
    assert seen_by_function_mode(cudalens.sanitize()) == seen_by_function_mode(nullcontext())
