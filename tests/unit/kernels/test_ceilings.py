"""Ceilings of virtual devices: the numbers of the spec, marked as such. Measured ceilings need a GPU."""

import pytest
import torch

import cudalens
from cudalens.errors import KernelError
from cudalens.frames.info import Ceilings
from cudalens.kernels import ceilings, triton_kernels


def test_a_virtual_device_quotes_its_spec():
    with cudalens.virtual.device("h100"):
        found = ceilings()
        assert (found.source, found.is_measured, found.date) == ("spec:h100", False, None)
        assert found.copy_bytes_per_s == 3352e9
        assert found.flops_per_s["bfloat16"] == 989.4e12
        assert found == ceilings("cuda:0") == ceilings(0)
        with pytest.raises(KernelError, match="cpu is not a CUDA device"):
            ceilings("cpu")


def test_they_come_back_from_json():
    found = Ceilings(device="x", source="measured", date="2026-01-01", flops_per_s={"tf32": 1e12})
    assert Ceilings.from_json(found.to_json()) == found


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu():
    with pytest.raises(KernelError, match="no CUDA device"):
        ceilings()


def test_the_reading_kernel_reads_everything():
    values = torch.randint(-(2**62), 2**62, (5000,))
    assert int(triton_kernels.run_read(values).sum()) == int(values.sum())
