"""Match the management library's GPUs to torch's devices by UUID, PCI address or CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from cudalens.device.inventory.readings import Gpu
from cudalens.device.inventory.visible import parse_visible, variable


def gpu_of(properties: Any, gpus: Sequence[Gpu]) -> Gpu | None:
    """Return the GPU of `gpus` with a device's properties; None if there is none."""
    own = str(getattr(properties, "uuid", ""))
    for gpu in gpus:
        names = (gpu.uuid.removeprefix("GPU-"), *(one.uuid.removeprefix("MIG-") for one in gpu.migs))
        if own and own in names:
            return gpu
    pci = tuple(getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device"))
    return next((gpu for gpu in gpus if None not in pci and _pci_numbers(gpu.pci) == pci), None)


def visible_numbers(gpus: Sequence[Gpu]) -> dict[int, int]:
    """Index of the ``cuda:`` device by physical number, for those of the machine's `gpus` that the program sees.

    If CUDA is initialized in this process, torch is queried; otherwise CUDA_VISIBLE_DEVICES is parsed, and nothing is
    initialized.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        found = (
            (index, gpu_of(torch.cuda.get_device_properties(index), gpus)) for index in range(torch.cuda.device_count())
        )
        return {gpu.number: index for index, gpu in found if gpu is not None}
    is_hip = torch is not None and getattr(torch.version, "hip", None) is not None
    name, text = variable(os.environ, is_hip=is_hip)
    visible = parse_visible(text, [gpu.uuid for gpu in gpus], [m for gpu in gpus for m in gpu.migs], name=name)
    return {gpus[position].number: index for index, position in enumerate(visible.gpus)}


def _pci_numbers(pci: str | None) -> tuple[int, int, int] | None:
    """Domain, bus and device of an address such as ``0000:17:00.0``."""
    try:
        domain, bus, rest = (pci or "").split(":")
        return int(domain, 16), int(bus, 16), int(rest.partition(".")[0], 16)
    except ValueError:
        return None
