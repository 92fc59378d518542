"""What a display of a Trace shows: its sections in order, the summary, and facts for the live page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis.cached import attempt, once_per_trace
from cudalens.analysis.time.call_tree import call_tree
from cudalens.analysis.time.keys import step_names
from cudalens.frames import Trace
from cudalens.frames.column_arrays import Ints, integers
from cudalens.views.graphs import section as graphs
from cudalens.views.graphs.words import has_failed
from cudalens.views.memory import section as memory
from cudalens.views.races import section as races
from cudalens.views.sections import costs, findings, verdict, waits
from cudalens.views.sections.clean_text import clean
from cudalens.views.sections.markup import for_notebooks
from cudalens.views.sections.model import Picture, Section
from cudalens.views.sections.shown import Shown
from cudalens.views.sections.trust import badges
from cudalens.views.sections.write_html import to_html, to_json
from cudalens.views.sections.write_text import to_text
from cudalens.views.timeline import readings
from cudalens.views.timeline.marks import marks_for_page
from cudalens.views.timeline.readings import metrics_svg
from cudalens.views.timeline.svg import timeline_svg


@dataclass(frozen=True, repr=False)
class Summary(Shown):
    """A summary that prints as text and shows as a table in a notebook.

    Attributes:
        trace: What it summarizes.
    """

    trace: Trace

    @property
    def verdict(self) -> str:
        """The answer in one line."""
        return verdict.verdict(self.trace)

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The largest costs, a row of texts each: name, kind, count, total, self, mean ± sd, share."""
        return costs.cost_rows(self.trace)

    @property
    def section(self) -> Section:
        """The verdict with its notes, and the largest costs."""
        table = costs.costs_section(self.trace)
        answer = head(self.trace)
        return answer if table is None else replace(answer, name=table.name, css=table.css, blocks=table.blocks)

    def __str__(self) -> str:
        """All sections, at most 100 columns wide but for the verdict and lines of source."""
        return "\n\n".join(text for section in text_sections(self.trace) if (text := to_text(section)))


def summary(trace: Trace) -> Summary:
    """Return the summary of `trace`."""
    return Summary(trace)


#: Bytes by which the size of a graph section may exceed its limit.
_SPARE: Final = 8_000


#: What makes the section of each view, by the name of the view.
_VIEWS: Final = {
    "races": races.section,
    "graphs": graphs.section,
    "memory": memory.section,
    "findings": findings.section,
    "waits": waits.section,
    "lines": costs.lines_section,
    "modules": costs.modules_section,
    "steps": costs.steps_section,
    "costs": costs.costs_section,
}


@once_per_trace
def view_sections(trace: Trace) -> dict[str, Section | None]:
    """Return what each view shows of `trace`, without pictures of the timeline and of memory; None for nothing.

    A view that raises shows nothing, and is named among what went wrong.
    """
    return {name: attempt(trace, f"the view {name}", None, section, trace) for name, section in _VIEWS.items()}


def text_sections(trace: Trace) -> list[Section]:
    """Return all that `trace` shows as text: verdict, races, graphs, memory, findings, then the tables."""
    shown = view_sections(trace)
    sections = [shown[name] for name in _ordered(trace) if name != "pictures"]
    return [head(trace), *(section for section in sections if section is not None)]


@once_per_trace
def sections(trace: Trace) -> list[Section]:
    """Return all that `trace` shows without a script: `text_sections`, and pictures of the timeline and of memory."""
    shown = view_sections(trace) | {"pictures": attempt(trace, "the view pictures", None, _pictures, trace)}
    if (section := shown["memory"]) is not None:
        drawn = attempt(trace, "the pictures of memory", (), memory.pictures, trace)
        shown["memory"] = replace(section, blocks=(*drawn, *section.blocks))
    ordered = [shown[name] for name in _ordered(trace)]
    return [head(trace), *(section for section in ordered if section is not None)]


def _ordered(trace: Trace) -> list[str]:
    """Return the names of the views in the order of a display of `trace`."""
    first = ["graphs", "races"] if has_failed(trace) else ["races", "graphs"]
    middle = ["memory", "findings", "pictures"] if memory.is_first(trace) else ["pictures", "findings", "memory"]
    return [*first, *middle, "waits", "lines", "modules", "steps", "costs"]


