"""Softmax of float16 into float32 on a virtual device: one kernel, no copy of the input, and the CPU's values."""

import pytest
import torch
from torch.nn.functional import log_softmax, softmax

import cudalens

CALLS = {
    "softmax": lambda x: softmax(x, -1, dtype=torch.float32),
    "log_softmax": lambda x: log_softmax(x, 0, dtype=torch.float32),
    "module of torch": lambda x: torch.softmax(x, 1, torch.float32),
}


def run(call, device):
    torch.manual_seed(0)
    x = torch.randn(64, 256, device="cpu").half().to(device).requires_grad_()
    out = call(x)
    (out * out).sum().backward()
    return out.detach().cpu(), x.grad.cpu()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_values_and_gradients_are_those_of_the_cpu(call):
    expected = run(call, "cpu")
    with cudalens.virtual.device("t4"):
        found = run(call, "cuda")
    assert [one.dtype for one in found] == [torch.float32, torch.float16]
    assert all(map(torch.equal, found, expected))


def kernels_of(call):
    with cudalens.profile("run") as run:
        call()
    events = run.trace.events
    return events[events["stream"].notna() & events["name"].str.startswith("simulated::")]["name"].tolist()


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("values", [True, False])
def test_one_kernel_converts_and_only_the_result_takes_memory(mode, values):
    with cudalens.virtual.device("t4", values=values), mode():
        x = torch.randn(1024, 1024, device="cuda", dtype=torch.float16)
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        names = kernels_of(lambda: softmax(x, -1, dtype=torch.float32))
        assert names == ["simulated::_softmax<__half>"]
        assert torch.cuda.max_memory_allocated() - before == 4 << 20


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_other_dtypes_are_converted_first(dtype):
    """torch converts within the kernel from float16 to float32 alone."""
    with cudalens.virtual.device("a100"):
        x = torch.randn(16, 16, device="cuda", dtype=dtype)
        names = kernels_of(lambda: softmax(x, -1, dtype=torch.float32))
    copies = [] if dtype is torch.float32 else ["simulated::_to_copy"]
    assert [name.partition("<")[0] for name in names] == [*copies, "simulated::_softmax"]


def test_autocast_converts_within_the_kernel():
    with cudalens.virtual.device("t4"), torch.autocast("cuda", torch.float16):
        x = torch.randn(16, 16, device="cuda", dtype=torch.float16)
        assert kernels_of(lambda: x.softmax(1)) == ["simulated::_softmax<__half>"]


def test_the_cpu_is_as_before():
    with cudalens.virtual.device("t4"):
        x = torch.randn(4, 4, device="cpu").half()
        inside = x.softmax(1, dtype=torch.float32)
    assert torch.equal(inside, x.softmax(1, dtype=torch.float32))
    assert inside.dtype is torch.float32
