"""Learn the 80 % bands of predicted times: ``python tools/fit_bands.py FOLDER``, the folder of measured times.

Writes ``cudalens/gpus/bands.json``: the 10 % and 90 % quantiles of measured over predicted times, by the family of
kernels, by GPU, and by whether a prediction is short (20 us). There are two sources. The tables of FOLDER have many
shapes of a few families; each residual is stretched by the error on shapes that a fit did not use over the error on all
(`tools/fit_timing.py`). The campaigns of ``tests/data/kernel_times`` have operators as torch calls them on an H100 and
an H200. A family of both takes each with half of the weight. Consumer GPUs and convolutions without a campaign have the
errors of model families, or shapes, that a fit did not use (`tools/fit_models.py`).

``--check`` prints the coverage by cross-validation: bands of one GPU's campaign against the other's, and of one half of
a table's shapes against the other half.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import torch

from cudalens.gpus.constants import BANDS_PATH, accuracy, rates_of
from cudalens.gpus.predict import DEVIATIONS_OF_80_PCT, SHORT_NS, UNMEASURED
from cudalens.gpus.registry import SPECS

ROOT: Final = Path(__file__).parents[1]
CAMPAIGNS: Final = {"h100": "nvidia-h100-80gb-hbm3", "h200": "nvidia-h200"}
#: The family of operators without measurements, of which some are in a campaign: nothing is learned for the others.
UNMEASURED_FAMILY: Final = "other"
#: The ends of an 80 % band.
QUANTILES: Final = (0.1, 0.9)
#: Fewer short or long measurements than this share the quantiles of both.
FEWEST: Final = 6
#: Measurements from which a source has its whole weight.
WHOLE_SOURCE: Final = 20
#: Shapes of a table that are predicted for a family and a GPU.
MAX_SHAPES: Final = 2000
#: Standard deviation of the logarithm over the mean absolute error, for a normal distribution.
DEVIATION_OF_MEAN_ERROR: Final = math.sqrt(math.pi / 2)


class Residual(NamedTuple):
    """A measured time against its prediction.

    Attributes:
        family: The family of the kernel, or of the operator's longest one.
        gpu: The key of the GPU.
        ratio: Measured over predicted time.
        predicted_ns: The predicted time.
        source: "table" or "campaign".
        operator: What was measured.
    """

    family: str
    gpu: str
    ratio: float
    predicted_ns: float
    source: str
    operator: str


def campaign_residuals(gpu: str) -> Iterator[Residual]:
    """Yield the kernels of a GPU's campaign: their predictions are in its file (`tools/fold_campaign.py`).

    Times are those of a profile, where it lists all kernels of the operator: replays of short kernels have a cost of
    their own, which differs by 1 us between the two machines.
    """
    path = ROOT / "tests" / "data" / "kernel_times" / f"{CAMPAIGNS[gpu]}.json"
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        listed, predicted_ns = row.get("kernels", ()), row.get("predicted_kernels_ns")
        if predicted_ns and len(listed) == row.get("num_kernels") and row["predicted_family"] != UNMEASURED_FAMILY:
            ratio = sum(ns for _, ns in listed) / predicted_ns
            yield Residual(row["predicted_family"], gpu, ratio, predicted_ns, "campaign", row["operator"])


def table_residuals(folder: Path) -> Iterator[Residual]:
    """Yield the shapes of the tables of measured times, by the shipped constants."""
    from fit_timing import FAMILIES, Sizes

    torch.set_default_dtype(torch.float64)
    for family in FAMILIES:
        for gpu, data in family.read(folder).groupby("spec"):
            found = accuracy()[family.name]["gpus"][gpu]
            if found.get("judged_on"):
                continue  # the constants are those of the campaign
            sizes = Sizes(data.sample(min(MAX_SHAPES, len(data)), random_state=2))
            predicted = family.predict(found["constants"], rates_of(SPECS[str(gpu)], family.peak), sizes)
            ratios = sizes.time_ns / predicted
            stretch = max(1.0, found["mean_error_pct"] / 100 / float((1 / ratios - 1).abs().mean()))
            for ratio, predicted_ns in zip((ratios**stretch).tolist(), predicted.tolist(), strict=True):
                yield Residual(family.name, str(gpu), ratio, predicted_ns, "table", family.name)
    torch.set_default_dtype(torch.float32)


def learn(residuals: Iterable[Residual]) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return the ends of the bands of short and long kernels by family and GPU, with the number of measurements."""
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    table = pd.DataFrame(residuals, columns=Residual._fields)
    for (family, gpu), rows in table.groupby(["family", "gpu"]):
        is_short = rows["predicted_ns"] <= SHORT_NS
        parts = {"short": rows[is_short], "long": rows[~is_short]}
        ends = {name: _ends(part if len(part) >= FEWEST else rows) for name, part in parts.items()}
        found.setdefault(str(family), {})[str(gpu)] = ends
    return found


