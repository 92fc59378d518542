"""`cudalens.devices()` in words: the verdict, and what is known of each GPU as terms and texts."""

from __future__ import annotations

from typing import Final

from cudalens.analysis import units
from cudalens.device.inventory.devices import Device, Devices

FORMATS: Final = ("fp16", "bf16", "tf32", "fp8", "fp4")
MODEL_HINT: Final = "%cudadevice virtual h100 puts a modelled one in its place."
MAX_CARDS: Final = 32
"""Devices that are shown one by one; the others are in the frame."""

_TERM_WIDTH: Final = 10
_LONG: Final = "gencode"


def verdict(devices: Devices, *, badge: bool = True) -> str:
    """The answer in one line: how many GPUs there are and whether this torch can use them; or why there is none.

    Args:
        devices: What was found.
        badge: Whether what is simulated is marked as such in the line itself.
    """
    line = _answer(devices)
    return f"[{mark(devices)}] {line}" if badge and devices.simulated else line


def mark(devices: Devices) -> str:
    """What must stand on the face of GPUs that are not there."""
    return f"simulated: {devices.simulated}" if devices.simulated else ""


def _answer(devices: Devices) -> str:
    if not devices.visible:
        return f"No CUDA device; {devices.reason}"
    bad = [device for device in devices.visible if device.is_supported is False]
    names = list(dict.fromkeys(device.name for device in devices.visible))
    what = units.plural(len(devices), "CUDA device")
    if bad:
        which = ", ".join(device.label for device in bad)
        cannot = "cannot run on it" if len(devices) == 1 else f"cannot run on {which}"
        return f"{what}: this torch {cannot}; {bad[0].warning}"
    size = units.size(devices.visible[0].total_memory_bytes)
    others = f" and {units.plural(len(names) - 1, 'other kind')}" if len(names) > 1 else ""
    memory = "" if others else f", {size}{' each' if len(devices) > 1 else ''}"
    named = f"{units.shorten(names[0], 60)}{memory}{others}"
    jit = [device.label for device in devices.visible if device.warning]
    return f"{what}: {named}; {_runs(devices)}{f', but see the warning on {jit[0]}' if jit else ''}"


def _runs(devices: Devices) -> str:
    known = all(device.is_supported for device in devices.visible)
    whom = "it" if len(devices) == 1 else "all of them" if len(devices) > 2 else "both"
    return f"this torch ({build(devices)}) {'has code for' if known else 'runs on'} {whom}"


def build(devices: Devices) -> str:
    """Version of torch, and what it was built for."""
    if devices.simulated:
        return f"{(devices.torch or '').partition('+')[0]}, as if built for {devices.runtime}"
    return f"{devices.torch} for {devices.runtime}" if devices.runtime else f"{devices.torch}, a CPU-only build"


def facts(device: Device) -> list[tuple[str, str]]:
    """Terms and texts about a GPU; what is not known is left out."""
    known = [
        ("memory", _join(_of(device.used_memory_bytes, device.total_memory_bytes), _bandwidth(device), _l2(device))),
        ("compute", _join(_capability(device), _sms(device), _power(device))),
        ("formats", _formats(device)),
        ("torch", _code(device)),
        ("place", _join(_physical(device), device.pci, f"MIG {device.mig}" if device.mig else "")),
        ("uuid", device.uuid or ""),
    ]
    return [(term, text) for term, text in known if text]


def machine(devices: Devices) -> list[tuple[str, str]]:
    """Terms and texts about what all GPUs have in common."""
    driver = (
        devices.driver
        and f"{devices.driver}{f', runs up to CUDA {devices.driver_cuda}' if devices.driver_cuda else ''}"
    )
    known = [
        ("torch", build(devices) if devices.torch else ""),
        ("driver", driver or "none"),
        ("arch list", " ".join(devices.arch_list)),
        (_LONG, devices.gencode_flags),
        ("visible", devices.visibility),
        ("peers", peers_text(devices)),
    ]
    return [(term, text) for term, text in known if text]


