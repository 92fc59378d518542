"""Trees of time: the call tree by paths, and the tree of nn.Modules with GPU time, FLOPs and memory at the peak."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.cached import once_per_trace, ranked
from cudalens.analysis.critical_path.dependencies import host_rows
from cudalens.analysis.event_arrays import nearest
from cudalens.analysis.time.averages import sums_beneath
from cudalens.analysis.time.groups import sums
from cudalens.analysis.time.keys import inherited, own_keys
from cudalens.analysis.time.work import device_work
from cudalens.errors import invalid_choice
from cudalens.frames import Trace
from cudalens.frames.column_arrays import Bools, Ints, integers, masked, run_starts
from cudalens.frames.tree import depths
from cudalens.traces.export.flame import Paths, host_paths, launched_paths


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


#: Deeper modules count for the one at this depth.
_MAX_DEPTH: Final = 40
#: Columns that are sums over a module and the modules within it.
SUMS: Final = ("forward_ns", "backward_ns", "host_ns", "num_works", "flops", "peak_bytes")


@once_per_trace
def module_tree(trace: Trace) -> pd.DataFrame:
    """Costs of each nn.Module with those of the modules within it.

    A row belongs to the module that `attribution` gives it: a backward row to that of its forward operator. Backward
    time is the GPU time of work that a backward row launched: a row with a ``forward`` operator, or within one.

    Returns:
        A row per module, each after the one around it, siblings by GPU time. ``path`` (names with dots), ``name``,
        ``depth``, ``parent`` (row of this frame, <NA> for a root), ``forward_ns`` and ``backward_ns`` (sums of the
        durations of device work, ns), ``host_ns`` (self time of host rows, ns), ``num_works``, ``flops`` (of its
        operators; 0 if none is known), ``flops_per_s`` (by GPU time; missing without either), ``peak_bytes`` (of
        tensors that its operators allocated and that exist at the peak of the device; 0 without recorded memory).
    """
    events, work = trace.events, device_work(trace)
    key, texts = _keys(trace)
    if not texts:
        return _frame([], {name: np.empty(0, np.int64) for name in SUMS})
    n = len(texts)
    is_backward = nearest(integers(events["forward"]) >= 0, integers(events["parent"])) >= 0
    known = work.launch >= 0
    at = np.where(known, key[work.launch], -1)
    back = known & is_backward[np.maximum(work.launch, 0)]
    length = work.end - work.start
    is_host = events["device"].isna().to_numpy() & (key >= 0) & ~events["is_instant"].to_numpy()
    host = np.flatnonzero(is_host)
    own = {
        "forward_ns": _sums(length, at, (at >= 0) & ~back, n),
        "backward_ns": _sums(length, at, (at >= 0) & back, n),
        "host_ns": sums(events["self_dur"].to_numpy()[host], key[host], n),
        "num_works": np.bincount(at[at >= 0], minlength=n),
        "flops": sums(integers(events["flops"], 0)[host], key[host], n),
        "peak_bytes": _at_peak(trace, key, n),
    }
    return _frame(texts, own)


def _keys(trace: Trace) -> tuple[Ints, list[str]]:
    """Return the module of each host row, -1 for none."""
    events = trace.events
    own, texts = own_keys(trace, "module")
    parent, forward = integers(events["parent"]), integers(events["forward"])
    return inherited(np.where(events["device"].isna(), own, -1), parent, forward), texts


def _sums(values: Ints, at: Ints, chosen: Bools, n: int) -> Ints:
    return sums(values[chosen], at[chosen], n)


def _at_peak(trace: Trace, key: Ints, n: int) -> Ints:
    """Bytes that each module allocated and that exist when the most memory of a GPU is allocated."""
    memory = trace.memory
    memory = memory[(memory["device_type"] == "cuda").fillna(False).to_numpy(dtype=bool)]
    allocated = integers(memory["allocated_bytes"])
    if not len(memory) or allocated.max() < 0:
        return np.zeros(n, np.int64)
    device = memory["device"].array[int(allocated.argmax())]
    rows = (np.arange(len(memory)) <= int(allocated.argmax())) & (memory["device"] == device).fillna(True).to_numpy(
        bool
    )
    last = memory[rows].drop_duplicates("addr", keep="last")
    last = last[last["action"].astype(str).eq("alloc") & last["event"].notna() & last["addr"].notna()]
    of_event = key[integers(last["event"])]
    return _sums(integers(last["num_bytes"], 0), of_event, of_event >= 0, n)


def _frame(texts: list[str], own: dict[str, Ints]) -> pd.DataFrame:
    """Return the tree, from the values of each path itself."""
    paths = list(dict.fromkeys(path for text in texts if text for path in _with_outer(text)))
    place = {path: number for number, path in enumerate(paths)}
    total = {name: np.zeros(len(paths), np.int64) for name in SUMS}
    for number, text in enumerate(texts):
        for path in _with_outer(text) if text else ():
            for name in SUMS:
                total[name][place[path]] += own[name][number]
    is_used = total["num_works"] + total["host_ns"] + total["peak_bytes"] > 0
    order = _preorder(paths, total["forward_ns"] + total["backward_ns"], is_used)
    rank = {paths[number]: row for row, number in enumerate(order)}
    shown = [paths[number] for number in order]
    frame = pd.DataFrame({"path": pd.Series(shown, dtype="str")})
    frame["name"] = pd.Series([path.rpartition(".")[2] for path in shown], dtype="str")
    frame["depth"] = np.array([path.count(".") for path in shown], np.int64)
    frame["parent"] = masked(np.array([rank.get(path.rpartition(".")[0], -1) for path in shown], np.int64))
    for name in SUMS:
        frame[name] = total[name][order]
    device = (frame["forward_ns"] + frame["backward_ns"]).to_numpy()
    rate = pd.array(frame["flops"] / np.maximum(device, 1) * 1e9, dtype="Float64")
    frame["flops_per_s"] = pd.Series(rate).where((device > 0) & (frame["flops"] > 0))
    return frame


def _with_outer(path: str) -> list[str]:
    """Return the modules around a module, outermost first, and itself: ``a``, ``a.b``, ``a.b.c`` of ``a.b.c``."""
    parts = path.split(".", _MAX_DEPTH)
    return [".".join(parts[: k + 1]) for k in range(len(parts))]


def _preorder(paths: list[str], weight: Ints, is_used: Bools) -> list[int]:
    """Numbers of the used paths, each after the one around it, siblings by weight."""
    children: dict[str, list[int]] = {}
    for number, path in enumerate(paths):
        if is_used[number]:
            children.setdefault(path.rpartition(".")[0], []).append(number)
    order: list[int] = []
    open_ = sorted(children.get("", []), key=lambda number: weight[number])
    while open_:
        number = open_.pop()
        order.append(number)
        open_ += sorted(children.get(paths[number], []), key=lambda number: weight[number])
    return order
