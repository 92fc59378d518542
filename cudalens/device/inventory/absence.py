"""Why torch sees no GPU, and what to do."""

from __future__ import annotations

import os
from typing import Any, Final

from cudalens.device import facts
from cudalens.device.inventory.visible import Visible, variable

_GET_TORCH: Final = "https://pytorch.org/get-started/locally lists the builds"
_TOO_OLD: Final = "too old"


def no_gpu(torch: Any, visible: Visible | None = None) -> str | None:
    """Why torch sees no GPU, or None if it sees one.

    Args:
        torch: The module.
        visible: The effect of CUDA_VISIBLE_DEVICES, if the machine's GPUs are known.
    """
    build, driver = facts.accelerator_build(torch), facts.driver()
    if build is None:
        seen = f"The driver ({driver}) is there: install" if driver else "For a machine that has a GPU, install"
        return f"this torch ({torch.__version__}) is a CPU-only build. {seen} a CUDA build of torch; {_GET_TORCH}"
    if torch.cuda.is_available():
        return None
    if getattr(torch.cuda, "_is_in_bad_fork", bool)():
        return (
            "this process was forked from one that had used CUDA, which a fork cannot share. Start worker processes "
            "with multiprocessing.set_start_method('spawn')"
        )
    if driver is None and build.startswith("CUDA"):
        return "no NVIDIA driver is loaded on this machine (/proc/driver/nvidia is absent)"
    if hidden := _hidden(build, visible):
        return hidden
    message = _init_message(torch)
    if _TOO_OLD in message:
        return f"{message} Update the driver ({driver}), or install a torch for an older CUDA; {_GET_TORCH}"
    more = f" torch says: {message}" if message else ""
    return (
        f"this torch is built for {build}, but finds no usable GPU; compare its version with the driver's ({driver})."
        f"{more}"
    )


def _hidden(build: str, visible: Visible | None) -> str | None:
    """Return the variable that hides every GPU; None if no variable does."""
    name, text = variable(os.environ, is_hip=build.startswith("ROCm"))
    if text is None:
        return None
    if visible is None:
        return f"{name}={text!r} hides every GPU; unset it before Python starts"
    if visible.gpus:
        return None
    why = f" ({visible.note})" if text.strip() else ""
    return f"{name}={text!r} hides every GPU{why}; unset it before Python starts"


def _init_message(torch: Any) -> str:
    """Return the first line of torch's error when it initializes CUDA; "" if there is none."""
    try:
        torch.cuda.init()
    except Exception as error:
        return str(error).strip().partition("\n")[0]
    return ""