def _ends(rows: pd.DataFrame) -> list[float]:
    """Return the quantiles, where each source of some size has the same weight, and the number of measurements."""
    sizes = rows.groupby("source")["ratio"].transform("size")
    weights = (1 / sizes.clip(lower=WHOLE_SOURCE)).tolist()
    # Two further ones at the ends of the band without measurements, each with half of the weight of a measurement
    # of the smaller source: they widen the band of few measurements.
    prior = [math.exp(side * DEVIATIONS_OF_80_PCT * UNMEASURED) for side in (-1, 1)]
    ratios = np.array([*rows["ratio"], *prior])
    order = np.argsort(ratios)
    weights = np.array([*weights, *[max(weights) / 2] * 2])[order]
    places = (np.cumsum(weights) - weights / 2) / weights.sum()
    low, high = np.interp(QUANTILES, places, ratios[order])
    return [float(f"{low:.4f}"), float(f"{high:.4f}"), len(rows)]


def fitted_to_others() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the bands of families that were fitted to whole models or to DeepBench, from their unfitted errors."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for family, entry in accuracy().items():
        for gpu, fit in entry["gpus"].items():
            is_models = "num_models" in fit
            if not is_models and not (family.startswith("convolution") and gpu not in CAMPAIGNS):
                continue
            half_width = DEVIATIONS_OF_80_PCT * DEVIATION_OF_MEAN_ERROR * fit["mean_error_pct"] / 100
            low, high = fit.get("ratio_quantiles", (math.exp(-half_width), math.exp(half_width)))
            count = fit["num_models"] if is_models else fit["num_shapes"]
            ends = [float(f"{low:.3g}"), float(f"{high:.3g}"), count]
            found.setdefault(family, {})[gpu] = {"short": ends, "long": ends} | ({"models": True} if is_models else {})
    return found


def inside(residuals: Iterable[Residual], learned: dict[str, Any], gpu: str) -> pd.DataFrame:
    """Return the number of measurements by family, and the share inside of the bands that were learned for a GPU."""
    rows = []
    for residual in residuals:
        entry = learned.get(residual.family, {}).get(gpu)
        if entry is not None:
            low, high, _ = entry["short" if residual.predicted_ns <= SHORT_NS else "long"]
            is_inside = min(low, 1.0) <= residual.ratio <= max(high, 1.0)
            rows.append((residual.family, residual.gpu, is_inside))
    table = pd.DataFrame(rows, columns=["family", "gpu", "inside"])
    return table.groupby(["family", "gpu"])["inside"].agg(["size", "mean"]).reset_index()


def main() -> None:
    """Learn and write, or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder with the tables of measured times")
    parser.add_argument(
        "--check", action="store_true", help="print the coverage by cross-validation, and write nothing"
    )
    options = parser.parse_args()
    tables = list(table_residuals(options.folder))
    campaigns = {gpu: list(campaign_residuals(gpu)) for gpu in CAMPAIGNS}
    if options.check:
        for gpu, other in (("h100", "h200"), ("h200", "h100")):
            print(inside(campaigns[other], learn(campaigns[gpu]), gpu).to_string())
        halves = tables[::2], tables[1::2]
        learned = learn(halves[0])
        for gpu in sorted({residual.gpu for residual in tables}):
            print(inside([residual for residual in halves[1] if residual.gpu == gpu], learned, gpu).to_string())
        return
    families = fitted_to_others()
    for family, gpus in learn([*tables, *campaigns["h100"], *campaigns["h200"]]).items():
        families.setdefault(family, {}).update(gpus)
    families = {family: dict(sorted(gpus.items())) for family, gpus in sorted(families.items())}
    text = json.dumps({"written_by": "tools/fit_bands.py", "families": families}, indent=1) + "\n"
    BANDS_PATH.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
