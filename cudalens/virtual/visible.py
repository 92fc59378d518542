"""CUDA_VISIBLE_DEVICES: which of a machine's virtual GPUs a program sees, and in which order. No torch."""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Final

_VARIABLE: Final = "CUDA_VISIBLE_DEVICES"
_LEADING_NUMBER: Final = re.compile(r"[+-]?\d+")


def device_uuid(key: str, ordinal: int) -> uuid.UUID:
    """The UUID of the `ordinal`-th GPU of a kind: made up, and the same on every machine and in every run.

    Args:
        key: The spec's key.
        ordinal: Number of the GPU in its machine, before CUDA_VISIBLE_DEVICES.
    """
    return uuid.UUID(bytes=hashlib.sha256(f"cudalens:{key}:{ordinal}".encode()).digest()[:16])


def visible_ordinals(key: str, num_devices: int, environment: Mapping[str, str] | None = None) -> list[int]:
    """The GPUs that the environment lets through, in the order in which ``cuda:0``, ``cuda:1`` ... name them.

    The CUDA driver's rules: a list of ordinals or of ``GPU-`` UUIDs (a unique beginning will do); the first entry that
    names no GPU ends the list; an empty list, and a GPU named twice, hide all.

    Args:
        key: The spec's key, from which the UUIDs follow.
        num_devices: How many GPUs the machine has.
        environment: Instead of `os.environ`.
    """
    text = (os.environ if environment is None else environment).get(_VARIABLE)
    if text is None:
        return list(range(num_devices))
    uuids = [f"GPU-{device_uuid(key, ordinal)}" for ordinal in range(num_devices)]
    ordinals: list[int] = []
    for entry in text.split(","):
        ordinal = _by_uuid(entry.strip(), uuids) if text.startswith("GPU-") else _by_number(entry.strip())
        if not 0 <= ordinal < num_devices:
            break
        if ordinal in ordinals:
            return []
        ordinals.append(ordinal)
    return ordinals


def _by_number(entry: str) -> int:
    """The number that an entry begins with, as strtoul reads it; -1 where there is none."""
    found = _LEADING_NUMBER.match(entry)
    return int(found.group()) if found else -1


def _by_uuid(entry: str, uuids: Sequence[str]) -> int:
    """The one GPU whose UUID begins so; -1 for none and for several."""
    matches = [ordinal for ordinal, name in enumerate(uuids) if entry.startswith("GPU-") and name.startswith(entry)]
    return matches[0] if len(matches) == 1 else -1
