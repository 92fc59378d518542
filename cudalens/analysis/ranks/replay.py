"""Replay the dependency graph of a job with other durations: what each rank, stage or operator costs it.

Nodes are the stretches of compute of each rank, and the arrival, meeting and end of each communication. A stretch
follows the one before it and the communication that it waited for; a collective ends its transfer time after its last
arrival. With the recorded durations the replay gives the recorded times exactly. The method is that of "Understanding
Stragglers in Large Model Training Using What-if Analysis" (arXiv 2505.05713).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.ranks.clocks import aligned
from cudalens.frames.column_arrays import Ints, integers

Floats = NDArray[np.float64]
_BATCH = 16


@dataclass(frozen=True)
class _Level:
    """Nodes that depend on earlier levels only.

    Attributes:
        nodes: Nodes with at most two predecessors, shape (n,).
        before: Their predecessors; the last node of the graph for none. Shape (n, 2).
        meets: Meetings, shape (m,).
        arrivals: The arrivals of these, one after the other.
        starts: Where those of each begin in `arrivals`, shape (m,).
    """

    nodes: Ints
    before: Ints
    meets: Ints
    arrivals: Ints
    starts: Ints


class Graph:
    """The dependencies of a job.

    Attributes:
        num_stretches: Stretches of all ranks; they are the first nodes, in order of rank and time.
        rank: The rank of each stretch.
        begins_ns: First start of all, on the aligned clock.
        is_consistent: Whether the dependencies have no loop; wrong matches make some.
    """

    def __init__(self, pieces: pd.DataFrame, comm: pd.DataFrame, clocks: pd.DataFrame) -> None:
        """Build the graph.

        Args:
            pieces: The stretches of all ranks.
            comm: As of `matched_collectives`, in order of rank.
            clocks: As of `clock_offsets`.
        """
        self.num_stretches, self._num_comm = len(pieces), len(comm)
        self.rank = integers(pieces["rank"])
        start = aligned(pieces.rename(columns={"start_ns": "ts"}), clocks)
        end = start + (pieces["end_ns"] - pieces["start_ns"]).to_numpy(np.int64)
        begin = aligned(comm, clocks)
        stop = begin + comm["dur"].to_numpy(np.int64)
        self.begins_ns = int(min(start.min(initial=np.iinfo(np.int64).max), begin.min(initial=np.iinfo(np.int64).max)))
        self._link(pieces, comm)
        last = np.full(self._num_meets, np.iinfo(np.int64).min)
        np.maximum.at(last, self._meet_of[self._meet_of >= 0], begin[self._meet_of >= 0])
        times = np.concatenate([end, begin, stop, last, [0]]) - self.begins_ns
        self.times: Floats = times.astype(np.float64)
        self.weights = self._weights(np.concatenate([start, begin]) - self.begins_ns)
        self._levels = self._sorted()

    def _link(self, pieces: pd.DataFrame, comm: pd.DataFrame) -> None:
        """Two predecessors of every node but meetings; -1 is the last node, which is no node."""
        p, c = self.num_stretches, self._num_comm
        piece_rank, comm_rank = self.rank, integers(comm["rank"])
        match = comm["match"].to_numpy()
        known, meet = np.unique(match[match >= 0], return_inverse=True)
        self._num_meets = len(known)
        self._meet_of = np.full(c, -1, np.int64)
        self._meet_of[match >= 0] = meet
        total = p + 2 * c + len(known)
        before = np.full((total + 1, 2), total, np.int64)
        same = np.flatnonzero(piece_rank[1:] == piece_rank[:-1]) + 1
        before[same, 0] = same - 1
        waits = pieces["waits_for"].to_numpy()
        has = np.flatnonzero(waits >= 0)
        before[has, 1] = p + c + np.searchsorted(comm_rank, piece_rank[has]) + waits[has]
        after, after_comm = comm["after"].to_numpy(), comm["after_comm"].to_numpy()
        has = np.flatnonzero(after >= 0)
        before[p + has, 0] = np.searchsorted(piece_rank, comm_rank[has]) + after[has]
        has = np.flatnonzero(after_comm >= 0)
        before[p + has, 1] = p + c + np.searchsorted(comm_rank, comm_rank[has]) + after_comm[has]
        ends = np.arange(c)
        before[p + c + ends, 0] = np.where(self._meet_of >= 0, p + 2 * c + self._meet_of, p + ends)
        self._before = before
        self._total = total

    def _weights(self, sources: Ints) -> Floats:
        """Time of each node after its latest predecessor; for a node without one, its duration from its start."""
        known = np.append(self.times[:-1], -np.inf)
        ready = known[self._before].max(axis=1)
        self._source = np.flatnonzero(np.isneginf(ready)[:-1])
        self._source = self._source[self._source < self.num_stretches + self._num_comm]
        self._source_ns = sources[self._source].astype(np.float64)
        ready[self._source] = self._source_ns
        ready[self.num_stretches + 2 * self._num_comm :] = 0
        weights: Floats = self.times - ready
        weights[self.num_stretches + 2 * self._num_comm :] = 0
        return weights

    def _sorted(self) -> list[_Level]:
        p, c = self.num_stretches, self._num_comm
        meets = self._meet_of >= 0
        child = np.concatenate([np.repeat(np.arange(self._total), 2), p + 2 * c + self._meet_of[meets]])
        parent = np.concatenate([self._before[:-1].ravel(), p + np.flatnonzero(meets)])
        child, parent = child[parent < self._total], parent[parent < self._total]
        order = np.argsort(parent, kind="stable")
        children, first = child[order], np.searchsorted(parent[order], np.arange(self._total + 1))
        waiting = np.bincount(child, minlength=self._total)
        by_meet = np.argsort(self._meet_of, kind="stable")
        by_meet = by_meet[np.count_nonzero(~meets) :]
        first_of = np.searchsorted(self._meet_of[by_meet], np.arange(self._num_meets + 1))
        levels, frontier, num_done = [], np.flatnonzero(waiting == 0), 0
        while len(frontier):
            num_done += len(frontier)
            levels.append(self._level(frontier, by_meet, first_of))
            nexts = children[_ranges(first[frontier], first[frontier + 1])]
            np.subtract.at(waiting, nexts, 1)
            frontier = np.unique(nexts[waiting[nexts] == 0])
        self.is_consistent = num_done == self._total
        return levels

    def _level(self, nodes: Ints, by_meet: Ints, first_of: Ints) -> _Level:
        p, c = self.num_stretches, self._num_comm
        plain, meets = nodes[nodes < p + 2 * c], nodes[nodes >= p + 2 * c]
        number = meets - p - 2 * c
        sizes = first_of[number + 1] - first_of[number]
        arrivals = p + by_meet[_ranges(first_of[number], first_of[number + 1])]
        return _Level(plain, self._before[plain], meets, arrivals, np.cumsum(sizes) - sizes)

    def makespans(self, saved: list[tuple[Ints, Floats]]) -> Floats:
        """Time of the whole job if some nodes are shorter, ns, shape (len(saved),).

        Args:
            saved: For each question the nodes, and by how much each is shorter, ns.
        """
        found = [self._makespans(saved[i : i + _BATCH]) for i in range(0, len(saved), _BATCH)]
        return np.concatenate(found) if found else np.empty(0)

    def _makespans(self, saved: list[tuple[Ints, Floats]]) -> Floats:
        weights = np.repeat(self.weights[:, None], len(saved), axis=1)
        for column, (nodes, less) in enumerate(saved):
            np.subtract.at(weights[:, column], nodes, less)
        times = np.full((self._total + 1, len(saved)), -np.inf)
        base = np.full(self._total + 1, -np.inf)
        base[self._source] = self._source_ns
        for level in self._levels:
            if len(level.nodes):
                ready = np.maximum(times[level.before[:, 0]], times[level.before[:, 1]])
                ready = np.maximum(ready, base[level.nodes][:, None])
                times[level.nodes] = ready + weights[level.nodes]
            if len(level.meets):
                times[level.meets] = np.maximum.reduceat(times[level.arrivals], level.starts, axis=0)
        return times[:-1].max(axis=0)

    def ends_of(self, comm_rows: Ints) -> Ints:
        """The nodes of the ends of these rows of the communications."""
        return self.num_stretches + self._num_comm + comm_rows


def _ranges(start: Ints, stop: Ints) -> Ints:
    """The numbers from each start to before its stop, one after the other."""
    sizes = stop - start
    total = int(sizes.sum())
    if not total:
        return np.empty(0, np.int64)
    ends = np.cumsum(sizes)
    return np.arange(total) - np.repeat(ends - sizes, sizes) + np.repeat(start, sizes)
