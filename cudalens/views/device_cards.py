"""`cudalens.devices()`: the verdict, a card per GPU, what they share, and which reaches which other's memory."""

from __future__ import annotations

from typing import Final

from cudalens.analysis import units
from cudalens.device.inventory.devices import Device, Devices
from cudalens.views.sections.markup import element
from cudalens.views.sections.model import Block, Cards, Column, Custom, Facts, Items, Note, Row, Section, Table, Text
from cudalens.views.sections.write_html import to_html
from cudalens.views.sections.write_text import to_text

_FORMATS: Final = ("fp16", "bf16", "tf32", "fp8", "fp4")
_MODEL_HINT: Final = Note((Text("%cudadevice virtual h100", "code"), " simulates one."))
#: Devices that are shown one by one; the others are in the frame.
_MAX_CARDS: Final = 32
_MAX_MATRIX: Final = 16
_CSS: Final = "cl-dev"


def verdict(devices: Devices) -> str:
    """The answer in one line: how many GPUs there are and whether this torch can use them; or why there is none."""
    return f"[{_badge(devices)}] {_answer(devices)}" if devices.simulated else _answer(devices)


def devices_text(devices: Devices) -> str:
    """Return all of it as text."""
    return to_text(section(devices))


def devices_html(devices: Devices) -> str:
    """Return all of it as HTML without scripts."""
    return to_html(section(devices), has_style=True)


def section(devices: Devices) -> Section:
    """Return the verdict, the devices that the program sees, those that it does not, and what they have in common."""
    blocks: list[Block] = [] if devices.visible or devices.simulated else [_MODEL_HINT]
    blocks.append(Cards(tuple(_card(device) for device in devices.visible[:_MAX_CARDS])))
    if (left := len(devices) - _MAX_CARDS) > 0:
        blocks.append(Note(f"and {units.count(left)} more in .frame"))
    blocks += [*_machine(devices), *_hidden(devices), *_matrix(devices)]
    return Section(
        "devices", _CSS, verdict=_answer(devices), badge=_badge(devices), notes=devices.notes, blocks=tuple(blocks)
    )


def _badge(devices: Devices) -> str:
    return f"simulated: {devices.simulated}" if devices.simulated else ""


def _card(device: Device) -> Section:
    blocks: list[Block] = []
    if device.warning:
        remedy = (" ", Text(device.remedy, "code")) if device.remedy else ()
        blocks.append(Note((device.warning, *remedy), "warning"))
    blocks += [*_memory_bar(device), Facts(tuple(_facts(device)))]
    badge = "simulated" if device.is_simulated else ""
    return Section("", _CSS, title=f"{device.label}  {device.name}", badge=badge, blocks=tuple(blocks))


def _memory_bar(device: Device) -> list[Block]:
    used, total = device.used_memory_bytes, device.total_memory_bytes
    if used is None or not total:
        return []
    label = f"{units.size(used)} of {units.size(total)} in use"
    fill = element("div", class_="cl-dev-fill", style=f"width:{min(100.0, 100 * used / total):.1f}%")
    return [Custom(element("div", fill, class_="cl-dev-bar", role="img", aria_label=label, title=label))]


def _machine(devices: Devices) -> list[Block]:
    """Return what all GPUs have in common; compiler flags in HTML only, since they are long."""
    facts = _process(devices)
    if not facts:
        return []
    flags = Note(f"gencode: {devices.gencode_flags}", is_in_text=False)
    blocks = (Facts(tuple(facts)), *((flags,) if devices.gencode_flags else ()))
    return [Section("", _CSS, title="This process", blocks=blocks, is_open=not devices.visible)]


def _hidden(devices: Devices) -> list[Block]:
    if not devices.hidden:
        return []
    why = (Note(devices.visibility, is_in_text=False),) if devices.visible else ()
    lines = []
    for device in devices.hidden[:_MAX_CARDS]:
        memory = units.size(device.total_memory_bytes) if device.total_memory_bytes else ""
        parts = (device.name, memory, device.uuid or "")
        lines.append(f"{device.label}: {', '.join(part for part in parts if part)}")
    items = Items(tuple(lines))
    return [Section("", _CSS, title="Not visible to this program", blocks=(*why, items))]


