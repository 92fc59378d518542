"""Fit the constants of the timing model to measured times: ``python tools/fit_timing.py FOLDER``.

Reads the tables of measured kernel times in FOLDER, fits the formulas of `cudalens.gpus.time_formulas` for
each GPU, and writes ``cudalens/gpus/constants.json``. Every measurement may be used for the constants.
The errors in the file are those of a second fit: its constants come from one half of the shapes, chosen by a hash of
the shape, and its errors from the other half. Families with few shapes are halved several times, because the error of
a half, of about 14 shapes, depends on which they are; the file holds the mean. The measurements themselves are not
copied.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Final

import pandas as pd
import torch

from cudalens.gpus import time_formulas
from cudalens.gpus.constants import PATH, rates_of
from cudalens.gpus.registry import SPECS, DeviceSpec
from cudalens.virtual.calibration.measure import fit_constants

AICONFIGURATOR: Final = "ai-dynamo/aiconfigurator, Apache-2.0, commit 095f58a5 (2026-08-21)"
NEUSIGHT: Final = "sitar-lab/NeuSight, MIT, commit 6945927d (2025-06-23)"

#: Package specifications of the GPUs of NeuSight's tables, whose own names are the drivers'.
NEUSIGHT_SPECS: Final = {
    "NVIDIA A100 80GB PCIe": "a100-80gb",
    "NVIDIA A100-PCIE-40GB": "a100",
    "NVIDIA H100 80GB HBM3": "h100",
    "NVIDIA L4": "l4",
    "Tesla P100-PCIE-16GB": "p100",
    "Tesla P4": "p4",
    "Tesla T4": "t4",
    "Tesla V100-PCIE-32GB": "v100",
}
#: Fixed cost of kernels in NeuSight's tables, ns. Their times include the distance between two CUDA events, so that a
#: fitted cost (10 to 40 us) would not be the kernel's. Small kernels were recorded at 2 to 4 us.
EVENT_TIMED_FIXED_NS: Final = 2_500.0
#: Distance between two CUDA events beside the kernel in NeuSight's tables, ns: what the fit of pointwise kernels finds
#: beside their bandwidth is 12 to 27 us by GPU, with a median of 17. If the fit of layer norm chooses the distance, it
#: is up to 65 us, and recorded kernels of layer norm (A100) take 1.1 times the predictions; with none, 0.8 times.
EVENT_NS: Final = 17_000.0

MATRIX_START: Final = {
    "peak_share": 0.75, "load_share": 8.0, "small_tile": 0.03, "block_ns": 300.0, "iteration_ns": 75.0,
    "partial_wave": 0.05, "split_ns": 2000.0, "split_share": 3.0, "cache": 0.9, "weight_cache": 0.17,
    "cache_steepness": 7.0, "memory_share": 0.9, "l2_share": 3.0, "throttle": 0.02, "fixed_ns": 2500.0,
}  # fmt: skip
HEADS_START: Final = {f"head_{dim}": 0.4 for dim in time_formulas.HEAD_DIMS}
ATTENTION_START: Final = HEADS_START | {
    "iteration_ns": 55.0, "longest": 1.0, "half_rows": 7.0, "block_ns": 400.0, "grouped": 1.0, "small_tile": 1.0,
    "l2_share": 0.9, "memory_share": 1.0, "overlap": 2.7, "fixed_ns": 6600.0,
}  # fmt: skip
DECODE_START: Final = {f"head_{dim}": 1.0 for dim in time_formulas.HEAD_DIMS} | {
    "l2_share": 1.6, "memory_share": 1.0, "block_share": 1.0, "peak_share": 0.13, "block_ns": 150.0, "group": 0.05,
    "iteration_ns": 20.0, "max_iterations": 20.0, "fixed_ns": 6600.0,
}  # fmt: skip
ROWS_START: Final = {
    "memory_share": 0.8, "read_again": 0.05, "unaligned": 0.05, "unaligned_long": 0.05, "row_ns": 150.0,
    "iteration_ns": 55.0, "fixed_ns": 2500.0,
}  # fmt: skip
LAYER_NORM_START: Final = {
    "memory_share": 0.8, "read_again": 0.4, "cache": 0.5, "unaligned": 0.05, "row_ns": 150.0, "iteration_ns": 55.0,
    "fixed_ns": 2500.0, "event_ns": EVENT_NS,
}  # fmt: skip
#: The rates start at `link_rates`.
COLLECTIVE_START: Final = {"fixed_ns": 3000.0, "gpu_ns": 1000.0, "middle": 1.0, "middle_power": 1.5}
#: The fastest bus of PCI Express, 5.0 with 16 lanes; faster links are NVLink.
PCIE_GBPS: Final = 63.0


@dataclass
class Family:
    """One kind of kernel: where its measurements are, and which formula predicts them."""

    name: str
    source: str
    start: Mapping[str, float]
    read: Callable[[Path], pd.DataFrame]  # columns spec, time_ns and the sizes
    predict: Callable[[time_formulas.Constants, time_formulas.Rates, Any], Any]
    peak: str = "float32"
    frozen: frozenset[str] = frozenset()
    ridge: float = 0.0  # penalty on the squared logarithms of changes, for families with few measurements
    rate: float = 0.05
    steps: int = 300
    num_halvings: int = 1  # more for families with few measurements


def _half(folder: Path, name: str) -> pd.DataFrame:
    table = pd.read_parquet(folder / name)
    return table[table["spec"].isin(list(SPECS))].rename(columns={"median_ns": "time_ns"})


def _single(folder: Path, operators: tuple[str, ...]) -> pd.DataFrame:
    table = pd.read_parquet(folder / "ops_fp32.parquet")
    table = table[table["op"].isin(operators) & table["gpu"].isin(list(NEUSIGHT_SPECS))]
    return table.assign(spec=table["gpu"].map(NEUSIGHT_SPECS), time_ns=table["median_ns"])


def _products(folder: Path) -> pd.DataFrame:
    table = _single(folder, ("linear", "bmm"))
    is_linear = table["op"] == "linear"
    return pd.DataFrame(
        {
            "spec": table["spec"],
            "time_ns": table["time_ns"],
            "weight": is_linear.map(1 / is_linear.value_counts()),
            "batch": table["B"].where(~is_linear, 1),
            "m": table["M"].where(~is_linear, table["B"] * table["M"]),
            "n": table["K"],
            "k": table["N"],
        }
    )


def _rows(folder: Path, operator: str) -> pd.DataFrame:
    return _single(folder, (operator,)).rename(columns={"B": "rows", "H": "length"})


def _pointwise(folder: Path) -> pd.DataFrame:
    binary = ("add", "mul", "div")
    table = _single(folder, (*binary, "addu", "mulu", "divu", "gelu", "relu", "tanh"))
    operands = table["op"].isin(binary) + 2
    return table.assign(num_bytes=4 * table["B"] * table["H"] * operands)


def _collective(folder: Path, op: str) -> pd.DataFrame:
    table = _half(folder, "nccl_fp16.parquet")
    table = table[table["op"] == op]
    return table.assign(factor=(2 if op == "all_reduce" else 1) * (1 - 1 / table["num_gpus"]))


def _attention(c: time_formulas.Constants, gpu: time_formulas.Rates, x: Any) -> Any:
    sizes = (x.batch_size, x.isl, x.kv_len, x.num_heads, x.kv_heads, x.head_dim)
    return time_formulas.attention_ns(c, gpu, *sizes, is_causal=True)


FAMILIES: Final = (
    Family(
        "matrix_half",
        AICONFIGURATOR,
        MATRIX_START,
        lambda folder: _half(folder, "gemm_bf16.parquet"),
        lambda c, gpu, x: time_formulas.matrix_ns(c, gpu, 1, x.m, x.n, x.k, 2),
        peak="bfloat16",
        frozen=frozenset({"cache_steepness"}),  # its gradients overflow
    ),
    Family(
        "matrix_single",
        NEUSIGHT,
        MATRIX_START | {"weight_cache": 0.05, "cache": 0.05, "long_rows": 0.1, "fixed_ns": EVENT_TIMED_FIXED_NS},
        _products,
        lambda c, gpu, x: time_formulas.matrix_ns(c, gpu, x.batch, x.m, x.n, x.k, 4),
        frozen=frozenset({"fixed_ns", "weight_cache", "cache", "cache_steepness"}),
    ),
    Family(
        "attention",
        AICONFIGURATOR,
        ATTENTION_START,
        lambda folder: _half(folder, "attention_causal_bf16.parquet"),
        _attention,
        peak="bfloat16",
    ),
    Family(
        "decode",
        AICONFIGURATOR,
        DECODE_START,
        lambda folder: _half(folder, "attention_decode_bf16.parquet"),
        lambda c, gpu, x: time_formulas.decode_ns(c, gpu, x.batch_size, x.kv_len, x.num_heads, x.kv_heads, x.head_dim),
        peak="bfloat16",
    ),
    Family(
        "softmax",
        NEUSIGHT,
        ROWS_START,
        partial(_rows, operator="softmax"),
        lambda c, gpu, x: time_formulas.rows_ns(c, gpu, x.rows, x.length, 8 * x.rows * x.length),
        frozen=frozenset({"fixed_ns"}),
    ),
    Family(
        "layer_norm",
        NEUSIGHT,
        LAYER_NORM_START,
        partial(_rows, operator="ln"),
        # Predictions leave the distance of the events out.
        lambda c, gpu, x: time_formulas.layer_norm_ns(c, gpu, x.rows, x.length, 8 * x.rows * x.length) + c["event_ns"],
        frozen=frozenset({"fixed_ns", "event_ns"}),
        num_halvings=3,
    ),
    Family(
        "pointwise",
        NEUSIGHT,
        {"memory_share": 0.9, "fixed_ns": EVENT_TIMED_FIXED_NS},
        _pointwise,
        # The fitted cost is that of the measurement; `durations.kernel_ns` uses the share only.
        lambda c, gpu, x: time_formulas.pointwise_ns(c, gpu, x.num_bytes),
    ),
    *(
        Family(
            op,
            AICONFIGURATOR,
            COLLECTIVE_START,
            partial(_collective, op=op),
            lambda c, gpu, x: time_formulas.collective_ns(c, x.factor, x.num_gpus, x.message_bytes),
            ridge=0.001,
            rate=0.03,
            steps=1200,
            num_halvings=5,
        )
        for op in ("all_gather", "all_reduce", "alltoall", "reduce_scatter")
    ),
)


class Sizes:
    """The columns of a table as tensors."""

    def __init__(self, table: pd.DataFrame) -> None:
        for name in table.select_dtypes("number"):
            setattr(self, name, torch.tensor(table[name].to_numpy(float)))


def fit(family: Family, gpu: time_formulas.Rates, table: pd.DataFrame) -> dict[str, float]:
    """Constants that minimise the relative errors on a table."""
    start = family.start | (link_rates(SPECS[str(table["spec"].iloc[0])]) if "num_gpus" in table else {})
    found = fit_constants(
        family.predict,
        start,
        gpu,
        Sizes(table),
        frozen=family.frozen,
        ridge=family.ridge,
        rate=family.rate,
        steps=family.steps,
    )
    for column, prefix, values in (
        ("head_dim", "head", time_formulas.HEAD_DIMS),
        ("num_gpus", "rate", time_formulas.GPU_COUNTS),
    ):
        if column in table:
            found = with_measured(found, prefix, values, set(table[column]))
    return found


def link_rates(spec: DeviceSpec) -> dict[str, float]:
    """The rates of collectives to start from: the link to one other GPU; all GPUs share links of PCI Express."""
    is_shared = spec.peer_gbps < PCIE_GBPS
    return {f"rate_{n}": spec.peer_gbps * (2 / n if is_shared else 1) for n in time_formulas.GPU_COUNTS}


def with_measured(
    constants: dict[str, float], prefix: str, values: tuple[int, ...], measured: set[int]
) -> dict[str, float]:
    """The constants, where a value (a head dimension) without measurements takes that of the nearest one with some."""
    known = [value for value in values if value in measured]
    nearest = {value: min(known, key=lambda other: abs(math.log(other / value))) for value in values}
    return constants | {f"{prefix}_{value}": constants[f"{prefix}_{near}"] for value, near in nearest.items()}


def errors(
    family: Family, constants: Mapping[str, float], gpu: time_formulas.Rates, table: pd.DataFrame
) -> dict[str, Any]:
    """The mean absolute error in percent, and the percentage of predictions within a factor of two."""
    sizes = Sizes(table)
    ratios = family.predict(constants, gpu, sizes) / sizes.time_ns
    within = ((ratios < 2) & (ratios > 0.5)).double().mean()
    return {
        "mean_error_pct": round(float((ratios - 1).abs().mean()) * 100, 1),
        "within_2x_pct": round(float(within) * 100, 1),
        "num_shapes": len(table),
    }


def is_first_half(table: pd.DataFrame, halving: int = 0) -> pd.Series:
    """Which shapes are in the first half of a halving, by a hash of the shape that depends on the halving's number."""
    sizes = table.select_dtypes("number").drop(
        columns=["time_ns", "min_ns", "max_ns", "sources", "weight"], errors="ignore"
    )
    hashes = pd.util.hash_pandas_object(sizes.astype(float), index=False)
    if halving:
        hashes = pd.util.hash_pandas_object(hashes.astype(str) + f" {halving}", index=False)
    return hashes % 2 == 0