def head(trace: Trace) -> Section:
    """Return the answer in one line, and what went wrong."""
    answer, details = verdict.verdict(trace), verdict.details(trace)
    return Section("summary", verdict=answer, details=details, notes=tuple(verdict.notes(trace)))


def _pictures(trace: Trace) -> Section | None:
    pictures = tuple(Picture(svg) for svg in (timeline_svg(trace), metrics_svg(trace)) if svg is not None)
    return Section("pictures", blocks=pictures) if pictures else None


def static_parts(trace: Trace, *, has_style: bool, max_bytes: int | None = None) -> dict[str, str]:
    """Return the sections of `trace` as HTML, by the name of the section, in order.

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
    shown = view_sections(trace)
    pools = attempt(trace, "the view pools", None, memory.pools, trace)
    return {
        "verdict": verdict.verdict(trace, badge=False),
        "details": verdict.details(trace),
        "badge": badges(trace.info),
        "notes": verdict.notes(trace),
        "findings": to_json(shown["findings"]),
        "syncs": to_json(shown["waits"]),
        "lines": to_json(shown["lines"]),
        "modules": to_json(shown["modules"]),
        "steps": to_json(shown["steps"]),
        "metrics": readings.metrics_line(trace),
        "marks": marks_for_page(trace),
        "memoryMap": to_json(pools),
        "memoryFirst": memory.is_first(trace),
        "memoryAlone": memory.is_alone(trace),
        "hasRaces": races.has_races(trace),
        "hasGraphs": graphs.has_graphs(trace),
        "graphsFirst": has_failed(trace),
        "hasProfile": verdict.has_profile(trace),
        "baseline": None if against is None else baseline(against),
    }


# The call paths of another run, for the flame graph of a page to compare with.

#: More paths than this are not sent; the weights of the others count for their callers.
MAX_PATHS: Final = 4000


def baseline(trace: Trace) -> dict[str, Any]:
    """Return the largest call paths of `trace`: ``name``, and columns ``parent``, ``label`` and ``self`` of its paths.

    ``self`` has the time of each path itself, ns: ``host`` and ``device``. A path is after its parent.
    """
    tree = call_tree(trace)
    parent = integers(tree["parent"])
    kept = _largest(tree)
    place = np.cumsum(kept) - 1
    up = np.where(kept, np.arange(len(tree)), parent)
    for _ in range(int(tree["depth"].max()) if len(tree) else 0):
        up = np.where((up >= 0) & ~kept[up], parent[up], up)
    self_ns = {side: _moved(tree[f"{side}_self_ns"].to_numpy(), up, len(tree))[kept] for side in ("host", "device")}
    above = parent[kept]
    codes, texts = step_names(tree["name"].array)
    return {
        "name": clean(trace.info.name, 60),
        "parent": np.where(above >= 0, place[above], -1).tolist(),
        "label": [clean(texts[code], 400) for code in codes[kept].tolist()],
        "self": {side: values.tolist() for side, values in self_ns.items()},
    }


def _largest(tree: pd.DataFrame) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return the paths with the largest totals; a caller's total is never smaller than that of its callees."""
    share = np.zeros(len(tree))
    for side in ("host", "device"):
        total = np.maximum(tree[f"{side}_total_ns"].to_numpy(), 0)
        share = np.maximum(share, total / max(int(total.max(initial=0)), 1))
    kept = np.zeros(len(tree), bool)
    order = np.lexsort((np.arange(len(tree)), -share))
    kept[order[:MAX_PATHS]] = True
    parent = integers(tree["parent"])
    for row in np.flatnonzero(kept & (parent >= 0)).tolist():  # a parent is before its children
        kept[row] = kept[parent[row]]
    return kept


def _moved(values: Ints, target: Ints, n: int) -> Ints:
    """Return the sum of `values` at each target; those without one are left out."""
    known = target >= 0
    return np.bincount(target[known], np.maximum(values[known], 0), n).astype(np.int64)
