"""Which GPU of the management library is which device of torch: by UUID, by bus address, by CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from cudalens.device.inventory.readings import Gpu
from cudalens.device.inventory.visible import parse_visible, variable


def gpu_of(properties: Any, gpus: Sequence[Gpu]) -> Gpu | None:
    """The GPU behind a device's properties; None where none of `gpus` is it."""
    own = str(getattr(properties, "uuid", ""))
    for gpu in gpus:
        names = (gpu.uuid.removeprefix("GPU-"), *(one.uuid.removeprefix("MIG-") for one in gpu.migs))
        if own and own in names:
            return gpu
    place = tuple(getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device"))
    return next((gpu for gpu in gpus if None not in place and _place(gpu.pci) == place), None)


def visible_numbers(gpus: Sequence[Gpu]) -> dict[int, int]:
    """Index behind ``cuda:`` by physical number, for those of all the machine's `gpus` that the program sees.

    Where CUDA runs in this process, torch is asked; else CUDA_VISIBLE_DEVICES tells, and nothing is initialised.
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
    return {gpus[place].number: index for index, place in enumerate(visible.gpus)}


def _place(pci: str | None) -> tuple[int, int, int] | None:
    """Domain, bus and device of an address such as ``0000:17:00.0``."""
    try:
        domain, bus, rest = (pci or "").split(":")
        return int(domain, 16), int(bus, 16), int(rest.partition(".")[0], 16)
    except ValueError:
        return None
