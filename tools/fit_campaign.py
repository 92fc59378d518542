"""Fit row-wise and pointwise kernels of a GPU to its campaign, and judge them on another GPU: fit on ``FITTED``.

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

from cudalens.gpus import time_formulas
from cudalens.gpus.constants import PATH, rates_of
from cudalens.gpus.registry import SPECS
from cudalens.virtual.calibration.measure import fit_constants

FOLDER: Final = Path(__file__).parents[1] / "tests" / "data" / "kernel_times"
#: The GPU of the fit and the GPU of the errors: their keys and files.
FITTED: Final = ("h100", "nvidia-h100-80gb-hbm3.json")
JUDGED: Final = ("h200", "nvidia-h200.json")
SOURCE: Final = "make gpu-campaign on an H100 (errors: on an H200)"

_ROWS: Final = re.compile(r"(softmax|layer_norm|rms_norm|log_softmax) (bfloat16|float32) (\d+) x (\d+)")
_POINTWISE: Final = re.compile(r"(add|mul by a number|relu|gelu|silu|exp|add in place) (bfloat16|float32) (\d+)")
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
}  # fmt: skip
FORMULAS: Final[dict[str, Any]] = {
    "softmax": lambda c, gpu, x: time_formulas.rows_ns(c, gpu, x.rows, x.length, x.num_bytes, x.element_bytes),
    "layer_norm": lambda c, gpu, x: time_formulas.layer_norm_ns(c, gpu, x.rows, x.length, x.num_bytes, x.element_bytes),
    "pointwise": lambda c, gpu, x: time_formulas.pointwise_ns(c, gpu, x.num_bytes),
}


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


def table(file: str, family: str) -> SimpleNamespace:
    """Return the kernels of a family as tensors by size."""
    rows = [sizes for name, sizes in kernels(file) if name == family]
    return SimpleNamespace(**{key: torch.tensor([float(row[key]) for row in rows]) for key in rows[0]})


def ratios(constants: dict[str, float], gpu: str, file: str, family: str) -> torch.Tensor:
    """Return predicted over measured times of a family's kernels of a GPU."""
    sizes = table(file, family)
    predicted: torch.Tensor = FORMULAS[family](constants, rates_of(SPECS[gpu], "float32"), sizes)
    return predicted / sizes.time_ns


def fit(family: str) -> dict[str, Any]:
    """Return the constants of a family with the errors on the GPU that the fit does not use."""
    gpu, file = FITTED
    limits: Any = {"ridge": 0.0005, "steps": 1500, "rate": 0.03}
    rates = rates_of(SPECS[gpu], "float32")
    constants = fit_constants(FORMULAS[family], START[family], rates, table(file, family), **limits)
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
    options = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    written = json.loads(PATH.read_text(encoding="utf-8"))
    for family in START:
        entry = written[family]
        entry["gpus"] = dict(sorted((entry["gpus"] | {FITTED[0]: fit(family)}).items()))
        if SOURCE not in entry["source"]:
            entry["source"] += f"; {SOURCE}"
        entry["fitted"] = date.today().isoformat()
    if not options.dry_run:
        PATH.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
