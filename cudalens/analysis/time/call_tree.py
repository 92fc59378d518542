"""The call tree by paths: the number of calls of each chain of names, and its host and GPU time."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cudalens.analysis.critical_path.host import host_rows
from cudalens.analysis.ranked import ranked
from cudalens.analysis.time.averages import sums_beneath
from cudalens.analysis.time.groups import sums
from cudalens.analysis.time.work import device_work
from cudalens.frames import Trace
from cudalens.frames.column_arrays import Ints, integers, masked


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
