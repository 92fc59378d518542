"""Several virtual devices: copies between them, and memory of one device used by a stream of another."""

from __future__ import annotations

import pytest
import torch

import cudalens.virtual as virtual


@pytest.fixture
def two():
    with virtual.device("h100x2") as on:
        yield on


def test_a_block_waits_for_a_stream_of_another_device(two):
    x = torch.empty(1 << 20, device="cuda:0")
    address = x.data_ptr()
    other = torch.cuda.Stream(1)
    with torch.cuda.device(1), torch.cuda.stream(other):
        torch.cuda._sleep(1_000_000_000)
    x.record_stream(other)
    del x
    held = torch.empty(1 << 20, device="cuda:0")
    assert held.data_ptr() != address
    del held
    other.synchronize()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved(0) == 0


def test_a_peer_copy_follows_its_source_and_precedes_what_uses_it(two):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    x = torch.full((1 << 20,), 3.0, device="cuda:0")
    torch.cuda._sleep(10_000_000)
    y = x.to("cuda:1")
    assert y.device == torch.device("cuda", 1)
    with torch.cuda.device(1):
        z = y * 2
        done = torch.cuda.Event()
        done.record()
        done.synchronize()
    end.record()
    torch.cuda.synchronize(0)
    assert start.elapsed_time(end) > 4
    assert z.sum().item() == 6 * (1 << 20)


def test_each_device_has_its_own_memory_and_streams(two):
    x = torch.empty(1 << 20, dtype=torch.uint8, device="cuda:1")
    assert (torch.cuda.memory_allocated(0), torch.cuda.memory_allocated(1)) == (0, 1 << 20)
    with torch.cuda.device(1):
        assert torch.cuda.current_stream().device == torch.device("cuda", 1)
        assert torch.empty(1, device="cuda").device == x.device
    assert torch.empty(1, device="cuda").device == torch.device("cuda", 0)
    assert torch.cuda.can_device_access_peer(0, 1)
