"""The view model of a graph manager: functions, the trees of recordings, paths and findings, with cleaned texts.

A frame from a file may be invalid: missing parents, cycles, duplicate numbers. Every recording is still shown once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from cudalens.analysis.cached import once_per_trace
from cudalens.frames import Trace
from cudalens.views.foreign import clean, clean_records, printable

#: Maximum number of recordings that are shown; the others are counted.
MAX_NODES: Final = 1000

#: Number of hues for functions; further functions reuse them.
NUM_HUES: Final = 8

_CURRENT: Final = "current"
_ON_PATH: Final = "on the path"
_MAX_PATH: Final = 2000


@dataclass(frozen=True, slots=True)
class Recording:
    """One CUDA graph; unknown numbers are None, unknown texts are empty.

    Attributes:
        node: Its number.
        function: Name of its function.
        hue: Number of the function's hue.
        variant: Shapes and values that it is specialized on.
        mode: inference, forward or backward.
        is_current: Whether it is the graph of the latest call.
        is_on_path: Whether it is on the path from the root to the current recording.
        num_replays: Number of replays.
        why: Why it was recorded, unless it is the first recording.
        place: The line that it was recorded for.
        source: That line of source.
        device: Device index.
        pool: Id of the memory pool.
        pool_bytes: Allocated memory in the pool after the recording.
        reserved_bytes: Reserved memory of the whole pool now.
        frees_bytes: Memory of the pool that only it and the recordings behind it use.
        num_kernels: Operators that launch work in it.
        num_static_inputs: Input tensors that it uses without a copy.
        num_copied_inputs: Tensors that each replay copies.
        copied_bytes: Size of the copied tensors.
        num_outputs: Tensors that it returns.
        num_live_outputs: How many of them are still alive.
        record_ns: Host time of the recording.
        eager_ns: Device time of a call without a graph.
        replay_ns: Device time of a replay, median.
        is_equal: Whether a replay gave the same results as a call without a graph.
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
    frees_bytes: int | None
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
        """How many times as fast as eager a replay is; None if it was not measured."""
        known = self.eager_ns is not None and self.replay_ns is not None and self.replay_ns > 0
        return self.eager_ns / self.replay_ns if known else None  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class PieceView:
    """One of the graphs of a recording that is split at reads of the host.

    Attributes:
        num_kernels: Operators that launch work in it; None if unknown.
        read: What the host reads behind it; "" of the last one.
        wait_ns: For how long the host waits for that; None if unknown.
        change: The change of the program that leaves the read out, as lines of a diff; "" if none is known.
        place: The line that reads it.
        source: That line of source.
    """

    num_kernels: int | None
    read: str
    wait_ns: int | None
    change: str
    place: str
    source: str


@dataclass(frozen=True, slots=True)
class FunctionView:
    """A function of the graph manager; unknown counts are 0.

    Attributes:
        name: Its name.
        hue: Number of its hue.
        state: eager, warm, recorded, or "".
        num_calls: Number of calls.
        num_replays: Calls that replayed a graph.
        num_warmups: Calls that were warm-ups.
        num_recordings: Calls that recorded a graph.
        num_eager: Calls without a graph.
        num_graphs: Number of its recordings.
        why: Why it runs eager, or "".
        place: The line that causes it, or the line of the function.
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
    """A reason why calls did not replay.

    Attributes:
        kind: skip, rerecord or warning.
        function: Name of the function.
        hue: Number of its hue.
        count: How often.
        reason: In a few words.
        detail: In a sentence, of the function.
        advice: What to do.
        change: The change of the program that lets it replay, as lines of a diff; "" if none is known.
        num_launches: Launches that the calls made and that replays would not make.
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
    change: str
    num_launches: int
    place: str
    source: str


@dataclass(frozen=True, slots=True)
class PathView:
    """A sequence of recordings that calls replayed, from a root.

    Attributes:
        nodes: Numbers of the recordings.
        count: How often.
    """

    nodes: tuple[int, ...]
    count: int


@dataclass(frozen=True, slots=True)
class GraphsView:
    """Everything that the views of a graph manager show.

    Attributes:
        functions: Those that run eager first, then by number of calls.
        recordings: By number.
        pieces: Of each recording that is split, by its number, in order.
        parents: Number of the previous recording, by recording; roots are absent; without cycles.
        paths: The most frequent first.
        findings: Skips, then warnings, then re-recordings; those with the most launches first, then the most frequent.
        num_hidden: Recordings that are left out.
    """

    functions: tuple[FunctionView, ...]
    recordings: Mapping[int, Recording]
    pieces: Mapping[int, tuple[PieceView, ...]]
    parents: Mapping[int, int]
    paths: tuple[PathView, ...]
    findings: tuple[FindingView, ...]
    num_hidden: int


#: Characters of a change.
_MAX_CHANGE: Final = 2_000

#: Kinds of findings, the most severe first.
_FINDINGS: Final = ("skip", "warning", "rerecord")


