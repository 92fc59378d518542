"""`RankAnalysis`: the analyses of all ranks of a job, computed at first use; change points of the step time."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.ranks import matching, stragglers
from cudalens.analysis.ranks.replay import Graph
from cudalens.frames import Ranks
from cudalens.frames.column_arrays import Floats


class RankAnalysis:
    """The collectives, clocks, waits and stragglers of a job, from ``ranks.frames`` alone.

    Attributes:
        ranks: The job.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks

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
    def graph(self) -> Graph:
        """The dependencies of the job, to replay."""
        return Graph(self.ranks.frames["stretches"], self._matched, self.clocks)

    @cached_property
    def stragglers(self) -> stragglers.Stragglers:
        """What slow ranks, stages and links cost the job."""
        frames, work = self.ranks.frames, self.ranks.frames["work"]
        if "slowed_ns" not in work:  # read from a store that an earlier version wrote
            work = work.assign(slowed_ns=0)
        return stragglers.stragglers(self.graph, work, self.collectives, frames["summary"])

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
