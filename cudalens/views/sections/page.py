"""The sections of a display of a Trace, in order, for text, notebooks and reports; facts for the live page."""

from __future__ import annotations

from typing import Any, Final

from cudalens.analysis.cached import once_per_trace
from cudalens.frames import Trace
from cudalens.views.graphs import section as graphs
from cudalens.views.graphs.words import has_failed
from cudalens.views.memory import section as memory
from cudalens.views.races import section as races
from cudalens.views.sections import costs, findings, verdict, waits
from cudalens.views.sections.badges import badges
from cudalens.views.sections.markup import for_notebooks
from cudalens.views.sections.model import Picture, Section
from cudalens.views.sections.write_html import to_html, to_json
from cudalens.views.timeline import readings
from cudalens.views.timeline.readings_svg import metrics_svg
from cudalens.views.timeline.svg import timeline_svg

#: Bytes by which the size of a graph section may exceed its limit.
_SPARE: Final = 8_000
_MEMORY_HINT: Final = (
    "Allocations were not recorded. Profile with %%cudaprofile --memory, or cudalens.profile(memory=True), "
    "to see the memory curve."
)


@once_per_trace
def sections(trace: Trace) -> tuple[Section, ...]:
    """All that `trace` shows without a script: verdict, races, graphs, findings, memory, pictures, waits and costs."""
    found = [races.section, graphs.section]
    if has_failed(trace):
        found.reverse()
    views = (head, *found, findings.section, memory.section, _pictures, waits.section, costs.section)
    return tuple(shown for view in views if (shown := view(trace)) is not None)


def head(trace: Trace) -> Section:
    """The answer in one line, and what went wrong."""
    notes = tuple(verdict.notes(trace.info))
    return Section("summary", verdict=verdict.verdict(trace), details=verdict.details(trace), notes=notes)


def _pictures(trace: Trace) -> Section | None:
    pictures = tuple(Picture(svg) for svg in (timeline_svg(trace), metrics_svg(trace)) if svg is not None)
    return Section("pictures", blocks=pictures) if pictures else None


def static_parts(trace: Trace, *, has_style: bool, max_bytes: int | None = None) -> str:
    """All sections of `trace` as HTML.

    Args:
        trace: What to show.
        has_style: Whether each section comes with its style sheet, for pages that do not have it.
        max_bytes: The graph tree is shortened to keep the whole below this; None for its usual length.
    """
    parts = {shown.name: to_html(shown, has_style=has_style) for shown in sections(trace)}
    size = sum(len(for_notebooks(part).encode("utf-8", "replace")) for part in parts.values())
    if max_bytes is not None and size > max_bytes and "graphs" in parts:
        room = max(len(parts["graphs"]) - (size - max_bytes) - _SPARE, 0)
        parts["graphs"] = to_html(graphs.section(trace, room), has_style=has_style)
    return "".join(parts.values())


def facts(trace: Trace) -> dict[str, Any]:
    """Facts of `trace` for the page.

    Plain text: ``verdict``, ``details``, ``badge``, ``notes``, ``memoryHint`` and ``metrics``.
    ``findings``: what costs time as a tree of elements, or None; its rows carry an event in ``data-event``.
    ``syncs``: the table of waits for the GPU as a tree of elements, or None.
    ``memoryMap``: the pools of a device's memory as a tree of elements, or None; ``memoryFirst``: it
    comes above the timeline; ``memoryAlone``: there is no timeline.
    ``hasRaces``, ``hasGraphs``: there are races and graphs to request; ``graphsFirst``: wrong results come first;
    ``hasProfile``: there are timeline and costs.
    """
    return {
        "verdict": verdict.verdict(trace, badge=False),
        "details": verdict.details(trace),
        "badge": badges(trace.info),
        "notes": verdict.notes(trace.info),
        "memoryHint": _MEMORY_HINT,
        "findings": to_json(findings.section(trace)),
        "syncs": to_json(waits.section(trace)),
        "metrics": readings.metrics_line(trace),
        "memoryMap": to_json(memory.pools(trace)),
        "memoryFirst": memory.is_first(trace),
        "memoryAlone": memory.is_alone(trace),
        "hasRaces": races.has_races(trace),
        "hasGraphs": graphs.has_graphs(trace),
        "graphsFirst": has_failed(trace),
        "hasProfile": verdict.has_profile(trace),
    }