@once_per_trace
def graphs_view(trace: Trace) -> GraphsView:
    """Return the view model of ``trace.graphs``."""
    rows = list(clean_records(trace.graphs, raw=("detail", "advice", "change", "path")))
    hues = _hues(rows)
    recorded = [row for row in rows if row["kind"] == "recording" and row["node"] is not None]
    recordings = {row["node"]: _recording(row, hues) for row in reversed(recorded[:MAX_NODES])}
    ordered = dict(sorted(recordings.items()))
    paths = [path for row in rows if row["kind"] == "path" and (path := _path(row)) is not None]
    findings = [_finding(row, hues) for row in rows if row["kind"] in _FINDINGS]
    paths = [path for path in paths if any(node in ordered for node in path.nodes)]  # others have no shown recording
    return GraphsView(
        functions=tuple(_functions(rows, hues)),
        recordings=ordered,
        pieces=_pieces(rows),
        parents=_parents(recorded, ordered),
        paths=tuple(sorted(paths, key=lambda path: -path.count)),
        findings=tuple(sorted(findings, key=_importance)),
        num_hidden=len(recorded) - len(ordered),
    )


def _importance(found: FindingView) -> tuple[int, int, int]:
    """Return the sort key of a finding: the most severe and what gains the most first."""
    return _FINDINGS.index(found.kind), -found.num_launches, -found.count


def _hues(rows: Iterable[dict[str, Any]]) -> Mapping[int, int]:
    """Return the number of each function's hue, in order of appearance."""
    ids = dict.fromkeys(int(row["function_id"]) for row in rows if row["kind"] in ("function", "recording"))
    return {number: position % NUM_HUES for position, number in enumerate(ids)}


def _parents(rows: Iterable[dict[str, Any]], recordings: Mapping[int, Recording]) -> dict[int, int]:
    """Parents by child, without missing parents and cycles."""
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
    facts = _facts(Recording, row, hues)
    facts |= {"is_current": row["state"] == _CURRENT, "is_on_path": row["state"] in (_CURRENT, _ON_PATH)}
    return Recording(**facts | {"num_replays": max(0, row["count"]), "why": clean(row["detail"]) or row["reason"]})


def _facts(view: type[Any], row: dict[str, Any], hues: Mapping[int, int]) -> dict[str, Any]:
    """Return the fields of a view that are columns of the frame, and the hue of the function."""
    facts = {name: row[name] for name in view.__slots__ if name in row}
    hue = hues.get(row["function_id"], 0)
    return facts | {"function": row["function"] or "?", "hue": hue, "source": row["source"].strip()}


def _pieces(rows: Iterable[dict[str, Any]]) -> dict[int, tuple[PieceView, ...]]:
    known = [row for row in rows if row["kind"] == "piece" and row["node"] is not None]
    found: dict[int, list[PieceView]] = {}
    for row in sorted(known, key=lambda row: (row["node"], row["piece"] or 0)):
        change = printable((row["change"] or "")[:_MAX_CHANGE], keep="\n\t")
        source = (row["source"] or "").strip()
        piece = PieceView(row["num_kernels"], clean(row["detail"]), row["wait_ns"], change, row["place"] or "", source)
        found.setdefault(row["node"], []).append(piece)
    return {node: tuple(pieces) for node, pieces in found.items()}


def _functions(rows: Iterable[dict[str, Any]], hues: Mapping[int, int]) -> list[FunctionView]:
    rows = list(rows)
    num_graphs = Counter(row["function_id"] for row in rows if row["kind"] == "recording")
    views = [_function(row, hues, num_graphs) for row in rows if row["kind"] == "function"]
    return sorted(views, key=lambda function: (function.state != "eager", -function.num_calls))


def _function(row: dict[str, Any], hues: Mapping[int, int], num_graphs: Mapping[int, int]) -> FunctionView:
    facts = _facts(FunctionView, row, hues)
    facts |= {name: facts[name] or 0 for name in ("num_replays", "num_warmups", "num_recordings", "num_eager")}
    facts |= {"name": facts.pop("function"), "state": _state(row), "why": clean(row["detail"])}
    return FunctionView(**facts, num_calls=row["count"], num_graphs=num_graphs[row["function_id"]])


def _state(function: dict[str, Any]) -> str:
    """Return the state as in `cudalens.analysis.graphs.runs_eager`: a warm function with eager calls is eager."""
    state = str(function["state"])
    return "eager" if state == "warm" and (function["num_eager"] or 0) > 0 else state


def _finding(row: dict[str, Any], hues: Mapping[int, int]) -> FindingView:
    facts = _facts(FindingView, row, hues) | {name: clean(row[name], 1000) for name in ("detail", "advice")}
    change = printable((row["change"] or "")[:_MAX_CHANGE], keep="\n\t")
    num_launches = (row["num_kernels"] or 0) * row["count"] if row["kind"] == "skip" else 0
    facts |= {"change": change, "num_launches": num_launches}
    return FindingView(**facts | {"reason": row["reason"].replace("_", " ").lower()})


def _path(row: dict[str, Any]) -> PathView | None:
    """Return a path; None if the column is not a list of numbers."""
    try:
        nodes = json.loads(row["path"] or "null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(nodes, list) or not nodes or not all(type(node) is int for node in nodes):
        return None
    return PathView(tuple(nodes[:_MAX_PATH]), int(row["count"]))
