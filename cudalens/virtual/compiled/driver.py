"""A Triton driver for the modelled GPU: it has a target and properties, and loads nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches


def install_driver(patches: Patches, gpus: Gpus, *, replaces: bool = True) -> None:
    """Make it Triton's active driver.

    Args:
        patches: Undone at the end of the device.
        gpus: The virtual GPUs.
        replaces: Whether it replaces a driver that is active.
    """
    from triton.runtime import driver

    config: Any = driver
    active = config._active
    if getattr(active, "gpus", None) is gpus or (active is not None and not replaces):
        return
    patches.set(config, "_active", make_driver(gpus))


def make_driver(gpus: Gpus) -> Any:
    """A driver of Triton's NVIDIA backend that reports the modelled GPU.

    Inductor expects an instance of the backend's class.
    """
    from triton.backends import backends
    from triton.backends.compiler import GPUTarget

    base: Any = backends["nvidia"].driver
    major, minor = gpus.spec.compute_capability  # torch's function would initialise CUDA

    class VirtualDriver(base):  # type: ignore[misc]
        """Reports the modelled GPU; its constructor would load the CUDA driver."""

        def __init__(self) -> None:
            self.gpus = gpus
            self.get_device_capability = lambda device=0: (major, minor)
            self.get_current_device = lambda: gpus.machine.current_device.index
            self.set_current_device = torch.cuda.set_device
            self.utils = SimpleNamespace(get_device_properties=_device_properties)
            self.get_current_stream = lambda device=None: torch._C._cuda_getCurrentRawStream(device or 0)

        def get_current_target(self) -> Any:
            return GPUTarget("cuda", major * 10 + minor, 32)

    return VirtualDriver()


def _device_properties(device: int) -> dict[str, int]:
    """The properties that Triton's driver reports, by its names."""
    properties: Any = torch.cuda.get_device_properties(device)
    return {
        "max_shared_mem": properties.shared_memory_per_block_optin,
        "max_num_regs": properties.regs_per_multiprocessor,
        "multiprocessor_count": properties.multi_processor_count,
        "warpSize": properties.warp_size,
    }
