"""Host tensors that torch's C++ makes for itself on the way of a call that is about tensors of a device.

C++ takes those tensors to be on the CPU, and so makes its masks and numbers there. They carry a mark, and so does what
is computed from them, until they meet a tensor of a device and join it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any, Final

import torch

from cudalens.virtual.tensors.residency import ADOPT_KEY, KEY

_CALL: Final = "_call"
_FILE: Final = str(Path(__file__).parents[1] / "tensors" / "device_arguments.py")


def is_call_on_device() -> bool:
    """Whether the torch function that is under way was given a tensor of a device; so, too, where none is under way."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == _CALL and code.co_filename == _FILE:
            given = frame.f_locals
            return _has_resident(given["args"]) or _has_resident(tuple(given["kwargs"].values()))
        frame = frame.f_back
    return True


def are_scratch(args: tuple[Any, ...]) -> bool:
    """Whether one of an operator's host tensors is torch's own."""
    return any(isinstance(arg, torch.Tensor) and ADOPT_KEY in _notes(arg) for arg in args)


def passed_on(out: Any, args: tuple[Any, ...]) -> Any:
    """`out`, marked where it is a tensor in memory of its own."""
    if isinstance(out, torch.Tensor) and not any(out is arg for arg in args):
        _notes(out)[ADOPT_KEY] = True
    return out


def _notes(tensor: torch.Tensor) -> dict[str, Any]:
    try:
        return tensor.untyped_storage().__dict__
    except (RuntimeError, NotImplementedError):  # no storage
        return {}


def _has_resident(values: tuple[Any, ...] | list[Any]) -> bool:
    return any(
        KEY in _notes(value) if isinstance(value, torch.Tensor) else _has_resident(value)
        for value in values
        if isinstance(value, torch.Tensor | list | tuple)
    )
