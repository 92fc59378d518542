"""Change the module of generated wrapper code so that its calls use the virtual device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.compiled.kernels import _ENDED
from cudalens.virtual.gpus import Gpus


class ExternKernels:
    """Inductor's ``extern_kernels``: calls of libraries, whose kernels get the name in the generated code."""

    def __init__(self, gpus: Gpus, kernels: Any) -> None:
        self._gpus, self._kernels = gpus, kernels

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._kernels, name)
        if not callable(function):
            return function

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self._gpus.kernels_named(f"extern_kernels.{name}"):
                return function(*args, **kwargs)

        return call


def adapt_module(gpus: Gpus, module: ModuleType) -> None:
    """Replace the functions by which wrapper code allocates, and by which it calls libraries."""
    names: dict[str, Any] = vars(module)
    if "empty_strided_cuda" in names:
        names["empty_strided_cuda"] = _empty_strided
    if "empty_strided_cpu_pinned" in names:
        names["empty_strided_cpu_pinned"] = _empty_strided_pinned
    if "copy_if_misaligned" in names:
        names["copy_if_misaligned"] = _copy_if_misaligned
    if "extern_kernels" in names:
        names["extern_kernels"] = ExternKernels(gpus, names["extern_kernels"])
    if callable(names.get("call")):
        names["call"] = _only_while_active(gpus, names["call"])
    runner = names.get("runner")
    if runner is not None:  # its partitions are what torch's CUDA-graph trees capture
        runner.partitions = [_only_while_active(gpus, function) for function in runner.partitions]


def _empty_strided(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


def _empty_strided_pinned(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, pin_memory=True)


def _copy_if_misaligned(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor whose address on the device is a multiple of Inductor's alignment; torch's C++ reads the host's."""
    from torch._inductor.utils import ALIGNMENT, clone_preserve_strides

    return tensor if tensor.data_ptr() % ALIGNMENT == 0 else clone_preserve_strides(tensor)


def _only_while_active(gpus: Gpus, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(inputs: list[Any]) -> Any:
        if gpus.is_closed:
            raise VirtualDeviceError(_ENDED)
        # A capture computes once to know its shapes. Its own results must not take the memory of an input that the
        # code frees early: the first replay reads that input.
        kept = list(inputs) if gpus.machine.captures else []
        try:
            return function(inputs)
        finally:
            kept.clear()

    return call