def unfitted_errors(family: Family, gpu: time_formulas.Rates, table: pd.DataFrame, max_rows: int) -> dict[str, Any]:
    """The errors on the halves of the shapes that a fit does not use: means over the halvings."""
    found = []
    for halving in range(family.num_halvings):
        first = is_first_half(table, halving)
        found.append(errors(family, fit(family, gpu, _drawn(table[first], max_rows)), gpu, table[~first]))
    means = pd.DataFrame(found).mean()
    return {name: round(value, 1) for name, value in means.items()} | {"num_shapes": round(means["num_shapes"])}


def _drawn(rows: pd.DataFrame, max_rows: int) -> pd.DataFrame:
    return rows.sample(min(len(rows), max_rows), random_state=0)


def fit_family(family: Family, folder: Path, max_rows: int, gpus: list[str] | None) -> dict[str, dict[str, Any]]:
    """Constants and errors by specification; of the named ones, or of all."""
    found = {}
    for spec, table in family.read(folder).groupby("spec"):
        if gpus and spec not in gpus:
            continue
        gpu = rates_of(SPECS[str(spec)], family.peak)
        unfitted = unfitted_errors(family, gpu, table, max_rows)
        found[str(spec)] = {"constants": fit(family, gpu, _drawn(table, max_rows)), **unfitted}
        print(f"{family.name:15} {spec:12} {unfitted}", flush=True)
    return found


def main() -> None:
    """Fit all families and write the constants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder with the tables of measured times")
    parser.add_argument("--family", action="append", help="fit only this family, and keep the others")
    parser.add_argument("--max-rows", type=int, default=1500, help="measurements of a GPU that one fit uses")
    parser.add_argument("--gpu", action="append", help="fit only this specification, and keep the others")
    options = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    written = json.loads(PATH.read_text()) if (options.family or options.gpu) and PATH.exists() else {}
    for family in FAMILIES:
        if not options.family or family.name in options.family:
            gpus = fit_family(family, options.folder, options.max_rows, options.gpu)
            if options.gpu:
                gpus = dict(sorted((written[family.name]["gpus"] | gpus).items()))
            written[family.name] = {"source": family.source, "fitted": date.today().isoformat(), "gpus": gpus}
            PATH.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
