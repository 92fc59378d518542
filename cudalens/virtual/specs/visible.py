"""CUDA_VISIBLE_DEVICES: which of a machine's virtual GPUs a program sees, and in which order. No torch."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Mapping

from cudalens.device.inventory.visible import CUDA_VARIABLE, parse_visible


def device_uuid(key: str, ordinal: int) -> uuid.UUID:
    """The UUID of the `ordinal`-th GPU of a kind: made up, and the same on every machine and in every run.

    Args:
        key: The spec's key.
        ordinal: Number of the GPU in its machine, before CUDA_VISIBLE_DEVICES.
    """
    return uuid.UUID(bytes=hashlib.sha256(f"cudalens:{key}:{ordinal}".encode()).digest()[:16])


def visible_ordinals(key: str, num_devices: int, environment: Mapping[str, str] | None = None) -> list[int]:
    """The GPUs that the environment lets through, in the order in which ``cuda:0``, ``cuda:1`` ... name them.

    Args:
        key: The spec's key, from which the UUIDs follow.
        num_devices: How many GPUs the machine has.
        environment: Instead of `os.environ`.
    """
    text = (os.environ if environment is None else environment).get(CUDA_VARIABLE)
    uuids = [f"GPU-{device_uuid(key, ordinal)}" for ordinal in range(num_devices)]
    return list(parse_visible(text, uuids).gpus)
