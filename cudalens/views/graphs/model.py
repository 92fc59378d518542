"""What a graph manager did, as views show it: functions, the forest of recordings, paths and findings, texts cleaned.

A frame may come from a file and then says what it likes: parents that are not there, circles, a number twice. Every
recording is shown once all the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from cudalens.analysis.cached import once_per_trace
from cudalens.frames import Trace
from cudalens.views.foreign import clean, records, whole

#: Recordings that are shown; the others are counted.
MAX_NODES: Final = 1000

#: Functions are told apart by as many hues; their names say which is which.
NUM_HUES: Final = 8

_CURRENT: Final = "current"
_ON_PATH: Final = "on the path"
_MAX_PATH: Final = 2000


@dataclass(frozen=True, slots=True)
class Recording:
    """One CUDA graph; numbers are None and texts empty where a fact is not known.

    Attributes:
        node: Its number.
        function: Name of its function.
        hue: Number of the function's hue.
        variant: Shapes and values that it is specialised on.
        mode: inference, forward or backward.
        is_current: The latest call stands here.
        is_on_path: That, or on the way there.
        num_replays: How often it was replayed.
        why: Why it was recorded, where that is not simply the first time.
        place: The line that it was recorded for.
        source: That line of source.
        device: Device index.
        pool: Id of the memory pool.
        pool_bytes: Handed out in the pool when it had been recorded.
        reserved_bytes: Reserved by the whole pool now.
        num_kernels: Operators that launch work in it.
        num_static_inputs: Tensors that it uses where they lie.
        num_copied_inputs: Tensors that each replay copies.
        copied_bytes: Size of those.
        num_outputs: Tensors that it returns.
        num_live_outputs: Of those, how many somebody holds.
        record_ns: Host time of the recording.
        eager_ns: Device time of a call without a graph.
        replay_ns: Device time of a replay, median.
        is_equal: Whether a replay gave what a call without a graph gives.
        max_abs_diff: Largest difference.
        first_diff: First element that differs.
    """

    node: int
    function: str
    hue: int
    variant: str
    mode: str
    is_current: bool
    is_on_path: bool
    num_replays: int
    why: str
    place: str
    source: str
    device: int | None
    pool: str
    pool_bytes: int | None
    reserved_bytes: int | None
    num_kernels: int | None
    num_static_inputs: int | None
    num_copied_inputs: int | None
    copied_bytes: int | None
    num_outputs: int | None
    num_live_outputs: int | None
    record_ns: int | None
    eager_ns: int | None
    replay_ns: int | None
    is_equal: bool | None
    max_abs_diff: float | None
    first_diff: str

    @property
    def speedup(self) -> float | None:
        """How many times as fast as eager a replay is; None where that was not measured."""
        known = self.eager_ns is not None and self.replay_ns is not None and self.replay_ns > 0
        return self.eager_ns / self.replay_ns if known else None  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class FunctionView:
    """A function that the manager knows; counts are None where nobody counted.

    Attributes:
        name: Its name.
        hue: Number of its hue.
        state: eager, warm, recorded, or "".
        num_calls: Its calls, and how many of them did what:
        num_replays: Replayed.
        num_warmups: Warmed up.
        num_recordings: Recorded.
        num_eager: Ran without a graph.
        num_graphs: Its recordings.
        why: Why it runs eager, or "".
        place: The line of that, or of the function.
        source: That line of source.
    """

    name: str
    hue: int
    state: str
    num_calls: int
    num_replays: int
    num_warmups: int
    num_recordings: int
    num_eager: int
    num_graphs: int
    why: str
    place: str
    source: str


@dataclass(frozen=True, slots=True)
class FindingView:
    """Why calls did not simply replay.

    Attributes:
        kind: skip, rerecord or warning.
        function: Name of the function.
        hue: Number of its hue.
        count: How often.
        reason: In a few words.
        detail: In a sentence, of the function.
        advice: What to do.
        place: The line that caused it.
        source: That line of source.
    """

    kind: Literal["skip", "rerecord", "warning"]
    function: str
    hue: int
    count: int
    reason: str
    detail: str
    advice: str
    place: str
    source: str


@dataclass(frozen=True, slots=True)
class PathView:
    """A way that calls took, from a root.

    Attributes:
        nodes: Numbers of the recordings.
        count: How often.
    """

    nodes: tuple[int, ...]
    count: int


@dataclass(frozen=True, slots=True)
class GraphsView:
    """All of it.

    Attributes:
        functions: Those that run eager first, then by number of calls.
        recordings: By number.
        parents: Of each recording that is no root, the number of the one before it; free of circles.
        paths: The most frequent first.
        findings: Skips, then warnings, then re-recordings; the most frequent first.
        num_hidden: Recordings that are left out.
    """

    functions: tuple[FunctionView, ...]
    recordings: Mapping[int, Recording]
    parents: Mapping[int, int]
    paths: tuple[PathView, ...]
    findings: tuple[FindingView, ...]
    num_hidden: int


#: What keeps a function from graphs first; one more graph for it is the least.
_FINDINGS: Final = ("skip", "warning", "rerecord")


@once_per_trace
def graphs_view(trace: Trace) -> GraphsView:
    """What ``trace.graphs`` holds, ready to be shown."""
    rows = list(records(trace.graphs))
    hues = _hues(rows)
    recorded = [row for row in rows if row["kind"] == "recording" and row["node"] is not None]
    recordings = {int(row["node"]): _recording(row, hues) for row in reversed(recorded[:MAX_NODES])}
    ordered = dict(sorted(recordings.items()))
    paths = [path for row in rows if row["kind"] == "path" and (path := _path(row)) is not None]
    findings = [_finding(row, hues) for row in rows if row["kind"] in _FINDINGS]
    paths = [path for path in paths if any(node in ordered for node in path.nodes)]  # others are another time's
    return GraphsView(
        functions=tuple(_functions(rows, hues)),
        recordings=ordered,
        parents=_parents(recorded, ordered),
        paths=tuple(sorted(paths, key=lambda path: -path.count)),
        findings=tuple(sorted(findings, key=lambda found: (_FINDINGS.index(found.kind), -found.count))),
        num_hidden=len(recorded) - len(ordered),
    )


def _hues(rows: Iterable[dict[str, Any]]) -> Mapping[int, int]:
    """A number for each function's hue, in the order in which they appear."""
    ids = dict.fromkeys(int(row["function_id"]) for row in rows if row["kind"] in ("function", "recording"))
    return {number: place % NUM_HUES for place, number in enumerate(ids)}


