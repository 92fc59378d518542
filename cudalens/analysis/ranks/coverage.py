"""Which parts of the steps each rank recorded: recordings begin and end at different times, and files are cut off."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.frames.column_arrays import Bools, Ints, combined, integers

_ALL: Final = np.iinfo(np.int64).max


class Coverage:
    """What each rank recorded of each step.

    A step is complete on a rank that has as many communications in it as any rank of the same program; on another rank
    only what the program launched before the last of them is covered. On a rank that runs a program of its own all
    steps are complete, except the first and the last one if they have fewer communications than usual. Work outside of
    steps is covered only where no rank has steps.

    Attributes:
        step: The step of each row of the work, as the first rank numbers it; -1 for none.
        place: Communications that were launched in this step before each row.
    """

    def __init__(self, work: pd.DataFrame, matched: pd.DataFrame, ranks: Ints, role: Ints) -> None:
        shifts = _shifts(matched, ranks)
        rank = np.searchsorted(ranks, integers(work["rank"]))
        of_comm = np.searchsorted(ranks, integers(matched["rank"]))
        self.step = _shifted(work["step"].to_numpy(), shifts[rank])
        comm_step = _shifted(integers(matched["step"]), shifts[of_comm])
        self.place = _places(work, rank, self.step, matched, of_comm, comm_step)
        steps, at = np.unique(np.concatenate([self.step, comm_step]), return_inverse=True)
        self._at = at[: len(work)]
        count = np.zeros((len(ranks), len(steps)), np.int64)
        np.add.at(count, (of_comm, at[len(work) :]), 1)
        recorded = np.zeros(count.shape, bool)
        recorded[rank, self._at] = True
        if (steps >= 0).any():
            recorded[:, steps < 0] = False
        self._limit = _limits(count, recorded, shared_roles(role))

    @property
    def num_steps(self) -> int:
        """Number of steps that any rank recorded, at least 1."""
        return max(len(np.unique(self.step[self.step >= 0])), 1)

    @property
    def in_all(self) -> Bools:
        """Whether all ranks recorded the whole step of each row."""
        return (self._limit == _ALL).all(axis=0)[self._at]

    def has(self, members: Ints, rows: Ints, place: Ints) -> Bools:
        """Whether each of `members` (positions of ranks) recorded the part of these rows; shape (rows, members)."""
        return place[rows][:, None] < self._limit[members][:, self._at[rows]].T


def shared_roles(role: Ints) -> Ints:
    """`role` with -1 for all ranks that run a program of their own; they are compared with each other."""
    return np.where(np.bincount(role)[role] == 1, -1, role)


def _limits(count: Ints, recorded: Bools, role: Ints) -> Ints:
    """How many communications of each step each rank covers, shape (ranks, steps)."""
    limit = np.zeros_like(count)
    for number in np.unique(role[role >= 0]).tolist():
        mine = count[role == number]
        limit[role == number] = np.where(mine == mine.max(axis=0), _ALL, mine)
    for alone in np.flatnonzero(role < 0).tolist():
        at = np.flatnonzero(recorded[alone])
        limit[alone, at] = _ALL
        ends = at[[0, -1]] if len(at) > 2 else at[-1:]
        limit[alone, ends[count[alone, ends] < np.median(count[alone, at])]] = 0
    return np.where(recorded, limit, 0)


def _shifts(matched: pd.DataFrame, ranks: Ints) -> Ints:
    """By how much the number of each rank's steps is larger than that of the first rank for the same collectives."""
    known = matched[(matched["match"] >= 0).to_numpy() & ~matched["step"].isna().to_numpy()]
    match, step, rank = known["match"].to_numpy(), integers(known["step"]), integers(known["rank"])
    order = np.lexsort((rank, match))
    first = order[np.searchsorted(match[order], match)]
    shifts = np.zeros(len(ranks), np.int64)
    for i, number in enumerate(ranks.tolist()):
        rows = np.flatnonzero((rank == number) & (rank[first] != number))
        if len(rows):
            other = np.searchsorted(ranks, rank[first[rows]])
            values, counts = np.unique(step[rows] - step[first[rows]] + shifts[other], return_counts=True)
            shifts[i] = values[np.argmax(counts)]
    return shifts


def _shifted(step: Ints, shift: Ints) -> Ints:
    lowest = int((step - shift)[step >= 0].min(initial=0))
    return np.where(step >= 0, step - shift - min(lowest, 0), -1)


def _places(work: pd.DataFrame, rank: Ints, step: Ints, matched: pd.DataFrame, of_comm: Ints, comm_step: Any) -> Ints:
    """Communications that were launched in the step before each row of the work."""
    group = combined(np.append(rank, of_comm), np.append(step, comm_step))
    mine, theirs = group[: len(work)], group[len(work) :]
    first = np.full(int(group.max(initial=-1)) + 1, _ALL)
    np.minimum.at(first, theirs, matched["place"].to_numpy())
    place = work["place"].to_numpy()
    has_none = first[mine] == _ALL
    lowest = np.full(len(first), _ALL)
    np.minimum.at(lowest, mine, place)
    return np.maximum(place - np.where(has_none, lowest[mine], first[mine]), 0)
