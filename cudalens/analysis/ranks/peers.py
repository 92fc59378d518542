"""Compare the operators of each rank with those of its peers: the ranks that run the same program."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.time.groups import sums
from cudalens.frames.columns import Ints, combined, integers

Floats = NDArray[np.float64]


def roles(matched: pd.DataFrame, ranks: Ints) -> Ints:
    """The number of the program that each of `ranks` runs: its communications in a step, by kind and size."""
    rank, step = integers(matched["rank"]), integers(matched["step"])
    kind = matched["kind"].cat.codes.to_numpy()
    what = combined(kind, integers(matched["num_bytes"]), _direction(matched, rank))
    order = np.lexsort((matched["place"].to_numpy(), step, rank))
    programs: dict[Any, int] = {}
    found = {}
    for number in ranks.tolist():
        mine = order[rank[order] == number]
        cuts = np.flatnonzero(np.diff(step[mine])) + 1
        usual = Counter(tuple(part.tolist()) for part in np.split(what[mine], cuts)).most_common(1)
        found[number] = programs.setdefault(usual[0][0] if usual else (), len(programs))
    return np.array([found[number] for number in ranks.tolist()], np.int64)


def _direction(matched: pd.DataFrame, rank: Ints) -> Ints:
    """Whether the other rank of a send or receive is higher (1) or lower (-1); 0 if unknown."""
    src, dst = integers(matched["src_rank"]), integers(matched["dst_rank"])
    other = np.where(src == rank, dst, src)
    return np.where((src < 0) | (dst < 0), 0, np.sign(other - rank))


def with_peers(work: pd.DataFrame, ranks: Ints, role: Ints) -> pd.DataFrame:
    """`work` with the time that the peers of each rank took for the same.

    Args:
        work: ``work`` of `Ranks.frames`.
        ranks: The ranks, ascending.
        role: As of `roles`.

    Returns:
        `work` with ``peers_ns`` (float64): `work_ns` scaled by the median of the peers over the rank's own time for
        this operator in this step, between the same communications. A rank that runs a program of its own is compared
        with all others by step and operator. NaN where no peer ran the operator.
    """
    rank = np.searchsorted(ranks, integers(work["rank"]))
    sizes = np.bincount(role)
    alone = sizes[role] == 1
    role = np.where(alone, -1, role)
    key = combined(
        role[rank], work["step"].to_numpy(), _places(work, rank, alone[rank]), work["op"].cat.codes.to_numpy()
    )
    value = work["work_ns"].to_numpy(np.float64)
    ratio = np.full(len(work), np.nan)
    for number in np.unique(role).tolist():
        members = np.flatnonzero(role == number)
        rows = np.flatnonzero(role[rank] == number)
        if len(members) > 1 and len(rows):
            column = np.searchsorted(members, rank[rows])
            keys, at = np.unique(key[rows], return_inverse=True)
            table = np.zeros((len(keys), len(members)))
            np.add.at(table, (at, column), value[rows])
            peers = _medians_of_others(table)[at, column]
            own = table[at, column]
            ratio[rows] = np.divide(peers, own, out=np.full(len(rows), np.nan), where=own > 0)
    return work.assign(peers_ns=value * ratio)


def _places(work: pd.DataFrame, rank: Ints, is_alone: Any) -> Ints:
    """Communications that were launched in the step before each row; 0 for ranks without peers."""
    group = combined(rank, work["step"].to_numpy())
    first = np.full(int(group.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, group, work["place"].to_numpy())
    return np.where(is_alone, 0, work["place"].to_numpy() - first[group]) if len(work) else group


def _medians_of_others(table: Floats) -> Floats:
    """For each value the median of the other values in its row, shape (k, n), n > 1."""
    n = table.shape[1]
    order = np.argsort(table, axis=1, kind="stable")
    place = np.argsort(order, axis=1, kind="stable")
    ordered = np.take_along_axis(table, order, axis=1)
    found = np.zeros_like(table)
    for j in ((n - 2) // 2, (n - 1) // 2):
        found += np.take_along_axis(ordered, np.where(place > j, j, j + 1), axis=1) / 2
    return found


def stage_ratios(work: pd.DataFrame, ranks: Ints, role: Ints) -> Floats:
    """For each row the time of its operator in the other programs over that in its own; NaN if only in one."""
    mine = role[np.searchsorted(ranks, integers(work["rank"]))]
    op = work["op"].cat.codes.to_numpy().astype(np.int64)
    num_roles, num_ops = int(role.max(initial=0)) + 1, len(work["op"].cat.categories)
    total = sums(work["work_ns"].to_numpy(), mine * num_ops + op, num_roles * num_ops).reshape(num_roles, num_ops)
    each = total / np.bincount(role, minlength=num_roles)[:, None]
    others = np.full(each.shape, np.nan)
    for number in range(num_roles):
        rest = np.delete(each, number, axis=0)
        has = (rest > 0).any(axis=0)
        others[number, has] = np.nanmedian(np.where(rest > 0, rest, np.nan)[:, has], axis=0)
    ratio = np.divide(others, each, out=np.full(each.shape, np.nan), where=each > 0)
    found: Floats = ratio[mine, op]
    return found
