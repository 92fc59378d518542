"""Readings of virtual GPUs: busy time, memory, power and clocks, computed only from the model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cudalens
from cudalens.device.inventory import readings
from cudalens.virtual import SPECS, device
from cudalens.virtual.profile.metrics import HOLD_S, VirtualSource, busy_shares

SPEC = SPECS["h100"]
CYCLES_PER_MS = SPEC.clock_mhz * 1000


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=30),
    st.lists(st.integers(0, 100), min_size=1, max_size=20, unique=True),
)
def test_busy_shares_against_a_count_of_every_moment(spans, times):
    spans = [(start, start + length) for start, length in spans]
    times = np.array(sorted(times), np.int64)
    busy = {moment for start, end in spans for moment in range(start, end)}
    found = busy_shares(spans, times)
    assert found[0] == 0
    for k in range(1, len(times)):
        window = range(times[k - 1], times[k])
        assert found[k] == pytest.approx(sum(moment in busy for moment in window) / len(window))


def test_a_profile_on_a_virtual_device_reads_the_model():
    with device("h100x2") as on, cudalens.profile(metrics=1000, keep=False) as p:
        torch.cuda._sleep(10 * CYCLES_PER_MS)
        torch.cuda.synchronize()
        on.gpus.machine.now_ns += 10_000_000
        kept = torch.empty(2**30, dtype=torch.uint8, device="cuda:1")
    del kept
    metrics = p.trace.metrics
    cudalens.frames.check_frame("metrics", metrics)
    assert p.trace.info.is_simulated
    first, second = (metrics[metrics["device"] == index] for index in (0, 1))
    assert first["ts"].diff().dropna().iloc[:-1].eq(1_000_000).all()
    assert first["gpu_busy_pct"].iloc[2:9].eq(100).all()
    assert first["gpu_busy_pct"].iloc[12:18].eq(0).all()
    assert first["power_watts"].iloc[5] == SPEC.max_watts
    assert first["power_watts"].iloc[15] == SPEC.idle_watts
    assert first["temperature_celsius"].iloc[15] == SPEC.idle_celsius
    assert second["gpu_busy_pct"].eq(0).all()
    assert second["memory_used_bytes"].iloc[0] == SPEC.context_bytes
    assert second["memory_used_bytes"].iloc[-1] == SPEC.context_bytes + 2**30
    assert set(metrics["clock_mhz"]) == {SPEC.clock_mhz}


def test_without_a_rate_there_are_as_many_as_a_picture_shows():
    with device("h100"), cudalens.profile(metrics=True, keep=False) as p:
        torch.cuda._sleep(CYCLES_PER_MS)
    assert 190 <= len(p.trace.metrics) <= 220


def test_the_same_program_gives_the_same_readings():
    def run():
        with device("a100"), cudalens.profile(metrics=True, keep=False) as p:
            x = torch.ones(512, 512, device="cuda")
            for _ in range(5):
                x = x @ x
        return p.trace.metrics

    assert run().equals(run())


def test_hidden_gpus_are_not_read(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    with device("t4x4"), cudalens.profile(metrics=True, keep=False) as p:
        torch.ones(2, device="cuda")
    rows = p.trace.metrics.drop_duplicates("device")
    assert dict(zip(rows["device"], rows["physical_index"], strict=True)) == {0: 2, 1: 0}


def test_devices_one_after_another_share_a_clock():
    with cudalens.profile(metrics=True, keep=False) as p:
        for key in ("t4", "h100"):
            with device(key):
                torch.ones(2, device="cuda").sum().item()
    metrics = p.trace.metrics
    assert metrics["ts"].is_monotonic_increasing
    assert metrics["ts"].iloc[-1] == p.trace.info.ended_ns
    assert set(metrics["clock_mhz"]) == {SPECS["t4"].clock_mhz, SPEC.clock_mhz}
    assert not p.trace.info.problems


def test_there_is_no_listener_without_a_request():
    with device("h100") as on, cudalens.profile(keep=False) as p:
        assert on.gpus.devices[0].allocator.listeners == []
        torch.ones(2, device="cuda")
    assert p.trace.metrics.empty


def test_listeners_are_removed_afterwards():
    with device("h100") as on:
        with cudalens.profile(metrics=True, keep=False):
            assert len(on.gpus.devices[0].allocator.listeners) == 1
        assert on.gpus.devices[0].allocator.listeners == []


# -- live --------------------------------------------------------------------------------------------------------------


def test_a_reading_is_of_the_time_since_the_one_before():
    with device("h100") as on:
        seconds = [0.0]
        source = VirtualSource(on.gpus, 1, "h100", now=lambda: seconds[0])
        source.read(0)
        torch.cuda._sleep(10 * CYCLES_PER_MS)
        torch.cuda.synchronize()
        assert source.read(0).gpu_busy_pct == pytest.approx(100, abs=1)
        assert source.read(0).gpu_busy_pct == pytest.approx(100, abs=1)  # virtual time does not advance
        seconds[0] = HOLD_S
        assert source.read(0).gpu_busy_pct == 0
        on.gpus.machine.now_ns += 5_000_000
        assert source.read(0).power_watts == SPEC.idle_watts


def test_the_source_is_restored_afterwards():
    before = readings.open_source
    with device("h100x2"):
        assert readings.virtual_label() == "h100x2"
        assert readings.open_source is not before
        assert (readings.open_source().is_modelled, readings.open_source().label) == (True, "model of h100x2")
    assert readings.virtual_label() is None
    assert readings.open_source is before


def test_all_gpus_of_the_machine_are_listed(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with device("h100x3"):
        source = readings.open_source()
        assert [gpu.number for gpu in source.gpus()] == [0, 1, 2]
        assert source.read(0).memory_used_bytes == 0
        assert source.read(1).memory_used_bytes == SPEC.context_bytes
