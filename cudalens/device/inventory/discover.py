"""`devices()`: the facts about this machine's GPUs from torch, the management library and the environment.

Querying the properties of a GPU through torch initializes CUDA in this process, as the first tensor on it does; after
that, forked children cannot use CUDA.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any, Final

from cudalens.device import facts
from cudalens.device.inventory import readings, support
from cudalens.device.inventory.describe import arch_list_of, described, hidden
from cudalens.device.inventory.devices import Device, Devices
from cudalens.device.inventory.pairing import gpu_of
from cudalens.device.inventory.readings import Gpu, Source
from cudalens.device.inventory.support import gencode_flags
from cudalens.device.inventory.visible import Visible, parse_visible, variable
from cudalens.errors import MetricsError

_MAX_PEERS: Final = 64


def devices() -> Devices:
    """Return the facts about this machine's GPUs. Missing values raise nothing; `notes` lists them.

    GPUs that the program does not see are included if NVML or amdsmi is available. Initializes CUDA.
    """
    torch, broken = facts.torch_or_reason()
    source, no_source = _source()
    try:
        return _devices(torch, broken, source, no_source)
    finally:
        if source is not None:
            source.close()


def _devices(torch: Any, broken: str, source: Source | None, no_source: str) -> Devices:
    gpus = source.gpus() if source is not None else ()
    is_hip = torch is not None and getattr(torch.version, "hip", None) is not None
    name, text = variable(os.environ, is_hip=is_hip)
    visible = parse_visible(text, [gpu.uuid for gpu in gpus], [m for gpu in gpus for m in gpu.migs], name=name)
    common: dict[str, Any] = {
        "driver": (source.driver if source is not None else None) or facts.driver(),
        "driver_cuda": source.driver_cuda if source is not None else None,
        "simulated": readings.virtual_label(),
        "visibility": visible.note if gpus or text is not None else "",
    }
    if torch is None:
        reason = f"torch cannot be imported: {broken}"
        return Devices(all=tuple(map(hidden, gpus)), reason=reason, **common)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's warnings are in the field `warning`
        found = _visible(torch, source, gpus)
        read = visible if gpus else None
        reason = "" if found else _reason(torch, read)
        access = _access(torch, len(found))
    seen = {device.physical_index for device in found}
    arch_list = arch_list_of(torch)
    return Devices(
        all=(*found, *(hidden(gpu) for gpu in gpus if gpu.number not in seen)),
        torch=str(torch.__version__),
        runtime=facts.accelerator_build(torch),
        arch_list=arch_list,
        gencode_flags=gencode_flags(arch_list),
        reason=reason,
        notes=tuple(_notes(source, no_source, found, visible)),
        access=access,
        **common,
    )


def _source() -> tuple[Source | None, str]:
    try:
        return readings.open_source(), ""
    except MetricsError as error:
        return None, str(error)


def _reason(torch: Any, visible: Visible | None) -> str:
    if readings.virtual_label():
        note = visible.note if visible is not None else "CUDA_VISIBLE_DEVICES"
        return f"{note}; the virtual device reads it when it starts"
    return support.no_gpu(torch, visible) or "torch sees GPUs, but cannot query any of them"


def _visible(torch: Any, source: Source | None, gpus: Sequence[Gpu]) -> list[Device]:
    if not torch.cuda.is_available():
        return []
    found = []
    for index in range(torch.cuda.device_count()):
        try:
            properties = torch.cuda.get_device_properties(index)
        except Exception as error:  # the other GPUs are still listed
            warning = f"it cannot be queried: {str(error).strip().partition(chr(10))[0]}"
            found.append(Device(index=index, name="GPU that does not respond", warning=warning, is_supported=False))
            continue
        found.append(described(torch, index, properties, gpu_of(properties, gpus), source))
    return found


def _access(torch: Any, count: int) -> tuple[tuple[bool | None, ...], ...]:
    """Peer access of each pair; empty if there is no device, or too many to query all pairs."""
    if not 1 < count <= _MAX_PEERS:
        return ((None,),) if count == 1 else ()
    return tuple(tuple(None if a == b else _can_access(torch, a, b) for b in range(count)) for a in range(count))


def _can_access(torch: Any, device: int, peer: int) -> bool | None:
    try:
        return bool(torch.cuda.can_device_access_peer(device, peer))
    except Exception:
        return None


def _notes(source: Source | None, no_source: str, found: Sequence[Device], visible: Visible) -> list[str]:
    notes = []
    if source is None and found:
        notes.append(no_source)
    notes += [f"{what}: {why}" for what, why in (source.problems.items() if source is not None else ())]
    now = tuple(device.physical_index for device in found)
    if source is not None and found and None not in now and now != visible.gpus:
        which = ", ".join(f"{device.label} is GPU {device.physical_index}" for device in found)
        notes.append(
            f"{visible.note}, but CUDA has it that {which}: the variable was changed after CUDA had started, or CUDA "
            "numbers the fastest GPU first (CUDA_DEVICE_ORDER=PCI_BUS_ID makes it count as nvidia-smi does)"
        )
    return notes
