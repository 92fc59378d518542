"""Replay the dependency graph of a job with other durations: what each rank, stage or operator costs it.

Nodes are the stretches of compute of each rank, and the arrival, meeting and end of each communication. A stretch is
compute of one rank, with the gaps in it, until a communication can start or compute waits for one. It follows the one
before it and the communication that it waited for. A collective ends when its transfer time has passed since the last
arrival. With the recorded durations the replay gives the recorded times exactly. The method is that of "Understanding
Stragglers in Large Model Training Using What-if Analysis" (arXiv 2505.05713).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.ranks.matching import aligned
from cudalens.frames.column_arrays import Floats, Ints, integers

#: Questions that are replayed at the same time: the arrays have a column for each.
_BATCH: Final = 16


@dataclass(frozen=True)
class _Level:
    """Nodes that depend on earlier levels only.

    Attributes:
        nodes: Nodes with at most two predecessors, shape (n,).
        before: Their predecessors; the node `JobGraph.no_node` for none. Shape (n, 2).
        meets: Meetings, shape (m,).
        arrivals: The arrivals of the first meeting, then those of the second, and so on.
        starts: Where those of each meeting begin in `arrivals`, shape (m,).
    """

    nodes: Ints
    before: Ints
    meets: Ints
    arrivals: Ints
    starts: Ints


class JobGraph:
    """The dependencies of a job.

    The nodes are numbered in five blocks, one after the other:

    .. code-block:: text

        0                        stretches of compute, in order of rank and time
        first_arrival            the arrival of each rank at each communication, in order of rank
        first_end                the end of each communication on each rank, in the same order
        first_meeting            the meeting of the ranks in each matched communication, at their last arrival
        no_node                  the last node, which stands for a missing predecessor

    Attributes:
        rank: The rank of each stretch.
        times: The recorded time of each node, ns after the first one: a stretch's end, an arrival, an end, and for a
            meeting its last arrival.
        weights: Time of each node after its latest predecessor, ns; for a node without one, its duration. A meeting has
            0: it is at the latest of its arrivals. An arrival has the time from its predecessors to the start of the
            communication on its rank.
        is_consistent: Whether the dependencies have no loop; wrong matches make some.
    """

    def __init__(self, stretches: pd.DataFrame, comm: pd.DataFrame, clocks: pd.DataFrame) -> None:
        """Build the graph.

        Args:
            stretches: Of all ranks, in order of rank and time.
            comm: As of `matched_collectives`, in order of rank.
            clocks: As of `clock_offsets`.
        """
        self.rank = integers(stretches["rank"])
        match = comm["match"].to_numpy()
        is_matched = match >= 0
        matches, meeting = np.unique(match[is_matched], return_inverse=True)
        #: The number of the meeting of each communication; -1 for none.
        self._meeting = np.full(len(comm), -1, np.int64)
        self._meeting[is_matched] = meeting

        self.first_arrival = len(stretches)
        self.first_end = self.first_arrival + len(comm)
        self.first_meeting = self.first_end + len(comm)
        self.no_node = self.first_meeting + len(matches)

        stretch_start = aligned(stretches.rename(columns={"start_ns": "ts"}), clocks)
        stretch_end = stretch_start + (stretches["end_ns"] - stretches["start_ns"]).to_numpy(np.int64)
        arrival = aligned(comm, clocks)
        end = arrival + comm["dur"].to_numpy(np.int64)
        last_arrival = np.full(len(matches), np.iinfo(np.int64).min)
        np.maximum.at(last_arrival, meeting, arrival[is_matched])

        starts = np.concatenate([stretch_start, arrival])
        begin_ns = int(starts.min(initial=np.iinfo(np.int64).max))
        times = np.concatenate([stretch_end, arrival, end, last_arrival, [0]]) - begin_ns
        self.times: Floats = times.astype(np.float64)
        self._before = self._predecessors(stretches, comm)
        self._weigh(starts - begin_ns)
        self._levels, self.is_consistent = self._sort_topologically()

    def _predecessors(self, stretches: pd.DataFrame, comm: pd.DataFrame) -> Ints:
        """Return two predecessors of each node except meetings, shape (nodes + 1, 2).

        ``waits_for`` and ``after_comm`` number the communications of a rank, ``after`` its stretches: they are added to
        the first node of this rank.
        """
        stretch_rank, comm_rank = self.rank, integers(comm["rank"])
        before = np.full((self.no_node + 1, 2), self.no_node, np.int64)

        # A stretch: the previous one of its rank, and the end of the communication that it waited for.
        is_same_rank = np.flatnonzero(stretch_rank[1:] == stretch_rank[:-1]) + 1
        before[is_same_rank, 0] = is_same_rank - 1
        waits_for = stretches["waits_for"].to_numpy()
        stretch = np.flatnonzero(waits_for >= 0)
        before[stretch, 1] = self.first_end + np.searchsorted(comm_rank, stretch_rank[stretch]) + waits_for[stretch]

        # An arrival: the stretch and the communication of its rank after which it was launched.
        after, after_comm = comm["after"].to_numpy(), comm["after_comm"].to_numpy()
        row = np.flatnonzero(after >= 0)
        before[self.first_arrival + row, 0] = np.searchsorted(stretch_rank, comm_rank[row]) + after[row]
        row = np.flatnonzero(after_comm >= 0)
        before[self.first_arrival + row, 1] = (
            self.first_end + np.searchsorted(comm_rank, comm_rank[row]) + after_comm[row]
        )

        # An end: its meeting, or without a match its own arrival.
        row = np.arange(len(comm))
        before[self.first_end + row, 0] = np.where(
            self._meeting >= 0, self.first_meeting + self._meeting, self.first_arrival + row
        )
        return before

    def _weigh(self, starts: Ints) -> None:
        """Set the weights, and the sources: stretches and arrivals without a predecessor, which begin when recorded.

        Args:
            starts: The recorded start of each stretch and arrival, ns.
        """
        times = np.append(self.times[:-1], -np.inf)
        ready = times[self._before].max(axis=1)
        has_none = np.isneginf(ready[: self.first_end])
        self._sources = np.flatnonzero(has_none)
        self._source_ns = starts[self._sources].astype(np.float64)
        ready[self._sources] = self._source_ns
        ready[self.first_meeting :] = 0
        self.weights: Floats = self.times - ready
        self.weights[self.first_meeting :] = 0

    def _sort_topologically(self) -> tuple[list[_Level], bool]:
        """Return the nodes level by level, and whether all of them are in a level: a loop has none."""
        is_matched = self._meeting >= 0
        nodes = np.arange(self.no_node)
        child = np.concatenate([np.repeat(nodes, 2), self.first_meeting + self._meeting[is_matched]])
        parent = np.concatenate([self._before[:-1].ravel(), self.first_arrival + np.flatnonzero(is_matched)])
        child, parent = child[parent < self.no_node], parent[parent < self.no_node]

        # The children of node k are children[first_child[k] : first_child[k + 1]]. The arrivals of meeting m are
        # arrivals[arrivals_from[m] : arrivals_from[m + 1]].
        order = np.argsort(parent, kind="stable")
        children, first_child = child[order], np.searchsorted(parent[order], np.arange(self.no_node + 1))
        by_meeting = np.argsort(self._meeting, kind="stable")[np.count_nonzero(~is_matched) :]
        arrivals = self.first_arrival + by_meeting
        num_meetings = self.no_node - self.first_meeting
        arrivals_from = np.searchsorted(self._meeting[by_meeting], np.arange(num_meetings + 1))

        num_waiting = np.bincount(child, minlength=self.no_node)
        levels, num_done = [], 0
        ready = np.flatnonzero(num_waiting == 0)
        while len(ready):
            num_done += len(ready)
            plain, meets = ready[ready < self.first_meeting], ready[ready >= self.first_meeting]
            meeting = meets - self.first_meeting
            begin, stop = arrivals_from[meeting], arrivals_from[meeting + 1]
            starts = np.cumsum(stop - begin) - (stop - begin)
            levels.append(_Level(plain, self._before[plain], meets, arrivals[_ranges(begin, stop)], starts))

            following = children[_ranges(first_child[ready], first_child[ready + 1])]
            np.subtract.at(num_waiting, following, 1)
            ready = np.unique(following[num_waiting[following] == 0])
        return levels, num_done == self.no_node

    def makespans(self, saved: list[tuple[Ints, Floats]]) -> Floats:
        """Return the time of the whole job if some nodes are shorter, ns, shape (len(saved),).

        Args:
            saved: For each question the nodes, and by how much each is shorter, ns.
        """
        batches = [self._replay(saved[i : i + _BATCH]) for i in range(0, len(saved), _BATCH)]
        return np.concatenate(batches) if batches else np.empty(0)

    def _replay(self, saved: list[tuple[Ints, Floats]]) -> Floats:
        weights = np.repeat(self.weights[:, None], len(saved), axis=1)
        for column, (nodes, less) in enumerate(saved):
            np.subtract.at(weights[:, column], nodes, less)

        earliest = np.full(self.no_node + 1, -np.inf)
        earliest[self._sources] = self._source_ns
        times = np.full((self.no_node + 1, len(saved)), -np.inf)
        for level in self._levels:
            if len(level.nodes):
                ready = np.maximum(times[level.before[:, 0]], times[level.before[:, 1]])
                ready = np.maximum(ready, earliest[level.nodes][:, None])
                times[level.nodes] = ready + weights[level.nodes]
            if len(level.meets):
                times[level.meets] = np.maximum.reduceat(times[level.arrivals], level.starts, axis=0)
        return times[:-1].max(axis=0)

    def ends_of(self, comm_rows: Ints) -> Ints:
        """Return the nodes of the ends of these rows of the communications."""
        return self.first_end + comm_rows


def _ranges(start: Ints, stop: Ints) -> Ints:
    """Return the numbers from each start to before its stop, one after the other: [3, 8], [5, 10] give 3 4 8 9."""
    sizes = stop - start
    ends = np.cumsum(sizes)
    return np.arange(int(sizes.sum())) - np.repeat(ends - sizes, sizes) + np.repeat(start, sizes)
