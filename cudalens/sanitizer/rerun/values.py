"""Copy, fingerprint and compare values of a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from cudalens.errors import KernelError
from cudalens.frames.exploration import Difference
from cudalens.kernels import begin_fingerprint
from cudalens.kernels.differing import difference_of
from cudalens.kernels.fingerprint import PendingFingerprint
from cudalens.sanitizer.rerun.tasks import without_sync_warnings


def fingerprints(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fingerprints of tensors, all launched before the first is read; other values unchanged."""
    with without_sync_warnings():
        pending = {name: _begun(value) if isinstance(value, torch.Tensor) else value for name, value in values.items()}
        return {
            name: one.result() if isinstance(one, PendingFingerprint) else _number(one) for name, one in pending.items()
        }


def _begun(tensor: torch.Tensor) -> PendingFingerprint | str:
    try:
        return begin_fingerprint(tensor)
    except KernelError:  # sparse, nested: not compared
        return "not compared"


def _number(value: Any) -> Any:
    """All NaNs are equal."""
    return "nan" if value != value else value


def copied(value: Any) -> Any:
    """A copy of a tensor; other values unchanged."""
    return value.detach().clone(memory_format=torch.contiguous_format) if isinstance(value, torch.Tensor) else value


def difference(name: str, expected: Any, found: Any) -> Difference | None:
    """The difference of two values; None if they are equal."""
    if isinstance(expected, torch.Tensor) and isinstance(found, torch.Tensor):
        with without_sync_warnings():
            return difference_of(name, expected, found)
    gap = abs(found - expected) if all(isinstance(v, int | float) for v in (found, expected)) else None
    before, now = (str(v) if isinstance(v, complex) else v for v in (expected, found))
    return Difference(name, 1, 1, (), before, now, gap, (), type(expected).__name__)
