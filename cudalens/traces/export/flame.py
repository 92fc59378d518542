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
from cudalens.frames import GPU_CATEGORIES, Trace, atomic_write, is_category
from cudalens.frames import tree as tree_
from cudalens.frames.column_arrays import Ints, integers
from cudalens.traces.export.flame_paths import (
    Paths,
    device_name,
    grouped,
    host_paths,
    launched_paths,
    stream_name,
    stream_paths,
    thread_name,
)

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
    mark = f" (simulated: {trace.info.source.removeprefix('virtual:')})" if trace.info.is_simulated else ""
    return {
        "$schema": SCHEMA,
        "shared": {"frames": frames},
        "profiles": found or [_empty_profile()],
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


def _empty_profile() -> dict[str, Any]:
    return {"type": "evented", "name": "nothing", "unit": "nanoseconds", "startValue": 0, "endValue": 0, "events": []}


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
