"""Layer norm between two CUDA events on a virtual device, against times that were measured so: FOLDER of the tables.

NeuSight measured float32 operators between two events, so that its times include the launch. Predictions of kernels do
not. Here the virtual device runs the same calls between two events, which include its model of the launch.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
import torch
from fit_timing import NEUSIGHT_SPECS

import cudalens.virtual


def ratios(device: str, table: pd.DataFrame) -> pd.Series:
    """Predicted over measured times of layer norm, one for each row of (B, H) with its ``median_ns``."""
    found = []
    with cudalens.virtual.device(device, values=False), torch.no_grad():
        for rows, length in zip(table["B"].astype(int), table["H"].astype(int), strict=True):
            x, norm = torch.empty(rows, length, device="cuda"), torch.nn.LayerNorm(length, device="cuda")
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            begin.record()
            norm(x)
            end.record()
            end.synchronize()
            found.append(begin.elapsed_time(end) * 1e6)
    return pd.Series(found, index=table.index) / table["median_ns"]


def main() -> None:
    """Print the mean error by GPU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder of measured times")
    table = pd.read_parquet(parser.parse_args().folder / "ops_fp32.parquet")
    table = table[table["op"] == "ln"].drop_duplicates(["gpu", "B", "H"])
    for gpu, rows in table.groupby("gpu"):
        found = ratios(NEUSIGHT_SPECS[str(gpu)], rows)
        error = (found - 1).abs().mean()
        counted = f"{NEUSIGHT_SPECS[str(gpu)]:10} {len(rows):4} shapes"
        print(f"{counted}, mean error {error:.1%}, median {found.median():.2f}")


if __name__ == "__main__":
    main()
