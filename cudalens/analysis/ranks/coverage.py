"""Which part of each step each rank recorded: recordings begin and end at different times, and files are cut off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from cudalens.frames.column_arrays import Bools, Ints, combined, integers

#: In place of a number of communications: the whole step.
_WHOLE_STEP: Final = np.iinfo(np.int64).max


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
        """Compare the steps of all ranks.

        Args:
            work: ``work`` of `Ranks.frames`.
            matched: The communications, as of `matched_collectives`.
            ranks: The ranks, ascending.
            role: The program of each rank, as of `roles`.
        """
        offsets = step_number_offsets(matched, ranks.tolist())
        offset_of_rank = np.array([offsets[rank] for rank in ranks.tolist()], np.int64)

        # One array for both frames: rows of the work, then communications. A rank is its position in `ranks`.
        rank = np.searchsorted(ranks, np.concatenate([integers(work["rank"]), integers(matched["rank"])]))
        number = np.concatenate([integers(work["step"]), integers(matched["step"])])
        step = number - offset_of_rank[rank]
        earliest = int(step[number >= 0].min(initial=0))  # below 0 if a rank recorded steps before the first rank did
        step = np.where(number >= 0, step - earliest, -1)
        is_work = np.arange(len(step)) < len(work)

        self.step = step[is_work]
        self.place = _communications_before(work, matched, combined(rank, step))
        steps, column = np.unique(step, return_inverse=True)
        self._column = column[is_work]

        num_communications = np.zeros((len(ranks), len(steps)), np.int64)
        np.add.at(num_communications, (rank[~is_work], column[~is_work]), 1)
        has_work = np.zeros(num_communications.shape, bool)
        has_work[rank[is_work], self._column] = True
        if (steps >= 0).any():
            has_work[:, steps < 0] = False
        #: How many communications of each step each rank covers, shape (ranks, steps).
        self._limit = _covered_communications(num_communications, has_work, shared_roles(role))

    @property
    def num_steps(self) -> int:
        """Number of steps that any rank recorded, at least 1."""
        return max(len(np.unique(self.step[self.step >= 0])), 1)

    @property
    def in_all(self) -> Bools:
        """Whether all ranks recorded the whole step of each row."""
        return (self._limit == _WHOLE_STEP).all(axis=0)[self._column]

    def has(self, members: Ints, rows: Ints, place: Ints) -> Bools:
        """Return whether each of `members` (positions of ranks) recorded the part of these rows.

        Returns:
            Shape (rows, members).
        """
        return place[rows][:, None] < self._limit[members][:, self._column[rows]].T


def shared_roles(role: Ints) -> Ints:
    """Return `role` with -1 for all ranks that run a program of their own; they are compared with each other."""
    return np.where(np.bincount(role)[role] == 1, -1, role)


def step_number_offsets(matched: pd.DataFrame, ranks: Sequence[int]) -> dict[int, int]:
    """Return how far each rank's step numbers run ahead of the first rank's.

    Ranks start to record at different times, so the same step is number 7 on one rank and 5 on another. A communication
    that matched across ranks ran in the same step everywhere: its step numbers are compared.
    """
    matched = matched[(matched["match"] >= 0) & matched["step"].notna()]
    lowest_rank = matched.sort_values("rank").groupby("match")[["rank", "step"]].first()
    matched = matched.join(lowest_rank.add_prefix("first_"), on="match")

    offsets = dict.fromkeys(ranks, 0)
    for rank in ranks:
        shared = matched[(matched["rank"] == rank) & (matched["first_rank"] != rank)]
        if shared.empty:
            continue
        ahead = shared["step"] - shared["first_step"] + shared["first_rank"].map(offsets)
        offsets[rank] = int(ahead.mode()[0])  # the most frequent one: a single wrong match must not decide
    return offsets


def _covered_communications(num_communications: Ints, has_work: Bools, role: Ints) -> Ints:
    """Return how many communications of each step each rank covers, shape (ranks, steps)."""
    limit = np.zeros_like(num_communications)
    for program in np.unique(role[role >= 0]).tolist():
        own = num_communications[role == program]
        limit[role == program] = np.where(own == own.max(axis=0), _WHOLE_STEP, own)

    for rank in np.flatnonzero(role < 0).tolist():  # no other rank runs its program
        recorded = np.flatnonzero(has_work[rank])
        limit[rank, recorded] = _WHOLE_STEP
        ends = recorded[[0, -1]] if len(recorded) > 2 else recorded[-1:]
        usual = np.median(num_communications[rank, recorded])
        limit[rank, ends[num_communications[rank, ends] < usual]] = 0
    return np.where(has_work, limit, 0)


def _communications_before(work: pd.DataFrame, matched: pd.DataFrame, rank_step: Ints) -> Ints:
    """Return how many communications were launched in its step before each row of the work.

    ``place`` of both frames counts the communications of a rank from its start: a row with place 12, in a step whose
    first communication has place 10, came after two of them. A step without a communication begins at its first row.

    Args:
        work: The work.
        matched: The communications.
        rank_step: A number for the rank and step of each row of the work, then of each communication.
    """
    of_work, of_communication = rank_step[: len(work)], rank_step[len(work) :]
    num_groups = int(rank_step.max(initial=-1)) + 1
    place = work["place"].to_numpy()
    first_of_communications = np.full(num_groups, _WHOLE_STEP)
    np.minimum.at(first_of_communications, of_communication, matched["place"].to_numpy())
    first_of_work = np.full(num_groups, _WHOLE_STEP)
    np.minimum.at(first_of_work, of_work, place)

    has_none = first_of_communications == _WHOLE_STEP
    first = np.where(has_none, first_of_work, first_of_communications)
    return np.maximum(place - first[of_work], 0)
