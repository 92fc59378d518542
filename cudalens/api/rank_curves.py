"""Modelled bandwidth of the collectives of a job, where its GPU is one of the calibrated ones."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.time.groups import measured
from cudalens.analysis.time.overlap import bus_factors
from cudalens.errors import VirtualDeviceError
from cudalens.frames import Ranks
from cudalens.frames.column_arrays import integers

#: Kinds of collectives by their names in `cudalens.virtual.collective_time`.
_NAMES: Final = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
#: GPUs of one node; times of more were not measured.
_MOST_RANKS: Final = 8
_NUM_SIZES: Final = 24


def transfer_curves(ranks: Ranks) -> pd.DataFrame:
    """Return what the collectives of `ranks` would reach on an idle node of the same GPUs, from calibrated times.

    Returns:
        For each kind and group size of 2 to 8 ranks that the job has, sizes over the range of all its messages:
        ``kind`` (category), ``group_size``, ``num_bytes`` (Int64), ``bus_bytes_per_s`` (Float64). Empty where the GPU
        is not a calibrated one, the ranks are on several hosts, or torch is not installed.
    """
    rows = [row for kind, size, low, high in _ranges(ranks) for row in _curve(ranks, kind, size, low, high)]
    frame = pd.DataFrame(rows, columns=["kind", "group_size", "num_bytes", "seconds"])
    frame = frame.astype({"kind": "category", "group_size": "Int64", "num_bytes": "Int64"})
    size = integers(frame["num_bytes"]).astype(np.float64)
    factors = bus_factors(frame["kind"].array, integers(frame["group_size"]))
    speed = size / frame["seconds"].to_numpy(np.float64) * factors if len(frame) else size
    return frame.drop(columns="seconds").assign(bus_bytes_per_s=measured(speed))


def _ranges(ranks: Ranks) -> list[tuple[str, int, int, int]]:
    """Kind and group size, with the smallest and the largest message of the job."""
    summary = ranks.frames["summary"]
    if summary["host"].nunique() > 1 or summary["gpu"].nunique() != 1:
        return []
    found = ranks.analysis.collectives
    found = found.assign(kind=found["kind"].astype(str))
    known = found[found["kind"].isin(_NAMES) & (found["group_size"] >= 2) & (found["group_size"] <= _MOST_RANKS)]
    sizes = found["num_bytes"][found["num_bytes"] > 0]
    if not len(known) or not len(sizes):
        return []
    low, high = int(sizes.min()), int(sizes.max())
    pairs = known[["kind", "group_size"]].drop_duplicates().sort_values(["kind", "group_size"])
    return [(str(kind), int(n), low, high) for kind, n in pairs.itertuples(index=False)]


def _curve(ranks: Ranks, kind: str, group_size: int, low: int, high: int) -> list[tuple[str, int, int, float]]:
    try:
        from cudalens.virtual import SPECS, collective_time  # imports torch
    except ImportError:
        return []
    gpu = ranks.frames["summary"]["gpu"].iloc[0]
    spec = next((spec for spec in SPECS.values() if spec.name == gpu), None)
    if spec is None:
        return []
    sizes = np.unique(np.geomspace(low, max(high, low + 1), _NUM_SIZES).round().astype(np.int64)).tolist()
    try:
        return [(kind, group_size, n, collective_time(spec, _NAMES[kind], group_size, n) / 1e9) for n in sizes]
    except VirtualDeviceError:  # a GPU without measured collectives
        return []
