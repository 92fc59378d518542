"""The error band of a predicted time: the mean errors of its kernels' families on measured shapes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from cudalens.gpus.constants import accuracy, fit_of
from cudalens.gpus.registry import DeviceSpec

#: Error of kernels of families without measurements, per cent.
UNMEASURED_PCT: Final = 50.0

_PRODUCTS: Final = ("mm", "conv", "linear", "dot", "matmul")
_ROWS: Final = {"softmax": "softmax", "layer_norm": "layer_norm", "rms_norm": "layer_norm"}
_OTHERS: Final = (
    "sum",
    "mean",
    "index",
    "embedding",
    "sort",
    "topk",
    "cat",
    "norm",
    "pool",
    "loss",
    "scatter",
    "gather",
)


def error_pct(spec: DeviceSpec, kernels: Iterable[tuple[str, int]]) -> float:
    """Mean error of the total time of some kernels, per cent, if all errors had the same sign.

    Args:
        spec: The GPU.
        kernels: Names and durations (ns).
    """
    total = weighted = 0.0
    for name, duration_ns in kernels:
        total += duration_ns
        weighted += duration_ns * _error_of(spec, name)
    return weighted / total if total else UNMEASURED_PCT


def _error_of(spec: DeviceSpec, name: str) -> float:
    family = _family(name)
    if family is None:
        return UNMEASURED_PCT
    facts: dict[str, Any] = accuracy()[family]["gpus"][fit_of(spec, family).gpu]
    return float(facts["mean_error_pct"])


def _family(name: str) -> str | None:
    """The family of a kernel ``simulated::mm<bfloat16>``; None for one that was not measured."""
    operator, _, dtype = name.rpartition("::")[2].partition("<")
    if "attention" in operator:
        return "attention"
    row = next((family for key, family in _ROWS.items() if key in operator), None)
    if row is not None:
        return row
    if any(key in operator for key in _PRODUCTS):
        return "matrix_half" if "16" in dtype else "matrix_single"
    return None if any(key in operator for key in _OTHERS) else "pointwise"
