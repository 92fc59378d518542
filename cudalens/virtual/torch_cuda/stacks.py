"""The caller's Python stack in the format of torch's memory snapshots, and warnings at the user's line."""

from __future__ import annotations

import os
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._C._profiler import gather_traceback, symbolize_tracebacks

from cudalens.device.call_tracing import is_tracing_frame

if TYPE_CHECKING:
    from types import FrameType

_PACKAGE: Final = f"{Path(__file__).parents[1]}{os.sep}"
_CUDALENS: Final = f"{Path(__file__).parents[2]}{os.sep}"
_TORCH: Final = f"{Path(torch.__file__).parent}{os.sep}"
#: Modules that call functions of torch for it: its context managers, and its deprecated functions.
_WRAPPERS: Final = tuple(
    found.origin
    for name in ("contextlib", "warnings", "_py_warnings", "typing_extensions")
    if (found := find_spec(name)) is not None and found.origin is not None
)


def python_stack() -> list[dict[str, Any]]:
    """The caller's stack frames (``filename``, ``line``, ``name``), innermost first, without those of this package.

    The frames of TorchScript that are running come before those of Python, as in torch's own snapshots.
    """
    (of_script,) = symbolize_tracebacks([gather_traceback(python=False, script=True, cpp=False)])
    frames: list[dict[str, Any]] = [*of_script]
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE) and not is_tracing_frame(frame):
            frames.append({"filename": code.co_filename, "line": frame.f_lineno, "name": code.co_name})
        frame = frame.f_back
    return frames


def is_library(path: str) -> bool:
    """Return whether a file belongs to cudalens or torch, or is of a module that calls their functions for them."""
    return path.startswith((_CUDALENS, _TORCH, *_WRAPPERS))


def warn_user(message: str) -> None:
    """Issue a warning at the user's line, as torch's C++ does; by default once per line."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_back is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    assert frame is not None
    names = frame.f_globals
    warnings.warn_explicit(
        message,
        UserWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=names.get("__name__"),
        registry=names.setdefault("__warningregistry__", {}),
    )
