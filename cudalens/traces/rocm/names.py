"""Categories and names that the readers of AMD's recordings share."""

from __future__ import annotations

from typing import Final

_COPIES: Final = {
    "HOST_TO_DEVICE": "Memcpy HtoD (Host -> Device)",
    "DEVICE_TO_HOST": "Memcpy DtoH (Device -> Host)",
    "DEVICE_TO_DEVICE": "Memcpy DtoD (Device -> Device)",
    "HOST_TO_HOST": "Memcpy HtoH (Host -> Host)",
    "HOSTTODEVICE": "Memcpy HtoD (Host -> Device)",
    "DEVICETOHOST": "Memcpy DtoH (Device -> Host)",
    "DEVICETODEVICE": "Memcpy DtoD (Device -> Device)",
}


def call_category(kind: str) -> str:
    """Kineto's category of a host range, by the name of its domain (``HIP_RUNTIME_API``)."""
    upper = kind.upper()
    if "HIP" in upper:
        return "hip_runtime"
    if "HSA" in upper:
        return "hip_driver"
    if any(word in upper for word in ("MARKER", "ROCTX", "RANGE")):
        return "user_annotation"
    return kind.lower().removesuffix("_api") or "unknown"


def copy_name(text: str) -> str:
    """Kineto's name of a copy, for ``MEMORY_COPY_HOST_TO_DEVICE`` and ``CopyHostToDevice``; else `text`."""
    upper = text.upper()
    return next((name for word, name in _COPIES.items() if upper.endswith(word)), text)
