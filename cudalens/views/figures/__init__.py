"""Plotly figures of the analyses, by the name of the analysis: ``trace.figure("idle_time")``.

A figure is made of bars, scatters and pies alone: a report carries plotly's basic bundle, which draws these.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from cudalens.frames import Ranks, Trace

#: The module of this package whose function ``figure`` draws each analysis.
FIGURES: Final[dict[str, str]] = {
    "attribution": "attribution",
    "call_tree": "flame",
    "critical_path": "critical_path",
    "flame_graph": "flame",
    "collectives": "overlap_collectives",
    "communication_overlap": "overlap",
    "compare": "compare",
    "idle_causes": "idle_causes",
    "idle_time": "idle",
    "kernel_breakdown": "breakdown_kernels",
    "kernel_sequences": "sequences",
    "launch_statistics": "launch",
    "launch_summary": "launch",
    "memcpy_bandwidth": "bandwidth",
    "op_breakdown": "breakdown_ops",
    "queue_lengths": "launch_queue",
    "roofline": "roofline",
    "temporal_breakdown": "temporal",
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
    drawn: go.Figure = import_module(f"cudalens.views.figures.{FIGURES[name]}").figure(trace, **options)
    return drawn
