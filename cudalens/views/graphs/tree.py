"""The graph tree and all around it, made once as a tree of elements and shown in saved notebooks, reports and live.

Recordings are rows: a rail at the left shows what follows what, columns show how often each was replayed, how long that
takes, what it holds. A row opens to everything that is known of it. No script is needed for that;
``js/graphs/graphs.js`` adds arrow keys, opening all at once, and showing a path in the tree.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cudalens.analysis import units
from cudalens.frames import Trace
from cudalens.views import assets
from cudalens.views.graphs import layout as graphs_tree
from cudalens.views.graphs import text as words
from cudalens.views.graphs.model import FindingView, FunctionView, GraphsView, Recording, graphs_view
from cudalens.views.graphs.rows import Rows, marked
from cudalens.views.sections.markup import Node, element

#: Bytes of graphs in a saved notebook's picture, about.
MAX_HTML: Final = 90_000

#: The same in the live view and the report, before compression.
_MAX_LIVE: Final = 8_000_000

_MAX_LISTED: Final = 100
_MAX_PATHS: Final = 12


def has_graphs(trace: Trace) -> bool:
    """Whether a graph manager was looked at."""
    return not trace.graphs.empty


def pack(trace: Trace) -> bytes:
    """The graphs of `trace` for the page: gzipped JSON, the same each time.

    ``body``: trees as `markup.Node.json` has them; ``paths``: for each path that is listed, the numbers of its
    recordings, by which the rows of the tree are classed (``cg-n<number>``).
    """
    view = graphs_view(trace)
    body = [part.json() for part in _parts(view, _MAX_LIVE)]
    paths = [list(path.nodes) for path in view.paths[:_MAX_PATHS]]
    text = json.dumps({"body": body, "paths": paths}, separators=(",", ":"))
    return gzip.compress(text.encode("ascii"), compresslevel=6, mtime=0)


def static_html(trace: Trace, max_bytes: int = MAX_HTML) -> str:
    """The graphs of `trace` as HTML that stands alone, some `max_bytes` bytes at most; empty text without any."""
    if not has_graphs(trace):
        return ""
    parts = "".join(part.html() for part in _parts(graphs_view(trace), max_bytes))
    return f'<div class="cudalens-graphs">{parts}</div>'


def _parts(view: GraphsView, max_bytes: int) -> Iterator[Node]:
    """Failed checks, the tree, findings, functions, paths: whatever there is."""
    below = [part for part in (_findings(view), _functions(view), _paths(view)) if part is not None]
    # The tree is what can be cut without losing the answer.
    room = max_bytes - sum(len(part.html()) for part in below)
    for part in (_failed(view), _tree(view, room)):
        if part is not None:
            yield part
    yield from below


def _section(title: str, *children: Node | None, class_: str = "") -> Node:
    heading = element("p", element("strong", title), class_="cg-title")
    return element("div", heading, *children, class_=f"cg-section {class_}".rstrip())


def _failed(view: GraphsView) -> Node | None:
    checked = [recording for recording in view.recordings.values() if recording.is_equal is not None]
    failed = [recording for recording in checked if not recording.is_equal]
    if not failed:
        return None
    title = f"Replay differs from eager in {units.count(len(failed))} of {units.plural(len(checked), 'graph')} checked"
    items = _limited([element("li", words.failed_words(recording)) for recording in failed], "trace.graphs")
    return _section(title, element("ul", *items), class_="cg-failed")


def _limited(items: Sequence[Node], where: str, limit: int = _MAX_LISTED) -> list[Node]:
    left = len(items) - limit
    more = [element("li", f"and {units.count(left)} more in {where}", class_="cg-note")] if left > 0 else []
    return [*items[:limit], *more]


def _tree(view: GraphsView, max_bytes: int) -> Node | None:
    if not view.recordings:
        return None
    rows = Rows(view.recordings.values(), max_bytes)
    shown, fold = graphs_tree.split_branches(graphs_tree.chains(view))
    trees = [element("li", rows.chain(tree), class_="cg-tree") for tree in shown]
    if fold:
        inner = element("ul", *(element("li", rows.chain(tree), class_="cg-tree") for tree in fold.chains))
        folded = element("details", element("summary", f"⋮ {fold.label('tree')}"), inner, class_="cg-fold")
        trees.append(element("li", folded))
    hidden = rows.num_left_out + view.num_hidden
    note = f"and {units.plural(hidden, 'recording')} more in trace.graphs" if hidden else None
    return _section(
        _tree_title(view),
        element(
            "div",
            rows.head(),
            element("ul", *trees, class_="cg-trees"),
            class_="cg-scroll",
            role="region",
            aria_label="Graph tree",
        ),
        element("p", note, class_="cg-note") if note else None,
        _legend(view.recordings.values()),
        element("p", words.UNMEASURED, class_="cg-note cg-legend") if words.is_unmeasured(view) else None,
        class_="cg-main",
    )


def _tree_title(view: GraphsView) -> str:
    num_trees = sum(1 for node in view.recordings if node not in view.parents)
    return f"{units.plural(len(view.recordings), 'graph')} in {units.plural(num_trees, 'tree')}"


def _legend(recordings: Iterable[Recording]) -> Node | None:
    """What the marks mean, of those that occur."""
    recordings = list(recordings)
    told: list[Node | str] = []
    kinds: tuple[tuple[str, Callable[[Recording], bool], str], ...] = (
        ("is-current", lambda r: r.is_current, "where the last call stands"),
        ("is-on-path", lambda r: r.is_on_path and not r.is_current, "on the way there"),
        ("", lambda r: not r.is_on_path, "other ways"),
    )
    for kind, is_such, meaning in kinds:
        if any(map(is_such, recordings)):
            told.append(element("span", element("span", class_=f"cg-dot {kind}".rstrip()), f" {meaning}"))
    if len(told) < 2:  # one mark alone tells nothing apart
        told.clear()
    if any(r.num_outputs is not None for r in recordings):
        told.append("held: outputs that somebody still holds, of all")
    return element("p", *told, class_="cg-legend") if told else None


def _findings(view: GraphsView) -> Node | None:
    if not view.findings:
        return None
    items = _limited([_finding(found) for found in view.findings], "trace.graphs", limit=40)
    return _section("What did not replay, and why", element("ul", *items, class_="cg-findings"))


def _finding(found: FindingView) -> Node:
    head = element(
        "p",
        element("b", words.KINDS[found.kind], class_=f"cg-kind is-{found.kind}"),
        " ",
        marked(found.function, found.hue),
        f" {found.detail or found.reason or 'no reason was recorded'}",
        element("span", f" · {units.times(found.count)}", class_="cg-muted"),
    )
    advice = element("p", "→ ", found.advice, class_="cg-advice") if found.advice else None
    return element("li", head, _place(found.place, found.source), advice)


def _place(place: str, source: str) -> Node | None:
    if not place and not source:
        return None
    code = element("code", source) if source else None
    return element("p", element("span", place, class_="cg-place"), " " if code else None, code)


def _functions(view: GraphsView) -> Node | None:
    if not view.functions:
        return None
    titles = ("Function", "Calls", "Replayed", "Warmed up", "Recorded", "Eager", "Graphs", "State")
    head = element("tr", *(element("th", title, scope="col") for title in titles))
    rows = [_function(function) for function in view.functions[:_MAX_LISTED]]
    left = len(view.functions) - len(rows)
    note = element("p", f"and {units.plural(left, 'function')} more in trace.graphs", class_="cg-note")
    table = element("table", element("thead", head), element("tbody", *rows), class_="cg-functions")
    return _section("Functions", element("div", table, class_="cg-wide"), note if left > 0 else None)


def _function(function: FunctionView) -> Node:
    counts = (*words.counts_of(function), function.num_graphs)
    state = element("td", function.state, class_="is-eager" if function.state == "eager" else None)
    cells = (element("td", units.count(count), class_=None if count else "is-zero") for count in counts)
    return element("tr", element("th", marked(function.name, function.hue), scope="row"), *cells, state)


def _paths(view: GraphsView) -> Node | None:
    if not view.paths:
        return None
    items = [
        element("li", element("span", words.path_words(view, path)), _muted(f" · {units.times(path.count)}"))
        for path in view.paths
    ]
    listed = element("ol", *_limited(items, "trace.graphs", _MAX_PATHS), class_="cg-paths")
    return _section("Paths taken", listed)


def _muted(text: str) -> Node:
    return element("span", text, class_="cg-muted")


@dataclass(frozen=True, repr=False)
class GraphTree:
    """The graphs of a Trace, as text and as HTML that stands alone.

    Attributes:
        trace: The Trace.
    """

    trace: Trace

    def __str__(self) -> str:
        """The verdict and all that stands below it."""
        return "\n\n".join(part for part in (self._verdict, words.report_text(self.trace)) if part)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        verdict = element("p", element("strong", self._verdict))
        style = f"<style>{assets.style('graphs')}</style>"
        return f"<div>{style}{verdict.html()}{static_html(self.trace)}</div>"

    @property
    def _verdict(self) -> str:
        info = self.trace.info
        mark = f"[simulated: {info.source.removeprefix('virtual:')}] " if info.is_simulated else ""
        return f"{mark}{words.verdict(self.trace) or 'no graph manager was looked at'}"


def graph_tree(trace: Trace) -> GraphTree:
    """The graphs of `trace` alone."""
    return GraphTree(trace)
