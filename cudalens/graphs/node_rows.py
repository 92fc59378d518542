"""List the nodes of a recording: kernel, operator, module, source line, time, bytes and dependencies of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from cudalens.errors import GraphError
from cudalens.graphs.observer import CapturedOperator

if TYPE_CHECKING:
    from cudalens.device.graph_backend import GraphBackend
    from cudalens.graphs.node import GraphNode


def node_rows(node: GraphNode, backend: GraphBackend) -> list[dict[str, Any]]:
    """Return a row per node of a recording; the pieces of a split one follow each other.

    Args:
        node: The recording.
        backend: Of its manager.

    Raises:
        GraphError: Its nodes are unknown, as on a real device.
    """
    if node.graph is None:
        raise GraphError(f"graph {node.id} of {node.variant.function.name} was freed.")
    rows: list[dict[str, Any]] = []
    names = module_names(node.variant.function.call, node.variant.function.modules or ())
    last: tuple[int, ...] = ()
    for piece, graph in enumerate([*(wait.graph for wait in node.waits), node.graph]):
        works = backend.work_of(graph)
        if works is None:
            raise GraphError(
                "torch gives no access to the nodes of a graph on a real device. Profile some replays, and pass the "
                "Trace: its events have the nodes, without operators and dependencies."
            )
        first = len(rows)
        operators: list[CapturedOperator | None] = [None] * len(works)  # None for what no operator added
        for one in node.captured:
            if one.piece == piece:
                for position in range(one.first, min(one.end, len(works))):
                    operators[position] = one
        for work, operator in zip(works, operators, strict=True):
            after = tuple(first + position for position in work.after) or last
            row = {"node": len(rows), "piece": piece, "kernel": work.name, "kind": work.kind or None, "after": after}
            row |= {"stream": work.stream, "dur_ns": work.dur_ns, "num_bytes": work.num_bytes}
            row |= {"operator": work.operator, "module": None, "place": None, "source": None}
            if operator is not None:
                place = operator.place if operator.place.code is not None else None
                row["operator"] = row["operator"] or operator.name
                row["module"] = None if operator.module is None else names.get(operator.module)
                row["place"] = None if place is None else str(place)
                row["source"] = None if place is None else place.source or None
            rows.append(row)
        needed = {position for work in works for position in work.after}
        last = tuple(first + n for n in range(len(works)) if n not in needed) or last
    return rows


def module_names(call: Any, modules: Sequence[torch.nn.Module]) -> dict[int, str]:
    """The names of modules within the largest module around them; the class of one without a module around it."""
    inner = {id(child) for module in modules for child in module.children()}
    names: dict[int, str] = {}
    for module in modules:
        if id(module) not in inner or module is call:
            for name, one in module.named_modules():
                names.setdefault(id(one), name or type(one).__name__)
    return names
