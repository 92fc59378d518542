"""Versions, devices, host, rank and threads of this process, for the run info."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Final

import torch

from cudalens import device
from cudalens._version import __version__
from cudalens.frames import DeviceInfo
from cudalens.frames.info import Threads

#: The control group's share of CPU time and its period, in microseconds; "max" for no limit (Linux, cgroup v2).
_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


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
    """Return the CUDA devices that this process sees; none if the run does not use them."""
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


def threads() -> Threads:
    """On how many threads torch computes, and how many CPUs there are for them."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Threads(torch.get_num_threads(), max(1, min(bound, _allowed_cpus(bound))))


def _allowed_cpus(unlimited: int) -> int:
    try:
        quota, period = _QUOTA.read_text().split()
        return unlimited if quota == "max" else int(quota) // int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return unlimited
