"""Values of a program: copies, fingerprints, and how those of two runs differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from cudalens.errors import KernelError
from cudalens.frames.exploration import Difference
from cudalens.kernels import begin_fingerprint
from cudalens.kernels.differing import difference_of
from cudalens.kernels.fingerprint import PendingFingerprint
from cudalens.sanitizer.rerun.tasks import unsaid


def fingerprints(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fingerprints of tensors, all queued before the first is waited for; other values as they are."""
    with unsaid():
        pending = {name: _begun(value) if isinstance(value, torch.Tensor) else value for name, value in values.items()}
        return {
            name: one.result() if isinstance(one, PendingFingerprint) else _number(one) for name, one in pending.items()
        }


def _begun(tensor: torch.Tensor) -> PendingFingerprint | str:
    try:
        return begin_fingerprint(tensor)
    except KernelError:  # sparse, nested: nothing is said of it
        return "not compared"


def _number(value: Any) -> Any:
    """NaNs are one."""
    return "nan" if value != value else value


def copied(value: Any) -> Any:
    """A copy of a tensor; another value as it is."""
    return value.detach().clone(memory_format=torch.contiguous_format) if isinstance(value, torch.Tensor) else value


def difference(name: str, expected: Any, found: Any) -> Difference | None:
    """How two values differ; None where they do not."""
    if isinstance(expected, torch.Tensor) and isinstance(found, torch.Tensor):
        with unsaid():
            return difference_of(name, expected, found)
    gap = abs(found - expected) if all(isinstance(v, int | float) for v in (found, expected)) else None
    before, now = (str(v) if isinstance(v, complex) else v for v in (expected, found))
    return Difference(name, 1, 1, (), before, now, gap, (), type(expected).__name__)
