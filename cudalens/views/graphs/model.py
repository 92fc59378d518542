"""The view model of a graph manager: functions, the trees of recordings, paths and findings, with cleaned texts.

A frame from a file may be invalid: missing parents, cycles, duplicate numbers. Every recording is still shown once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from cudalens.analysis import units
from cudalens.analysis.cached import once_per_trace
from cudalens.frames import Trace
from cudalens.views.sections.clean_text import clean, clean_records, printable

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
    # The number of each function's hue, in order of appearance.
    ids = dict.fromkeys(int(row["function_id"]) for row in rows if row["kind"] in ("function", "recording"))
    hues = {number: position % NUM_HUES for position, number in enumerate(ids)}
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


# The layout of the tree of recordings.

#: Maximum number of recordings in a row, without a branch, that are shown; of more, the inner ones fold into one line.
MAX_CHAIN: Final = 9

#: Maximum number of branches of a recording, and of trees, that are shown; the others fold into one line.
MAX_BRANCHES: Final = 6

_HEAD, _TAIL = 4, 3
_MAX_NAMES: Final = 4


@dataclass(frozen=True, slots=True)
class Stop:
    """A recording in its chain, and the branches after it (most replays first)."""

    recording: Recording
    branches: tuple[Chain, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Consecutive recordings, from the top down."""

    stops: tuple[Stop, ...]

    @property
    def is_on_path(self) -> bool:
        """Whether its first recording is on the current path."""
        return self.stops[0].recording.is_on_path

    def recordings(self) -> Iterator[Recording]:
        """Yield all recordings, including those of the branches, in drawing order."""
        for stop in self.stops:
            yield stop.recording
            for branch in stop.branches:
                yield from branch.recordings()


@dataclass(frozen=True, slots=True)
class Fold:
    """Recordings that are folded into one line.

    Attributes:
        stops: Stops of a chain; empty if chains are folded.
        chains: Branches or trees; empty if stops are folded.
    """

    stops: tuple[Stop, ...] = ()
    chains: tuple[Chain, ...] = ()

    def label(self, noun: str = "branch") -> str:
        """Its content in one line; `noun` is the word for its chains."""
        within = [recording for chain in (*self.chains, Chain(self.stops)) for recording in chain.recordings()]
        names = ran_names(recording.function for recording in within)
        replays = units.count(sum(recording.num_replays for recording in within))
        if self.stops:
            return f"{units.count(len(within))} more in a row: {names}, {replays} replays"
        number, _, kind = units.plural(len(self.chains), noun).partition(" ")
        return f"{number} more {kind}: {names}, {replays} replays"


ChainItem: TypeAlias = Stop | Fold


def chains(view: GraphsView) -> tuple[Chain, ...]:
    """Return the trees of a manager, the current one first, then by replays.

    A recording with one successor is drawn above it in the same lane, so that a long chain needs no width. Of several
    successors, one continues the lane: the one on the current path, else the one with most replays in its subtree. The
    others are branches. A branch has at most half of the replays, so the depth of nesting is at most their logarithm.
    """
    below: dict[int, list[int]] = {}
    for child, parent in view.parents.items():
        below.setdefault(parent, []).append(child)
    # All recordings' numbers, each after its parent.
    order = [node for node in view.recordings if node not in view.parents]
    for node in order:  # grows during the loop
        order.extend(below.get(node, ()))
    # Replays in the subtree of each recording, plus one per recording, so that no weight is zero.
    weights = {node: view.recordings[node].num_replays + 1 for node in order}
    for node in reversed(order):
        if (above := view.parents.get(node)) is not None:
            weights[above] += weights[node]
    rank = _Ranks(view.recordings, weights)
    made: dict[int, Chain] = {}
    for node in reversed(order):  # successors before their predecessors
        made[node] = _chain(view.recordings[node], rank.sorted(below.get(node, ())), made)
    return tuple(made[root] for root in rank.sorted(node for node in order if node not in view.parents))


def _chain(recording: Recording, successors: Sequence[int], made: dict[int, Chain]) -> Chain:
    """`recording` followed by the chain of its main successor, which is removed from `made`."""
    branches = tuple(made.pop(node) for node in successors[1:])
    rest = made.pop(successors[0]).stops if successors else ()
    return Chain((Stop(recording, branches), *rest))


@dataclass(frozen=True)
class _Ranks:
    recordings: Mapping[int, Recording]
    weights: Mapping[int, int]

    def sorted(self, nodes: Iterable[int]) -> list[int]:
        """Return the one on the current path first, then by weight."""
        return sorted(nodes, key=lambda node: (not self.recordings[node].is_on_path, -self.weights[node], node))


def chain_items(chain: Chain) -> list[ChainItem]:
    """Return the stops of a chain, with long runs of plain stops folded."""
    items: list[ChainItem] = []
    plain: list[Stop] = []
    for stop in chain.stops:
        if _is_plain(stop):
            plain.append(stop)
            continue
        items += _folded(plain)
        items.append(stop)
        plain = []
    return items + _folded(plain)


def _is_plain(stop: Stop) -> bool:
    """Return whether it has no branch and no failed check, and is not the current recording."""
    return not stop.branches and not stop.recording.is_current and stop.recording.is_equal is not False


def _folded(stops: list[Stop]) -> list[ChainItem]:
    if len(stops) <= MAX_CHAIN:
        return list(stops)
    return [*stops[:_HEAD], Fold(stops=tuple(stops[_HEAD:-_TAIL])), *stops[-_TAIL:]]


def split_branches(branches: Sequence[Chain]) -> tuple[Sequence[Chain], Fold | None]:
    """Branches (or trees) to show, and the rest as a fold; the current path and failed checks are always shown."""
    if len(branches) <= MAX_BRANCHES:
        return branches, None
    shown = [
        branch
        for position, branch in enumerate(branches)
        if position < MAX_BRANCHES - 1 or branch.is_on_path or any(r.is_equal is False for r in branch.recordings())
    ]
    # Chains compare by value, which is slow for long ones: compare them by identity.
    kept = {id(branch) for branch in shown}
    rest = tuple(branch for branch in branches if id(branch) not in kept)
    return shown, Fold(chains=rest) if rest else None


def ran_names(names: Iterable[str]) -> str:
    """Names with how often each occurs, the most frequent first: ``layer x12, norm x12 and 3 others``."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    ordered = [(units.shorten(name, 40), count) for name, count in sorted(counts.items(), key=lambda item: -item[1])]
    shown = [f"{name} x{units.count(count)}" if count > 1 else name for name, count in ordered[:_MAX_NAMES]]
    more = len(ordered) - len(shown)
    return ", ".join(shown) + (f" and {units.plural(more, 'other')}" if more > 0 else "")


def path_names(names: Sequence[str]) -> list[str]:
    """Names along a path; repeats of a name, and of two or three names in turn, are counted: ``attend → mlp x12``."""
    found: list[str] = []
    at = 0
    while at < len(names):
        period, times = _repeat(names, at)
        group = " → ".join(names[at : at + period])
        if times > 1:
            group = f"({group}) x{times}" if period > 1 else f"{group} x{times}"
        found.append(group)
        at += period * times
    return found


def _repeat(names: Sequence[str], at: int) -> tuple[int, int]:
    """Return the longest repetition that begins at `at`: (names in its unit, times); (1, 1) for none."""
    best = (1, 1)
    for period in (1, 2, 3):
        unit = names[at : at + period]
        times = 1
        while names[at + times * period : at + (times + 1) * period] == unit and len(unit) == period:
            times += 1
        if times > 1 and period * times > best[0] * best[1]:
            best = (period, times)
    return best
