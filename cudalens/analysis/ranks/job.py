"""Reduce the Trace of each rank to small frames; `RankAnalysis`: the analyses of all ranks, computed at first use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np
import pandas as pd

from cudalens.analysis.findings import Finding, found_in
from cudalens.analysis.ranks import matching, stragglers
from cudalens.analysis.ranks.job_graph import JobGraph
from cudalens.analysis.ranks.matching import communication
from cudalens.analysis.ranks.rank_work import is_on_host, rank_work, stretches
from cudalens.analysis.summary import memory_peaks, step_rows, wall_ns
from cudalens.analysis.time.overlap import breakdown_of, kernel_breakdown, op_breakdown
from cudalens.frames import Ranks, RunInfo, Trace
from cudalens.frames.column_arrays import Floats, integers, masked, text_column
from cudalens.frames.rank_store import joined


class RankAnalysis:
    """The collectives, clocks, waits and stragglers of a job, from ``ranks.frames`` alone.

    Attributes:
        ranks: The job.
        step_ns: Time of a step if it is known, as that of a simulated job is; None: that of all recorded work, divided
            by the number of steps.
    """

    def __init__(self, ranks: Ranks, step_ns: float | None = None) -> None:
        self.ranks, self.step_ns = ranks, step_ns

    @cached_property
    def _matched(self) -> pd.DataFrame:
        return matching.matched_collectives(self.ranks)

    @cached_property
    def clocks(self) -> pd.DataFrame:
        """Offset and drift of each rank's clock, as `cudalens.analysis.ranks.matching.clock_offsets` defines them."""
        return matching.clock_offsets(self._matched, np.array(list(self.ranks), np.int64))

    @cached_property
    def collectives(self) -> pd.DataFrame:
        """Every communication kernel: its match, arrival, wait, transfer and bandwidth.

        Columns as of `cudalens.analysis.ranks.matching.communication`, `matching.matched_collectives` and
        `waits.with_waits`.
        """
        return matching.with_waits(self._matched, self.clocks)

    @cached_property
    def steps(self) -> pd.DataFrame:
        """Compute, wait, transfer and idle time of each rank and step, as `waits.step_times` defines them."""
        return matching.step_times(self.ranks.frames["steps"], self.collectives)

    @cached_property
    def graph(self) -> JobGraph:
        """The dependencies of the job, to replay."""
        return JobGraph(self.ranks.frames["stretches"], self._matched, self.clocks)

    @cached_property
    def stragglers(self) -> stragglers.Stragglers:
        """What slow ranks, stages and links cost the job."""
        frames, work = self.ranks.frames, self.ranks.frames["work"]
        if "slowed_ns" not in work:  # read from a store that an earlier version wrote
            work = work.assign(slowed_ns=0)
        return stragglers.stragglers(self.graph, work, self.collectives, frames["summary"], self.step_ns)

    @cached_property
    def changes(self) -> pd.DataFrame:
        """Steps at which the time of a step changes, as `changes.change_points` defines them."""
        return change_points(self.steps)

    @cached_property
    def bubbles(self) -> pd.DataFrame:
        """Time of each rank and step in which a pipeline stage waits for another, as `pipeline.bubbles` defines it."""
        return matching.bubbles(self.collectives, self.steps)

    @cached_property
    def experts(self) -> pd.DataFrame:
        """Tokens of each rank in all-to-alls, as `pipeline.expert_load` defines them."""
        return matching.expert_load(self.collectives)


_MIN_STEPS: Final = 4
_LEAST_CHANGE: Final = 0.03


def change_points(steps: pd.DataFrame) -> pd.DataFrame:
    """Return where the median step time of the ranks changes for good (binary segmentation with a BIC penalty).

    Args:
        steps: As of `cudalens.analysis.ranks.matching.step_times`.

    Returns:
        A row per change: ``step``, the first step after it (int64); ``before_ns``, ``after_ns``, mean step time of the
        segments on both sides (float64). Segments have at least 4 steps; changes below 3 % are left out.
    """
    by_step = steps.groupby("step")["step_ns"].median()
    values, numbers = by_step.to_numpy(np.float64), by_step.index.to_numpy()
    cuts = sorted(_cuts(values, 0, len(values), _noise(values)))
    ends = [0, *cuts, len(values)]
    means = [float(values[a:b].mean()) for a, b in pairwise(ends)] if len(values) else []
    rows = [(int(numbers[cut]), means[k], means[k + 1]) for k, cut in enumerate(cuts)]
    rows = [row for row in rows if abs(row[2] - row[1]) >= _LEAST_CHANGE * row[1]]
    return pd.DataFrame(rows, columns=["step", "before_ns", "after_ns"]).astype({"step": "int64"})


def _noise(values: Floats) -> float:
    """Standard deviation of one step, from differences of neighbours, which a change moves once only."""
    if len(values) < 2:
        return 0.0
    usual = float(np.median(np.abs(np.diff(values))))
    return max(1.4826 / 2**0.5 * usual, 1e-3 * float(np.median(values)))


def _cuts(values: Floats, begin: int, end: int, noise: float) -> list[int]:
    n = end - begin
    if n < 2 * _MIN_STEPS or not noise:
        return []
    part = values[begin:end]
    total = np.cumsum(part)
    k = np.arange(_MIN_STEPS, n - _MIN_STEPS + 1)
    left, right = total[k - 1] / k, (total[-1] - total[k - 1]) / (n - k)
    gain = (left - right) ** 2 * k * (n - k) / n / noise**2
    best = int(np.argmax(gain))
    if gain[best] < 3 * np.log(n) + 6:
        return []
    cut = begin + int(k[best])
    return [*_cuts(values, begin, cut, noise), cut, *_cuts(values, cut, end, noise)]


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
