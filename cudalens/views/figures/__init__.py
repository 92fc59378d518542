"""Plotly figures of the analyses, by the name of the analysis: ``trace.figure("idle_time")``.

A figure has only bars, scatters and pies: a report contains plotly's basic bundle, which draws these.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from cudalens.frames import Ranks, Trace

#: The module of this package, and its function, that draws each analysis.
FIGURES: Final[dict[str, str]] = {
    "attribution": "costs.attributed",
    "call_tree": "flame.figure",
    "critical_path": "critical_path.figure",
    "flame_graph": "flame.figure",
    "collectives": "communication.each_collective",
    "communication_overlap": "communication.overlap",
    "compare": "compare.figure",
    "idle_causes": "idle.causes",
    "idle_time": "idle.gaps",
    "kernel_breakdown": "costs.kernels",
    "kernel_sequences": "costs.sequences",
    "launch_statistics": "launch.launches",
    "launch_summary": "launch.launches",
    "memcpy_bandwidth": "communication.copies",
    "op_breakdown": "costs.operators",
    "queue_lengths": "launch.queues",
    "roofline": "roofline.figure",
    "temporal_breakdown": "idle.shares",
}


def figure(trace: Trace | Ranks, name: str, **options: Any) -> go.Figure:
    """Draw the analysis called `name`.

    Args:
        trace: What to analyse.
        name: A key of `FIGURES`.
        **options: As the analysis takes them.

    Raises:
        ValueError: There is no figure of that name; the message lists them.
    """
    if name not in FIGURES:
        raise ValueError(f"there is no figure {name!r}; there are: {', '.join(sorted(FIGURES))}")
    module, function = FIGURES[name].split(".")
    drawn: go.Figure = getattr(import_module(f"cudalens.views.figures.{module}"), function)(trace, **options)
    return drawn
