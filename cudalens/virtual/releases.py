"""The installed torch version; the model follows the behaviour of that version on a GPU."""

from __future__ import annotations

import torch


def torch_version() -> tuple[int, int]:
    """Major and minor number of the release."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)
