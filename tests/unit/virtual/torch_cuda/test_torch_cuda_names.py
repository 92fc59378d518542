"""Every name of torch.cuda and torch.backends.cuda works on a virtual device, or refuses with a reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.backends.cuda
import torch.cuda.memory
import torch.cuda.tunable

import cudalens.virtual
from cudalens.errors import VirtualDeviceError

#: torch asks whether it exists before its use.
OPTIONAL = {"_CUDAGreenContext"}


@pytest.fixture(autouse=True)
def device() -> Iterator[cudalens.virtual.device]:
    with cudalens.virtual.device("h100") as entered:
        yield entered


def test_every_c_function_that_torch_names_exists() -> None:
    root = Path(torch.__file__).parent
    names: set[str] = set()
    for folder in ("cuda", "backends/cuda", "backends/cudnn", "accelerator", "amp"):
        for file in (root / folder).rglob("*.py"):
            names.update(re.findall(r"torch\._C\.(_(?:cuda|nccl|CUDA|Cuda)\w*)", file.read_text(encoding="utf-8")))
    assert len(names) > 60
    assert {name for name in names if not hasattr(torch._C, name)} <= OPTIONAL


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "tunable.get_filename": (lambda: torch.cuda.tunable.get_filename(), "TunableOp measures"),
    "tunable.get_results": (lambda: torch.cuda.tunable.get_results(), "TunableOp measures"),
    "tunable.get_validators": (lambda: torch.cuda.tunable.get_validators(), "TunableOp measures"),
    "tunable.set_max_tuning_duration": (lambda: torch.cuda.tunable.set_max_tuning_duration(1), "TunableOp measures"),
    "tunable.read_file": (lambda: torch.cuda.tunable.read_file("a.csv"), "TunableOp measures"),
    "_get_current_allocator": (lambda: torch.cuda.memory._get_current_allocator(), "models PyTorch's allocator"),
    "cufft_plan_cache.size": (lambda: torch.backends.cuda.cufft_plan_cache.size, "plans of cuFFT are not modelled"),
    "preferred_blas_library": (lambda: torch.backends.cuda.preferred_blas_library("ck"), "for AMD GPUs"),
    "_compile_kernel": (lambda: torch.cuda._compile_kernel("", "f"), "CUDA C.. is code for a GPU"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_a_gpu_is_refused_with_the_reason(name: str) -> None:
    call, reason = REFUSED[name]
    with pytest.raises(VirtualDeviceError, match=reason):
        call()


def test_preferred_libraries_are_stored_and_end_with_the_device(device: cudalens.virtual.device) -> None:
    backends: Any = torch.backends.cuda
    assert backends.preferred_linalg_library("cusolver").name == "Cusolver"
    assert backends.preferred_linalg_library().name == "Cusolver"
    assert backends.preferred_blas_library("cublaslt").name == "Cublaslt"
    device.disable()
    assert backends.preferred_linalg_library().name == "Default"


def test_the_sizes_of_cufft_plan_caches_can_be_set() -> None:
    cache: Any = torch.backends.cuda.cufft_plan_cache
    assert cache.max_size == 4096
    cache[0].max_size = 10
    assert cache.max_size == 10
    cache.clear()
    with pytest.raises(RuntimeError, match="must be non-negative"):
        cache.max_size = -1


def test_native_handles_are_those_of_cuda() -> None:
    for stream in (torch.cuda.Stream(), torch.Stream("cuda"), torch.cuda.current_stream()):
        assert stream.native_handle == stream.cuda_stream


@pytest.mark.parametrize("pointer", [0, 1, 4096, -8])
def test_a_pointer_to_no_memory_is_an_invalid_value(pointer: int) -> None:
    runtime: Any = torch.cuda.cudart()
    assert int(runtime.cudaStreamCreate(pointer)) == 1
    assert int(runtime.cudaHostRegister(pointer, 64, 0)) == 1
