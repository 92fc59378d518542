"""Large virtual tensors use no host memory before they are written."""

from __future__ import annotations

import resource

import pytest
import torch

import cudalens.virtual as virtual

GIB = 1 << 30


def peak_host_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("make", [torch.empty, torch.zeros], ids=["empty", "zeros"])
def test_a_tensor_larger_than_the_host_costs_the_host_nothing(make):
    before = peak_host_bytes()
    with virtual.device("h100"):
        x = make(40 * GIB, dtype=torch.uint8, device="cuda")
        assert x.untyped_storage().nbytes() == 40 * GIB
        x[-1] = 7
        assert x[-1].item() == 7
        assert torch.cuda.memory_allocated() >= 40 * GIB
        y = make(30 * GIB, dtype=torch.uint8, device="cuda")
        assert y.device.type == "cuda"
    assert peak_host_bytes() - before < GIB


def test_zeros_in_untouched_memory_are_zeros_with_the_right_strides():
    with virtual.device("h100"):
        x = torch.zeros(4096, 8192, device="cuda")
        assert x.stride() == (8192, 1)
        assert x[1000, ::4096].tolist() == [0.0, 0.0]
        y = torch.empty_strided((8192, 4096), (1, 8192), dtype=torch.float64, device="cuda")
        assert y.stride() == (1, 8192)
        assert torch.zeros_like(y).dtype is torch.float64


def test_what_the_device_cannot_hold_is_refused_before_the_host_writes_it():
    before = peak_host_bytes()
    with virtual.device("t4"):
        with pytest.raises(torch.OutOfMemoryError, match=r"CUDA out of memory. Tried to allocate 20.00 GiB"):
            torch.ones(20 * GIB, dtype=torch.uint8, device="cuda")
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(20 * GIB, dtype=torch.uint8, device="cuda")
    assert peak_host_bytes() - before < GIB
