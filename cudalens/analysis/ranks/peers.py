"""Compare the operators of each rank with those of its peers, in the part of each step that all of them recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.time.groups import sums
from cudalens.frames.column_arrays import Bools, Ints, combined, integers

Floats = NDArray[np.float64]
#: The communications of a step, each as a number for its kind, size and direction.
_Program: TypeAlias = tuple[int, ...]


def roles(matched: pd.DataFrame, ranks: Ints) -> Ints:
    """Return the number of the program that each of `ranks` runs: its communications in a step, by kind and size.

    A rank that recorded one step at most may have recorded only the beginning of a program.
    """
    rank, step = integers(matched["rank"]), integers(matched["step"])
    kind = matched["kind"].cat.codes.to_numpy()
    what = combined(kind, integers(matched["num_bytes"]), _direction(matched, rank))
    order = np.lexsort((matched["place"].to_numpy(), step, rank))
    programs: dict[_Program, int] = {}
    found, short = {}, {}
    for number in ranks.tolist():
        mine = order[rank[order] == number]
        mine = mine[step[mine] >= 0] if (step[mine] >= 0).any() else mine
        cuts = np.flatnonzero(np.diff(step[mine])) + 1
        usual = Counter(tuple(part.tolist()) for part in np.split(what[mine], cuts)).most_common(1)
        program = usual[0][0] if usual else ()
        found[number] = programs.setdefault(program, len(programs))
        if not len(cuts):
            short[number] = program
    for number, program in short.items():
        found[number] = programs[_longest(program, programs)]
    return np.unique([found[number] for number in ranks.tolist()], return_inverse=True)[1].astype(np.int64)


def _longest(program: _Program, programs: Iterable[_Program]) -> _Program:
    """Return the longest of `programs` that begins with `program`, itself if it is empty."""
    same = (one for one in programs if one[: len(program)] == program)
    return max(same, key=len) if program else program


def _direction(matched: pd.DataFrame, rank: Ints) -> Ints:
    """Return whether the other rank of a send or receive is higher (1) or lower (-1); 0 if unknown."""
    src, dst = integers(matched["src_rank"]), integers(matched["dst_rank"])
    other = np.where(src == rank, dst, src)
    return np.where((src < 0) | (dst < 0), 0, np.sign(other - rank))


def with_peers(work: pd.DataFrame, ranks: Ints, role: Ints, covered: Coverage) -> pd.DataFrame:
    """`work` with the time that the peers of each rank took for the same.

    Args:
        work: ``work`` of `Ranks.frames`.
        ranks: The ranks, ascending.
        role: As of `roles`.
        covered: What each rank recorded.

    Returns:
        `work` with ``peers_ns`` (float64): `work_ns` scaled by the median of the peers over the rank's own time for
        this operator in this step, between the same communications. A rank that runs a program of its own is compared
        with all others by step and operator. NaN where no peer recorded this part of the step.
    """
    rank = np.searchsorted(ranks, integers(work["rank"]))
    role = shared_roles(role)
    place = np.where(role[rank] < 0, 0, covered.place)
    key = combined(role[rank], covered.step, place, work["op"].cat.codes.to_numpy())
    value = work["work_ns"].to_numpy(np.float64)
    ratio = np.full(len(work), np.nan)
    for number in np.unique(role).tolist():
        members = np.flatnonzero(role == number)
        rows = np.flatnonzero(role[rank] == number)
        if len(members) > 1 and len(rows):
            column = np.searchsorted(members, rank[rows])
            _, first, at = np.unique(key[rows], return_index=True, return_inverse=True)
            table = np.zeros((len(first), len(members)))
            np.add.at(table, (at, column), value[rows])
            table[~covered.has(members, rows[first], place)] = np.nan
            peers = _medians_of_others(table)[at, column]
            own = table[at, column]
            ratio[rows] = np.divide(peers, own, out=np.full(len(rows), np.nan), where=own > 0)
    return work.assign(peers_ns=value * ratio)


def _medians_of_others(table: Floats) -> Floats:
    """For each value the median of the other values in its row; NaN for NaN, and without others. Shape (k, n)."""
    order = np.argsort(table, axis=1, kind="stable")  # NaN last
    place = np.argsort(order, axis=1, kind="stable")
    ordered = np.take_along_axis(table, order, axis=1)
    n = np.count_nonzero(~np.isnan(table), axis=1)[:, None]
    found = np.zeros_like(table)
    for j in ((n - 2) // 2, (n - 1) // 2):
        j = np.maximum(j, 0)
        found += np.take_along_axis(ordered, np.minimum(np.where(place > j, j, j + 1), table.shape[1] - 1), axis=1) / 2
    return np.where(np.isnan(table) | (n < 2), np.nan, found)


def stage_ratios(work: pd.DataFrame, ranks: Ints, role: Ints, covered: Coverage) -> Floats:
    """For each row the time of its operator in the other programs over that in its own; NaN if only in one.

    Counts steps that all ranks recorded.
    """
    in_all = covered.in_all
    mine = role[np.searchsorted(ranks, integers(work["rank"]))]
    op = work["op"].cat.codes.to_numpy().astype(np.int64)
    num_roles, num_ops = int(role.max(initial=0)) + 1, len(work["op"].cat.categories)
    total = sums(np.where(in_all, work["work_ns"].to_numpy(), 0), mine * num_ops + op, num_roles * num_ops).reshape(
        num_roles, num_ops
    )
    each = total / np.bincount(role, minlength=num_roles)[:, None]
    others = np.full(each.shape, np.nan)
    for number in range(num_roles):
        rest = np.delete(each, number, axis=0)
        has = (rest > 0).any(axis=0)
        others[number, has] = np.nanmedian(np.where(rest > 0, rest, np.nan)[:, has], axis=0)
    ratio = np.divide(others, each, out=np.full(each.shape, np.nan), where=each > 0)
    return np.where(in_all, ratio[mine, op], np.nan)


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
