"""CUDA-graph trees for any function: record once, replay when that is safe, and report the reason when it is not.

The first call warms up, the second records, later ones replay::

    step = cudalens.cudagraph(lambda x: (x @ x).relu())  # or as a decorator; modules too, with backward through them
    for _ in range(4):
        out = step(torch.ones(64, 64, device="cuda"))
    cudalens.graphs.manager().frame()  # recordings, skips and re-recordings with their reasons
"""

from __future__ import annotations

from cudalens.graphs import managers as _managers
from cudalens.graphs.capturable import capturable
from cudalens.graphs.decorator import LazyGraphed, cudagraph
from cudalens.graphs.graphed import Graphed
from cudalens.graphs.inspector import inspect
from cudalens.graphs.manager import GraphManager
from cudalens.graphs.managers import reset
from cudalens.graphs.padding import Pad
from cudalens.graphs.reasons import Finding, Reason, State
from cudalens.graphs.steps import mark_step_begin

# After the imports of the submodules of these names, which would otherwise replace the functions.
manager = _managers.manager
managers = _managers.managers

__all__ = [
    "Finding",
    "GraphManager",
    "Graphed",
    "LazyGraphed",
    "Pad",
    "Reason",
    "State",
    "capturable",
    "cudagraph",
    "inspect",
    "manager",
    "managers",
    "mark_step_begin",
    "reset",
]
