"""What a display of a Trace holds, in order: the static parts of notebooks and reports, and facts for the live page."""

from __future__ import annotations

from typing import Any, Final

from cudalens.frames import Trace
from cudalens.views import assets
from cudalens.views.graphs import text as graphs_text
from cudalens.views.graphs import tree as graphs
from cudalens.views.memory import map as memory_map
from cudalens.views.races import cards as races
from cudalens.views.sections import costs, findings, verdict, waits
from cudalens.views.sections.badges import badges
from cudalens.views.sections.model import Section
from cudalens.views.sections.write_html import nodes, to_html, to_json
from cudalens.views.timeline import readings
from cudalens.views.timeline.readings_svg import metrics_svg
from cudalens.views.timeline.svg import timeline_svg

#: Bytes by which estimates may be too low.
_SPARE: Final = 8_000
_MEMORY_HINT: Final = (
    "Allocations were not recorded. Profile with %%cudaprofile --memory, or cudalens.profile(memory=True), "
    "to see the memory curve."
)


def static_parts(trace: Trace, *, has_style: bool, max_bytes: int | None = None) -> str:
    """All that `trace` shows without a script, as HTML: verdict, races, graphs, pictures, waits and costs.

    Args:
        trace: What to show.
        has_style: Whether each section comes with its style sheet, for pages that do not have it.
        max_bytes: The graph tree is shortened to keep the whole below this; None for no limit.
    """
    head = Section("summary", verdict=verdict.verdict(trace), notes=tuple(verdict.notes(trace.info)))
    first = "".join(node.html() for node in nodes(head))
    found = _styled("races", races.static_html(trace), has_style)
    rest = "".join(
        (
            to_html(findings.section(trace), has_style=has_style),
            _styled("memory", memory_map.static_html(trace), has_style),
            *(picture.html() for picture in (timeline_svg(trace), metrics_svg(trace)) if picture is not None),
            to_html(waits.section(trace), has_style=has_style),
            to_html(costs.section(trace)),
        )
    )
    room = None if max_bytes is None else max_bytes - sum(len(part.encode()) for part in (first, found, rest))
    tree = _graphs(trace, has_style, room)
    found = f"{tree}{found}" if graphs_text.has_failed(trace) else f"{found}{tree}"
    return f"{first}{found}{rest}"


def _styled(name: str, html: str, has_style: bool) -> str:
    return f"<style>{assets.style(name)}</style>{html}" if html and has_style else html


def _graphs(trace: Trace, has_style: bool, room: int | None) -> str:
    """The graphs with their style, in the room that is left; the answer is always there."""
    if not graphs.has_graphs(trace):
        return ""
    if room is None:
        return _styled("graphs", graphs.static_html(trace), has_style)
    left = max(room - len(assets.style("graphs")) - _SPARE, 0)
    return _styled("graphs", graphs.static_html(trace, left), has_style)


def facts(trace: Trace) -> dict[str, Any]:
    """Facts of `trace` for the page: ``verdict``, ``badge``, ``notes``, ``memoryHint`` and ``metrics``, plain text.

    ``findings``: what costs time as a tree of elements, or None; its rows carry an event in ``data-event``.
    ``syncs``: the table of waits for the GPU as a tree of elements, or None.
    ``memoryMap``: the pools of a device's memory as trees of elements, or None; ``memoryFirst``: it
    comes above the timeline; ``memoryAlone``: there is no timeline.
    ``hasRaces``, ``hasGraphs``: there are races and graphs to ask for; ``graphsFirst``: wrong results come first;
    ``hasProfile``: there are timeline and costs.
    """
    return {
        "verdict": verdict.verdict(trace, badge=False),
        "badge": badges(trace.info),
        "notes": verdict.notes(trace.info),
        "memoryHint": _MEMORY_HINT,
        "findings": to_json(findings.section(trace)),
        "syncs": to_json(waits.section(trace)),
        "metrics": readings.metrics_line(trace),
        "memoryMap": memory_map.page_tree(trace),
        "memoryFirst": memory_map.is_first(trace),
        "memoryAlone": memory_map.stands_alone(trace),
        "hasRaces": races.has_races(trace),
        "hasGraphs": graphs.has_graphs(trace),
        "graphsFirst": graphs_text.has_failed(trace),
        "hasProfile": verdict.has_profile(trace),
    }
