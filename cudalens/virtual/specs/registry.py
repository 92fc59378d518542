"""Which virtual device is meant: ``parse_device("h100x4")``; and how a user adds one. No torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.specs.device_spec import PEAK_KEYS, DeviceSpec, near
from cudalens.virtual.specs.table import TABLE

__all__ = ["MAX_DEVICES", "PEAK_KEYS", "SPECS", "DeviceSpec", "parse_device", "register"]

_specs: dict[str, DeviceSpec] = {spec.key: spec for spec in TABLE}
SPECS: Final[Mapping[str, DeviceSpec]] = MappingProxyType(_specs)
"""The devices that can be named, by key: what ships, and what `register` added."""

MAX_DEVICES: Final = 64
"""The most devices of one virtual machine (PyTorch's own limit is ``C10_COMPILE_TIME_MAX_GPUS``, 120)."""

_COUNTED: Final = re.compile(r"(?P<key>.+?)\s*[x*×]\s*(?P<count>\d+)")  # noqa: RUF001


def register(spec: DeviceSpec, *, replace: bool = False) -> DeviceSpec:
    """Makes `spec` known by its key, so that ``parse_device`` finds it; gives it back.

    Args:
        spec: The device.
        replace: Whether a device of that key may be replaced.

    Raises:
        VirtualDeviceError: The key is taken, or is not one that can be written in a device text.
    """
    key = _normal(spec.key)
    if not key or key != spec.key or _COUNTED.fullmatch(key):
        raise VirtualDeviceError(
            f"Cannot register a device as {spec.key!r}: expected lower case, no space, and no ending like 'x4', "
            "which means four devices. Give the spec another key with spec.replace(key=...)."
        )
    if key in _specs and not replace:
        raise VirtualDeviceError(
            f"A device {key!r} is known already ({_specs[key].name}). Use another key, or pass replace=True."
        )
    _specs[key] = spec
    return spec


def parse_device(device: str | DeviceSpec) -> tuple[DeviceSpec, int]:
    """Which device is meant, and how many of it.

    Args:
        device: "h100", "H100", "h100x4", "a100-80gb x 2", or a `DeviceSpec` (which is one device).

    Raises:
        VirtualDeviceError: No such device, or a count that no machine has; the known ones are listed.
    """
    if isinstance(device, DeviceSpec):
        return device, 1
    if not isinstance(device, str):
        raise VirtualDeviceError(
            f"A virtual device is named by a text such as 'h100' or 'h100x4', or by a DeviceSpec; got {device!r}."
        )
    key, count = _split(device)
    if key not in _specs:
        known = ", ".join(sorted(_specs))
        raise VirtualDeviceError(
            f"No virtual device is called {device!r}.{near(key, list(_specs))} Known: {known}. "
            "Add your own with cudalens.virtual.register(spec)."
        )
    if not 1 <= count <= MAX_DEVICES:
        raise VirtualDeviceError(f"{device!r} asks for {count} devices; expected 1 to {MAX_DEVICES}.")
    return _specs[key], count


def _split(text: str) -> tuple[str, int]:
    if _normal(text) in _specs:
        return _normal(text), 1
    found = _COUNTED.fullmatch(text.strip().lower())
    return (_normal(found["key"]), int(found["count"])) if found else (_normal(text), 1)


def _normal(text: str) -> str:
    return re.sub(r"[\s_]+", "-", text.strip().lower())
