"""Kineto's category of each raw event."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames import WORK_ELSEWHERE, categorical
from cudalens.profiler.getters import Coded

#: Getters from which the category is derived in builds without ``activity_type``.
CATEGORY_SOURCES: Final = ("device_type", "is_user_annotation", "is_python_function")

#: Categories that can be derived.
DERIVED: Final = [
    *("cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver"),
    *("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync"),
]


def categories(texts: dict[str, Coded], name_codes: NDArray[np.int32], names: list[str]) -> pd.Categorical:
    """Kineto's category of each event, from torch or else derived from names and device types."""
    if "activity_type" in texts:
        codes, types = texts["activity_type"]
        return _with_names([WORK_ELSEWHERE.get(str(kind), str(kind)) for kind in types], codes)
    if not len(name_codes):
        return categorical(name_codes, [])
    codes, types = texts["device_type"]
    on_host = np.array([not kind or kind.endswith(".CPU") for kind in types], bool)[codes]
    host = np.array([DERIVED.index(_host_category(name)) for name in names], np.int32)[name_codes]
    device = np.array([DERIVED.index(_device_category(name)) for name in names], np.int32)[name_codes]
    derived = np.where(on_host, host, device)
    for getter, there, here in (
        ("is_user_annotation", "gpu_user_annotation", "user_annotation"),
        ("is_python_function", "python_function", "python_function"),
    ):
        codes, values = texts[getter]
        marked = np.array(values, bool)[codes]
        derived[marked & on_host] = DERIVED.index(here)
        derived[marked & ~on_host] = DERIVED.index(there)
    return categorical(derived, DERIVED)


def _with_names(names: list[str], codes: NDArray[np.int32]) -> pd.Categorical:
    unique = list(dict.fromkeys(names))
    return categorical(np.array([*map(unique.index, names), -1], np.int32)[codes], unique)


def _host_category(name: str) -> str:
    if name.startswith(("cuda", "hip")) and "::" not in name:
        return "cuda_runtime"
    return "cuda_driver" if name.startswith("cu") and name[2:3].isupper() else "cpu_op"


def _device_category(name: str) -> str:
    if name.startswith("Memcpy "):
        return "gpu_memcpy"
    if name.startswith("Memset "):
        return "gpu_memset"
    return "cuda_sync" if name in ("Context Sync", "Stream Sync", "Event Sync", "Stream Wait Event") else "kernel"
