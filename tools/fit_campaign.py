"""Fit rows, pointwise kernels, convolutions and attention of a GPU to its campaign, and judge them on another GPU.

``tests/data/kernel_times`` has the kernels of an H100 and an H200, as profiles list them. The constants are fitted to
the H100's; the H200 uses them at its own bandwidth, and the errors that are stored are those of the H200's kernels,
which the fit does not use. The operands are in the L2 cache if it holds them, because the calls repeat.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import torch
from fit_timing import with_measured

from cudalens.gpus import time_formulas
from cudalens.gpus.constants import PATH, fit_of, rates_of
from cudalens.gpus.predict import TF32_SLOWDOWN
from cudalens.gpus.registry import SPECS
from cudalens.virtual.calibration.measure import fit_constants
from cudalens.virtual.timing import kernel_times

FOLDER: Final = Path(__file__).parents[1] / "tests" / "data" / "kernel_times"
#: The GPU of the fit and the GPU of the errors: their keys and files.
FITTED: Final = ("h100", "nvidia-h100-80gb-hbm3.json")
JUDGED: Final = ("h200", "nvidia-h200.json")
SOURCE: Final = "make gpu-campaign on an H100 (errors: on an H200)"

_ROWS: Final = re.compile(r"(softmax|layer_norm|rms_norm|log_softmax) (bfloat16|float32) (\d+) x (\d+)")
_POINTWISE: Final = re.compile(r"(add|mul by a number|relu|gelu|silu|exp|add in place) (bfloat16|float32) (\d+)")
_CONVOLUTION: Final = re.compile(
    r"conv2d (float32|channels last bfloat16) (\d+) x (\d+) x (\d+), (\d+) channels, (\d+) x \d+, stride (\d+)"
)
_ATTENTION: Final = re.compile(r"attention (causal|full) bfloat16 (\d+) x (\d+) heads x (\d+) x (\d+)")
#: Parts of the names of cuDNN's kernels that compute a product, and of its attention.
_PRODUCT_NAMES: Final = ("fprop", "gemm", "nvjet")
_ATTENTION_NAME: Final = "_sdpa_"
_FAMILIES: Final = {
    "softmax": "softmax",
    "log_softmax": "softmax",
    "layer_norm": "layer_norm",
    "rms_norm": "layer_norm",
}
START: Final = {
    "softmax": {
        "memory_share": 0.9, "l2_share": 2.0, "read_again": 0.4, "unaligned": 0.3, "unaligned_long": 0.05,
        "row_ns": 20.0, "iteration_ns": 200.0, "long_row_ns": 800.0, "fixed_ns": 2500.0,
    },
    "layer_norm": {
        "memory_share": 0.9, "l2_share": 2.0, "read_again": 0.3, "cache": 0.5, "unaligned": 1.0, "row_ns": 100.0,
        "iteration_ns": 50.0, "unaligned_rows": 5.0, "fixed_ns": 2500.0,
    },
    "pointwise": {"memory_share": 0.9, "l2_share": 2.0, "fixed_ns": 1150.0},
    # From the constants of a GPU that was measured with the formula: convolutions of an RTX 4090, attention of an H100.
    "convolution_half": dict(fit_of(SPECS["rtx4090"], "convolution_half").constants) | {"few_channels": 0.2},
    "attention_cudnn": dict(fit_of(SPECS["h100"], "attention").constants)
    | {"l2_share": 2.0, "memory_share": 0.9, "overlap": 3.0, "longest": 1.0, "fixed_ns": 4000.0},
}  # fmt: skip
#: Constants that the campaign does not determine.
FROZEN: Final = {
    "convolution_half": {
        "split_ns", "split_share", "partial_wave", "throttle", "winograd", "input_gradient", "weight_gradient",
        "memory_share", "iteration_ns", "small_tile",
    },
    "attention_cudnn": {
        "head_192", "head_256", "head_512", "grouped", "small_tile", "l2_share", "memory_share",
    },
}  # fmt: skip


def _convolution(c: Any, gpu: Any, x: Any) -> Any:
    speed = (1 + x.has_few_channels * (c["few_channels"] - 1)) / (1 + x.is_tf32 * (2 * TF32_SLOWDOWN - 1))
    return time_formulas.convolution_ns(c, gpu, 1, x.m, x.n, x.k, x.num_bytes, x.element_bytes, speed)


def _attention(c: Any, gpu: Any, x: Any) -> Any:
    sizes = (x.batch, x.length, x.length, x.heads, x.heads, x.head_dim)
    causal, full = (time_formulas.attention_ns(c, gpu, *sizes, is_causal) for is_causal in (True, False))
    return x.is_causal * causal + (1 - x.is_causal) * full


FORMULAS: Final[dict[str, Any]] = {
    "softmax": lambda c, gpu, x: time_formulas.rows_ns(c, gpu, x.rows, x.length, x.num_bytes, x.element_bytes),
    "layer_norm": lambda c, gpu, x: time_formulas.layer_norm_ns(c, gpu, x.rows, x.length, x.num_bytes, x.element_bytes),
    "pointwise": lambda c, gpu, x: time_formulas.pointwise_ns(c, gpu, x.num_bytes),
    "convolution_half": _convolution,
    "attention_cudnn": _attention,
}
#: The compute unit of the rates; products in TF32 have half the peak of those in bfloat16.
UNITS: Final = {"convolution_half": "bfloat16", "attention_cudnn": "bfloat16"}


def kernels(file: str) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the family and the sizes, with ``time_ns``, of each operator of a campaign whose formula is known."""
    for row in json.loads((FOLDER / file).read_text(encoding="utf-8"))["rows"]:
        time_ns = float(sum(ns for _, ns in row.get("kernels", ())))
        if not time_ns:
            continue
        if match := _ROWS.fullmatch(row["operator"]):
            rows, length, element_bytes = int(match[3]), int(match[4]), 2 if match[2] == "bfloat16" else 4
            sizes = {"rows": rows, "length": length, "element_bytes": element_bytes}
            yield _FAMILIES[match[1]], sizes | {"num_bytes": 2 * rows * length * element_bytes, "time_ns": time_ns}
        elif match := _POINTWISE.fullmatch(row["operator"]):
            element_bytes = 2 if match[2] == "bfloat16" else 4
            yield "pointwise", {"num_bytes": 2 * int(match[3]) * element_bytes, "time_ns": time_ns}
        elif match := _CONVOLUTION.fullmatch(row["operator"]):
            sizes = convolution_sizes(match[1] == "float32", *map(int, match.groups()[1:]))
            times = [ns for name, ns in row["kernels"] if any(part in name for part in _PRODUCT_NAMES)]
            if not (sizes["is_tf32"] and sizes["is_patches"]):  # without tensor cores
                yield "convolution_half", sizes | {"time_ns": float(sum(times))}
        elif match := _ATTENTION.fullmatch(row["operator"]):
            names = ("batch", "heads", "length", "head_dim")
            sizes = dict(zip(names, map(int, match.groups()[1:]), strict=True)) | {"is_causal": match[1] == "causal"}
            times = [ns for name, ns in row["kernels"] if _ATTENTION_NAME in name]
            yield "attention_cudnn", sizes | {"time_ns": float(sum(times))}


