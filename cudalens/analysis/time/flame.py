"""Flame graphs: the call tree as rectangles, each as wide as what it cost."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.choices import invalid_choice
from cudalens.analysis.ranked import ranked
from cudalens.analysis.time.call_tree import call_tree
from cudalens.frames import Trace
from cudalens.traces.export.flame_paths import Paths, host_paths, launched_paths

Ints = NDArray[np.int64]

WEIGHTS: Final = ("host", "device")
GROUPINGS: Final = ("tree", "stack", "module")


@ranked
def flame_graph(trace: Trace, weight: str = "host", per_thread: bool = False, by: str = "tree") -> pd.DataFrame:
    """The rectangles of a flame graph.

    Args:
        trace: Any Trace, or Ranks.
        weight: ``host`` for time on host threads, ``device`` for durations of the device work launched beneath.
        per_thread: Each host thread has rectangles of its own; else they are merged.
        by: What callers are: ``tree``, the rows that enclose a row, as `call_tree` has them; ``stack``, the recorded
            Python frames of the nearest row that has some (``function (file:line)``), outermost first, and below them
            the rows from that one on; ``module``, likewise with nn.Modules. Rows without any stand on "(no stack)",
            "(no module)", and all profiler steps are one. As `cudalens.traces` writes collapsed stacks.

    Returns:
        A row per path that has any width, a path after its parent. ``name``, ``is_device``,
        ``depth`` (0 at the bottom), ``parent`` (row of this frame, <NA> for a root), ``count``, ``self_ns`` (what
        belongs to the path alone; below 0 it counts as 0), ``start_ns`` and ``width_ns``: siblings stand side by side,
        the widest first, within their parent, whose width is its own ``self_ns`` and the widths of its children.

    Raises:
        ValueError: There is no such weight or grouping, or `per_thread` is asked for without the tree.
    """
    if weight not in WEIGHTS:
        raise invalid_choice("weight", weight, WEIGHTS)
    if by not in GROUPINGS:
        raise invalid_choice("by", by, GROUPINGS)
    if per_thread and by != "tree":
        raise ValueError(f"per_thread=True requires by='tree': a {by} has no thread")
    tree = call_tree(trace, per_thread=per_thread) if by == "tree" else _by_callers(trace, by)
    parent = tree["parent"].to_numpy(dtype=np.int64, na_value=-1)
    depth = tree["depth"].to_numpy()
    own = np.maximum(tree[f"{weight}_self_ns"].to_numpy(), 0)
    width = _widths(own, parent, depth)
    start = _starts(width, parent, depth)
    keep = np.flatnonzero(width > 0)
    place = np.full(len(tree) + 1, -1, np.int64)
    place[keep] = np.arange(len(keep))
    above = place[parent[keep]]
    return pd.DataFrame(
        {
            "name": tree["name"].array[keep],
            "is_device": tree["is_device"].to_numpy()[keep],
            "depth": depth[keep],
            "parent": pd.arrays.IntegerArray(np.maximum(above, 0), above < 0),
            "count": tree["count"].to_numpy()[keep],
            "self_ns": own[keep],
            "start_ns": start[keep],
            "width_ns": width[keep],
        }
    )


def _by_callers(trace: Trace, by: str) -> pd.DataFrame:
    """As `call_tree`, with recorded stacks or modules for callers."""
    paths = Paths()
    host = host_paths(trace, paths, by)
    num_host = len(paths)
    rows, device = launched_paths(trace, paths, host)
    known = np.flatnonzero(host >= 0)
    n, parent = len(paths), paths.parent
    host_self, device_self, depth = (np.zeros(n, np.int64) for _ in range(3))
    np.add.at(host_self, host[known], trace.events["self_dur"].to_numpy()[known])
    np.add.at(device_self, device, trace.events["dur"].to_numpy()[rows])
    at, above = np.arange(n), parent
    while (above >= 0).any():  # one generation after the other
        at, above = at[above >= 0], above[above >= 0]
        depth[at] += 1
        above = parent[above]
    is_device = np.zeros(n, bool)
    is_device[device] = True
    is_device[:num_host] = False
    return pd.DataFrame(
        {
            "name": pd.Categorical.from_codes(paths.label, categories=pd.Index(paths.labels, dtype="str")),
            "is_device": is_device,
            "depth": depth,
            "parent": pd.arrays.IntegerArray(np.maximum(parent, 0), parent < 0),
            "count": np.bincount(np.concatenate([host[known], device]), minlength=n),
            "host_self_ns": host_self,
            "device_self_ns": device_self,
        }
    )


def _widths(own: Ints, parent: Ints, depth: Ints) -> Ints:
    width = own.copy()
    for level in range(int(depth.max(initial=0)), 0, -1):
        at = np.flatnonzero(depth == level)
        child = at[parent[at] >= 0]
        np.add.at(width, parent[child], width[child])
    return width


def _starts(width: Ints, parent: Ints, depth: Ints) -> Ints:
    """Where each rectangle begins: after its wider siblings, from its parent's begin on."""
    start = np.zeros(len(width), np.int64)
    for level in range(int(depth.max(initial=0)) + 1):
        at = np.flatnonzero(depth == level)
        at = at[np.lexsort((-width[at], parent[at]))]
        before = np.cumsum(width[at]) - width[at]
        opens = np.append(True, parent[at][1:] != parent[at][:-1])[: len(at)]
        base = np.maximum.accumulate(np.where(opens, before, 0))
        start[at] = before - base + np.where(parent[at] >= 0, start[np.maximum(parent[at], 0)], 0)
    return start
