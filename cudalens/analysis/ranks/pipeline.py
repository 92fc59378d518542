"""Pipeline bubbles, and the load of experts."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cudalens.analysis.time.groups import share
from cudalens.frames.column_arrays import integers


def bubbles(collectives: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Time in which a pipeline stage has nothing to compute, since what it receives is not there yet.

    Args:
        collectives: As of `cudalens.analysis.ranks.waits.with_waits`.
        steps: As of `cudalens.analysis.ranks.waits.step_times`.

    Returns:
        A row per ``rank`` and ``step`` of ranks that send or receive: ``bubble_ns``, waits of its receives, at most the
        time outside of compute (int64), and ``bubble_pct`` of the step (Float64).
    """
    kinds = collectives["kind"].isin(["recv", "sendrecv"]).to_numpy(bool)
    waits = collectives[kinds & ~collectives["wait_ns"].isna().to_numpy()]
    keys = {"rank": integers(waits["rank"]), "step": integers(waits["step"])}
    waited = (
        pd.DataFrame(keys | {"bubble_ns": integers(waits["wait_ns"])}).groupby(["rank", "step"]).sum().reset_index()
    )
    found = steps.merge(waited, "inner", ["rank", "step"])
    found["bubble_ns"] = np.minimum(found["bubble_ns"], found["step_ns"] - found["compute_ns"]).clip(lower=0)
    found["bubble_pct"] = share(found["bubble_ns"], found["step_ns"])
    return found[["rank", "step", "bubble_ns", "bubble_pct"]]


def expert_load(collectives: pd.DataFrame) -> pd.DataFrame:
    """Elements that each rank sends and receives in all-to-alls, of which expert parallelism is made.

    Returns:
        A row per ``rank`` and ``step`` (int64): ``in_elements``, ``out_elements`` (int64), and ``load_pct``: received
        elements over the mean of the ranks in that step, per cent (Float64). Empty without sizes of all-to-alls.
    """
    rows = collectives[
        (collectives["kind"] == "alltoall").to_numpy(bool) & ~collectives["out_elements"].isna().to_numpy()
    ]
    names = ("rank", "step", "in_elements", "out_elements")
    frame = pd.DataFrame({name: integers(rows[name]) for name in names})
    found = frame.groupby(["rank", "step"]).sum().reset_index()
    found["load_pct"] = share(found["out_elements"], found.groupby("step")["out_elements"].transform("mean"))
    return found
