"""``torch.set_default_device("cuda")`` inside of a virtual device's block, which would outlive it."""

from __future__ import annotations

from typing import Any

import torch


def context() -> Any:
    """What torch.set_default_device has put in place on this thread; None for nothing."""
    holder = getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None)
    return getattr(holder, "device_context", None)


def reset(before: Any) -> None:
    """Go back to the default device of `before`, a `context`, where the present one is a CUDA device."""
    now = context()
    if now is not None and now is not before and now.device.type == "cuda":
        torch.set_default_device(None if before is None else before.device)
