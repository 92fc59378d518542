"""Whether the calling thread traces or lowers code of torch.compile, which sees fake CUDA tensors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import torch

from cudalens.virtual.profile.recorder import HIDDEN

if TYPE_CHECKING:
    from cudalens.virtual.gpus import Gpus

#: The device that torch's C++ sees for a fake CUDA tensor. Autograd of a build without CUDA aborts for CUDA tensors;
#: of all devices that it accepts, programs use this one least.
_HIDDEN_TYPE: Final = "lazy"


class _Thread(threading.local):
    depth: int = 0


_thread: Final = _Thread()


def is_tracing() -> bool:
    """Whether torch.compile traces or lowers code for the virtual device on this thread."""
    return _thread.depth > 0


@contextmanager
def tracing() -> Iterator[None]:
    """Mark the calling thread."""
    _thread.depth += 1
    try:
        yield
    finally:
        _thread.depth -= 1


@contextmanager
def hidden_work(gpus: Gpus) -> Iterator[None]:
    """Keep operators inside of this context, which no GPU runs, out of profiles."""
    recorder = gpus.machine.recorder
    if recorder is None:
        yield
        return
    begun = recorder.begin(HIDDEN)
    try:
        yield
    finally:
        recorder.end(begun)


def hidden_device(device: torch.device) -> torch.device:
    """The device that torch's C++ sees for `device`."""
    return torch.device(_HIDDEN_TYPE, device.index or 0) if device.type == "cuda" else device


def shown_device(device: torch.device) -> torch.device:
    """The device that a program sees for one that torch's C++ reports."""
    return torch.device("cuda", device.index or 0) if device.type == _HIDDEN_TYPE else device
