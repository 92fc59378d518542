"""Find the virtual device of an operator's tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from cudalens.virtual.tensors.residency import KEY, is_sparse, residence_of
from cudalens.virtual.timing.machine import Device

_NO_STORAGE: Final = object()


def locate(args: Sequence[Any]) -> tuple[Device | None, bool]:
    """The first device among the tensors, and whether any tensor is not on it."""
    device: Device | None = None
    saw_host = False
    for arg in args:
        if isinstance(arg, torch.Tensor):
            residence = _storage_residence(arg)
            if residence is _NO_STORAGE:
                continue
            if residence is None or residence.gpus.is_closed:
                saw_host = True
            elif device is None:
                device = residence.device
            elif device is not residence.device:
                saw_host = True
        elif type(arg) is list or type(arg) is tuple:
            inner, inner_host = locate(arg)
            saw_host = saw_host or inner_host or (inner is not None and device is not None and inner is not device)
            device = device or inner
    return device, saw_host


def _storage_residence(tensor: torch.Tensor) -> Any:
    """The residence of a tensor's storage, of a sparse tensor's values; None without one."""
    try:
        return tensor.untyped_storage().__dict__.get(KEY)
    except (RuntimeError, NotImplementedError):
        return residence_of(tensor) if is_sparse(tensor) else _NO_STORAGE
