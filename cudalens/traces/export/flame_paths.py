"""Call paths for flame graphs: each distinct path of labels from the root of the call tree to a row.

Every event row gets the number of its path, level by level down the tree, without a loop over events. A path is its
parent's path and a label; paths that begin with recorded Python frames or modules are built the same way.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames import GPU_ACTIVITIES, Trace, is_category
from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.column_arrays import integers

Ints = NDArray[np.int64]

ROOT: Final = -1

#: The common label of all profiler steps, as in torch's averages.
STEPS: Final = "ProfilerStep*"


class Paths:
    """A growing set of paths.

    Attributes:
        labels: Distinct labels.
        label: Label of each path, as a position in `labels`; shape (p,).
        parent: Path above each path, `ROOT` for none; shape (p,).
    """

    def __init__(self) -> None:
        self.labels: list[str] = []
        self.label: Ints = np.empty(0, np.int64)
        self.parent: Ints = np.empty(0, np.int64)
        self._label_of: dict[str, int] = {}
        self._path_of: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self.label)

    def labels_of(self, texts: list[str]) -> Ints:
        """Numbers of the labels `texts`; new ones are added. Shape (len(texts),)."""
        known = self._label_of
        for text in texts:
            if text not in known:
                known[text] = len(self.labels)
                self.labels.append(text)
        return np.array([known[text] for text in texts], np.int64)

    def add(self, parent: Ints, label: Ints) -> Ints:
        """Paths that extend `parent` by `label`, both of shape (n,); each distinct pair is one path."""
        if not len(parent):
            return np.empty(0, np.int64)
        stride = len(self.labels)
        group, distinct = pd.factorize((parent + 1) * stride + label)
        pairs = list(zip((distinct // stride - 1).tolist(), (distinct % stride).tolist(), strict=True))
        fresh = [pair for pair in pairs if pair not in self._path_of]
        for pair in fresh:
            self._path_of[pair] = len(self._path_of)
        if fresh:
            above, labels = np.array(fresh, np.int64).T
            self.parent, self.label = np.append(self.parent, above), np.append(self.label, labels)
        return np.array([self._path_of[pair] for pair in pairs], np.int64)[group]

    def chain(self, texts: list[str]) -> int:
        """Return the path of the labels `texts`, from the root."""
        path = ROOT
        for label in self.labels_of(texts).tolist():
            path = int(self.add(np.array([path]), np.array([label]))[0])
        return path

    def texts(self, path: int) -> list[str]:
        """Return the labels of `path`, outermost first."""
        found = []
        while path != ROOT:
            found.append(self.labels[self.label[path]])
            path = int(self.parent[path])
        return found[::-1]


def host_paths(trace: Trace, paths: Paths, by: str) -> Ints:
    """Return the path of each host row of `trace`; `ROOT` for device work. Shape (n,).

    Args:
        trace: A Trace.
        paths: New paths are added to it.
        by: ``tree``: the enclosing rows, below the host thread if there are several threads. ``stack`` and ``module``:
            the recorded Python frames (or modules) of the nearest row that has any (the row itself or an ancestor),
            then the rows from that one down; rows without any begin at "(no stack)" or "(no module)".
    """
    events = trace.events
    names = events["name"].array
    # All steps share one label, so that a flame graph shows their sum.
    texts = [STEPS if name.startswith(STEP_PREFIX) else name for name in names.categories.tolist()]
    label = np.append(paths.labels_of(texts), ROOT)[names.codes]
    above = _starts(trace, paths, by)
    own = np.zeros(len(events), bool) if by == "tree" else events[by].notna().to_numpy()
    path = np.full(len(events), ROOT, np.int64)
    parent = integers(events["parent"])
    depth = events["depth"].to_numpy()
    # The row of category Trace is the recording itself and encloses all other rows.
    is_trace = is_category(events["cat"].array, ("Trace",))
    host = np.flatnonzero(events["device"].isna().to_numpy() & (label >= 0) & ~is_trace)
    host = host[np.argsort(depth[host], kind="stable")]
    for rows in np.split(host, np.flatnonzero(np.diff(depth[host])) + 1):
        inherited = np.where(parent[rows] >= 0, path[parent[rows]], above[rows])
        path[rows] = paths.add(np.where(own[rows], above[rows], inherited), label[rows])
    return path


def _starts(trace: Trace, paths: Paths, by: str) -> Ints:
    """Return the path at which each row begins if no ancestor sets another; shape (n,)."""
    if by == "tree":
        # Paths of host threads, by label or number; `ROOT` if there is only one.
        events = trace.events
        rows = np.flatnonzero(events["device"].isna().to_numpy())
        group, first = grouped(events["tid"].array[rows], events["thread"].array[rows])
        starts = np.full(len(events), ROOT, np.int64)
        if len(first) > 1:
            named = (thread_name(events["tid"].array[row], events["thread"].array[row]) for row in rows[first])
            starts[rows] = np.array([paths.chain([text]) for text in named])[group]
        return starts
    column = trace.events[by]
    chains = _stack_chains(trace, paths) if by == "stack" else _module_chains(column, paths)
    none = paths.chain([f"(no {by})"])
    codes, keys = pd.factorize(column.array)
    return np.array([*(chains.get(key, none) for key in list(keys)), none], np.int64)[codes]


def grouped(first: Any, second: Any) -> tuple[Ints, Ints]:
    """Group of each row by the values of two columns (missing ones included), and one row of each group; unordered."""
    codes = [pd.factorize(column, use_na_sentinel=True)[0] + 1 for column in (first, second)]
    key = codes[0] * (int(codes[1].max(initial=0)) + 1) + codes[1]
    _, at, group = np.unique(key, return_index=True, return_inverse=True)
    return group, at


def thread_name(tid: Any, thread: Any) -> str:
    """Name of a host thread: its label, with its number unless the label contains it."""
    number = None if pd.isna(tid) else str(tid)
    if isinstance(thread, str) and thread:
        return thread if number is None or number in thread else f"{thread} {number}"
    return "host" if number is None else f"thread {number}"


def _stack_chains(trace: Trace, paths: Paths) -> dict[Any, int]:
    """Path of each stack, starting at its outermost frame."""
    chains: dict[Any, list[str]] = {}
    stacks = trace.stacks
    lines = stacks["first_line"].fillna(stacks["line"])  # one frame for a function, whichever of its lines ran
    columns = (stacks["stack"], stacks["file"].astype(object), lines.astype(object), stacks["function"].astype(object))
    for stack, file, line, function in zip(*columns, strict=True):
        chains.setdefault(stack, []).append(frame_text(file, line, function))
    return {stack: paths.chain(texts[::-1]) for stack, texts in chains.items()}


def frame_text(file: Any, line: Any, function: Any) -> str:
    """Label of a stack frame: ``function (file:line)``."""
    name = function if isinstance(function, str) else "?"
    if not isinstance(file, str):
        return name
    return f"{name} ({file}:{line})" if pd.notna(line) else f"{name} ({file})"


def _module_chains(column: pd.Series, paths: Paths) -> dict[Any, int]:
    """Path of each text of nested modules, which are separated by dots, outermost first."""
    return {
        text: paths.chain([part for part in text.split(".") if part]) for text in column.cat.categories.tolist() if text
    }


def launched_paths(trace: Trace, paths: Paths, host: Ints) -> tuple[Ints, Ints]:
    """Paths of device work, under the host path that launched it.

    Args:
        trace: A Trace.
        paths: New paths are added to it.
        host: The result of `host_paths`.

    Returns:
        Rows of device work, and the path of each: the path of its launch and its own name, or "(no launch)" and its
        name if the launch was not recorded.
    """
    events = trace.events
    rows = np.flatnonzero(is_category(events["cat"].array, GPU_ACTIVITIES) & ~events["is_instant"].to_numpy())
    launch = integers(events["launch"].array[rows])
    above = np.where(launch >= 0, host[launch], ROOT) if len(host) else launch
    if (launch < 0).any():
        above[launch < 0] = paths.chain(["(no launch)"])
    names = events["name"].array
    label = np.append(paths.labels_of(names.categories.tolist()), ROOT)[names.codes[rows]]
    known = label >= 0
    return rows[known], paths.add(above[known], label[known])


def stream_paths(trace: Trace, paths: Paths) -> tuple[Ints, Ints]:
    """Paths of device work, under its device and stream: its rows, and the path of each."""
    events = trace.events
    rows = np.flatnonzero(is_category(events["cat"].array, GPU_ACTIVITIES) & ~events["is_instant"].to_numpy())
    device, stream = (events[name].array[rows] for name in ("device", "stream"))
    group, first = grouped(device, stream)
    starts = [paths.chain([device_name(device[k]), stream_name(stream[k])]) for k in first.tolist()]
    names = events["name"].array
    label = np.append(paths.labels_of(names.categories.tolist()), ROOT)[names.codes[rows]]
    known = label >= 0
    above = np.array([*starts, ROOT], np.int64)[group]
    return rows[known], paths.add(above[known], label[known])


def device_name(device: Any) -> str:
    """Name of a device."""
    return "GPU" if pd.isna(device) else f"GPU {device}"


def stream_name(stream: Any) -> str:
    """Name of a stream."""
    return "stream unknown" if pd.isna(stream) else f"stream {stream}"