def peers_text(devices: Devices) -> str:
    """Which devices reach which other's memory, in a few words; "" for fewer than two."""
    pairs = {(a, b): can for a, row in enumerate(devices.access) for b, can in enumerate(row) if a != b}
    if not pairs:
        return ""
    if all(pairs.values()):
        return "every device reaches every other's memory"
    if not any(pairs.values()):
        return "no device reaches another's memory; copies between them go through the host"
    without = sorted({tuple(sorted(pair)) for pair, can in pairs.items() if not can})
    listed = ", ".join(f"cuda:{a} and cuda:{b}" for a, b in without[:4])
    return f"no access between {listed}{f' and {len(without) - 4} more pairs' if len(without) > 4 else ''}"


def hidden_line(device: Device) -> str:
    """A GPU that the program does not see, on one line."""
    parts = (device.name, units.size(device.total_memory_bytes) if device.total_memory_bytes else "", device.uuid or "")
    return f"{device.label}: {', '.join(part for part in parts if part)}"


def devices_text(devices: Devices) -> str:
    """The verdict, a paragraph per GPU, what they have in common, and what to look out for."""
    lines = [verdict(devices)]
    if not devices.visible and not devices.simulated:
        lines.append(f"  {MODEL_HINT}")
    for device in devices.visible[:MAX_CARDS]:
        lines += ["", f"{device.label}  {device.name}{' (simulated)' if device.is_simulated else ''}"]
        lines += [_line(term, text) for term, text in facts(device)]
        lines += [f"  ! {text}" for text in (device.warning, device.remedy) if text]
    lines += _more(devices)
    if shared := machine(devices):
        lines += ["", "This process", *(_line(term, text) for term, text in shared if term != _LONG)]
    if devices.hidden:
        lines += [
            "",
            "Not visible to this program",
            *(f"  {hidden_line(device)}" for device in devices.hidden[:MAX_CARDS]),
        ]
    lines += [f"  ! {note}" for note in devices.notes]
    return "\n".join(lines)


def _more(devices: Devices) -> list[str]:
    left = len(devices) - MAX_CARDS
    return ["", f"and {units.count(left)} more in .frame"] if left > 0 else []


def _line(term: str, text: str) -> str:
    return f"  {term:<{_TERM_WIDTH}}{text}"


def _join(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part)


def _of(used: int | None, total: int | None) -> str:
    if total is None:
        return ""
    return units.size(total) if used is None else f"{units.size(total)}, {units.size(used)} in use"


def _bandwidth(device: Device) -> str:
    return "" if device.memory_bandwidth_gbps is None else f"{device.memory_bandwidth_gbps:,.0f} GB/s"


def _l2(device: Device) -> str:
    return "" if device.l2_cache_bytes is None else f"L2 {units.size(device.l2_cache_bytes)}"


def _capability(device: Device) -> str:
    if device.capability is None:
        return device.architecture or ""
    return f"capability {device.capability}"


def _sms(device: Device) -> str:
    if device.num_sms is None:
        return "" if device.clock_mhz is None else f"up to {device.clock_mhz:,} MHz"
    clock = "" if device.clock_mhz is None else f" at up to {device.clock_mhz:,} MHz"
    return f"{units.plural(device.num_sms, 'SM')}{clock}"


def _power(device: Device) -> str:
    return "" if device.power_limit_watts is None else f"{device.power_limit_watts:.0f} W"


def _formats(device: Device) -> str:
    told = {name: getattr(device, name) for name in FORMATS}
    native = " ".join(name for name, how in told.items() if how == "native")
    emulated = ", ".join(f"{name} emulated" for name, how in told.items() if how == "emulated")
    absent = ", ".join(name for name, how in told.items() if how == "no")
    return _join(native, emulated, f"no {absent}" if absent else "")


def _code(device: Device) -> str:
    if device.is_supported is None:
        return ""
    return f"has code for it ({device.supported_by})" if device.is_supported else "has no code for it"


def _physical(device: Device) -> str:
    return "" if device.physical_index is None else f"GPU {device.physical_index} of the machine"
