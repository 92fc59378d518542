"""What ran it: versions, devices and host, as they stand in the run info."""

from __future__ import annotations

import os
import platform

import torch

from cudalens import device
from cudalens._version import __version__
from cudalens.frames import DeviceInfo


def versions() -> dict[str, str]:
    """Versions of what made the run."""
    known: dict[str, str | None] = {
        "cudalens": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda_runtime": torch.version.cuda,
        "hip_runtime": getattr(torch.version, "hip", None),
    }
    return {name: version for name, version in known.items() if version}


def devices(*, uses_cuda: bool) -> tuple[DeviceInfo, ...]:
    """The CUDA devices that this process sees; none where the run leaves them alone."""
    return device.devices(torch) if uses_cuda else ()


def host() -> str:
    """Host name and processor."""
    return f"{platform.node()}, {platform.machine()}, {os.cpu_count()} CPUs"


def rank() -> tuple[int | None, int | None]:
    """Rank and world size of a distributed job, or None twice."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return None, None
