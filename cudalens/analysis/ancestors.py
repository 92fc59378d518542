"""Looking up the call tree from many rows at once: the nearest row above that is marked, or that is still running."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_STEPS: Final = 16
"""Generations that are climbed one by one: most trees are no deeper. Deeper ones are climbed by powers of two."""


def nearest(marked: Bools, parent: Ints) -> Ints:
    """The nearest marked row at or above each row of the call tree, -1 for none; shape (n,).

    Args:
        marked: Shape (n,).
        parent: Row of the parent or -1, shape (n,). Each round doubles the distance that a row looks up.
    """
    found: Ints = np.where(marked, np.arange(len(parent)), parent)
    open_ = np.flatnonzero(~marked & (found >= 0))
    while len(open_):
        target = found[open_]
        found[open_] = np.where(marked[target], target, found[target])
        open_ = open_[(found[open_] >= 0) & ~marked[np.maximum(found[open_], 0)]]
    return found


def nearest_of(rows: Ints, marked: Bools, parent: Ints) -> Ints:
    """`nearest` of some rows only; -1 for row -1. Shape (m,)."""
    found = rows.copy()
    going = np.flatnonzero(rows >= 0)
    for _ in range(_STEPS):
        going = going[~marked[found[going]]]
        found[going] = parent[found[going]]
        going = going[found[going] >= 0]
        if not len(going):
            return found
    found[going] = nearest(marked, parent)[found[going]]
    return found


def running_at(rows: Ints, at: Ints, end: Ints, parent: Ints) -> Ints:
    """The nearest row at or above each of some rows that ends later than a time; -1 where none does. Shape (m,).

    Args:
        rows: Rows to look up from, -1 for none, shape (m,).
        at: A time for each, ns, shape (m,).
        end: End of each row of the tree, ns, shape (n,); no row ends before a row beneath it.
        parent: Row of the parent or -1, shape (n,).
    """
    found = rows.copy()
    going = np.flatnonzero(rows >= 0)
    for _ in range(_STEPS):
        going = going[end[found[going]] <= at[going]]
        found[going] = parent[found[going]]
        going = going[found[going] >= 0]
        if not len(going):
            return found
    going = going[end[found[going]] <= at[going]]
    for up in reversed(_powers(parent)):
        higher = up[found[going]]
        is_over = (higher >= 0) & (end[np.maximum(higher, 0)] <= at[going])
        found[going] = np.where(is_over, higher, found[going])
    found[going] = parent[found[going]]
    return found


def _powers(parent: Ints) -> list[Ints]:
    """The row 1, 2, 4, 8 … generations above each row, -1 where there is none, up to the deepest row's."""
    ups = [parent]
    while (up := ups[-1])[up >= 0].size:
        ups.append(np.where(up >= 0, up[np.maximum(up, 0)], -1))
    return ups[:-1]
