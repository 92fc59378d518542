"""Utilization, temperature, power and clocks of a virtual device, as read by torch.cuda and pynvml."""

from __future__ import annotations

import os
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cudalens.errors import VirtualDeviceError
from cudalens.virtual import SPECS, device
from cudalens.virtual.timing.machine import Engine

SPEC = SPECS["h100"]
CYCLES_PER_MS = SPEC.clock_mhz * 1000


@pytest.fixture
def machine():
    with device("h100x2") as virtual:
        yield virtual.gpus.machine


def test_an_idle_device(machine):
    machine.now_ns += 2_000_000_000
    assert torch.cuda.utilization() == torch.cuda.memory_usage() == 0
    assert torch.cuda.temperature() == round(SPEC.idle_celsius)
    assert torch.cuda.power_draw() == SPEC.idle_watts * 1000
    assert torch.cuda.clock_rate() == SPEC.clock_mhz


def test_a_busy_device(machine):
    torch.cuda._sleep(3000 * CYCLES_PER_MS)
    torch.cuda.synchronize()
    assert torch.cuda.utilization() == torch.cuda.memory_usage() == 100
    assert torch.cuda.temperature() == round(SPEC.busy_celsius)
    assert torch.cuda.power_draw() == pytest.approx(SPEC.max_watts * 1000, rel=0.001)
    assert torch.cuda.utilization(1) == 0


def test_utilization_is_of_the_last_second(machine):
    torch.cuda._sleep(250 * CYCLES_PER_MS)
    torch.cuda.synchronize()
    machine.now_ns += 750_000_000
    assert torch.cuda.utilization() == pytest.approx(25, abs=1)
    machine.now_ns += 250_000_000
    assert torch.cuda.utilization() == pytest.approx(0, abs=1)


def test_many_small_kernels_count_as_they_ran(machine):
    for _ in range(2000):
        torch.cuda._sleep(CYCLES_PER_MS // 10)
        machine.now_ns += 200_000
    machine.now_ns += 0
    assert torch.cuda.utilization() == pytest.approx(49, abs=2)


def test_memory_in_use(machine):
    tensor = torch.empty(64 << 20, dtype=torch.uint8, device="cuda:1")
    assert torch.cuda.device_memory_used(1) == SPEC.context_bytes + (64 << 20)
    assert torch.cuda.device_memory_used(0) == SPEC.context_bytes
    assert torch.cuda.list_gpu_processes(1) == (
        f"GPU:1\nprocess {os.getpid():>10d} uses {(SPEC.context_bytes + (64 << 20)) / 2**20:>12.3f} MB GPU memory"
    )
    assert tensor.is_cuda


def test_pynvml_can_be_imported(machine):
    import pynvml

    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetCount() == 2
    handle = pynvml.nvmlDeviceGetHandleByIndex(1)
    assert pynvml.nvmlDeviceGetName(handle) == SPEC.name
    assert pynvml.nvmlDeviceGetUUID(handle) == f"GPU-{torch.cuda.get_device_properties(1).uuid}"
    assert pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM) == SPEC.memory_clock_mhz
    assert pynvml.nvmlSystemGetDriverVersion() == SPEC.driver_version
    with pytest.raises(pynvml.NVMLError):
        pynvml.nvmlDeviceGetHandleByIndex(7)
    with pytest.raises(VirtualDeviceError, match=r"pynvml\.nvmlDeviceGetFanSpeed is not modelled"):
        pynvml.nvmlDeviceGetFanSpeed(handle)
    pynvml.nvmlShutdown()


def test_pynvml_is_removed_afterwards():
    before = sys.modules.get("pynvml")
    with device("h100"):
        assert sys.modules["pynvml"] is not before
    assert sys.modules.get("pynvml") is before


def test_ordinals_are_those_of_the_machine(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    with device("h100x4"):
        assert torch.cuda._raw_device_uuid_nvml() == [
            f"GPU-{torch.cuda.get_device_properties(index).uuid}" for index in range(2)
        ]
        with pytest.raises(RuntimeError, match=r"device 2 is not visible \(CUDA_VISIBLE_DEVICES=\[3, 1\]\)"):
            torch.cuda.utilization(2)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 80)), min_size=1, max_size=300), st.booleans())
def test_the_busy_time_of_an_engine(steps, looks_back):
    """Compared with a list of every nanosecond; exact in total, within one sum at an edge."""
    engine, ready, busy = Engine(), 0, set()
    for gap, duration in steps:
        ready += gap
        start = engine.place(ready, duration, 1.0, ready)
        busy.update(range(start, start + duration))
        ready = max(ready, start)
    end = max(busy) + 1
    assert engine.busy_ns(0, end) == len(busy)
    if looks_back:
        half = end // 2
        exact = sum(1 for moment in busy if moment >= half)
        assert abs(engine.busy_ns(half, end) - exact) <= 64 * 80
