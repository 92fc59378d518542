"""Apply CUDA_VISIBLE_DEVICES to virtual GPUs, and generate their UUIDs. No torch."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Mapping

from cudalens.device.inventory.visible import CUDA_VARIABLE, parse_visible


def device_uuid(key: str, ordinal: int) -> uuid.UUID:
    """The UUID of the `ordinal`-th GPU of a spec: generated, and the same on every machine and in every run.

    Args:
        key: The key of the spec.
        ordinal: The index of the GPU before CUDA_VISIBLE_DEVICES is applied.
    """
    return uuid.UUID(bytes=hashlib.sha256(f"cudalens:{key}:{ordinal}".encode()).digest()[:16])


def visible_ordinals(key: str, num_devices: int, environment: Mapping[str, str] | None = None) -> list[int]:
    """The GPUs that CUDA_VISIBLE_DEVICES selects, in the order of ``cuda:0``, ``cuda:1`` ...

    Args:
        key: The key of the spec, which determines the UUIDs.
        num_devices: The number of GPUs of the machine.
        environment: Replaces `os.environ`.
    """
    text = (os.environ if environment is None else environment).get(CUDA_VARIABLE)
    uuids = [f"GPU-{device_uuid(key, ordinal)}" for ordinal in range(num_devices)]
    return list(parse_visible(text, uuids).gpus)
