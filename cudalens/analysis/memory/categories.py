"""What allocations were for that are gone by the end of a history, as far as their call stacks tell."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.memory.replay import plain
from cudalens.frames import Trace
from cudalens.frames.catalog import BLOCK_CATEGORIES
from cudalens.frames.snapshots.categories import stack_marks

#: Marks of a stack and what they tell of a block that was released, the strongest first.
_OF_RELEASED: Final = (
    ("workspace", "workspace"),
    ("accumulates", "gradient"),
    ("state", "optimizer state"),
    ("optimizer", "temporary"),
    ("loads", "input"),
    ("calls", "activation"),
    ("builds", "parameter"),
)


def life_categories(trace: Trace, lives: pd.DataFrame) -> pd.Series:
    """The category of each allocation.

    One that was alive at the end has the category of its block. Of one that is gone, the stack tells whether it was a
    gradient that autograd accumulated, an activation, an input, a parameter, optimizer state or a temporary of a step;
    what a backward allocated and released may be the gradient of anything, and is not told apart.

    Args:
        trace: Of the allocations.
        lives: Rows of `block_lifetimes` or `blocks_at` of it: ``block``, ``stack``, ``pool_id_first``.

    Returns:
        Texts of `BLOCK_CATEGORIES`, missing where it cannot be told; with the index of `lives`.
    """
    marks = stack_marks(trace.stacks)
    told = {number: next((c for m, c in _OF_RELEASED if m in mark), None) for number, mark in marks.items()}
    found = lives["stack"].astype(object).map(told).astype(object)
    found = found.mask((plain(lives["pool_id_first"]) != 0), "graph pool")
    is_alive = lives["block"].notna().to_numpy()
    own = trace.blocks["category"].astype(object).to_numpy()
    values = found.where(found.notna(), None).to_numpy(dtype=object).copy()
    values[is_alive] = own[plain(lives["block"])[is_alive]]
    categories = pd.CategoricalDtype(BLOCK_CATEGORIES)
    return pd.Series(pd.Categorical(np.where(pd.isna(values), None, values), dtype=categories), index=lives.index)
