"""Fit constants of GPUs to the times of whole vision models and of DeepBench: FOLDER of the tables of measured times.

Consumer GPUs were not measured kernel by kernel, but timm's authors publish the times of hundreds of models on them
(`huggingface/pytorch-image-models`, results/). Each model runs once on a virtual device without values, which gives the
sizes of its kernels. Constants of matrix products, convolutions, depthwise convolutions, attention and pointwise
kernels are then fitted to the times of the models. DeepBench's tables have the times of single convolutions.

The errors that are stored are those of model families (the name's first word), or of shapes, that the fit did not use.
Needs the package timm, which is not a dependency of cudalens.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import torch

import cudalens.virtual
from cudalens.gpus import time_formulas
from cudalens.gpus.constants import PATH, fit_of, rates_of
from cudalens.gpus.predict import DEPTHWISE_FLOPS
from cudalens.gpus.registry import SPECS
from cudalens.virtual.timing import cost, kernel_times

TIMM: Final = "whole models of huggingface/pytorch-image-models (results/), Apache-2.0"
DEEPBENCH: Final = "baidu-research/DeepBench, Apache-2.0"

#: timm's files of inference: GPU, layout and file name; and of training.
INFERENCE: Final = (
    ("rtx3090", "nchw", "infer-amp-nchw-pt240-cu124-rtx3090"),
    ("rtx4090", "nchw", "infer-amp-nchw-pt240-cu124-rtx4090"),
    ("rtx4090", "nhwc", "infer-amp-nhwc-pt240-cu124-rtx4090"),
    ("rtx5090", "nchw", "infer-amp-nchw-pt291-cu130-5090"),
)
TRAINING: Final = (
    ("rtx3090", "nchw", "train-amp-nchw-pt112-cu113-rtx3090"),
    ("rtx3090", "nhwc", "train-amp-nhwc-pt112-cu113-rtx3090"),
)
#: Largest share of the peak of products: GeForce cards run above the clock of their data sheet, by up to 15 %.
MAX_PEAK_SHARE: Final = {"rtx3090": 1.19, "rtx4090": 1.14, "rtx5090": 1.08}

TILES_START: Final = {
    "peak_share": 0.8, "load_share": 8.0, "small_tile": 0.05, "block_ns": 700.0, "iteration_ns": 50.0,
    "partial_wave": 0.1, "split_ns": 2500.0, "split_share": 1.0, "fixed_ns": 3000.0, "memory_share": 0.8,
}  # fmt: skip
#: Constants of whole models to start from: those of convolutions, then of the other kernels.
MODELS_START: Final = TILES_START | {
    "few_channels": 0.5, "product_share": 0.9, "depthwise_memory": 0.7, "depthwise_peak": 0.1, "pointwise": 0.85,
    "others": 1.0, "attention": 1.0,
}  # fmt: skip
GRADIENTS_START: Final = {"weight": 1.3, "input": 1.1, "depthwise": 2.0}
CONVOLUTIONS_START: Final = TILES_START | {
    "iteration_ns": 75.0, "fixed_ns": 5000.0, "weight_gradient": 1.3, "input_gradient": 1.2, "winograd": 1.5,
    "few_channels": 0.4,
}  # fmt: skip
#: Constants that whole models do not determine.
FROZEN: Final = frozenset({"split_ns", "split_share", "partial_wave", "fixed_ns", "iteration_ns"})
#: `matrix_ns` and its neighbours divide by powers of this constant; it is not fitted here.
NO_THROTTLE: Final = {"throttle": 1e-6}


# -- the kernels of a model ------------------------------------------------------------------------------------------


@contextmanager
def recorded_calls() -> Iterator[list[tuple[Any, ...]]]:
    """Record the operator, the arguments and the result of each modelled kernel launch."""
    calls: list[tuple[Any, ...]] = []
    kernel_works = cost.kernel_works

    def record(spec: Any, func: Any, args: Any, kwargs: Any, out: Any) -> Any:
        calls.append((func, args, kwargs, out))
        return kernel_works(spec, func, args, kwargs, out)

    cost.kernel_works = record
    try:
        yield calls
    finally:
        cost.kernel_works = kernel_works


def run_model(name: str, batch: int, size: int, layout: str, is_training: bool, gpu: str) -> pd.DataFrame:
    """Return the kernels of a model's step, as timm's benchmark runs it: a row per kernel with its sizes."""
    import timm  # not a dependency of cudalens

    memory_format = torch.channels_last if layout == "nhwc" else torch.contiguous_format
    with cudalens.virtual.device("a100-80gb", values=False):
        with torch.device("cuda"):
            model = timm.create_model(name)
        model = model.to(memory_format=memory_format).train(is_training)
        images = torch.randn(batch, 3, size, size, device="cuda").contiguous(memory_format=memory_format)
        labels = torch.zeros(batch, dtype=torch.int64, device="cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
        with recorded_calls() as calls:
            optimizer.zero_grad()
            with torch.set_grad_enabled(is_training), torch.autocast("cuda", torch.float16):
                scores = model(images)
            if is_training:
                torch.nn.functional.cross_entropy(scores, labels).backward()
                optimizer.step()
        rows = [row for call in calls for row in kernel_rows(gpu, *call)]
    return pd.DataFrame(rows)


def kernel_rows(gpu: str, func: Any, args: Any, kwargs: Any, out: Any) -> Iterator[dict[str, Any]]:
    """Yield the kernels of a call: their kind, sizes and bytes, and the predicted time of those that are not fitted."""
    name = kernel_times.base_name(func)
    works = list(cost.kernel_works(SPECS[gpu], func, args, kwargs, out))
    if name in ("convolution", "convolution_backward"):
        yield from convolution_rows(name, args, out)
        works = [work for work in works if "::" in work.name.removeprefix("simulated::").partition("<")[0]]
    elif works[0].family == "matrix_half":
        aligned = kernel_times._alignment(args, out)
        for batch, m, n, k in kernel_times._PRODUCTS[name](args, out):
            yield {"kind": "product", "groups": batch, "m": m, "n": n, "k": k, "aligned": aligned}
        return
    for work in works:
        kind = work.family if work.family in ("pointwise", "attention") else "others"
        yield {"kind": kind, "num_bytes": work.num_bytes, "time_ns": work.duration_ns}


def convolution_rows(name: str, args: Any, out: Any) -> Iterator[dict[str, Any]]:
    """Yield the products of a convolution or of its gradients, as `kernel_times.convolution_ns` computes them."""
    if name == "convolution":
        value, weight, output, options, results = args[0], args[1], out, args[3:9], ["output"]
    else:
        output, value, weight, options = args[0], args[1], args[2], args[4:10]
        results = [result for result, wanted in zip(("input", "weight"), args[10], strict=False) if wanted]
    is_transposed, groups = options[3], options[5]
    window = math.prod(weight.shape[2:])
    multiplied = value if is_transposed else output
    positions = multiplied.numel() // int(multiplied.shape[1])
    is_depthwise = groups > 1 and groups == int(value.shape[1])
    multiple = kernel_times.CHANNEL_MULTIPLE if value.element_size() == 2 else 1
    rows, channels = (
        -(-size // multiple) * multiple for size in (int(weight.shape[0]) // groups, int(weight.shape[1]))
    )
    sizes = {
        "output": (positions, rows, channels * window),
        "input": (positions, channels * window, rows),
        "weight": (channels * window, rows, positions),
    }
    for result in results:
        m, n, k = sizes[result]
        yield {
            "kind": "depthwise" if is_depthwise else "convolution",
            "result": result,
            "groups": groups,
            "m": m,
            "n": n,
            "k": k,
            "num_bytes": value.nbytes + weight.nbytes + output.nbytes,
            "element_bytes": value.element_size(),
            "flops": 2 * positions * weight.numel(),
            "has_few_channels": groups == 1 and int(weight.shape[1]) <= kernel_times.FEW_CHANNELS,
        }


def model_kernels(folder: Path, gpu: str, layout: str, name: str, max_models: int) -> pd.DataFrame:
    """Return the kernels of one model of each family of a file, with the measured time ``true_ns`` of the model."""
    mode = name.partition("-")[0]
    table = pd.read_csv(folder / "timm" / f"{name}.csv")
    table["family"] = table["model"].str.extract(r"([^_.]+)")
    table = table.sort_values("param_count").drop_duplicates("family").head(max_models)
    found = []
    for row in table.itertuples():
        batch, size = int(getattr(row, f"{mode}_batch_size")), int(getattr(row, f"{mode}_img_size"))
        try:
            kernels = run_model(row.model, batch, size, layout, mode == "train", gpu)
        except Exception as error:  # a model that this version of timm does not have, or that reads values
            print(f"skipped {row.model}: {type(error).__name__}")
            continue
        true_ns = batch / getattr(row, f"{mode}_samples_per_sec") * 1e9
        found.append(kernels.assign(model=f"{name}/{row.model}", family=row.family, true_ns=true_ns))
    columns = ["result", "groups", "m", "n", "k", "num_bytes", "element_bytes", "flops", "aligned", "time_ns"]
    kernels = pd.concat(found, ignore_index=True).reindex(columns=[*columns, "kind", "has_few_channels", *_OF_MODEL])
    kernels["has_few_channels"] = kernels["has_few_channels"].fillna(value=False).astype(bool)
    return kernels.groupby(kernels.columns.tolist(), dropna=False).size().rename("count").reset_index()


_OF_MODEL: Final = ("model", "family", "true_ns")


# -- fits ------------------------------------------------------------------------------------------------------------


class WholeModels:
    """Predicts the times of models on a GPU from the constants of their kernels."""

    def __init__(self, gpu: str, kernels: pd.DataFrame) -> None:
        kernels = kernels.reset_index(drop=True)
        models = kernels.drop_duplicates("model").reset_index(drop=True)
        positions = {model: index for index, model in enumerate(models["model"])}
        self.true_ns = tensor(models["true_ns"])
        self._model = torch.tensor(kernels["model"].map(positions).to_numpy())
        self._count = tensor(kernels["count"])
        self._kinds = {kind: torch.tensor((kernels["kind"] == kind).to_numpy()) for kind in set(kernels["kind"])}
        self._result = kernels["result"].to_numpy()
        names = ("groups", "m", "n", "k", "num_bytes", "element_bytes", "flops", "aligned", "time_ns")
        self._sizes = {name: tensor(kernels[name].fillna(1)) for name in names}
        self._has_few = tensor(kernels["has_few_channels"])
        spec = SPECS[gpu]
        self._rates = rates_of(spec, "float16")
        self._loads = self._rates._replace(flops_per_ns=spec.num_sms * spec.clock_mhz / 1e3 * DEPTHWISE_FLOPS)
        self._products = dict(fit_of(SPECS[_similar(gpu)], "matrix_half").constants) | NO_THROTTLE | {"load_share": 20}

    def predict(self, constants: Mapping[str, Any]) -> torch.Tensor:
        """Return the time of each model, ns."""
        time_ns = torch.zeros_like(self._count)
        for kind, rows in self._kinds.items():
            time_ns = time_ns.index_put((rows.nonzero()[:, 0],), self._time(kind, rows, constants))
        return torch.zeros_like(self.true_ns).index_add(0, self._model, time_ns * self._count)

    def _time(self, kind: str, rows: torch.Tensor, c: Mapping[str, Any]) -> torch.Tensor:
        sizes = {name: values[rows] for name, values in self._sizes.items()}
        shape = [sizes[name] for name in ("groups", "m", "n", "k")]
        if kind == "product":
            unaligned = torch.where(sizes["aligned"] < 16, 2.0, 1.0)
            products = self._products | {"peak_share": c["product_share"] / unaligned}
            return time_formulas.matrix_ns(products, self._rates, *shape, 2)
        if kind in ("convolution", "depthwise"):
            result = self._result[rows.numpy()]
            is_weight, is_input = (torch.tensor((result == name).astype(float)) for name in ("weight", "input"))
            if kind == "depthwise":
                own = {"memory_share": c["depthwise_memory"], "peak_share": c["depthwise_peak"], "fixed_ns": 3000.0}
                time_ns = time_formulas.depthwise_ns(own, self._loads, sizes["num_bytes"], sizes["flops"])
                return time_ns * (1 + (is_weight + is_input) * (c["depthwise"] - 1))
            speed = 1 + self._has_few[rows] * (c["few_channels"] - 1)
            moved = (sizes["num_bytes"], sizes["element_bytes"])
            time_ns = time_formulas.convolution_ns({**c, **NO_THROTTLE}, self._rates, *shape, *moved, speed)
            return time_ns * (1 + is_weight * (c["weight"] - 1) + is_input * (c["input"] - 1))
        if kind == "pointwise":
            return 1500 + sizes["num_bytes"] / (self._rates.bytes_per_ns * c["pointwise"])
        return sizes["time_ns"] / c[kind]


def tensor(values: pd.Series) -> torch.Tensor:
    """Return a column as a float64 tensor."""
    return torch.tensor(values.to_numpy(float))


def minimise(predict: Any, true_ns: torch.Tensor, start: Mapping[str, float], fitted: set[str]) -> dict[str, float]:
    """Return the constants that minimise the errors, near the start where the data says little."""
    logs = {name: torch.tensor(math.log(value), requires_grad=name in fitted) for name, value in start.items()}
    optimizer = torch.optim.Adam([logs[name] for name in fitted], lr=0.08)
    for _ in range(120):
        optimizer.zero_grad()
        ratios = predict({name: value.exp() for name, value in logs.items()}) / true_ns
        errors = (ratios - 1 + ratios.log()) / 2
        loss = torch.nn.functional.huber_loss(errors, torch.zeros_like(errors), delta=0.15)
        loss = loss + 0.0005 * sum((logs[name] - math.log(start[name])) ** 2 for name in fitted)
        loss.backward()
        optimizer.step()
    return {name: float(f"{float(value.detach().exp()):.4g}") for name, value in logs.items()}


def is_held(family: str) -> bool:
    """Return whether a model family is in the half that a fit does not use."""
    return int(hashlib.md5(family.encode(), usedforsecurity=False).hexdigest(), 16) % 2 == 1


def unfitted_errors(ratios: torch.Tensor, counted: str) -> dict[str, Any]:
    """Return the errors to store, from predicted over measured times."""
    within = ((ratios > 0.5) & (ratios < 2)).double().mean()
    error = (ratios - 1).abs().mean()
    return {
        "mean_error_pct": round(float(error) * 100, 1),
        "within_2x_pct": round(float(within) * 100, 1),
        "ratio_quantiles": ratio_quantiles(ratios),
        counted: len(ratios),
    }


def ratio_quantiles(ratios: torch.Tensor) -> list[float]:
    """Return the ends of the 80 % band of measured over predicted times, from predicted over measured ones."""
    ends = (1 / ratios.detach()).quantile(torch.tensor([0.1, 0.9], dtype=ratios.dtype))
    return [float(f"{float(end):.3g}") for end in ends]


def fit_gpu(gpu: str, inference: pd.DataFrame, gradients: Mapping[str, float]) -> tuple[dict[str, float], dict]:
    """Return the constants of a GPU, and the errors on families that a fit of the others did not use."""
    start = MODELS_START | gradients
    fitted = set(MODELS_START) - FROZEN
    held = inference["family"].map(is_held)
    half = WholeModels(gpu, inference[~held])
    other = WholeModels(gpu, inference[held])
    ratios = other.predict(minimise(half.predict, half.true_ns, start, fitted)) / other.true_ns
    models = WholeModels(gpu, inference)
    constants = minimise(models.predict, models.true_ns, start, fitted)
    constants["product_share"] = min(constants["product_share"], MAX_PEAK_SHARE[gpu])
    return constants, unfitted_errors(ratios, "num_models")


def deepbench_table(folder: Path, gpu: str, is_half: bool) -> pd.DataFrame:
    """Return DeepBench's convolutions of a GPU as products, with ``true_ns``."""
    table = pd.read_csv(folder / "deepbench.csv")
    chosen = (table["gpu"] == gpu) & (table["half"] == is_half) & table["op"].str.startswith("conv")
    table = table[chosen & (table["true_ms"] < 50)]  # one row of 54 ms is a fault of the table
    pattern = re.compile(r"w(\d+) h(\d+) c(\d+) n(\d+) k(\d+) (\d+)x(\d+) s(\d+)")
    rows = []
    for row in table.itertuples():
        match = pattern.fullmatch(row.shape)
        assert match is not None, row.shape
        width, height, inputs, batch, outputs, window_w, window_h, stride = map(int, match.groups())
        padding = window_w // 2 if window_w == window_h else 0  # the table has none: sizes are kept
        if height < window_h or width < window_w:
            window_w, window_h = window_h, window_w
        columns = (width + 2 * padding - window_w) // stride + 1
        lines = (height + 2 * padding - window_h) // stride + 1
        element_bytes = 2 if is_half else 4
        channels = -(-inputs // 8) * 8 if is_half else inputs
        window, positions = window_w * window_h, batch * lines * columns
        m, n, k = {
            "conv fw": (positions, outputs, channels * window),
            "conv bw data": (positions, channels * window, outputs),
            "conv bw weight": (channels * window, outputs, positions),
        }[row.op]
        moved = batch * inputs * width * height + inputs * outputs * window + positions * outputs
        rows.append(
            {
                "shape": row.shape, "m": m, "n": n, "k": k, "num_bytes": element_bytes * moved,
                "element_bytes": element_bytes, "true_ns": row.true_ms * 1e6,
                "is_weight": row.op == "conv bw weight", "is_input": row.op == "conv bw data",
                "is_winograd": window_w == window_h == 3 and stride == 1 and not is_half,
                "has_few_channels": is_half and inputs <= kernel_times.FEW_CHANNELS,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def fit_deepbench(folder: Path, gpu: str, is_half: bool) -> dict[str, Any]:
    """Return the constants of a GPU's convolutions, with the errors on shapes that a fit of the others did not use."""
    table = deepbench_table(folder, gpu, is_half)
    rates = rates_of(SPECS[gpu], "float16" if is_half else "float32")

    def predictor(rows: pd.DataFrame) -> Any:
        x = {name: tensor(rows[name]) for name in rows.columns if name != "shape"}

        def predict(c: Mapping[str, Any]) -> Any:
            speed = (1 + x["is_winograd"] * (c["winograd"] - 1)) * (1 + x["has_few_channels"] * (c["few_channels"] - 1))
            sizes = (1, x["m"], x["n"], x["k"], x["num_bytes"], x["element_bytes"])
            time_ns = time_formulas.convolution_ns({**c, **NO_THROTTLE}, rates, *sizes, speed)
            return time_ns * (
                1 + x["is_weight"] * (c["weight_gradient"] - 1) + x["is_input"] * (c["input_gradient"] - 1)
            )

        return predict

    fitted = set(CONVOLUTIONS_START) - ({"few_channels"} if not is_half else {"winograd"})
    is_first = pd.util.hash_pandas_object(table["shape"], index=False).to_numpy() % 2 == 0
    ratios = []
    for chosen in (is_first, ~is_first):
        first, second = table[chosen], table[~chosen]
        constants = minimise(predictor(first), tensor(first["true_ns"]), CONVOLUTIONS_START, fitted)
        ratios.append(predictor(second)(constants) / tensor(second["true_ns"]))
    constants = minimise(predictor(table), tensor(table["true_ns"]), CONVOLUTIONS_START, fitted)
    return {"constants": constants | NO_THROTTLE, **unfitted_errors(torch.cat(ratios), "num_shapes")}


def _similar(gpu: str) -> str:
    """Return the measured GPU of a consumer GPU's generation, whose further constants it uses."""
    return "rtx-pro-6000" if gpu == "rtx5090" else "l40s"


def entries(gpu: str, c: Mapping[str, float], gradients: Mapping[str, float], errors: dict) -> dict[str, Any]:
    """Return the entries of `constants.json` by family for a GPU that was fitted to whole models."""
    similar = SPECS[_similar(gpu)]
    attention = {}
    for name, value in fit_of(similar, "attention").constants.items():
        if name.startswith("head_") or name in ("l2_share", "memory_share"):
            value = value * c["attention"]
        elif name in ("block_ns", "iteration_ns"):
            value = value / c["attention"]
        attention[name] = float(f"{value:.4g}")
    convolution = {name: c[name] for name in (*TILES_START, "few_channels")} | NO_THROTTLE
    convolution |= {f"{name}_gradient": gradients[name] for name in ("weight", "input")} | {"winograd": 1.0}
    products = dict(fit_of(similar, "matrix_half").constants) | NO_THROTTLE
    constants = {
        "matrix_half": products | {"peak_share": c["product_share"], "load_share": 20.0},
        "attention": attention,
        "pointwise": {"memory_share": c["pointwise"], "fixed_ns": 1500.0},
        "convolution_half": convolution,
        "depthwise": {
            "memory_share": c["depthwise_memory"],
            "peak_share": c["depthwise_peak"],
            "gradient": gradients["depthwise"],
            "fixed_ns": 3000.0,
        },
    }
    return {family: {"constants": values, **errors} for family, values in constants.items()}


def main() -> None:
    """Fit all, and write the entries into ``constants.json``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder with the tables of measured times")
    parser.add_argument("--max-models", type=int, default=1000, help="models of a file, the smallest first")
    parser.add_argument("--dry-run", action="store_true", help="print the errors and write nothing")
    options = parser.parse_args()
    torch.set_default_dtype(torch.float32)
    files = {key: model_kernels(options.folder, *key, options.max_models) for key in (*INFERENCE, *TRAINING)}
    torch.set_default_dtype(torch.float64)
    written = json.loads(PATH.read_text(encoding="utf-8"))
    gradients: dict[str, float] = dict(GRADIENTS_START)
    for gpu in dict.fromkeys(key[0] for key in INFERENCE):
        constants, errors = fit_gpu(gpu, pd.concat([files[key] for key in INFERENCE if key[0] == gpu]), gradients)
        print(gpu, errors, flush=True)
        training = [files[key] for key in TRAINING if key[0] == gpu]
        if training:
            models = WholeModels(gpu, pd.concat(training))
            fitted = minimise(models.predict, models.true_ns, constants | gradients, set(GRADIENTS_START))
            gradients = {name: fitted[name] for name in GRADIENTS_START}
            ratios = (models.predict(fitted) / models.true_ns).detach().numpy()
            print(gpu, "training", gradients, f"mean error {np.abs(ratios - 1).mean():.1%}", flush=True)
        for family, entry in entries(gpu, constants, gradients, errors).items():
            written[family]["gpus"][gpu] = entry
    for gpu, is_half in (("v100", True), ("v100", False), ("p100", False)):
        entry = fit_deepbench(options.folder, gpu, is_half)
        print(gpu, "half" if is_half else "single", {k: v for k, v in entry.items() if k != "constants"}, flush=True)
        written["convolution_half" if is_half else "convolution_single"]["gpus"][gpu] = entry
    for family in ("convolution_half", "convolution_single", "depthwise"):
        written[family]["fitted"] = date.today().isoformat()
    if not options.dry_run:
        PATH.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
