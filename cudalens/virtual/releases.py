"""Which torch is at hand: what it does on a GPU changed from release to release, and the one at hand is modelled."""

from __future__ import annotations

import torch


def torch_version() -> tuple[int, int]:
    """Major and minor number of the release."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)
