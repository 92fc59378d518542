"""Restore the default device at the end of a virtual device, after ``torch.set_default_device("cuda")`` inside it."""

from __future__ import annotations

from typing import Any

import torch


def context() -> Any:
    """Return the object that torch.set_default_device has installed on this thread, or None if there is none."""
    holder = getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None)
    return getattr(holder, "device_context", None)


def reset(before: Any) -> None:
    """Restore the default device of `before` (from `context`) if the current one is a CUDA device."""
    now = context()
    if now is not None and now is not before and now.device.type == "cuda":
        torch.set_default_device(None if before is None else before.device)
