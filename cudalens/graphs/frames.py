"""Build the ``graphs`` frame from the log of a manager, and join those of several managers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from cudalens.frames.catalog_frames import empty_frame, frame_of_rows
from cudalens.graphs.functions import Counts, Function
from cudalens.graphs.node import GraphNode
from cudalens.graphs.waits import describe_split

if TYPE_CHECKING:
    from cudalens.device.stacks import Place
    from cudalens.graphs.log import Entry, Mark
    from cudalens.graphs.manager import GraphManager


def graphs_frame(manager: GraphManager, since: int | None = None) -> pd.DataFrame:
    """The frame of a manager.

    Args:
        manager: Whose.
        since: From its `mark`: functions that were not called since are left out, counts begin there.
    """
    mark = manager.tree.log.since(since)
    return frame_of_rows("graphs", list(_rows(manager, mark, is_part=since is not None)))


def _rows(manager: GraphManager, mark: Mark, *, is_part: bool) -> Iterator[dict[str, Any]]:
    reserved, _ = manager.pool_bytes()
    common = {
        "device": manager.device,
        "pool": json.dumps(manager.pool) if manager.pool is not None else None,
        "reserved_bytes": reserved if manager.pool is not None else None,
    }
    called = set()
    for function in manager.functions:
        counts = _counts_since(function, mark)
        if counts.calls or not is_part:
            called.add(function.id)
            yield common | _function_row(function, counts)
    freed = manager.tree.bytes_freed_with()
    nodes = [node for node in manager.nodes() if node.variant.function.id in called]
    current = manager.current.path if isinstance(manager.current, GraphNode) else []
    on_path = {node.id for node in current}
    last = manager.current.id if isinstance(manager.current, GraphNode) else None
    for node in nodes:
        state = "on the path" if node.id in on_path else "idle"
        if node.id == last:
            state = "current"
        row = _node_row(node, state, node.num_replays - mark.replays.get(node.id, 0))
        yield common | row | {"frees_bytes": freed.get(node.id)}
        if node.waits:
            yield from (common | piece for piece in _piece_rows(node, row["count"]))
    yield from (common | row for row in _path_rows(manager, mark))
    yield from (common | _entry_row(entry) for entry in manager.tree.log.entries(mark))


def _counts_since(function: Function, mark: Mark) -> Counts:
    now, before = function.counts, mark.calls.get(function.id, Counts())
    return Counts(
        now.warmups - before.warmups,
        now.recordings - before.recordings,
        now.replays - before.replays,
        now.eager - before.eager,
    )


def _named(function: Function) -> dict[str, Any]:
    return {"function": function.name, "function_id": function.id}


def _at(place: Place | None) -> dict[str, Any]:
    if place is None or place.code is None:
        return {}
    return {"place": str(place), "source": place.source or None}


def _function_row(function: Function, counts: Counts) -> dict[str, Any]:
    finding = function.why_skipped()
    state = "recorded" if function.counts.recordings else "warm"
    if function.is_eager:
        state = "eager"
    row = _named(function) | {"kind": "function", "state": state, "count": counts.calls} | _at(function.place)
    row |= {
        "num_warmups": counts.warmups,
        "num_recordings": counts.recordings,
        "num_replays": counts.replays,
        "num_eager": counts.eager,
    }
    if finding is not None:
        row |= {
            "reason": finding.reason.name,
            "detail": finding.reason.sentence(finding.what),
            "advice": finding.reason.advice,
            "change": finding.change or None,
        }
    return row


def _node_row(node: GraphNode, state: str, num_replays: int) -> dict[str, Any]:
    variant, parent = node.variant, node.parent
    refs = [ref for ref in node.refs[: node.first_saved] if ref is not None]
    row = _named(variant.function) | _at(variant.function.place)
    row |= {
        "kind": "recording",
        "variant": variant.text,
        "detail": describe_split(node.waits),
        "node": node.id,
        "parent": None if parent is None else parent.id,
        "depth": node.depth,
        "mode": node.mode,
        "state": state,
        "count": num_replays,
        "pool_bytes": node.pool_bytes,
        "num_kernels": variant.num_kernels,
        "num_pieces": len(node.waits) + 1,
        "num_static_inputs": len(node.fixed) + len(node.guards),
        "num_copied_inputs": len(node.copied),
        "copied_bytes": sum(copied.buffer.numel() * copied.buffer.element_size() for copied in node.copied),
        "num_outputs": node.num_results,
        "num_live_outputs": None if state == "idle" else sum(ref.is_alive() for ref in refs),
        "record_ns": node.record_ns,
        "eager_ns": node.eager_ns,
        "replay_ns": node.replay_ns,
        "host_eager_ns": variant.cost.eager_ns,
        "host_replay_ns": variant.cost.replay_ns,
    }
    if node.check is not None:
        row |= {
            "is_equal": node.check.is_equal,
            "max_abs_diff": node.check.max_abs_diff,
            "first_diff": node.check.first_diff,
        }
    return row


def _piece_rows(node: GraphNode, num_replays: int) -> Iterator[dict[str, Any]]:
    """The graphs of a split recording, each but the last with the read behind it."""
    variant = node.variant
    row = _named(variant.function) | {"kind": "piece", "node": node.id, "count": num_replays}
    for number, wait in enumerate(node.waits):
        of_read = {"num_kernels": wait.num_kernels, "detail": f"reads {wait.shown}", "wait_ns": wait.wait_ns}
        yield row | {"piece": number, "change": wait.change or None} | of_read | _at(wait.place)
    num_left = variant.num_kernels - sum(wait.num_kernels for wait in node.waits)
    yield row | {"piece": len(node.waits), "num_kernels": num_left}


def _path_rows(manager: GraphManager, mark: Mark) -> Iterator[dict[str, Any]]:
    nodes = {node.id: node for node in manager.nodes()}
    for path, total in manager.tree.paths_so_far().most_common():
        count = total - mark.paths.get(path, 0)
        if path and path[-1] in nodes and count > 0:
            yield _named(nodes[path[-1]].variant.function) | {"kind": "path", "path": json.dumps(path), "count": count}


def _entry_row(entry: Entry) -> dict[str, Any]:
    finding = entry.finding
    return (
        _named(entry.function)
        | {
            "kind": finding.reason.kind,
            "variant": entry.variant.text if entry.variant is not None else None,
            "mode": entry.variant.mode if entry.variant is not None else None,
            "count": entry.count,
            "reason": finding.reason.name,
            "detail": finding.reason.sentence(finding.what),
            "advice": finding.reason.advice,
            "change": finding.change or None,
            "num_kernels": entry.num_kernels or None,
        }
        | _at(finding.place or entry.function.place)
    )


def joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Frames of several managers as one: functions and recordings are numbered anew, so that no two are the same."""
    known = [frame for frame in frames if len(frame)]
    if len(known) < 2:
        return known[0] if known else empty_frame("graphs")
    rows: list[dict[str, Any]] = []
    functions = nodes = 0
    for frame in known:
        found = [_shifted(row, functions, nodes) for row in frame.to_dict("records")]
        functions = 1 + max(row["function_id"] for row in found)
        nodes = 1 + max((row["node"] for row in found if row["node"] is not None), default=nodes - 1)
        rows += found
    return frame_of_rows("graphs", rows)


def _shifted(row: dict[Any, Any], functions: int, nodes: int) -> dict[str, Any]:
    plain = {str(name): None if pd.isna(value) else value for name, value in row.items()}
    for name, shift in (("function_id", functions), ("node", nodes), ("parent", nodes)):
        number = plain[name]
        plain[name] = None if number is None else number + shift
    if plain["path"] is not None:
        plain["path"] = json.dumps([number + nodes for number in json.loads(plain["path"])])
    return plain