def _parents(rows: Iterable[dict[str, Any]], recordings: Mapping[int, Recording]) -> dict[int, int]:
    """Parents by child, cut where one is not there and where the way up never ends."""
    stated = {int(row["node"]): int(row["parent"]) for row in rows if row["parent"] is not None}
    parents = {child: parent for child, parent in sorted(stated.items()) if {child, parent} <= recordings.keys()}
    is_safe: set[int] = set()
    for start in recordings:
        way: dict[int, None] = {}
        at: int | None = start
        while at is not None and at not in is_safe:
            if at in way:
                del parents[at]
                break
            way[at] = None
            at = parents.get(at)
        is_safe.update(way)
    return parents


def _recording(row: dict[str, Any], hues: Mapping[int, int]) -> Recording:
    state = clean(row["state"])
    numbers = {name: whole(row[name]) for name in _NUMBERS}
    return Recording(
        node=int(row["node"]),
        function=clean(row["function"]) or "?",
        hue=hues[int(row["function_id"])],
        variant=clean(row["variant"]),
        mode=clean(row["mode"]),
        is_current=state == _CURRENT,
        is_on_path=state in (_CURRENT, _ON_PATH),
        num_replays=max(0, int(row["count"])),
        why=clean(row["detail"] or row["reason"]),
        place=clean(row["place"]),
        source=clean(row["source"]).strip(),
        pool=clean(row["pool"]),
        is_equal=None if row["is_equal"] is None else bool(row["is_equal"]),
        max_abs_diff=None if row["max_abs_diff"] is None else float(row["max_abs_diff"]),
        first_diff=clean(row["first_diff"]),
        **numbers,
    )


_NUMBERS: Final = (
    "device",
    "pool_bytes",
    "reserved_bytes",
    "num_kernels",
    "num_static_inputs",
    "num_copied_inputs",
    "copied_bytes",
    "num_outputs",
    "num_live_outputs",
    "record_ns",
    "eager_ns",
    "replay_ns",
)


def _functions(rows: Iterable[dict[str, Any]], hues: Mapping[int, int]) -> list[FunctionView]:
    rows = list(rows)
    num_graphs: dict[int, int] = {}
    for row in rows:
        if row["kind"] == "recording":
            num_graphs[int(row["function_id"])] = num_graphs.get(int(row["function_id"]), 0) + 1
    views = [
        FunctionView(
            name=clean(row["function"]) or "?",
            hue=hues[int(row["function_id"])],
            state=_state(row),
            num_calls=int(row["count"]),
            num_replays=whole(row["num_replays"]) or 0,
            num_warmups=whole(row["num_warmups"]) or 0,
            num_recordings=whole(row["num_recordings"]) or 0,
            num_eager=whole(row["num_eager"]) or 0,
            num_graphs=num_graphs.get(int(row["function_id"]), 0),
            why=clean(row["detail"]),
            place=clean(row["place"]),
            source=clean(row["source"]).strip(),
        )
        for row in rows
        if row["kind"] == "function"
    ]
    return sorted(views, key=lambda function: (function.state != "eager", -function.num_calls))


def _state(function: dict[str, Any]) -> str:
    """As `cudalens.analysis.graphs.runs_eager` has it: one that is warm and was run eager since is eager."""
    state = clean(function["state"])
    return "eager" if state == "warm" and (function["num_eager"] or 0) > 0 else state


def _finding(row: dict[str, Any], hues: Mapping[int, int]) -> FindingView:
    return FindingView(
        kind=row["kind"],
        function=clean(row["function"]) or "?",
        hue=hues.get(int(row["function_id"]), 0),
        count=int(row["count"]),
        reason=clean(row["reason"]).replace("_", " ").lower(),
        detail=clean(row["detail"], 1000),
        advice=clean(row["advice"], 1000),
        place=clean(row["place"]),
        source=clean(row["source"]).strip(),
    )


def _path(row: dict[str, Any]) -> PathView | None:
    """A path; None where the column holds no list of numbers."""
    try:
        nodes = json.loads(row["path"] or "null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(nodes, list) or not nodes or not all(type(node) is int for node in nodes):
        return None
    return PathView(tuple(nodes[:_MAX_PATH]), int(row["count"]))
