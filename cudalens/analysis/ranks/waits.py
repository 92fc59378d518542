"""Who waits for whom: arrival, wait and transfer of each collective, and the parts of each step."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cudalens.analysis.ranks.clocks import aligned
from cudalens.analysis.time.groups import measured, share
from cudalens.analysis.time.overlap import bus_factors
from cudalens.frames.column_arrays import combined, integers


def with_waits(matched: pd.DataFrame, clocks: pd.DataFrame) -> pd.DataFrame:
    """`matched` with arrivals, waits and transfers.

    Returns:
        The frame with further columns; times on the clock of the first rank, within ``uncertainty_ns`` of it.
        ``arrival_ns``: start of the kernel (int64). ``wait_ns``: until the last rank of the collective arrived;
        ``transfer_ns``: from that arrival to the end (Int64, ``<NA>`` for a row without a counterpart). ``is_last``
        (bool). ``algorithm_bytes_per_s`` and ``bus_bytes_per_s``: as of `cudalens.analysis.collectives`, but over the
        transfer alone (Float64). ``uncertainty_ns`` (Float64).
    """
    frame = matched.copy(deep=False)
    arrival = aligned(frame, clocks)
    end = arrival + frame["dur"].to_numpy(np.int64)
    match = frame["match"].to_numpy()
    known = match >= 0
    last = np.full(int(match.max(initial=-1)) + 2, np.iinfo(np.int64).min)
    np.maximum.at(last, match, arrival)
    wait = np.where(known, last[match] - arrival, 0)
    transfer = np.where(known, np.clip(end - last[match], 0, frame["dur"].to_numpy(np.int64)), 0)
    size = integers(frame["num_bytes"])
    speed = np.divide(size, transfer / 1e9, out=np.full(len(frame), np.nan), where=known & (size >= 0) & (transfer > 0))
    frame["arrival_ns"] = arrival
    frame["wait_ns"] = pd.array(np.where(known, wait, 0), "Int64")
    frame["transfer_ns"] = pd.array(transfer, "Int64")
    frame.loc[~known, ["wait_ns", "transfer_ns"]] = pd.NA
    frame["is_last"] = known & (wait == 0)
    frame["algorithm_bytes_per_s"] = measured(speed)
    frame["bus_bytes_per_s"] = measured(speed * bus_factors(frame["kind"].array, integers(frame["group_size"])))
    uncertainty = clocks["uncertainty_ns"].array
    frame["uncertainty_ns"] = uncertainty[np.searchsorted(clocks["rank"].to_numpy(), integers(frame["rank"]))]
    return frame


def step_times(steps: pd.DataFrame, waits: pd.DataFrame) -> pd.DataFrame:
    """Return the parts of each step of each rank.

    Returns:
        A row per ``rank`` and ``step``: ``step_ns``, length of the step on the host, else of its device work;
        ``compute_ns``; of the communication outside of compute ``wait_ns``, at most the waits of the step's
        collectives, and ``transfer_ns``, the rest; ``idle_ns``: the rest of the step (int64).
    """
    steps = steps.dropna(subset=["step"])
    rank, step = integers(steps["rank"]), integers(steps["step"])
    keys = combined(np.append(rank, integers(waits["rank"])), np.append(step, integers(waits["step"])))
    mine, theirs = keys[: len(steps)], keys[len(steps) :]
    waited = np.zeros(int(keys.max(initial=-1)) + 1, np.int64)
    np.add.at(waited, theirs, waits["wait_ns"].fillna(0).to_numpy(np.int64))
    exposed, compute = integers(steps["exposed_comm_ns"], 0), integers(steps["comp_ns"], 0)
    wait = np.minimum(waited[mine], exposed)
    length = np.where(steps["dur"].isna(), integers(steps["span_ns"], 0), integers(steps["dur"], 0))
    return pd.DataFrame(
        {
            "rank": rank,
            "step": step,
            "step_ns": length,
            "compute_ns": compute,
            "wait_ns": wait,
            "transfer_ns": exposed - wait,
            "idle_ns": np.maximum(length - compute - exposed, 0),
        }
    )


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
