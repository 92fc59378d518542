"""The call paths of another run, for the flame graph of a page to compare with."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis.time.call_tree import call_tree
from cudalens.analysis.time.keys import step_names
from cudalens.frames import Trace
from cudalens.frames.column_arrays import Ints, integers
from cudalens.views.foreign import clean

#: More paths than this are not sent; the weights of the others count for their callers.
MAX_PATHS: Final = 4000


def baseline(trace: Trace) -> dict[str, Any]:
    """Return the largest call paths of `trace`: ``name``, and columns ``parent``, ``label`` and ``self`` of its paths.

    ``self`` has the time of each path itself, ns: ``host`` and ``device``. A path is after its parent.
    """
    tree = call_tree(trace)
    parent = integers(tree["parent"])
    kept = _largest(tree)
    place = np.cumsum(kept) - 1
    up = np.where(kept, np.arange(len(tree)), parent)
    for _ in range(int(tree["depth"].max()) if len(tree) else 0):
        up = np.where((up >= 0) & ~kept[up], parent[up], up)
    self_ns = {side: _moved(tree[f"{side}_self_ns"].to_numpy(), up, len(tree))[kept] for side in ("host", "device")}
    above = parent[kept]
    codes, texts = step_names(tree["name"].array)
    return {
        "name": clean(trace.info.name, 60),
        "parent": np.where(above >= 0, place[above], -1).tolist(),
        "label": [clean(texts[code], 400) for code in codes[kept].tolist()],
        "self": {side: values.tolist() for side, values in self_ns.items()},
    }


def _largest(tree: pd.DataFrame) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return the paths with the largest totals; a caller's total is never smaller than that of its callees."""
    share = np.zeros(len(tree))
    for side in ("host", "device"):
        total = np.maximum(tree[f"{side}_total_ns"].to_numpy(), 0)
        share = np.maximum(share, total / max(int(total.max(initial=0)), 1))
    kept = np.zeros(len(tree), bool)
    order = np.lexsort((np.arange(len(tree)), -share))
    kept[order[:MAX_PATHS]] = True
    parent = integers(tree["parent"])
    for row in np.flatnonzero(kept & (parent >= 0)).tolist():  # a parent is before its children
        kept[row] = kept[parent[row]]
    return kept


def _moved(values: Ints, target: Ints, n: int) -> Ints:
    """Return the sum of `values` at each target; those without one are left out."""
    known = target >= 0
    return np.bincount(target[known], np.maximum(values[known], 0), n).astype(np.int64)
