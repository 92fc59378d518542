"""Model the extra memory and kernels of CUDA implementations that the CPU implementation of an operator does not have.

Only what PyTorch's source defines exactly. What depends on an algorithm chosen by a library (cuDNN, CUB) is not
modelled: convolutions, sorts and reductions of a million elements use additional scratch memory on a real GPU.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import torch

from cudalens.virtual.tensors.residency import ADOPT_KEY, residence_of
from cudalens.virtual.timing import cost

if TYPE_CHECKING:
    from cudalens.virtual.allocator import Block
    from cudalens.virtual.gpus import Gpus
    from cudalens.virtual.timing.machine import Device

_CALL: Final = "_call"
_FILE: Final = str(Path(__file__).parents[1] / "tensors" / "device_arguments.py")


def is_call_on_device() -> bool:
    """Return whether the current torch function got a tensor of a device; True without a current function."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == _CALL and code.co_filename == _FILE:
            given = frame.f_locals
            return _has_resident(given["args"]) or _has_resident(tuple(given["kwargs"].values()))
        frame = frame.f_back
    return True


def are_scratch(args: tuple[Any, ...]) -> bool:
    """Return whether one of an operator's host tensors is internal."""
    return any(isinstance(arg, torch.Tensor) and ADOPT_KEY in attributes(arg) for arg in args)


def mark_result(out: Any, args: tuple[Any, ...]) -> Any:
    """Mark a result in new memory as internal; returns it."""
    if isinstance(out, torch.Tensor) and not any(out is arg for arg in args):
        mark(out)
    return out


class _Marked(threading.local):
    """The storages that were marked in the thread's current backward pass; None outside of one."""

    storages: list[weakref.ref[torch.UntypedStorage]] | None = None


_marked = _Marked()


def mark(tensor: torch.Tensor) -> None:
    """Mark a host tensor as internal."""
    attributes(tensor)[ADOPT_KEY] = True
    if _marked.storages is not None:
        _marked.storages.append(weakref.ref(tensor.untyped_storage()))


@contextmanager
def collected_marks() -> Iterator[Callable[[], bool]]:
    """Collect the tensors that are marked in the block; gives a function that says whether one of them is left."""
    outer, _marked.storages = _marked.storages, []
    found = _marked.storages

    def is_any_left() -> bool:
        storages = [reference() for reference in found]
        return any(storage is not None and ADOPT_KEY in storage.__dict__ for storage in storages)

    try:
        yield is_any_left
    finally:
        _marked.storages = outer


def attributes(tensor: torch.Tensor) -> dict[str, Any]:
    """Return the attributes of a tensor's storage; empty without one."""
    try:
        return tensor.untyped_storage().__dict__
    except (RuntimeError, NotImplementedError):  # no storage
        return {}


def _has_resident(values: tuple[Any, ...] | list[Any]) -> bool:
    return any(
        residence_of(value) is not None if isinstance(value, torch.Tensor) else _has_resident(value)
        for value in values
        if isinstance(value, torch.Tensor | list | tuple)
    )


_aten = torch.ops.aten

#: Computes from an operator's arguments the overload that runs first, its arguments, and a tensor like its result.
Side = Callable[[tuple[Any, ...]], tuple[Any, tuple[Any, ...], torch.Tensor]]


def _softmax_backward(args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...], torch.Tensor]:
    """``grad * output`` is a separate tensor (softmax_backward_cuda_out, ATen/native/cuda/SoftMax.cu)."""
    grad, output = args[:2]
    return _aten.mul.Tensor, (grad, output), grad


#: By operator name.
SIDES: Final[dict[str, Side]] = {"_softmax_backward_data": _softmax_backward}


def compute(gpus: Gpus, device: Device, side: Side, args: tuple[Any, ...]) -> Block:
    """Run the first operator; returns its memory, which the caller frees after the operator was issued.

    Raises:
        torch.OutOfMemoryError: The virtual device is full; torch's message.
    """
    func, arguments, like = side(args)
    block = gpus.reserve(device, like.numel() * like.element_size())
    gpus.launch(device, cost.kernel_work(gpus.spec, func, arguments, {}, like))
    return block
