"""The call tree by paths: the number of calls of each chain of names, and its host and GPU time."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.critical_path.host import host_rows
from cudalens.analysis.ranked import ranked
from cudalens.analysis.time.averages import sums_beneath
from cudalens.analysis.time.groups import sums
from cudalens.analysis.time.work import device_work
from cudalens.errors import invalid_choice
from cudalens.frames import Trace
from cudalens.frames.column_arrays import Ints, integers, masked, run_starts
from cudalens.frames.tree import depths
from cudalens.traces.export.flame_paths import Paths, host_paths, launched_paths


@ranked
def call_tree(trace: Trace, per_thread: bool = False) -> pd.DataFrame:
    """Host events by their path, the names from the root of the call tree down, with the device work launched.

    Device work is a child of the path of the call that launched it; without a recorded launch it is a root.

    Args:
        trace: Any Trace, or Ranks.
        per_thread: Whether each host thread has separate paths; else they are merged.

    Returns:
        A row per distinct path, after its parent. ``name``, ``is_device``, ``depth`` (0 for a root),
        ``parent`` (row of this frame, <NA> for a root), ``tid`` (<NA> if merged, and for roots of device work),
        ``count`` (events), ``host_self_ns`` and ``host_total_ns`` (sums of ``self_dur`` and ``dur``),
        ``device_self_ns`` (sum of durations of device work of this path), ``device_total_ns`` (the same with all
        descendants).
    """
    events, work = trace.events, device_work(trace)
    rows = np.flatnonzero(host_rows(events))
    builder = _Builder(events, rows, per_thread)
    path = builder.host_paths()
    device = builder.device_paths(path, work.rows, work.launch)
    return builder.frame(path[rows], device, work.end - work.start)


class _Builder:
    def __init__(self, events: pd.DataFrame, rows: Ints, per_thread: bool) -> None:
        self._events, self._rows = events, rows
        self._names = events["name"].array
        self._lane: Ints = np.zeros(len(events), np.int64)
        self._tids = pd.array([None], dtype="Int64")
        if per_thread:
            self._lane, self._tids = pd.factorize(events["tid"].array, use_na_sentinel=False)
        # Of each path: its parent, the code of its name (beyond the categories for device work), its lane, its depth.
        self._parent, self._label, self._of_lane, self._depth = ([np.empty(0, np.int64)] for _ in range(4))
        self._num = 0

    def _new(self, parent: Ints, label: Ints, lane: Ints, depth: Ints) -> Ints:
        """Number the distinct (parent, label, lane); returns the number of each."""
        num_labels, num_lanes = 2 * (len(self._names.categories) + 1), max(len(self._tids), 1)
        codes, distinct = pd.factorize(((parent + 1) * num_labels + label) * num_lanes + lane)
        rest, of_lane = np.divmod(distinct, num_lanes)
        above, labels = np.divmod(rest, num_labels)
        first = np.unique(codes, return_index=True)[1]
        self._parent.append(above - 1)
        self._label.append(labels)
        self._of_lane.append(of_lane)
        self._depth.append(depth[first])
        numbers: Ints = codes + self._num
        self._num += len(distinct)
        return numbers

    def host_paths(self) -> Ints:
        """Path of each host row, one generation at a time; -1 for others, shape (n,)."""
        events, rows = self._events, self._rows
        path = np.full(len(events), -1, np.int64)
        parent = integers(events["parent"])
        depth = events["depth"].to_numpy()
        rows = rows[np.argsort(depth[rows], kind="stable")]
        for level in np.split(rows, np.flatnonzero(np.diff(depth[rows])) + 1):
            if len(level):
                up = np.where(parent[level] >= 0, path[parent[level]], -1)
                label = self._names.codes[level].astype(np.int64) + 1
                path[level] = self._new(up, label, self._lane[level].astype(np.int64), depth[level].astype(np.int64))
        return path

    def device_paths(self, path: Ints, rows: Ints, launch: Ints) -> Ints:
        """Path of each piece of device work."""
        if not len(rows):
            return rows
        up = np.where(launch >= 0, path[launch], -1)
        label = self._names.codes[rows].astype(np.int64) + 1 + len(self._names.categories) + 1
        lane = np.where(launch >= 0, self._lane[np.maximum(launch, 0)], self._lane[rows]).astype(np.int64)
        above = np.concatenate([*self._depth, np.zeros(1, np.int64)])
        return self._new(up, label, lane, np.where(up >= 0, above[up] + 1, 0))

    def frame(self, host: Ints, device: Ints, length: Ints) -> pd.DataFrame:
        n, events = self._num, self._events
        parent, label, lane, depth = (
            np.concatenate(part) for part in (self._parent, self._label, self._of_lane, self._depth)
        )
        num_names = len(self._names.categories) + 1
        is_device = label >= num_names
        host_self, host_total = (sums(events[name].to_numpy()[self._rows], host, n) for name in ("self_dur", "dur"))
        device_self = sums(length, device, n)
        return pd.DataFrame(
            {
                "name": pd.Categorical.from_codes(label % num_names - 1, categories=self._names.categories),
                "is_device": is_device,
                "depth": depth,
                "parent": masked(parent),
                "tid": self._tids.take(lane),
                "count": np.bincount(np.concatenate([host, device]), minlength=n),
                "host_self_ns": host_self,
                "host_total_ns": host_total,
                "device_self_ns": device_self,
                "device_total_ns": sums_beneath(device_self, parent, depth),
            }
        )


WEIGHTS: Final = ("host", "device")
GROUPINGS: Final = ("tree", "stack", "module")


@ranked
def flame_graph(trace: Trace, weight: str = "host", per_thread: bool = False, by: str = "tree") -> pd.DataFrame:
    """Return the rectangles of a flame graph.

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
