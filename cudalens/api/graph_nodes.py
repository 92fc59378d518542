"""`graph_nodes`: what is in a CUDA graph, of a graphed function or of the replays in a Trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalens.errors import GraphError
from cudalens.frames import Trace

if TYPE_CHECKING:
    from cudalens.graphs import Graphed, LazyGraphed
    from cudalens.views.graphs.nodes import ShownNodes


def graph_nodes(what: Trace | Graphed | LazyGraphed, graph: int | None = None) -> ShownNodes:
    """Return the nodes of a CUDA graph: kernel, operator, module, line, time, bytes, dependencies, longest path.

    Prints as text, shows as a picture of the streams and a table; ``.frame`` has a row per node.

    Args:
        what: A function that `cudalens.cudagraph` made, on a virtual device; or a Trace with replays, in which nodes
            have neither operators nor dependencies.
        graph: Number of the recording (``trace.graphs.node``), or the ``graph_id`` in the Trace; by default the
            function's latest recording, or the graph with the most device time.

    Raises:
        GraphError: There is no such graph, or its nodes are unknown.
        TypeError: `what` is neither of them.
    """
    from cudalens.analysis.graphs import nodes_of_rows, nodes_of_trace
    from cudalens.views.graphs.nodes import ShownNodes
    from cudalens.views.sections.trust import simulated

    if isinstance(what, Trace):
        return ShownNodes(nodes_of_trace(what, graph), simulated(what.info) or "")
    import torch

    from cudalens.graphs import Graphed, LazyGraphed
    from cudalens.graphs.node_rows import node_rows

    if isinstance(what, LazyGraphed):
        what = what.on(torch.cuda.current_device())
    if not isinstance(what, Graphed):
        raise TypeError(f"graph_nodes of {type(what).__name__}: expected a graphed function or a Trace.")
    manager, name = what.manager, what._function.name
    mine = [node for node in manager.nodes() if node.variant.function is what._function]
    known = [node for node in mine if graph is None or node.id == graph]
    if not known:
        numbers = ", ".join(str(node.id) for node in mine) or "none"
        raise GraphError(f"{name} has no recording{'' if graph is None else f' {graph}'}; its recordings: {numbers}.")
    rows = node_rows(known[-1], manager.backend)
    badge = manager.backend.name.replace("virtual:", "simulated: ")
    return ShownNodes(nodes_of_rows(f"{name} (graph {known[-1].id})", rows), badge)