def convolution_sizes(
    is_tf32: bool, batch: int, inputs: int, side: int, outputs: int, window: int, stride: int
) -> dict[str, float]:
    """Return the product of a convolution of the campaign, which pads windows of less than 8 elements by half."""
    padding = window // 2 if window < 8 else 0
    positions = batch * ((side + 2 * padding - window) // stride + 1) ** 2
    element_bytes = 4 if is_tf32 else 2
    channels = inputs if is_tf32 else -(-inputs // kernel_times.CHANNEL_MULTIPLE) * kernel_times.CHANNEL_MULTIPLE
    moved = batch * inputs * side**2 + inputs * outputs * window**2 + positions * outputs
    return {
        "m": positions, "n": outputs, "k": channels * window**2, "num_bytes": element_bytes * moved,
        "element_bytes": element_bytes, "is_tf32": is_tf32, "is_patches": window == stride and window > 1,
        "has_few_channels": inputs <= kernel_times.FEW_CHANNELS,
    }  # fmt: skip


def table(file: str, family: str) -> SimpleNamespace:
    """Return the kernels of a family as tensors by size."""
    rows = [sizes for name, sizes in kernels(file) if name == family]
    return SimpleNamespace(**{key: torch.tensor([float(row[key]) for row in rows]) for key in rows[0]})


def ratios(constants: dict[str, float], gpu: str, file: str, family: str) -> torch.Tensor:
    """Return predicted over measured times of a family's kernels of a GPU."""
    sizes = table(file, family)
    predicted: torch.Tensor = FORMULAS[family](constants, rates_of(SPECS[gpu], UNITS.get(family, "float32")), sizes)
    return predicted / sizes.time_ns


def fit(family: str) -> dict[str, Any]:
    """Return the constants of a family with the errors on the GPU that the fit does not use."""
    gpu, file = FITTED
    limits: Any = {"ridge": 0.0005, "steps": 1500, "rate": 0.03}
    rates = rates_of(SPECS[gpu], UNITS.get(family, "float32"))
    limits["frozen"] = frozenset(FROZEN.get(family, ()))
    constants = fit_constants(FORMULAS[family], START[family], rates, table(file, family), **limits)
    if "head_dim" in vars(table(file, family)):
        constants = with_measured(constants, "head", time_formulas.HEAD_DIMS, {64, 128})
    print(family, constants)
    for name, (key, data) in {"fitted": FITTED, "judged": JUDGED}.items():
        found = ratios(constants, key, data, family)
        error = (found - 1).abs().mean()
        print(f"  {name} on {key}: mean error {error:.1%}, median {found.median():.2f}")
    within = ((found > 0.5) & (found < 2)).double().mean()
    return {
        "constants": constants,
        "mean_error_pct": round(float(error) * 100, 1),
        "within_2x_pct": round(float(within) * 100, 1),
        "num_shapes": len(found),
        "judged_on": JUDGED[0],
    }


def main() -> None:
    """Fit the families and write the entries into ``constants.json``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true", help="print the errors and write nothing")
    parser.add_argument("--family", action="append", choices=START, help="fit only this family, and keep the others")
    options = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    written = json.loads(PATH.read_text(encoding="utf-8"))
    for family in options.family or START:
        entry = written.setdefault(family, {"source": SOURCE, "gpus": {}})
        entry["gpus"] = dict(sorted((entry["gpus"] | {FITTED[0]: fit(family)}).items()))
        if SOURCE not in entry["source"]:
            entry["source"] += f"; {SOURCE}"
        entry["fitted"] = date.today().isoformat()
    if not options.dry_run:
        PATH.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
