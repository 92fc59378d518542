"""Choose the source of GPU readings on this machine: NVML, amdsmi or a virtual device. No torch.

A virtual device replaces `open_source` and `virtual_label` while it is active.
"""

from __future__ import annotations

from cudalens.device.inventory import amdsmi, nvml
from cudalens.device.inventory.readings import Source
from cudalens.errors import MetricsError


def virtual_label() -> str | None:
    """Return the specification of the active virtual device ("h100x4"), or None. Call it through its module."""
    return None


def open_source() -> Source:
    """Return the source of readings of this machine's GPUs. Call it through its module.

    Raises:
        MetricsError: There is none; the message gives the reason and what to do.
    """
    try:
        return nvml.open_nvml()
    except MetricsError as without_nvml:
        if (source := amdsmi.open_amdsmi()) is not None:
            return source
        raise without_nvml
