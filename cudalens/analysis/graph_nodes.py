"""The nodes of a CUDA graph with the longest path through them, of a recording or of the replays in a Trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from cudalens.errors import GraphError

if TYPE_CHECKING:
    from cudalens.frames import Trace

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
    path = _path_by_time(rows)
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


def _path_by_time(rows: Sequence[dict[str, Any]]) -> set[int]:
    """Positions on the path from the last end back to the node that ended last before each start."""
    starts = np.array([row["start_ns"] for row in rows])
    ends = starts + np.array([row["dur_ns"] for row in rows])
    path = {int(ends.argmax())} if len(rows) else set()
    at = next(iter(path), None)
    while at is not None:
        earlier = np.flatnonzero((ends <= starts[at]) & (starts < starts[at]))
        at = int(earlier[ends[earlier].argmax()]) if len(earlier) else None
        path |= set() if at is None else {at}
    return path


def _framed(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame([{name: row.get(name) for name in COLUMNS} for row in rows], columns=list(COLUMNS))
    numbers = ("node", "piece", "stream", "start_ns", "dur_ns", "num_bytes", "num_replays")
    return frame.astype(dict.fromkeys(numbers, "Int64") | {"is_longest": "boolean"})
