"""The sections of a display of a Trace, in order, for text, notebooks and reports; facts for the live page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.failures import attempt
from cudalens.frames import Trace
from cudalens.views.graphs import section as graphs
from cudalens.views.graphs.words import has_failed
from cudalens.views.memory import section as memory
from cudalens.views.races import section as races
from cudalens.views.sections import costs, findings, lines, modules, steps, verdict, waits
from cudalens.views.sections.badges import badges
from cudalens.views.sections.markup import for_notebooks
from cudalens.views.sections.model import Picture, Section
from cudalens.views.sections.write_html import to_html, to_json
from cudalens.views.timeline import readings
from cudalens.views.timeline.baseline import baseline
from cudalens.views.timeline.marks import marks_for_page
from cudalens.views.timeline.readings_svg import metrics_svg
from cudalens.views.timeline.svg import timeline_svg

#: Bytes by which the size of a graph section may exceed its limit.
_SPARE: Final = 8_000


@once_per_trace
def sections(trace: Trace) -> tuple[Section, ...]:
    """All that `trace` shows without a script: verdict, races, graphs, pictures, findings, memory, then the tables.

    A view that raises is left out, and named among what went wrong.
    """
    found = [races.section, graphs.section]
    if has_failed(trace):
        found.reverse()
    pictures = (memory.section, _pictures) if memory.is_first(trace) else (_pictures, memory.section)
    views = (
        *found,
        pictures[0],
        findings.section,
        pictures[1],
        waits.section,
        lines.section,
        modules.section,
        steps.section,
        costs.section,
    )
    shown = [attempt(trace, _name(view), None, view, trace) for view in views]
    return head(trace), *(section for section in shown if section is not None)


def _name(view: Callable[[Trace], Section | None]) -> str:
    """A view in words: ``the view findings``."""
    module = view.__module__.removesuffix(".section").rpartition(".")[2]
    return f"the view {module if view.__name__ == 'section' else view.__name__.strip('_')}"


def head(trace: Trace) -> Section:
    """The answer in one line, and what went wrong."""
    answer, details = verdict.verdict(trace), verdict.details(trace)
    return Section("summary", verdict=answer, details=details, notes=tuple(verdict.notes(trace)))


def _json(trace: Trace, view: Callable[[Trace], Section | None]) -> list[Any] | None:
    return to_json(attempt(trace, _name(view), None, view, trace))


def _pictures(trace: Trace) -> Section | None:
    pictures = tuple(Picture(svg) for svg in (timeline_svg(trace), metrics_svg(trace)) if svg is not None)
    return Section("pictures", blocks=pictures) if pictures else None


def static_parts(trace: Trace, *, has_style: bool, max_bytes: int | None = None) -> dict[str, str]:
    """All sections of `trace` as HTML, by the name of the section, in order.

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
    return parts


def facts(trace: Trace, against: Trace | None = None) -> dict[str, Any]:
    """Facts of `trace` for the page.

    Plain text: ``verdict``, ``details``, ``badge``, ``notes`` and ``metrics``.
    ``findings``: what costs time as a tree of elements, or None; its rows carry an event in ``data-event``.
    ``syncs``: the table of waits for the GPU as a tree of elements, or None.
    ``marks``: what a reader marked, in ns from the first event.
    ``lines``, ``modules``, ``steps``: lines of code, nn.Modules and profiler steps with their costs, in the same form.
    ``memoryMap``: the pools of a device's memory as a tree of elements, or None; ``memoryFirst``: it
    comes above the timeline; ``memoryAlone``: there is no timeline.
    ``hasRaces``, ``hasGraphs``: there are races and graphs to request; ``graphsFirst``: wrong results come first;
    ``hasProfile``: there are timeline and costs. ``baseline``: the call paths of the run `against`, or None.
    """
    views = {"findings": findings, "syncs": waits, "lines": lines, "modules": modules, "steps": steps}
    tables = {key: _json(trace, view.section) for key, view in views.items()}
    return {
        "verdict": verdict.verdict(trace, badge=False),
        "details": verdict.details(trace),
        "badge": badges(trace.info),
        "notes": verdict.notes(trace),
        **tables,
        "metrics": readings.metrics_line(trace),
        "marks": marks_for_page(trace),
        "memoryMap": _json(trace, memory.pools),
        "memoryFirst": memory.is_first(trace),
        "memoryAlone": memory.is_alone(trace),
        "hasRaces": races.has_races(trace),
        "hasGraphs": graphs.has_graphs(trace),
        "graphsFirst": has_failed(trace),
        "hasProfile": verdict.has_profile(trace),
        "baseline": None if against is None else baseline(against),
    }
