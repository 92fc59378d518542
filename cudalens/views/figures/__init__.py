"""Plotly figures of the analyses, by the name of the analysis: ``trace.figure("idle_time")``.

A figure has only bars, scatters and pies: a report contains plotly's basic bundle, which draws these.
"""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    import plotly.graph_objects as go

    from cudalens.analysis.compare.runs import Comparable
    from cudalens.frames import Ranks, Trace
    from cudalens.frames.info import Ceilings
    from cudalens.views.figures.style import Mode

#: The module of this package, and its function, that draws each analysis.
FIGURES: Final[dict[str, str]] = {
    "attribution": "costs.attributed",
    "call_tree": "costs.flame_graph_plot",
    "critical_path": "costs.critical_path_bars",
    "flame_graph": "costs.flame_graph_plot",
    "collectives": "rates.each_collective",
    "communication_overlap": "rates.overlap",
    "compare": "costs.changes",
    "idle_causes": "idle.causes",
    "idle_time": "idle.gaps",
    "kernel_breakdown": "costs.kernels",
    "kernel_sequences": "costs.sequences",
    "launch_statistics": "idle.launches",
    "launch_summary": "idle.launches",
    "memcpy_bandwidth": "rates.copies",
    "op_breakdown": "costs.operators",
    "queue_lengths": "idle.queues",
    "roofline": "rates.roofline_plot",
    "temporal_breakdown": "idle.shares",
}


def figure(
    trace: Trace | Ranks,
    name: str,
    *,
    mode: Mode = "auto",
    by: str | None = None,
    step: int | None = None,
    start: int | None = None,
    end: int | None = None,
    weight: str | None = None,
    per_thread: bool | None = None,
    min_ns: int | None = None,
    length: int | tuple[int, int] | None = None,
    min_count: int | None = None,
    max_gap_ns: int | None = None,
    top: int | None = None,
    call_cutoff_ns: int | None = None,
    delay_cutoff_ns: int | None = None,
    full_queue: int | None = None,
    ceilings: Ceilings | Mapping[int, Ceilings] | None = None,
    other: Comparable | None = None,
) -> go.Figure:
    """Draw the analysis called `name`.

    Args:
        trace: What to analyse.
        name: A key of `FIGURES`.
        mode: Colours: ``light``, ``dark``, or ``auto`` for those of the page.
        by: What is one bar, one point or one group: of the analysis of that name, as are all following options. None
            is the analysis' own default.
        step: A profiler step.
        start: Start of a ``critical_path``, ns.
        end: End of a ``critical_path``, ns.
        weight: The times of a ``flame_graph``: ``host`` or ``device``.
        per_thread: Whether a ``flame_graph`` separates threads.
        min_ns: Shortest gap of ``idle_time`` and ``idle_causes``, ns.
        length: Number of kernels of ``kernel_sequences``.
        min_count: Least number of occurrences of ``kernel_sequences``.
        max_gap_ns: Longest gap within ``kernel_sequences``, ns.
        top: Most rows of ``kernel_sequences``.
        call_cutoff_ns: Duration of a long call of ``launch_statistics``, ns.
        delay_cutoff_ns: Duration of a long delay of ``launch_statistics``, ns.
        full_queue: Length of a full queue of ``launch_statistics``.
        ceilings: The ceilings of a ``roofline``; required for a GPU that cudalens has no specification of.
        other: The run after, of ``compare``.

    Raises:
        ValueError: There is no figure of that name; the message lists them.
        TypeError: The figure does not have an option; the message lists those it has.
    """
    if name not in FIGURES:
        raise ValueError(f"there is no figure {name!r}; there are: {', '.join(sorted(FIGURES))}")
    options = {
        "by": by,
        "step": step,
        "start": start,
        "end": end,
        "weight": weight,
        "per_thread": per_thread,
        "min_ns": min_ns,
        "length": length,
        "min_count": min_count,
        "max_gap_ns": max_gap_ns,
        "top": top,
        "call_cutoff_ns": call_cutoff_ns,
        "delay_cutoff_ns": delay_cutoff_ns,
        "full_queue": full_queue,
        "ceilings": ceilings,
        "other": other,
    }
    given = {option: value for option, value in options.items() if value is not None}
    module, function = FIGURES[name].split(".")
    draw = getattr(import_module(f"cudalens.views.figures.{module}"), function)
    known = [option for option in signature(draw).parameters if option != "trace"]
    for option in given:
        if option not in known:
            raise TypeError(f"the figure {name!r} has no option {option!r}; it has: {', '.join(known)}")
    return draw(trace, mode=mode, **given)
