"""Reduce the Trace of one rank to small frames, and join those of all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import pandas as pd

from cudalens.analysis.findings import Finding, found_in
from cudalens.analysis.ranks.matching import communication
from cudalens.analysis.ranks.rank_work import is_on_host, rank_work, stretches
from cudalens.analysis.summary import memory_peaks, step_rows, wall_ns
from cudalens.analysis.time.overlap import breakdown_of, kernel_breakdown, op_breakdown
from cudalens.frames import Ranks, RunInfo, Trace
from cudalens.frames.column_arrays import integers, masked, text_column
from cudalens.frames.rank_store import joined


@dataclass(frozen=True)
class Reduction:
    """What is kept of the Trace of one rank.

    Attributes:
        rank: The rank.
        info: Its run info.
        frames: The frames of `Ranks.frames`, without the column ``rank``.
    """

    rank: int
    info: RunInfo
    frames: Mapping[str, pd.DataFrame]


def reduce_rank(trace: Trace, rank: int) -> Reduction:
    """Return the frames of `Ranks.frames` for one rank."""
    comm = communication(trace)
    pieces, work = stretches(trace, comm)
    frames = {
        "summary": _summary(trace),
        "steps": _steps(trace),
        "kernels": kernel_breakdown(trace),
        "operators": op_breakdown(trace),
        "collectives": comm,
        "stretches": pieces,
        "work": work,
        "findings": _findings(found_in(trace)),
    }
    return Reduction(rank, trace.info, frames)


def join(reductions: Mapping[int, Reduction]) -> dict[str, pd.DataFrame]:
    """Return the frames of `Ranks.frames` from those of each rank, in order of rank."""
    ordered = [reductions[rank] for rank in sorted(reductions)]
    names = ordered[0].frames if ordered else ()
    return {name: joined({one.rank: one.frames[name] for one in ordered}) for name in names}


def reduce_ranks(ranks: Ranks) -> dict[str, pd.DataFrame]:
    """Return the frames of `Ranks.frames`, from the traces."""
    return join({rank: reduce_rank(trace, rank) for rank, trace in ranks.items()})


def _summary(trace: Trace) -> pd.DataFrame:
    """One row: what ran where, how long, and how far it can be trusted."""
    info = trace.info
    whole = breakdown_of(trace, rank_work(trace))
    busy = -1 if is_on_host(trace) else int(whole["busy_ns"].iloc[0])
    times = {name: int(whole[name].iloc[0]) if len(whole) else -1 for name in ("span_ns", "comp_ns", "comm_ns")}
    row = {
        "host": info.host,
        "gpu": info.devices[0].name if info.devices else None,
        "trust": info.trust.verdict if info.trust else None,
    }
    clocks = trace.metrics["clock_mhz"].dropna()
    numbers = {
        "num_events": len(trace),
        "started_ns": -1 if info.started_ns is None else info.started_ns,
        "wall_ns": wall_ns(trace),
        "num_steps": len(step_rows(trace)),
        "busy_ns": busy,
        **times,
        "peak_bytes": max((memory_peaks(trace.memory) or {}).values(), default=-1),
        "num_problems": sum(problem.count for problem in info.problems),
        "clock_mhz": (int(clocks.median()) if len(clocks) else -1),
    }
    texts = {name: text_column([value]) for name, value in row.items()}
    return pd.DataFrame(texts | {name: masked(pd.array([value]).to_numpy("int64")) for name, value in numbers.items()})


def _steps(trace: Trace) -> pd.DataFrame:
    """`temporal_breakdown` of `rank_work` by step, with the start and the duration of the step's range on the host."""
    events = trace.events
    found = breakdown_of(trace, rank_work(trace), "step")
    rows = step_rows(trace)
    host = pd.DataFrame(
        {
            "step": masked(integers(events["step"].array[rows])),
            "ts": masked(events["ts"].to_numpy()[rows]),
            "dur": masked(events["dur"].to_numpy()[rows]),
        }
    ).drop_duplicates("step")
    merged: pd.DataFrame = found.merge(host, "outer", "step")
    return merged.astype({name: "Int64" for name in merged if merged[name].dtype.kind in "if" and "pct" not in name})


def _findings(found: tuple[Finding, ...]) -> pd.DataFrame:
    """Return a row per finding; ``json`` has all of it."""
    columns = {name: text_column(getattr(one, name) for one in found) for name in ("rule", "title", "place")}
    columns["json"] = text_column(msgspec.json.encode(one).decode() for one in found)
    return pd.DataFrame(columns)
