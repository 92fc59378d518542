"""The virtual CUDA device: unchanged ``device="cuda"`` code on a machine without a GPU.

::

    with cudalens.virtual.device("h100"):
        x = torch.randn(1024, 1024, device="cuda")

Values are real (CPU tensors hold them); streams, events, memory and time are modelled. With
``device("h100", values=False)`` nothing is computed and tensors need no host memory; all else is the same. No time is
measured on a GPU: output with such times is labelled "simulated".
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from cudalens.gpus.predict import collective_time
from cudalens.gpus.registry import SPECS, DeviceSpec, register
from cudalens.virtual.calibration.measure import calibrate
from cudalens.virtual.context import active, device
from cudalens.virtual.shapes.reading import assume

__all__ = ["SPECS", "DeviceSpec", "active", "assume", "calibrate", "collective_time", "device", "job", "register"]


def __getattr__(name: str) -> Any:
    if name != "job":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = import_module("cudalens.api.job").job  # it makes a Trace of each rank
    return value