def _matrix(devices: Devices) -> list[Block]:
    """Peer access as a table in HTML; for many devices the fact about peers must do."""
    if not 1 < len(devices.access) <= _MAX_MATRIX:
        return []
    labels = [device.label for device in devices.visible]
    columns = (Column("peer access"), *(Column(label) for label in labels))
    answers = {None: "·", True: "yes", False: "no"}
    rows = [Row((label, *(answers[can] for can in row))) for label, row in zip(labels, devices.access, strict=True)]
    return [Table(columns, rows, max_text=0)]


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
    each = " each" if len(devices) > 1 else ""
    memory = "" if others else f", {size}{each}"
    named = f"{units.shorten(names[0], 60)}{memory}{others}"
    jit = [device.label for device in devices.visible if device.warning]
    return f"{what}: {named}; {_runs(devices)}{f', but see the warning on {jit[0]}' if jit else ''}"


def _runs(devices: Devices) -> str:
    known = all(device.is_supported for device in devices.visible)
    whom = {1: "it", 2: "both"}.get(len(devices), "all of them")
    return f"this torch ({_build(devices)}) {'has code for' if known else 'runs on'} {whom}"


def _build(devices: Devices) -> str:
    """Version of torch, and what it was built for."""
    if devices.simulated:
        return f"{(devices.torch or '').partition('+')[0]}, as if built for {devices.runtime}"
    return f"{devices.torch} for {devices.runtime}" if devices.runtime else f"{devices.torch}, a CPU-only build"


def _facts(device: Device) -> list[tuple[str, str]]:
    """Terms and texts about a GPU; what is not known is left out."""
    if device.capability is None:
        capability = device.architecture or ""
    else:
        capability = f"capability {device.capability}"
    if device.num_sms is None:
        sms = "" if device.clock_mhz is None else f"up to {device.clock_mhz:,} MHz"
    else:
        clock = "" if device.clock_mhz is None else f" at up to {device.clock_mhz:,} MHz"
        sms = f"{units.plural(device.num_sms, 'SM')}{clock}"
    l2 = "" if device.l2_cache_bytes is None else f"L2 {units.size(device.l2_cache_bytes)}"
    power = "" if device.power_limit_watts is None else f"{device.power_limit_watts:.0f} W"
    physical = "" if device.physical_index is None else f"GPU {device.physical_index} of the machine"
    known = [
        ("memory", _join(_of(device.used_memory_bytes, device.total_memory_bytes), _bandwidth(device), l2)),
        ("compute", _join(capability, sms, power)),
        ("formats", _formats(device)),
        ("torch", _code(device)),
        ("place", _join(physical, device.pci, f"MIG {device.mig}" if device.mig else "")),
        ("uuid", device.uuid or ""),
    ]
    return [(term, text) for term, text in known if text]


def _process(devices: Devices) -> list[tuple[str, str]]:
    """Terms and texts about what all GPUs have in common."""
    driver = (
        devices.driver
        and f"{devices.driver}{f', runs up to CUDA {devices.driver_cuda}' if devices.driver_cuda else ''}"
    )
    known = [
        ("torch", _build(devices) if devices.torch else ""),
        ("driver", driver or "none"),
        ("arch list", " ".join(devices.arch_list)),
        ("visible", devices.visibility),
        ("peers", _peers(devices)),
    ]
    return [(term, text) for term, text in known if text]


def _peers(devices: Devices) -> str:
    """Return which devices can access each other's memory, in a few words; "" for fewer than two devices."""
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


def _join(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part)


def _of(used: int | None, total: int | None) -> str:
    if total is None:
        return ""
    return units.size(total) if used is None else f"{units.size(total)}, {units.size(used)} in use"


def _bandwidth(device: Device) -> str:
    return "" if device.memory_bandwidth_gbps is None else f"{device.memory_bandwidth_gbps:,.0f} GB/s"


def _formats(device: Device) -> str:
    support = {name: getattr(device, name) for name in _FORMATS}
    native = " ".join(name for name, how in support.items() if how == "native")
    emulated = ", ".join(f"{name} emulated" for name, how in support.items() if how == "emulated")
    absent = ", ".join(name for name, how in support.items() if how == "no")
    return _join(native, emulated, f"no {absent}" if absent else "")


def _code(device: Device) -> str:
    if device.is_supported is None:
        return ""
    return f"has code for it ({device.supported_by})" if device.is_supported else "has no code for it"
