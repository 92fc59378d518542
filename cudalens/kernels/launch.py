"""Launch the kernels of this package with Triton, compiled or interpreted, or select their torch references.

Every kernel of this package has a reference implementation in plain torch. The reference runs for tensors that Triton
kernels cannot access (on the CPU or a virtual device), and if Triton is not installed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Final, Literal

import torch

from cudalens.device.inventory import readings
from cudalens.errors import KernelError, invalid_choice

#: ``auto`` selects the kernel if the tensors are on a real GPU and Triton is installed, else the reference.
Backend = Literal["auto", "triton", "reference"]

_BACKENDS: Final = ("auto", "triton", "reference")


@cache
def has_triton() -> bool:
    """Return whether Triton is installed; checked without importing it."""
    return importlib.util.find_spec("triton") is not None


def uses_triton(backend: Backend, tensor: torch.Tensor) -> bool:
    """Return whether to run the Triton kernel for `tensor`.

    Raises:
        ValueError: `backend` is unknown.
        KernelError: `backend` is ``triton``, and the kernel cannot run here.
    """
    if backend not in _BACKENDS:
        raise invalid_choice("backend", backend, _BACKENDS)
    if backend == "triton":
        if not has_triton():
            raise KernelError("Triton is not installed; `pip install triton`, or take backend='reference'.")
        if not is_on_gpu(tensor) and not is_interpreted():
            raise KernelError(
                f"a tensor on {tensor.device} is out of reach of compiled kernels; take backend='reference', or set "
                f"TRITON_INTERPRET=1 before Triton is imported."
            )
    return backend == "triton" or (backend == "auto" and can_launch(tensor.device))


def can_launch(device: torch.device) -> bool:
    """Return whether a compiled kernel can run on `device`."""
    if not is_gpu(device) or not has_triton() or is_interpreted():
        return False
    return _can_build(torch.cuda.current_device() if device.index is None else device.index)


@cache
def _can_build(index: int) -> bool:
    """Return whether Triton can launch kernels here: it needs a C compiler, and does not support old GPUs."""
    try:
        from triton.runtime import driver

        with torch.cuda.device(index):
            driver.active.get_current_target()  # compiles Triton's driver module
    except Exception:  # whatever the cause, the torch reference gives the same result
        return False
    return torch.version.hip is not None or torch.cuda.get_device_capability(index) >= _OLDEST


#: The oldest compute capability that Triton compiles for.
_OLDEST: Final = (7, 0)


def is_on_gpu(tensor: torch.Tensor) -> bool:
    """Return whether `tensor` is in the memory of a real GPU; false for a virtual device."""
    return is_gpu(tensor.device)


def is_gpu(device: torch.device) -> bool:
    """Return whether `device` is a real GPU."""
    return device.type == "cuda" and readings.virtual_label() is None


class Kernel:
    """A Triton kernel, decorated at its first launch, since importing Triton fixes whether it compiles or interprets.

    Args:
        function: The kernel's Python code. It may only call ``triton.language``.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._decorated: Any = None

    def launch(self, grid: int, *args: torch.Tensor | int, **constants: int) -> None:
        """Launch `grid` programs with `args`; `constants` are its constexpr arguments and options of the compiler."""
        if self._decorated is None:
            import triton

            self._decorated = triton.jit(self._function)
        with _device_of(args):
            self._decorated[(grid,)](*args, **constants)


def _device_of(args: Iterable[Any]) -> AbstractContextManager[Any]:
    """Make the GPU of the arguments the current one: Triton launches on the current device."""
    on_gpu = (arg.device for arg in args if isinstance(arg, torch.Tensor) and is_gpu(arg.device))
    device = next(on_gpu, None)
    return nullcontext() if device is None else torch.cuda.device(device)


def is_interpreted() -> bool:
    """Return whether Triton runs kernels in its interpreter, on host memory (``TRITON_INTERPRET=1``)."""
    import triton

    return bool(triton.knobs.runtime.interpret)


#: Enough programs to use the memory bandwidth of a multiprocessor, few enough that the last wave is short.
_PROGRAMS_PER_SM: Final = 8
#: The interpreter runs programs one after the other; several, so that combining their results is tested.
_INTERPRETED_PROGRAMS: Final = 3


def num_programs(num_elements: int, block: int, device: torch.device) -> int:
    """Number of programs: at most one per block, and as many as the device runs at once."""
    num_blocks = max(1, -(-num_elements // block))
    return min(num_blocks, _PROGRAMS_PER_SM * _num_sms(device.index or 0) if is_gpu(device) else _INTERPRETED_PROGRAMS)


@cache
def _num_sms(index: int) -> int:
    return int(torch.cuda.get_device_properties(index).multi_processor_count)
