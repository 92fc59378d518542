"""Summarize what a graph manager did: share of replays, speedup, memory of the pools, problems; nodes of one graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from cudalens.errors import GraphError

if TYPE_CHECKING:
    from cudalens.frames import Trace


@dataclass(frozen=True)
class Speed:
    """How replays compare with calls without a graph, over the recordings where both times are known.

    Attributes:
        eager_ns: What the replays would have taken without graphs: sum of replays x eager time of their recording, ns.
        replay_ns: What they took: sum of replays x replay time, ns; more than 0.
        num_replays: Replays of those recordings.
    """

    eager_ns: float
    replay_ns: float
    num_replays: int

    @property
    def ratio(self) -> float:
        """How many times as fast as eager; below 1 where replays are slower."""
        return self.eager_ns / self.replay_ns


@dataclass(frozen=True)
class EagerFunction:
    """A function that runs without a graph.

    Attributes:
        name: Its name.
        function_id: Its number.
        why: The reason in a sentence, of the function ("writes its input 'cache'"), or "" if none is known.
    """

    name: str
    function_id: int
    why: str


@dataclass(frozen=True)
class FailedCheck:
    """A recording whose replay does not give what a call without a graph gives.

    Attributes:
        node: Number of the recording.
        function: Name of its function.
        max_abs_diff: Largest difference; None if the values are not numbers.
        first_diff: The first element that differs, as text, or "".
    """

    node: int | None
    function: str
    max_abs_diff: float | None
    first_diff: str


@dataclass(frozen=True)
class GraphsSummary:
    """The numbers of a graphs frame that a verdict shows.

    Attributes:
        num_functions: Functions of the manager.
        num_graphs: Recordings.
        num_trees: Of those, how many begin a tree.
        num_calls: Calls of all functions.
        num_warmups: Of those, how many warmed up.
        num_recordings: Of those, how many recorded.
        num_replays: Of those, how many replayed; if no calls were counted, replays of the recordings.
        num_eager: Of those, how many ran without a graph.
        num_launches_saved: Launches that the replays did not make; 0 if no number of launches is known.
        speed: Replays against eager; None if nothing was measured.
        host_gain_ns: How much less host time a replay takes than a call without a graph, over the replays where both
            are known, ns; negative if it takes more; None if nothing is known.
        pool_bytes: Reserved by the memory pools, each counted once; None if no pool's size is known.
        eager: Functions that run without a graph.
        warm: Names of functions that have been warmed up, and that the next call records.
        failed: Recordings whose check failed.
        num_checked: Recordings that were checked.
        num_rerecords: How often a function was recorded once more.
        num_warnings: Number of warnings.
        change: The change of the program that saves the most launches, as lines of a diff; "" if none is known.
    """

    num_functions: int
    num_graphs: int
    num_trees: int
    num_calls: int
    num_warmups: int
    num_recordings: int
    num_replays: int
    num_eager: int
    num_launches_saved: int
    speed: Speed | None
    host_gain_ns: float | None
    pool_bytes: int | None
    eager: tuple[EagerFunction, ...]
    warm: tuple[str, ...]
    failed: tuple[FailedCheck, ...]
    num_checked: int
    num_rerecords: int
    num_warnings: int
    change: str

    @property
    def replayed_pct(self) -> float | None:
        """Share of all calls that replayed, per cent; None if no call was counted."""
        return 100 * self.num_replays / self.num_calls if self.num_calls else None


def summarize_graphs(trace: Trace) -> GraphsSummary:
    """Return the summary of ``trace.graphs``."""
    graphs = trace.graphs
    functions, recordings = (graphs[graphs["kind"] == kind] for kind in ("function", "recording"))
    is_eager = runs_eager(functions)
    num_calls = int(functions["count"].sum())
    replays = functions["num_replays"].sum() if num_calls else recordings["count"].sum()
    checked = recordings[recordings["is_equal"].notna()]
    # Launches of the recorded kernels that replays did not make: each replay launches one graph, or several.
    launches = recordings["num_kernels"].fillna(1).astype(int) - recordings["num_pieces"].fillna(1).astype(int)
    known = recordings[recordings["host_eager_ns"].notna() & recordings["host_replay_ns"].notna()]
    count = known["count"].fillna(0).astype(float)
    host_gain_ns = None
    if count.sum():
        gain = known["host_eager_ns"].astype(float) - known["host_replay_ns"].astype(float)
        host_gain_ns = float((count * gain).sum() / count.sum())
    changed = graphs[graphs["change"].notna() & graphs["kind"].isin(["skip", "rerecord"])]
    first_change = ""
    if len(changed):
        num_saved = changed["count"].fillna(0) * changed["num_kernels"].fillna(0)
        first_change = str(changed["change"].iloc[int(num_saved.astype(float).to_numpy().argmax())])
    return GraphsSummary(
        num_functions=len(functions),
        num_graphs=len(recordings),
        num_trees=int(recordings["parent"].isna().sum()),
        num_calls=num_calls,
        num_warmups=int(functions["num_warmups"].sum()),
        num_recordings=int(functions["num_recordings"].sum()),
        num_replays=int(replays),
        num_eager=int(functions["num_eager"].sum()),
        num_launches_saved=int((recordings["count"].fillna(0).astype(int) * launches.clip(lower=0)).sum()),
        speed=speed(recordings),
        host_gain_ns=host_gain_ns,
        pool_bytes=pool_bytes(graphs),
        eager=tuple(_eager(graphs, row) for row in _rows(functions[is_eager])),
        warm=tuple(str(name) for name in functions.loc[functions["state"].eq("warm") & ~is_eager, "function"]),
        failed=tuple(_failed(row) for row in _rows(checked[~checked["is_equal"].astype(bool)])),
        num_checked=len(checked),
        num_rerecords=_times(graphs, "rerecord"),
        num_warnings=_times(graphs, "warning"),
        change=first_change,
    )


def runs_eager(functions: pd.DataFrame) -> pd.Series:
    """Return which functions run without a graph: those in state "eager", and warm ones that have run eagerly.

    Args:
        functions: Rows of the graphs frame of the kind "function".
    """
    ran_eagerly = functions["state"].eq("warm") & functions["num_eager"].gt(0).fillna(False).astype(bool)
    return (functions["state"].eq("eager") | ran_eagerly).astype(bool)


def speed(recordings: pd.DataFrame) -> Speed | None:
    """Replays against eager, weighted by how often each recording was replayed.

    A recording that was never replayed counts for nothing, and so does one whose eager or replay time is missing.

    Args:
        recordings: Rows of the graphs frame of the kind "recording".

    Returns:
        None if no replayed recording has both times, or the replays took no time.
    """
    known = recordings[recordings["eager_ns"].notna() & recordings["replay_ns"].notna() & (recordings["count"] > 0)]
    count = known["count"].astype(float)
    eager, replay = ((count * known[name].astype(float)).sum() for name in ("eager_ns", "replay_ns"))
    return Speed(float(eager), float(replay), int(known["count"].sum())) if replay > 0 else None


def pool_bytes(graphs: pd.DataFrame) -> int | None:
    """Bytes that the pools reserve, each pool of a device once; None if no size is known."""
    known = graphs[graphs["reserved_bytes"].notna()]
    if known.empty:
        return None
    # Every row of a pool carries the size of the whole pool.
    by_pool = known.assign(pool=known["pool"].astype(object), device=known["device"].astype(object))
    return int(by_pool.groupby(["pool", "device"], dropna=False)["reserved_bytes"].max().sum())


def _eager(graphs: pd.DataFrame, function: dict[str, Any]) -> EagerFunction:
    """Why a function runs eagerly: the reason of its own row, else that of its most frequent skip."""
    why = function["detail"]
    if why is None:
        skips = graphs[(graphs["kind"] == "skip") & (graphs["function_id"] == function["function_id"])]
        reasons = skips.sort_values("count", ascending=False, kind="stable")["detail"].dropna()
        why = reasons.iloc[0] if len(reasons) else ""
    return EagerFunction(str(function["function"]), int(function["function_id"]), str(why))


def _failed(row: dict[str, Any]) -> FailedCheck:
    return FailedCheck(
        node=None if row["node"] is None else int(row["node"]),
        function=str(row["function"]),
        max_abs_diff=None if row["max_abs_diff"] is None else float(row["max_abs_diff"]),
        first_diff=str(row["first_diff"] or ""),
    )


def _times(graphs: pd.DataFrame, kind: str) -> int:
    return int(graphs.loc[graphs["kind"] == kind, "count"].sum())


def _rows(frame: pd.DataFrame) -> Iterable[dict[str, Any]]:
    """Rows as dicts of plain values; None for missing ones."""
    plain = frame.astype(object).where(frame.notna(), None)
    return ({str(name): value for name, value in row.items()} for row in plain.to_dict("records"))


#: Columns of the frame of nodes, in order.
COLUMNS: Final = (
    *("node", "piece", "kernel", "kind", "operator", "module", "place", "source", "stream", "start_ns", "dur_ns"),
    *("num_bytes", "num_replays", "after", "is_longest"),
)


@dataclass(frozen=True)
class GraphNodes:
    """The nodes of one graph.

    Attributes:
        name: What it is the graph of.
        frame: A row per node. node: its number in the order of the capture, or in a Trace ``graph_node_id``. piece: the
            graph, of a split recording. kernel, kind, stream; operator, module, place, source: what issued it; missing
            if that is unknown. start_ns: when it starts after the first node. dur_ns: its time, in a Trace the median
            of the replays. num_bytes: what it reads and writes. num_replays: replays in the Trace. after: numbers of
            the nodes that it depends on; missing in a Trace. is_longest: whether it is on the longest path.
        longest_ns: Sum of the times on the longest path.
        is_by_time: Whether the path was found by the times of the replays, because no dependencies are known: from the
            last end back to the node that ended last before each start.
    """

    name: str
    frame: pd.DataFrame
    longest_ns: int
    is_by_time: bool


def nodes_of_rows(name: str, rows: Sequence[dict[str, Any]]) -> GraphNodes:
    """Return the nodes of a recording, whose dependencies are known.

    Args:
        name: What it is the graph of.
        rows: A dict per node: the columns of the frame besides ``start_ns``, ``num_replays`` and ``is_longest``. A node
            comes after those that it depends on.
    """
    starts: list[int] = []
    before: list[int | None] = []
    for row in rows:
        latest = max(row["after"], key=lambda node: starts[node] + rows[node]["dur_ns"], default=None)
        before.append(latest)
        starts.append(0 if latest is None else starts[latest] + rows[latest]["dur_ns"])
    ends = [start + row["dur_ns"] for start, row in zip(starts, rows, strict=True)]
    path: set[int] = set()
    at = max(range(len(rows)), key=lambda node: ends[node], default=None)
    while at is not None:
        path.add(at)
        at = before[at]
    made = [row | {"start_ns": starts[n], "is_longest": n in path} for n, row in enumerate(rows)]
    return GraphNodes(name, _framed(made), max(ends, default=0), is_by_time=False)


def nodes_of_trace(trace: Trace, graph_id: int | None = None) -> GraphNodes:
    """Return the nodes of a graph that was replayed in a Trace.

    Args:
        trace: With device events that have graph node ids.
        graph_id: The graph; by default the one with the most device time.

    Raises:
        GraphError: There is no such graph in it, or its nodes have no ids.
    """
    events = trace.events
    is_node = events["graph_id"].notna() & events["correlation_id"].notna() & events["dur"].notna()
    work = events[is_node & events["graph_node_id"].notna()]
    if work.empty:
        what = "the nodes of its graphs have no ids" if is_node.any() else "it has no replays of CUDA graphs"
        raise GraphError(f"{trace.info.name or 'the trace'}: {what}.")
    totals = work.groupby("graph_id")["dur"].sum()
    wanted = int(totals.idxmax()) if graph_id is None else graph_id
    if wanted not in totals.index:
        known = ", ".join(map(str, totals.sort_values(ascending=False).index[:8]))
        raise GraphError(f"there is no graph {wanted} in the trace; there are {known}.")
    work = work[work["graph_id"] == wanted]
    begin = work.groupby(["device", "correlation_id"], dropna=False)["ts"].transform("min")
    work = work.assign(start_ns=work["ts"] - begin)
    rows = [_row_of(int(node), group) for node, group in work.groupby("graph_node_id")]
    rows.sort(key=lambda row: (row["start_ns"], row["node"]))
    # The path goes from the last end back to the node that ended last before each start.
    starts = np.array([row["start_ns"] for row in rows])
    ends = starts + np.array([row["dur_ns"] for row in rows])
    path = {int(ends.argmax())} if len(rows) else set()
    at = next(iter(path), None)
    while at is not None:
        earlier = np.flatnonzero((ends <= starts[at]) & (starts < starts[at]))
        at = int(earlier[ends[earlier].argmax()]) if len(earlier) else None
        path |= set() if at is None else {at}
    for n, row in enumerate(rows):
        row["is_longest"] = n in path
    return GraphNodes(f"graph {wanted}", _framed(rows), sum(rows[n]["dur_ns"] for n in path), is_by_time=True)


def _row_of(node: int, group: pd.DataFrame) -> dict[str, Any]:
    first = group.iloc[0]
    num_bytes = group["num_bytes"].dropna()
    return {
        "node": node,
        "kernel": str(first["name"]),
        "kind": str(first["cat"]),
        "stream": None if pd.isna(first["stream"]) else int(first["stream"]),
        "start_ns": round(float(np.median(group["start_ns"]))),
        "dur_ns": round(float(np.median(group["dur"]))),
        "num_bytes": int(num_bytes.iloc[0]) if len(num_bytes) else None,
        "num_replays": len(group),
    }


def _framed(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame([{name: row.get(name) for name in COLUMNS} for row in rows], columns=list(COLUMNS))
    numbers = ("node", "piece", "stream", "start_ns", "dur_ns", "num_bytes", "num_replays")
    return frame.astype(dict.fromkeys(numbers, "Int64") | {"is_longest": "boolean"})
