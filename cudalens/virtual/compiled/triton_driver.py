"""A Triton driver for the modelled GPU: it has a target and no GPU."""

from __future__ import annotations

from typing import Any

import torch

from cudalens.virtual.gpus import Gpus


def make_driver(gpus: Gpus) -> Any:
    """A driver of Triton's NVIDIA backend that reports the modelled GPU.

    Inductor expects an instance of the backend's class.
    """
    from triton.backends import backends
    from triton.backends.compiler import GPUTarget

    base: Any = backends["nvidia"].driver
    major, minor = torch.cuda.get_device_capability()

    class VirtualDriver(base):  # type: ignore[misc]
        """Reports the modelled GPU; its constructor would load the CUDA driver."""

        def __init__(self) -> None:
            self.get_device_capability = lambda device=0: (major, minor)
            self.get_current_device = lambda: gpus.machine.current_device.index
            self.set_current_device = torch.cuda.set_device
            self.get_current_stream = lambda device=None: torch._C._cuda_getCurrentRawStream(device or 0)

        def get_current_target(self) -> Any:
            return GPUTarget("cuda", major * 10 + minor, 32)

    return VirtualDriver()
