"""The fitted constants of the timing model, by GPU. No torch.

``constants.json`` is written by ``tools/fit_timing.py``, and by ``tools/fit_models.py`` from times of whole models. A
GPU without measurements uses the constants of the most similar measured GPU: they are shares of the specification's
peaks, and times of fixed costs. Its times are labelled "times uncalibrated". A head dimension without measurements uses
the constant of the nearest measured one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from cudalens.gpus.registry import SPECS, DeviceSpec
from cudalens.gpus.time_formulas import Constants, Rates

PATH: Final = Path(__file__).with_name("constants.json")
#: Quantiles of measured over predicted times, by family, GPU and duration (`tools/fit_bands.py`).
BANDS_PATH: Final = Path(__file__).with_name("bands.json")


class Fit(NamedTuple):
    """The constants of one family of kernels for a GPU.

    Attributes:
        constants: The constants of the family's formula.
        gpu: The key of the GPU that was measured.
    """

    constants: Constants
    gpu: str


def rates_of(spec: DeviceSpec, dtype_key: str) -> Rates:
    """Return the rates of a GPU for one compute unit.

    Args:
        spec: The GPU.
        dtype_key: One of `cudalens.gpus.registry.PEAK_KEYS`.
    """
    return Rates(spec.num_sms, spec.peak_tflops[dtype_key] * 1e3, spec.memory_bandwidth_gbps, spec.l2_cache_bytes)


@cache
def fit_of(spec: DeviceSpec, family: str) -> Fit:
    """Return the constants of a family for a GPU: the user's, its own, else those of the most similar measured GPU."""
    if spec.calibration is not None and family in spec.calibration:
        return Fit(spec.calibration[family], spec.key)
    gpus = _measured()[family]["gpus"]
    key = nearest_gpu(spec, gpus)
    return Fit(gpus[key]["constants"], key)


def nearest_gpu(spec: DeviceSpec, gpus: Iterable[str]) -> str:
    """Return the key of a GPU, if it is among the measured ones; else that of the most similar one."""
    names = list(gpus)
    return spec.key if spec.key in names else min(names, key=lambda name: _distance(spec, SPECS[name]))


@cache
def bands() -> dict[str, Any]:
    """Return the content of ``bands.json``: by family and GPU the ends of the 80 % band of short and long kernels."""
    return dict(json.loads(BANDS_PATH.read_text(encoding="utf-8"))["families"])


def is_calibrated(spec: DeviceSpec) -> bool:
    """Return whether matrix products of this GPU were measured, in half or single precision."""
    return spec.calibration is not None or any(
        spec.key in _measured()[family]["gpus"] for family in ("matrix_half", "matrix_single")
    )


def label_of(spec: DeviceSpec) -> str:
    """Return the key of a GPU, with a note if its times are not calibrated: "h100", "rtx3090, times uncalibrated"."""
    return spec.key if is_calibrated(spec) else f"{spec.key}, times uncalibrated"


def accuracy() -> dict[str, Any]:
    """Return the content of the file: by family its source, and by GPU the constants and errors on unfitted shapes."""
    return dict(_measured())


@cache
def _measured() -> dict[str, Any]:
    return dict(json.loads(PATH.read_text(encoding="utf-8")))


def _distance(spec: DeviceSpec, other: DeviceSpec) -> float:
    """Return how different two GPUs are: the compute capability first, then the bandwidth and the number of SMs."""
    (major, minor), (other_major, other_minor) = spec.compute_capability, other.compute_capability
    bandwidths = abs(math.log(spec.memory_bandwidth_gbps / other.memory_bandwidth_gbps))
    sms = abs(math.log(spec.num_sms / other.num_sms))
    return abs(major - other_major) * 10 + abs(minor - other_minor) * 0.5 + bandwidths + sms
