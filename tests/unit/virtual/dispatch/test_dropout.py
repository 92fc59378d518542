"""Dropout: the CPU's values to the bit, a GPU's memory."""

import pytest
import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import cudalens.virtual
from cudalens.device import gpu_trace


@pytest.fixture
def device():
    with cudalens.virtual.device("h100") as device:
        yield device


def run(where, call, p):
    torch.manual_seed(0)
    x = torch.randn(64, 33).to(where).requires_grad_()
    torch.manual_seed(1)
    y = call(x, p)
    y.square().sum().backward()
    after = torch.rand(3, device=where)
    return [t.detach().cpu() for t in (y, x.grad, after)]


CALLS = {
    "torch": lambda x, p: torch.dropout(x, p, True),
    "functional": lambda x, p: functional.dropout(x, p),
    "module": lambda x, p: torch.nn.Dropout(p)(x),
    "in place": lambda x, p: functional.dropout(x * 1, p, inplace=True),
    "evaluating": lambda x, p: functional.dropout(x, p, training=False),
    "checkpointed": lambda x, p: checkpoint(lambda t: functional.dropout(t, p), x, use_reentrant=False),
    "transposed": lambda x, p: functional.dropout(x.t(), p),
}


@pytest.mark.parametrize("p", [0.0, 0.1, 0.15, 0.3, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("name", CALLS)
def test_values_gradients_and_what_is_drawn_next_equal_the_cpus(name, p):
    plain = run("cpu", CALLS[name], p)
    with cudalens.virtual.device("h100"):
        virtual = run("cuda", CALLS[name], p)
    assert all(torch.equal(a, b) for a, b in zip(plain, virtual, strict=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_dtypes_too(dtype):
    plain = run("cpu", lambda x, p: functional.dropout(x.to(dtype), p), 0.1)
    with cudalens.virtual.device("h100"):
        virtual = run("cuda", lambda x, p: functional.dropout(x.to(dtype), p), 0.1)
    assert all(torch.equal(a, b) for a, b in zip(plain, virtual, strict=True))


def test_it_keeps_a_byte_an_element_and_no_more(device):
    x = torch.ones(1 << 20, device="cuda", requires_grad=True)
    before = torch.cuda.memory_allocated()
    fired = []
    torch.cuda.reset_peak_memory_stats()
    with gpu_trace.subscribe(fired.append):
        y = functional.dropout(x, 0.1)
    assert [type(r) for r in fired] == [gpu_trace.MemoryAllocated] * 2
    assert torch.cuda.memory_allocated() == torch.cuda.max_memory_allocated() == before + (4 + 1) * (1 << 20)
    assert type(y.grad_fn).__name__ == "NativeDropoutBackward0"


def test_it_is_one_kernel_each_way(device):
    x = torch.ones(64, device="cuda", requires_grad=True)
    calls = []

    class Recorder:
        def __getattr__(self, name):
            return lambda *args, **kwargs: calls.append((name, args))

    y = functional.dropout(x, 0.1)
    grad = torch.ones_like(y)
    device.gpus.machine.recorder = Recorder()
    functional.dropout(x, 0.1)
    torch.autograd.grad(y, x, grad)
    device.gpus.machine.recorder = None
    ops = [args[1].op for name, args in calls if name == "worked"]
    assert ops == ["aten::native_dropout", "aten::native_dropout_backward"]


def test_a_graph_draws_new_numbers_at_every_replay(device):
    x = torch.ones(1000, device="cuda")
    functional.dropout(x, 0.5)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = functional.dropout(x, 0.5)
    results = []
    for _ in range(2):
        graph.replay()
        results.append(y.clone())
    assert all(0 < int((result == 2).sum()) < 1000 for result in results)
    assert not torch.equal(*results)


def test_replaced_functions_are_restored():
    before = torch.dropout, torch._VF.dropout
    with cudalens.virtual.device("h100"):
        assert torch.dropout is not before[0]
        host = functional.dropout(torch.ones(8), 0.5)
        assert host.device.type == "cpu"
    assert (torch.dropout, torch._VF.dropout) == before
    assert "dropout" not in vars(torch._VF)
