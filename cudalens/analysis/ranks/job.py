"""`RankAnalysis`: the analyses of all ranks of a job; each result is computed at first use."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pandas as pd

from cudalens.analysis.ranks import changes, clocks, matching, stragglers, waits
from cudalens.analysis.ranks.replay import Graph
from cudalens.frames import Ranks


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
        """Offset and drift of each rank's clock, as `cudalens.analysis.ranks.clocks.clock_offsets` defines them."""
        return clocks.clock_offsets(self._matched, np.array(list(self.ranks), np.int64))

    @cached_property
    def collectives(self) -> pd.DataFrame:
        """Every communication kernel: its match, arrival, wait, transfer and bandwidth.

        Columns as of `cudalens.analysis.ranks.matching.communication`, `matching.matched_collectives` and
        `waits.with_waits`.
        """
        return waits.with_waits(self._matched, self.clocks)

    @cached_property
    def steps(self) -> pd.DataFrame:
        """Compute, wait, transfer and idle time of each rank and step, as `waits.step_times` defines them."""
        return waits.step_times(self.ranks.frames["steps"], self.collectives)

    @cached_property
    def graph(self) -> Graph:
        """The dependencies of the job, to replay."""
        return Graph(self.ranks.frames["stretches"], self._matched, self.clocks)

    @cached_property
    def stragglers(self) -> stragglers.Stragglers:
        """What slow ranks, stages and links cost the job."""
        frames = self.ranks.frames
        return stragglers.stragglers(self.graph, frames["work"], self.collectives, frames["summary"])

    @cached_property
    def changes(self) -> pd.DataFrame:
        """Steps at which the time of a step changes, as `changes.change_points` defines them."""
        return changes.change_points(self.steps)

    @cached_property
    def bubbles(self) -> pd.DataFrame:
        """Time of each rank and step in which a pipeline stage waits for another, as `pipeline.bubbles` defines it."""
        return waits.bubbles(self.collectives, self.steps)

    @cached_property
    def experts(self) -> pd.DataFrame:
        """Tokens of each rank in all-to-alls, as `pipeline.expert_load` defines them."""
        return waits.expert_load(self.collectives)
