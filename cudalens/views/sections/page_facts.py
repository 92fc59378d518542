"""What the page says in words: verdict, badge and notes, as small JSON that the widget and the report share."""

from __future__ import annotations

from typing import Any, Final

from cudalens.frames import Trace
from cudalens.views.graphs import text as graphs_text
from cudalens.views.graphs import tree as graphs
from cudalens.views.memory import map as memory_map
from cudalens.views.races import cards as races
from cudalens.views.sections import findings, waits
from cudalens.views.sections import summary as text
from cudalens.views.sections.write_html import to_json
from cudalens.views.timeline import metrics_text

MEMORY_HINT: Final = (
    "Allocations were not recorded. Profile with %%cudaprofile --memory, or cudalens.profile(memory=True), "
    "to see the memory curve."
)


def facts(trace: Trace) -> dict[str, Any]:
    """Facts of `trace` for the page: ``verdict``, ``badge``, ``notes``, ``memoryHint`` and ``metrics``, plain text.

    ``findings``: what costs time as a tree of elements, or None; its rows carry an event in ``data-event``.
    ``syncs``: the table of waits for the GPU as a tree of elements, or None.
    ``memoryMap``: the pools of a device's memory as trees of elements, or None; ``memoryFirst``: it
    stands above the timeline; ``memoryAlone``: there is no timeline.
    ``hasRaces``, ``hasGraphs``: there are races and graphs to ask for; ``graphsFirst``: wrong results stand before all;
    ``hasProfile``: there are timeline and costs.
    """
    return {
        "verdict": text.verdict(trace, badge=False),
        "badge": text.badges(trace.info),
        "notes": text.notes(trace.info),
        "memoryHint": MEMORY_HINT,
        "findings": to_json(findings.section(trace)),
        "syncs": to_json(waits.section(trace)),
        "metrics": metrics_text.metrics_line(trace),
        "memoryMap": memory_map.page_tree(trace),
        "memoryFirst": memory_map.is_first(trace),
        "memoryAlone": memory_map.stands_alone(trace),
        "hasRaces": races.has_races(trace),
        "hasGraphs": graphs.has_graphs(trace),
        "graphsFirst": graphs_text.has_failed(trace),
        "hasProfile": text.has_profile(trace),
    }
