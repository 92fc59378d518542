"""Write files for flame graphs: collapsed stacks (flamegraph.pl, inferno, speedscope) and speedscope's JSON.

Collapsed stacks are a line per call path: labels from the root, separated by semicolons, a space, and the path's own
cost in nanoseconds (https://github.com/brendangregg/FlameGraph). Speedscope's file format is
https://github.com/jlfwong/speedscope/blob/main/src/lib/file-format-spec.ts, with an evented profile for each track.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens._version import __version__
from cudalens.errors import invalid_choice
from cudalens.frames import Trace, atomic_write
from cudalens.frames.column_arrays import integers
from cudalens.traces.export.flame_paths import Paths, host_paths, launched_paths, stream_paths
from cudalens.traces.export.flame_tracks import Track, tracks

Ints = NDArray[np.int64]

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
