"""Compare the operators of each rank with those of its peers: the ranks that run the same program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.ranks.coverage import Coverage, shared_roles
from cudalens.analysis.time.groups import sums
from cudalens.frames.column_arrays import Ints, combined, integers

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
