"""A device's memory for every front end: packed for the page, and as HTML that stands alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from cudalens.analysis import units
from cudalens.analysis.memory.totals import fragmentation
from cudalens.frames import Trace
from cudalens.frames.snapshots.build import SNAPSHOT_KEYS
from cudalens.views.memory import map_tables as words
from cudalens.views.memory.map_payload import pack
from cudalens.views.memory.map_svg import bar_svg, curve_svg, map_svg
from cudalens.views.sections import verdict as text
from cudalens.views.sections.markup import Child, Node, element

__all__ = ["has_memory_map", "is_first", "pack", "page_tree", "stands_alone", "static_html"]

#: What reserved memory is used for, with its colour: sums to all of it.
_LABEL_WIDTH: Final = 90
_MAX_POOLS: Final = 12
PARTS: Final = (
    ("requested_bytes", "asked for", "#2f7fd6"),
    ("internal_bytes", "rounding", "#e0733f"),
    ("external_bytes", "gaps", "#8b96a1"),
    ("empty_bytes", "cached", "#c9d0d7"),
)


def has_memory_map(trace: Trace) -> bool:
    """Whether `trace` tells where memory stands: blocks of the allocator, or the history of a snapshot."""
    return len(trace.blocks) > 0 or (len(trace.memory) > 0 and SNAPSHOT_KEYS in trace.info.options)


def is_first(trace: Trace) -> bool:
    """Whether memory is what `trace` is about: it came from a snapshot, or tells of nothing else."""
    return has_memory_map(trace) and (SNAPSHOT_KEYS in trace.info.options or not _has_timeline(trace))


def stands_alone(trace: Trace) -> bool:
    """Whether there is no timeline beside the memory."""
    return has_memory_map(trace) and not _has_timeline(trace) and not len(trace.metrics)


def _has_timeline(trace: Trace) -> bool:
    return len(trace.events) > 0 and text.has_profile(trace)


def static_html(trace: Trace) -> str:
    """The memory of `trace` as HTML that stands alone, some 60 KB at most; empty text without any."""
    if not has_memory_map(trace):
        return ""
    return f'<div class="cudalens-memory">{"".join(part.html() for part in _parts(trace))}</div>'


def page_tree(trace: Trace) -> list[Any] | None:
    """The table of pools as a tree of elements for the page; None without memory."""
    if not has_memory_map(trace):
        return None
    return [part.json() for part in (_pools(trace),) if part is not None]


def _parts(trace: Trace) -> Iterable[Node]:
    alive_when, alive = words.peak_lives(trace)
    groups = [
        _holders(f"Held {alive_when}, by {title}", words.holders(trace, alive, by))
        for by, title in (("category", "category"), ("stack", "call stack"))
    ]
    found = [curve_svg(trace), map_svg(trace), *_fragmentation(trace), *groups, _pools(trace)]
    return (part for part in found if part is not None)


def _fragmentation(trace: Trace) -> list[Node]:
    """A bar for each device, with its numbers."""
    nodes = []
    for row in fragmentation(trace).to_dict("records")[:8]:
        reserved = int(row["reserved_bytes"])
        if not reserved:
            continue
        known = [(label, int(row[key]), color) for key, label, color in PARTS]
        texts = [f"{label} {units.size(num)} ({units.percent(100 * num / reserved)})" for label, num, _ in known]
        line = f"cuda:{row['device']}, {units.size(reserved)} reserved: {', '.join(texts)}"
        nodes.append(element("div", bar_svg(known, line), element("p", line), class_="cm-bar"))
    return nodes


def _holders(title: str, rows: list[tuple[str, int, int]]) -> Node | None:
    if not rows:
        return None
    total = sum(num_bytes for _, num_bytes, _ in rows)
    body = [
        (
            units.shorten(label, _LABEL_WIDTH),
            units.size(held),
            units.percent(100 * held / max(total, 1)),
            units.count(num),
        )
        for label, held, num in rows[: words.TOP]
    ]
    left = rows[words.TOP :]
    note = f"and {units.count(len(left))} more with {units.size(sum(held for _, held, _ in left))}" if left else None
    return _table(title, ("", "held", "share", "blocks"), body, note)


def _pools(trace: Trace) -> Node | None:
    titles, rows = words.pool_rows(trace)
    if not rows:
        return None
    left = len(rows) - _MAX_POOLS
    note = f"and {units.plural(left, 'pool')} more" if left > 0 else None
    return _table("Pools at the end", titles, rows[:_MAX_POOLS], note)


def _table(title: str, titles: Sequence[str], rows: Iterable[Sequence[str]], note: str | None) -> Node:
    head = element("tr", *(element("th", text, scope="col") for text in titles))
    body = (element("tr", *(element("td", text) for text in row)) for row in rows)
    table = element("table", element("thead", head), element("tbody", *body))
    parts: list[Child | None] = [element("p", element("strong", title)), element("div", table, class_="cm-scroll")]
    return element("div", *parts, element("p", note, class_="cm-note") if note else None, class_="cm-table")
