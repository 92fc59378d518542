"""Files of calibrated constants: JSON with the facts of a GPU and the constants of its kernels. No torch."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Final

from cudalens.errors import VirtualDeviceError
from cudalens.gpus.constants import accuracy
from cudalens.gpus.registry import MAX_DEVICES, PEAK_KEYS, SPECS, DeviceSpec, split_count

FORMAT: Final = "cudalens calibration 1"
MAX_BYTES: Final = 1 << 20
_RANGE: Final = (1e-12, 1e15)
#: Facts of a GPU in the file; all others are those of the specification ``base``.
_FACTS: Final = {"name": str, "total_memory_bytes": int, "num_sms": int}


def write_calibration(
    path: Path, spec: DeviceSpec, families: Mapping[str, Mapping[str, float]], errors: Mapping[str, float]
) -> None:
    """Write the constants of a GPU.

    Args:
        path: The file.
        spec: The GPU, made from a registered specification with the same key.
        families: Constants by family.
        errors: Their mean absolute error in percent, by family.
    """
    facts = {name: getattr(spec, name) for name in _FACTS}
    content = {
        "format": FORMAT,
        "base": spec.key,
        **facts,
        "peak_tflops": dict(spec.peak_tflops),
        "families": {name: dict(values) for name, values in families.items()},
        "mean_error_pct": dict(errors),
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def calibrated(device: str, path: str | PathLike[str]) -> tuple[DeviceSpec, int]:
    """Return the specification in a file, under a name of the user's choice, and the number of devices.

    Args:
        device: The name, optionally with a number: "my-4090", "my-4090x2".
        path: A file that `cudalens.virtual.calibrate` wrote.

    Raises:
        VirtualDeviceError: The file cannot be read or is not valid; with the reason.
    """
    key, count = split_count(device)
    if not 1 <= count <= MAX_DEVICES:
        key, count = device, 1  # "rtx4099" is a name
    file = Path(path)
    content = _content(file)
    name = content.get("base")
    if not isinstance(name, str) or name not in SPECS:
        raise _invalid(file, f"'base' is {str(name)[:100]!r}; expected one of {', '.join(SPECS)}")
    changes = {fact: _fact(file, content, fact, kind) for fact, kind in _FACTS.items()}
    peaks = _numbers(file, content.get("peak_tflops"), "peak_tflops", set(PEAK_KEYS))
    found = content.get("families")
    known = accuracy()
    if not isinstance(found, dict) or not found or not set(found) <= set(known):
        raise _invalid(file, f"'families' has other names than {', '.join(known)}")
    families = {family: _numbers(file, found[family], family, _names(known[family])) for family in found}
    sources = (f"calibrated: {file.name}",)
    return SPECS[name].replace(**changes, key=key, peak_tflops=peaks, calibration=families, sources=sources), count


def _content(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            text = stream.read(MAX_BYTES + 1)
        content = json.loads(text) if len(text) <= MAX_BYTES else None
    except OSError as error:
        raise VirtualDeviceError(f"Cannot read the calibration file {file}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise _invalid(file, "it is not JSON") from error
    if content is None:
        raise _invalid(file, f"it is larger than {MAX_BYTES} bytes")
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _invalid(file, f"its 'format' is not {FORMAT!r}")
    return content


def _fact(file: Path, content: dict[str, Any], name: str, kind: type) -> Any:
    value: Any = content.get(name)
    is_valid = isinstance(value, kind) and not isinstance(value, bool)
    if not is_valid or not (len(value) <= 100 if kind is str else 0 < value < 1 << 50):
        raise _invalid(file, f"{name!r} is not a valid {kind.__name__}")
    return value


def _numbers(file: Path, values: Any, what: str, expected: set[str]) -> dict[str, float]:
    if not isinstance(values, dict) or set(values) != expected:
        raise _invalid(file, f"{what!r} does not have the names {', '.join(sorted(expected))}")
    for name, value in values.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or not _RANGE[0] <= value <= _RANGE[1]:
            raise _invalid(file, f"{what}: {name!r} is not a number from {_RANGE[0]:g} to {_RANGE[1]:g}")
    return {name: float(value) for name, value in values.items()}


def _names(family: Mapping[str, Any]) -> set[str]:
    return set(next(iter(family["gpus"].values()))["constants"])


def _invalid(file: Path, reason: str) -> VirtualDeviceError:
    return VirtualDeviceError(
        f"{file} is not a valid calibration: {reason}. Write one with cudalens.virtual.calibrate()."
    )
