"""Flame graphs: the call tree as rectangles whose width is their cost."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.choices import invalid_choice
from cudalens.analysis.ranked import ranked
from cudalens.analysis.time.averages import sums_beneath
from cudalens.analysis.time.call_tree import call_tree
from cudalens.analysis.time.groups import sums
from cudalens.frames import Trace
from cudalens.frames.column_arrays import Ints, integers, masked, run_starts
from cudalens.frames.tree import depths
from cudalens.traces.export.flame_paths import Paths, host_paths, launched_paths

WEIGHTS: Final = ("host", "device")
GROUPINGS: Final = ("tree", "stack", "module")


@ranked
def flame_graph(trace: Trace, weight: str = "host", per_thread: bool = False, by: str = "tree") -> pd.DataFrame:
    """The rectangles of a flame graph.

    Args:
        trace: Any Trace, or Ranks.
        weight: ``host`` for time on host threads, ``device`` for durations of the device work launched within.
        per_thread: Whether each host thread has separate rectangles; else they are merged.
        by: The callers: ``tree``, the rows that enclose a row, as in `call_tree`; ``stack``, the recorded Python frames
            of the nearest row that has a stack (``function (file:line)``), outermost first, then the rows from that row
            on; ``module``, the same with nn.Modules. Rows without any are children of "(no stack)" or "(no module)",
            and all profiler steps are one. Collapsed stacks of `cudalens.traces` have the same definition.

    Returns:
        A row per path with a width, after its parent. ``name``, ``is_device``,
        ``depth`` (0 at the bottom), ``parent`` (row of this frame, <NA> for a root), ``count``, ``self_ns`` (of the
        path itself; negative values count as 0), ``start_ns`` and ``width_ns``: siblings are side by side, the widest
        first, within their parent, whose width is its own ``self_ns`` and the widths of its children.

    Raises:
        ValueError: `weight` or `by` is unknown, or `per_thread` is set without the tree.
    """
    if weight not in WEIGHTS:
        raise invalid_choice("weight", weight, WEIGHTS)
    if by not in GROUPINGS:
        raise invalid_choice("by", by, GROUPINGS)
    if per_thread and by != "tree":
        raise ValueError(f"per_thread=True requires by='tree': a {by} has no thread")
    tree = call_tree(trace, per_thread=per_thread) if by == "tree" else _by_callers(trace, by)
    parent = integers(tree["parent"])
    depth = tree["depth"].to_numpy()
    own = np.maximum(tree[f"{weight}_self_ns"].to_numpy(), 0)
    width = sums_beneath(own, parent, depth)
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
            "parent": masked(above),
            "count": tree["count"].to_numpy()[keep],
            "self_ns": own[keep],
            "start_ns": start[keep],
            "width_ns": width[keep],
        }
    )


def _by_callers(trace: Trace, by: str) -> pd.DataFrame:
    """As `call_tree`, with recorded stacks or modules as callers."""
    paths = Paths()
    host = host_paths(trace, paths, by)
    num_host = len(paths)
    rows, device = launched_paths(trace, paths, host)
    known = np.flatnonzero(host >= 0)
    n, parent = len(paths), paths.parent
    is_device = np.zeros(n, bool)
    is_device[device] = True
    is_device[:num_host] = False
    return pd.DataFrame(
        {
            "name": pd.Categorical.from_codes(paths.label, categories=pd.Index(paths.labels, dtype="str")),
            "is_device": is_device,
            "depth": depths(parent),
            "parent": masked(parent),
            "count": np.bincount(np.concatenate([host[known], device]), minlength=n),
            "host_self_ns": sums(trace.events["self_dur"].to_numpy()[known], host[known], n),
            "device_self_ns": sums(trace.events["dur"].to_numpy()[rows], device, n),
        }
    )


def _starts(width: Ints, parent: Ints, depth: Ints) -> Ints:
    """Start of each rectangle: after its wider siblings, from its parent's start on."""
    start = np.zeros(len(width), np.int64)
    for level in range(int(depth.max(initial=0)) + 1):
        at = np.flatnonzero(depth == level)
        at = at[np.lexsort((-width[at], parent[at]))]
        before = np.cumsum(width[at]) - width[at]
        base = np.maximum.accumulate(np.where(run_starts(parent[at]), before, 0))
        start[at] = before - base + np.where(parent[at] >= 0, start[np.maximum(parent[at], 0)], 0)
    return start
