"""Additional memory and kernels of CUDA implementations."""

import pytest
import torch

import cudalens.virtual
from cudalens.device import gpu_trace


@pytest.fixture
def fired():
    fired = []
    with cudalens.virtual.device("h100"), gpu_trace.subscribe(fired.append):
        yield fired


def test_softmax_backward_multiplies_first_into_memory_of_its_own(fired):
    x = torch.randn(4, 1024, device="cuda", requires_grad=True)
    y = torch.softmax(x, dim=1)
    grad = torch.ones_like(y)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    fired.clear()
    (result,) = torch.autograd.grad(y, x, grad)
    at = result.data_ptr()
    (aside,) = {r.address for r in fired if isinstance(r, gpu_trace.MemoryAllocated)} - {at}
    assert [r for r in fired if isinstance(r, gpu_trace.MemoryAllocated | gpu_trace.MemoryFreed)][:3] == [
        gpu_trace.MemoryAllocated(at),
        gpu_trace.MemoryAllocated(aside),
        gpu_trace.MemoryFreed(aside),
    ]
    size = x.nbytes
    assert torch.cuda.memory_allocated() == before + size
    assert torch.cuda.max_memory_allocated() == before + 2 * size


def test_its_values_are_the_cpus(fired):
    values = torch.randn(8, 33)
    grads = []
    for where in ("cpu", "cuda"):
        x = values.clone().to(where).requires_grad_()
        torch.softmax(x, dim=1).square().sum().backward()
        grads.append(x.grad.cpu())
    assert torch.equal(*grads)


def test_log_softmax_needs_none(fired):
    x = torch.randn(4, 1024, device="cuda", requires_grad=True)
    y = torch.log_softmax(x, dim=1)
    grad = torch.ones_like(y)
    fired.clear()
    torch.autograd.grad(y, x, grad)
    assert sum(isinstance(r, gpu_trace.MemoryAllocated) for r in fired) == 1
