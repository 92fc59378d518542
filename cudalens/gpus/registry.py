"""Look up and register virtual device specs: ``parse_device("h100x4")``, `register`. No torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from cudalens.errors import VirtualDeviceError
from cudalens.gpus.device_spec import PEAK_KEYS, DeviceSpec, near
from cudalens.gpus.table import TABLE

__all__ = ["MAX_DEVICES", "PEAK_KEYS", "SPECS", "DeviceSpec", "parse_device", "register"]

#: Cards of one model differ by this share of their memory (driver, ECC).
_MEMORY: Final = 0.03


def spec_of(
    capability: str | None, num_sms: int | None, total_memory_bytes: int | None, name: str | None = None
) -> DeviceSpec | None:
    """Return the known specification with these facts; None if there is none, or a fact is not known.

    Cards of one chip have many names, so that the name only decides between two with the same facts, as L40 and L40S.

    Args:
        capability: Compute capability, as "9.0".
        num_sms: Multiprocessors.
        total_memory_bytes: Size of the memory.
        name: The name of the device.
    """
    alike = [
        spec
        for spec in SPECS.values()
        if (capability, num_sms) == (".".join(map(str, spec.compute_capability)), spec.num_sms)
        and abs((total_memory_bytes or 0) / spec.total_memory_bytes - 1) <= _MEMORY
    ]
    return next((spec for spec in alike if spec.name == name), alike[0] if alike else None)


_specs: dict[str, DeviceSpec] = {spec.key: spec for spec in TABLE}
#: All device specs by key: the shipped ones and those added by `register`.
SPECS: Final[Mapping[str, DeviceSpec]] = MappingProxyType(_specs)

#: The most devices of one virtual machine (PyTorch's own limit is ``C10_COMPILE_TIME_MAX_GPUS``, 120).
MAX_DEVICES: Final = 64

_COUNTED: Final = re.compile(r"(?P<key>.+?)\s*[x*×]\s*(?P<count>\d+)")  # noqa: RUF001


def register(spec: DeviceSpec, *, replace: bool = False) -> DeviceSpec:
    """Register `spec` under its key, so that `parse_device` finds it; returns it.

    Args:
        spec: The device.
        replace: Whether to replace a device of the same key.

    Raises:
        VirtualDeviceError: The key is already registered, or is not valid in a device text.
    """
    key = _normal(spec.key)
    if not key or key != spec.key or _COUNTED.fullmatch(key):
        raise VirtualDeviceError(
            f"Cannot register a device as {spec.key!r}: expected lower case, no space, and no ending like 'x4', "
            "which means four devices. Give the spec another key with spec.replace(key=...)."
        )
    if key in _specs and not replace:
        raise VirtualDeviceError(
            f"A device {key!r} is already registered ({_specs[key].name}). Use another key, or pass replace=True."
        )
    _specs[key] = spec
    return spec


#: Other names of devices.
_ALIASES: Final = {"a100-40gb": "a100"}


def parse_device(device: str | DeviceSpec, most: int = MAX_DEVICES) -> tuple[DeviceSpec, int]:
    """Return the spec and the number of devices that a text names.

    Args:
        device: "h100", "H100", "h100x4", "a100-80gb x 2", or a `DeviceSpec` (which is one device).
        most: The largest number of devices.

    Raises:
        VirtualDeviceError: There is no such device, or the count is out of range; the error lists the known devices.
    """
    if isinstance(device, DeviceSpec):
        return device, 1
    if not isinstance(device, str):
        raise VirtualDeviceError(
            f"Invalid virtual device {device!r}: expected a text such as 'h100' or 'h100x4', or a DeviceSpec."
        )
    key, count = split_count(device)
    if key not in _specs:
        known = ", ".join(sorted(_specs))
        raise VirtualDeviceError(
            f"No virtual device is named {device!r}.{near(key, list(_specs))} Known: {known}. "
            "Add your own with cudalens.virtual.register(spec)."
        )
    if not 1 <= count <= most:
        raise VirtualDeviceError(f"{device!r} requests {count} devices; expected 1 to {most}.")
    return _specs[key], count


def split_count(text: str) -> tuple[str, int]:
    """Return the key and the number of devices in a device text, whether or not there is such a device."""
    if _normal(text) in _specs:
        return _normal(text), 1
    found = _COUNTED.fullmatch(text.strip().lower())
    return (_normal(found["key"]), int(found["count"])) if found else (_normal(text), 1)


def _normal(text: str) -> str:
    key = re.sub(r"[\s_]+", "-", text.strip().lower())
    return _ALIASES.get(key, key)
