"""Installed versions, the devices that torch sees, and the loaded driver.

Missing packages, devices and drivers are left out and raise nothing.
"""

from __future__ import annotations

import platform
import re
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import ModuleType

    from cudalens.frames.info import DeviceInfo

#: Packages that cudalens needs.
REQUIRED: Final = (
    "torch",
    "numpy",
    "pandas",
    "pyarrow",
    "msgspec",
    "ipython",
    "ipywidgets",
    "anywidget",
    "itables",
    "plotly",
    "tqdm",
    "nvidia-ml-py",
)

#: Packages that add features if they are installed.
OPTIONAL: Final = ("jupyterlab", "notebook", "ipykernel", "nbconvert", "triton")

_DRIVER_FILE: Final = Path("/proc/driver/nvidia/version")


def versions() -> dict[str, str]:
    """Version by name, of Python and of each package that is installed."""
    found = {"python": platform.python_version()}
    for name in (*REQUIRED, *OPTIONAL):
        if (version := installed(name)) is not None:
            found[name] = version
    return found


def installed(package: str) -> str | None:
    """Return the version of `package`, or None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def torch_or_reason() -> tuple[ModuleType | None, str]:
    """torch, or why it cannot be imported. A torch with a missing CUDA library raises OSError, not ImportError."""
    try:
        import torch
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
    return torch, ""


def accelerator_build(torch: Any) -> str | None:
    """Return what this torch was built for ("CUDA 12.8", "ROCm 6.4"), or None for a CPU-only build."""
    if torch.version.cuda:
        return f"CUDA {torch.version.cuda}"
    if getattr(torch.version, "hip", None):
        return f"ROCm {torch.version.hip}"
    return None


def driver() -> str | None:
    """Version of the NVIDIA driver that the kernel has loaded, or None.

    Read from procfs, which needs neither torch nor a CUDA context.
    """
    try:
        text = _DRIVER_FILE.read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)", text)
    return found[1] if found else None


def devices(torch: Any) -> tuple[DeviceInfo, ...]:
    """Return the GPUs that torch sees, in its order; CUDA_VISIBLE_DEVICES has already been applied."""
    if not torch.cuda.is_available():
        return ()
    return tuple(_device(index, torch.cuda.get_device_properties(index)) for index in range(torch.cuda.device_count()))


def _device(index: int, properties: Any) -> DeviceInfo:
    from cudalens.frames.info import DeviceInfo  # imports pandas and pyarrow, which versions and drivers do not need

    return DeviceInfo(
        index=index,
        name=str(properties.name),
        capability=f"{properties.major}.{properties.minor}",
        total_memory_bytes=int(properties.total_memory),
        num_sms=int(properties.multi_processor_count),
    )
