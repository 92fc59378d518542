"""The Python stack of whoever calls, as torch's memory snapshots tell it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import FrameType

_OURS: Final = str(Path(__file__).parent)


def python_stack() -> list[dict[str, Any]]:
    """The caller's stack frames (``filename``, ``line``, ``name``), innermost first, without those of this package."""
    frames: list[dict[str, Any]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_OURS):
            frames.append({"filename": code.co_filename, "line": frame.f_lineno, "name": code.co_name})
        frame = frame.f_back
    return frames
