"""The use of allocations that are freed before the end of a history, by their call stacks."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from cudalens.frames import Trace
from cudalens.frames.column_arrays import integers
from cudalens.frames.column_catalog import BLOCK_CATEGORIES
from cudalens.frames.snapshots.categories import stack_marks

#: Marks of a stack and the category of its released blocks, strongest first.
_OF_RELEASED: Final = (
    ("workspace", "workspace"),
    ("accumulates", "gradient"),
    ("state", "optimizer state"),
    ("optimizer", "temporary"),
    ("loads", "input"),
    ("calls", "activation"),
    ("builds", "parameter"),
)


def lifetime_categories(trace: Trace, lifetimes: pd.DataFrame) -> pd.Series:
    """Return the category of each allocation.

    An allocation that is alive at the end has the category of its block. The category of a freed one is inferred from
    its stack: a gradient that autograd accumulated, an activation, an input, a parameter, optimizer state, or temporary
    memory of a step. It is unknown for what a backward allocated and released.

    Args:
        trace: The Trace of the allocations.
        lifetimes: Its `block_lifetimes` or `blocks_at`: ``block``, ``stack``, ``pool_id_first``.

    Returns:
        Texts of `BLOCK_CATEGORIES`, missing if unknown; with the index of `lifetimes`.
    """
    marks = stack_marks(trace.stacks)
    of_stack = {number: next((c for m, c in _OF_RELEASED if m in mark), None) for number, mark in marks.items()}
    found = lifetimes["stack"].astype(object).map(of_stack).astype(object)
    values = found.mask(integers(lifetimes["pool_id_first"], 0) != 0, "graph pool").to_numpy(dtype=object).copy()
    is_alive = lifetimes["block"].notna().to_numpy()
    own = trace.blocks["category"].astype(object).to_numpy()
    values[is_alive] = own[integers(lifetimes["block"])[is_alive]]
    categories = pd.CategoricalDtype(BLOCK_CATEGORIES)
    return pd.Series(pd.Categorical(np.where(pd.isna(values), None, values), dtype=categories), index=lifetimes.index)
