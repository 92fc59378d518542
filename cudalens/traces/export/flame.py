"""Write files for flame graphs: collapsed stacks (flamegraph.pl, inferno, speedscope) and speedscope's JSON.

Collapsed stacks are a line per call path: labels from the root, separated by semicolons, a space, and the path's own
cost in nanoseconds (https://github.com/brendangregg/FlameGraph). Speedscope's file format is
https://github.com/jlfwong/speedscope/blob/main/src/lib/file-format-spec.ts, with an evented profile for each track.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens._version import __version__
from cudalens.errors import invalid_choice
from cudalens.frames import GPU_ACTIVITIES, GPU_CATEGORIES, Trace, atomic_write, is_category
from cudalens.frames import tree as tree_
from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.column_arrays import Ints, integers

WEIGHTS: Final = ("host", "device", "self")
GROUPINGS: Final = ("tree", "stack", "module")
SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"
_ENDS: Final = str.maketrans({";": ":", "\n": " ", "\r": " ", "\t": " ", "\v": " ", "\f": " ", "\0": " "})


def to_collapsed(
    trace: Trace,
    path: str | os.PathLike[str],
    *,
    weight: Literal["host", "device", "self"] = "host",
    by: Literal["tree", "stack", "module"] = "tree",
) -> Path:
    """Write `trace` as collapsed stacks: a line per call path with its own cost in ns, for flamegraph.pl and inferno.

    Args:
        trace: The Trace.
        path: The file.
        weight: ``host``: self time of host rows. ``device``: duration of device work, under the host path that launched
            it ("(no launch)" if that was not recorded). ``self``: both kinds of self time, each on its own track: host
            rows under their thread, device work under its device and stream.
        by: What host paths consist of: ``tree``, the rows that enclose a row (Python functions, ranges, operators,
            runtime calls); ``stack``, the recorded Python frames of the nearest row that has some, then the rows below
            it; ``module``, the same with nn.Modules.

    Returns:
        `path`. All profiler steps have one label, ``ProfilerStep*``. In labels, semicolons are replaced by colons and
        control characters by spaces, since the format allows neither. A trace without such costs gives an empty file.

    Raises:
        ValueError: `weight` or `by` is unknown.
        OutputError: The file cannot be written; an existing file is unchanged.
    """
    if weight not in WEIGHTS:
        raise invalid_choice("weight", weight, WEIGHTS)
    if by not in GROUPINGS:
        raise invalid_choice("by", by, GROUPINGS)
    return write_collapsed(collapsed_lines(trace, weight, by), path)


def write_collapsed(lines: list[str], path: str | os.PathLike[str]) -> Path:
    """Write the lines of `collapsed_lines` to `path`."""
    with atomic_write(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
    return Path(path)


def collapsed_lines(trace: Trace, weight: str, by: str) -> list[str]:
    """Return the lines of `to_collapsed`, sorted; paths without a cost are left out."""
    paths = Paths()
    host = host_paths(trace, paths, by)
    dur, own = (trace.events[name].to_numpy() for name in ("dur", "self_dur"))
    if weight == "device":
        rows, path = launched_paths(trace, paths, host)
        found = [(path, dur[rows])]
    else:
        known = np.flatnonzero(host >= 0)
        found = [(host[known], own[known])]
        if weight == "self":
            rows, path = stream_paths(trace, paths)
            found.append((path, dur[rows]))
    total = np.zeros(len(paths), np.int64)
    for path, cost in found:
        np.add.at(total, path, np.maximum(cost, 0))
    costs: dict[str, int] = {}
    for number in np.flatnonzero(total).tolist():
        line = ";".join(_label(text) for text in paths.texts(number))
        costs[line] = costs.get(line, 0) + int(total[number])
    return [f"{line} {cost}" for line, cost in sorted(costs.items())]


def _label(text: str) -> str:
    return " ".join(text.translate(_ENDS).split()) or "(no name)"


def to_speedscope(trace: Trace, path: str | os.PathLike[str]) -> Path:
    """Write `trace` as a speedscope file: an evented profile for each host thread and each stream, times in ns.

    Times count from the first event. Rows that overlap without nesting (kernels that ran at once on one stream, ranges
    that end on another thread) are put on additional profiles of their track. If siblings overlap, the earlier one is
    cut where the later one begins, since a profile holds one stack at a time. The file and line of a name are those of
    the innermost stack frame, if it was recorded.

    Returns:
        `path`. Open it at https://www.speedscope.app (it also runs offline) or with ``speedscope FILE``.

    Raises:
        OutputError: The file cannot be written; an existing file is unchanged.
    """
    with atomic_write(path) as file:
        file.write(msgspec.json.encode(speedscope_value(trace)))
    return Path(path)


def speedscope_value(trace: Trace) -> dict[str, Any]:
    """Return the contents of the file of `to_speedscope`, as a JSON value."""
    frame, frames = _frames(trace)
    origin = int(trace.events["ts"].min()) if len(trace) else 0
    found = [_profile(track, frame, origin) for track in tracks(trace)]
    if not found:
        found = [
            {"type": "evented", "name": "nothing", "unit": "nanoseconds", "startValue": 0, "endValue": 0, "events": []}
        ]
    mark = f" (simulated: {trace.info.source.removeprefix('virtual:')})" if trace.info.is_simulated else ""
    return {
        "$schema": SCHEMA,
        "shared": {"frames": frames},
        "profiles": found,
        "name": f"{trace.info.name}{mark}",
        "activeProfileIndex": 0,
        "exporter": f"cudalens@{__version__}",
    }


def _frames(trace: Trace) -> tuple[Ints, list[dict[str, Any]]]:
    """Number of the speedscope frame of each row, shape (n,); and the frames: a name, and file and line if known."""
    names, stack = trace.events["name"].array, integers(trace.events["stack"])
    key = (stack + 1) * (len(names.categories) + 1) + names.codes + 1
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    places = _places(trace)
    frames = []
    for row in first.tolist():
        name = "(no name)" if names.codes[row] < 0 else str(names.categories[names.codes[row]]) or "(no name)"
        frames.append({"name": name} | places.get(int(stack[row]), {}))
    return group.astype(np.int64), frames


def _places(trace: Trace) -> dict[int, dict[str, Any]]:
    """File and line of the innermost frame of each stack, if known."""
    stacks = trace.stacks.assign(line=trace.stacks["first_line"].fillna(trace.stacks["line"]))
    inner = stacks[stacks["file"].notna()].drop_duplicates("stack")
    columns = (inner[name].astype(object).tolist() for name in ("stack", "file", "line"))
    return {
        int(stack): {"file": str(file)} | ({} if pd.isna(line) else {"line": int(line)})
        for stack, file, line in zip(*columns, strict=True)
    }


def _profile(track: Track, frame: Ints, origin: int) -> dict[str, Any]:
    """Return the profile of one track, with its open and close events in order."""
    n = len(track.rows)
    kind = np.empty(2 * n, object)
    at, which = np.empty(2 * n, np.int64), np.empty(2 * n, np.int64)
    for position, letter, when in ((track.opens, "O", track.start), (track.closes, "C", track.end)):
        kind[position], at[position], which[position] = letter, when - origin, frame[track.rows]
    events = [
        {"type": letter, "frame": number, "at": when}
        for letter, number, when in zip(kind.tolist(), which.tolist(), at.tolist(), strict=True)
    ]
    return {
        "type": "evented",
        "name": track.name,
        "unit": "nanoseconds",
        "startValue": int(at.min()),
        "endValue": int(at.max()),
        "events": events,
    }


class Track(NamedTuple):
    """Properly nested rows, with the order in which they open and close.

    Attributes:
        name: Name of the thread or stream; additional tracks of it end in " (2)" and so on.
        rows: Rows of the events, each before the rows it encloses; shape (n,).
        start: When each opens, ns; (n,).
        end: When each closes, ns, cut where a later sibling begins or its parent ends; (n,).
        opens: Position of each opening among the 2 n openings and closings; (n,).
        closes: Position of each closing; (n,).
    """

    name: str
    rows: Ints
    start: Ints
    end: Ints
    opens: Ints
    closes: Ints


def tracks(trace: Trace) -> list[Track]:
    """Tracks of each host thread and each stream of `trace`, host threads first. Instants are left out."""
    events = trace.events
    # The row of category Trace is the recording itself and encloses all other rows.
    interval = ~events["is_instant"].to_numpy() & ~is_category(events["cat"].array, ("Trace",))
    on_device = events["device"].notna().to_numpy() | is_category(events["cat"].array, tuple(GPU_CATEGORIES))
    found: list[Track] = []
    sides = (
        (np.flatnonzero(interval & ~on_device), ("tid", "thread"), thread_name),
        (np.flatnonzero(interval & on_device), ("device", "stream"), _lane_name),
    )
    for rows, columns, name_of in sides:
        if not len(rows):
            continue
        first, second = (events[column].array[rows] for column in columns)
        group, one = grouped(first, second)
        for number in np.argsort(one).tolist():
            name = name_of(first[one[number]], second[one[number]])
            found.extend(_lanes(trace, rows[group == number], name, columns[0] == "device"))
    return found


def _lane_name(device: object, stream: object) -> str:
    return f"{device_name(device)}, {stream_name(stream)}"


def _lanes(trace: Trace, rows: Ints, name: str, on_device: bool) -> Iterator[Track]:
    """Yield the rows of one thread or stream, on as few tracks as the overlaps of their roots allow."""
    events = trace.events
    start = events["ts"].to_numpy()[rows]
    dur = events["dur"].to_numpy()[rows]
    parent = _parents(trace, rows, start, dur, on_device)
    root = _roots(parent)
    lane = _lanes_of_roots(start, start + dur, parent < 0)[root]
    for number in range(int(lane.max()) + 1):
        at = np.flatnonzero(lane == number)
        at = at[np.argsort(root[at], kind="stable")]  # rows outside the tree may be between those of a root
        place = np.full(len(rows), -1, np.int64)
        place[at] = np.arange(len(at))
        above = parent[at]
        label = name if number == 0 else f"{name} ({number + 1})"
        yield _track(label, rows[at], start[at], dur[at], np.where(above >= 0, place[above], -1))


def _parents(trace: Trace, rows: Ints, start: Ints, dur: Ints, on_device: bool) -> Ints:
    """Parent of each row, as a position in `rows`: from the call tree for host rows, from times for device work."""
    if on_device:
        return tree_.parents(start, dur, np.zeros(len(rows), np.int64))
    place = np.full(len(trace), -1, np.int64)
    place[rows] = np.arange(len(rows))
    above = integers(trace.events["parent"].array[rows])
    return np.where(above >= 0, place[above], -1)


def _roots(parent: Ints) -> Ints:
    """Return the outermost row above each row (itself, for a root)."""
    root: Ints = np.where(parent >= 0, parent, np.arange(len(parent)))
    while (root[root] != root).any():
        root = root[root]
    return root


def _lanes_of_roots(start: Ints, end: Ints, is_root: NDArray[np.bool_]) -> Ints:
    """Return the first lane on which each root does not overlap an earlier one; 0 for other rows. Shape (n,)."""
    lane = np.zeros(len(start), np.int64)
    at = np.flatnonzero(is_root)
    reach = np.maximum.accumulate(end[at])
    if (start[at][1:] >= reach[:-1]).all():
        return lane
    busy: list[tuple[int, int]] = []  # (end, lane)
    free: list[int] = []
    for i, begin, finish in zip(at.tolist(), start[at].tolist(), end[at].tolist(), strict=True):
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        number = heapq.heappop(free) if free else len(busy)
        lane[i] = number
        heapq.heappush(busy, (finish, number))
    return lane


def _track(name: str, rows: Ints, start: Ints, dur: Ints, parent: Ints) -> Track:
    """Return the track of a forest of rows in preorder.

    When a row opens, all rows before it have opened, and all of those except its ancestors have closed. It closes when
    all its descendants have closed.
    """
    depth = tree_.depths(parent).astype(np.int64)
    size = _sizes(parent, depth)
    opens = 2 * np.arange(len(rows)) - depth
    start, end = _cut(start, start + dur, parent, depth)
    return Track(name, rows, start, end, opens, opens + 2 * size - 1)


def _sizes(parent: Ints, depth: Ints) -> Ints:
    """Number of rows in each row's subtree, itself included."""
    size = np.ones(len(parent), np.int64)
    for level in range(int(depth.max(initial=0)), 0, -1):
        at = np.flatnonzero(depth == level)
        np.add.at(size, parent[at], size[at])
    return size


def _cut(start: Ints, end: Ints, parent: Ints, depth: Ints) -> tuple[Ints, Ints]:
    """Starts and ends, cut to the parent's interval and to the start of the next sibling, from the roots down."""
    start, end = start.copy(), end.copy()
    order = np.argsort(depth, kind="stable")
    for at in np.split(order, np.flatnonzero(np.diff(depth[order])) + 1):
        above = parent[at]
        inside = above >= 0
        start[at] = np.where(inside, np.clip(start[at], start[above], end[above]), start[at])
        end[at] = np.where(inside, np.minimum(end[at], end[above]), end[at])
        next_start = np.append(np.where(above[1:] == above[:-1], start[at][1:], end[at][:-1]), end[at][-1:])
        end[at] = np.maximum(np.minimum(end[at], next_start), start[at])
    return start, end


# Call paths: each distinct path of labels from the root of the call tree to a row.

ROOT: Final = -1

#: The common label of all profiler steps, as in torch's averages.
STEPS: Final = "ProfilerStep*"


class Paths:
    """A growing set of paths.

    Every event row gets the number of its path, level by level down the tree, without a loop over events. A path is its
    parent's path and a label; paths that begin with recorded Python frames or modules are built the same way.

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
