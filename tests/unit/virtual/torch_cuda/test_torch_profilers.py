"""torch's profilers inside a virtual device: no warnings, and correct host rows."""

from __future__ import annotations

import pytest
import torch

import cudalens.virtual as virtual
from cudalens.errors import VirtualDeviceError


@pytest.fixture
def x():
    with virtual.device("h100"):
        yield torch.ones(8, device="cuda")


def test_torch_profiler_with_cuda_records_the_operators_without_warnings(x, capfd):
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as run:
        (x * 2).sum()
    assert {"aten::mul", "aten::sum"} <= {event.key for event in run.key_averages()}
    assert "CUDA event" not in capfd.readouterr().err


def test_the_autograd_profiler_with_cuda_does_too(x, capfd):
    with torch.autograd.profiler.profile(use_device="cuda") as run:
        (x * 2).sum()
    assert {"aten::mul", "aten::sum"} <= {event.key for event in run.key_averages()}
    assert "CUDA event" not in capfd.readouterr().err


def test_tracing_is_refused_with_what_to_do(x):
    with pytest.raises(VirtualDeviceError, match=r"Trace outside of the block"):
        torch.jit.trace(lambda a: a.view(-1), x)


def test_a_table_states_that_the_device_is_not_in_it():
    with virtual.device("h100"):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            torch.ones(4, device="cuda").sum()
        table = profile.key_averages().table()
    assert "without the virtual h100" in table.splitlines()[-1]
    assert "virtual" not in profile.key_averages().table()
