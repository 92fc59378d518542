"""The graph tree, what did not replay and why, functions and paths, for text, HTML and the page.

Recordings are rows: a rail at the left shows what follows what, columns show how often each was replayed, how long that
takes, what it holds. A row opens to everything that is known of it. No script is needed for that;
``js/graphs/graphs.js`` adds arrow keys, opening all at once, and showing a path in the tree.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from cudalens.analysis import units
from cudalens.frames import Trace
from cudalens.views.graphs import layout, words
from cudalens.views.graphs.model import FindingView, FunctionView, GraphsView, Recording, graphs_view
from cudalens.views.graphs.rows import Rows
from cudalens.views.graphs.words import tree_text
from cudalens.views.sections.markup import Node, element
from cudalens.views.sections.model import Block, Cell, Column, Custom, Items, Note, Part, Row, Section, Table, Text
from cudalens.views.sections.shown import Shown
from cudalens.views.sections.trust import simulated
from cudalens.views.sections.write_html import nodes, to_html
from cudalens.views.sections.write_text import to_text

#: Bytes of HTML of a section, about.
MAX_HTML: Final = 178_000

#: The same for the live view and the report, before compression.
_MAX_LIVE: Final = 8_000_000

_MAX_LISTED: Final = 100
_MAX_PATHS: Final = 12
_MAX_TEXT: Final = 12
_MORE: Final = "trace.graphs"
_FINDINGS: Final = (
    Column("times", align="right"),
    Column("function", text_width=80, html_width=60),
    Column("why", is_below=True, html_width=1000),
    Column("at", "at", is_below=True),
    Column("try", "try", is_below=True, html_width=1000),
    Column("change", "change", is_below=True, html_width=2_000),
    Column("saves", align="right"),
)
_FUNCTIONS: Final = (
    Column("function", text_width=34),
    *(Column(title, align="right") for title in ("calls", "replayed", "warmed up", "recorded", "eager", "graphs")),
    Column("state"),
)


def has_graphs(trace: Trace) -> bool:
    """Return whether a graph manager was used."""
    return not trace.graphs.empty


def section(trace: Trace, max_bytes: int = MAX_HTML) -> Section | None:
    """Return the graphs of `trace`, some `max_bytes` bytes of HTML at most; None without any."""
    if not has_graphs(trace):
        return None
    view = graphs_view(trace)
    below = [part for part in (_findings(view), _functions(view), _paths(view)) if part is not None]
    # Only the tree is cut: the other parts have the answer.
    room = max_bytes - sum(len(to_html(part)) for part in below)
    return Section("graphs", "cg", blocks=(*_failed(view), *_tree(view, room), *below))


def pack(trace: Trace) -> bytes:
    """Return the graphs of `trace` for the page: gzipped JSON, the same each time.

    ``body``: trees as `markup.Node.json` has them; ``paths``: for each path that is listed, the numbers of its
    recordings, by which the rows of the tree are classed (``cg-n<number>``).
    """
    shown = section(trace, _MAX_LIVE)
    body = [] if shown is None else [node.json() for node in nodes(shown)]
    paths = [list(path.nodes) for path in graphs_view(trace).paths[:_MAX_PATHS]]
    text = json.dumps({"body": body, "paths": paths}, separators=(",", ":"))
    return gzip.compress(text.encode("ascii"), compresslevel=6, mtime=0)


def explain_text(trace: Trace) -> str:
    """Return the calls that did not replay, why, and what to do about it."""
    found = to_text(_findings(graphs_view(trace)))
    return found or "Nothing to explain: no function was skipped, recorded again or warned about."


def functions_text(trace: Trace) -> str:
    """Return a line for each function."""
    return to_text(_functions(graphs_view(trace))) or "No function runs as CUDA graphs."


def graph_tree(trace: Trace) -> Shown:
    """Return the graphs of `trace` alone, with their verdict."""
    shown = section(trace) or Section("graphs", "cg")
    verdict = words.verdict(trace) or "no function ran as CUDA graphs"
    return Shown(replace(shown, verdict=verdict, badge=simulated(trace.info) or ""))


def _failed(view: GraphsView) -> Iterator[Section]:
    checked = [recording for recording in view.recordings.values() if recording.is_equal is not None]
    failed = [recording for recording in checked if not recording.is_equal]
    if failed:
        of = f"{units.count(len(failed))} of {units.plural(len(checked), 'graph')} checked"
        items = Items(tuple(f"✗ {words.failed_words(one)}" for one in failed[:_MAX_LISTED]), max_text=_MAX_TEXT)
        more = _more(len(failed) - _MAX_LISTED, "other")
        yield Section("graph-checks", "cg", title=f"Replay differs from eager in {of}", blocks=(items, *more))


def _more(number: int, noun: str) -> Iterator[Note]:
    if number > 0:
        yield Note(f"and {units.plural(number, noun)} more in {_MORE}")


def _tree(view: GraphsView, max_bytes: int) -> Iterator[Section]:
    if not view.recordings:
        return
    rows = Rows(view.recordings.values(), view.pieces, max_bytes)
    shown, fold = layout.split_branches(layout.chains(view))
    trees = [element("li", rows.chain(tree), class_="cg-tree") for tree in shown]
    if fold:
        inner = element("ul", *(element("li", rows.chain(tree), class_="cg-tree") for tree in fold.chains))
        folded = element("details", element("summary", f"⋮ {fold.label('tree')}"), inner, class_="cg-fold")
        trees.append(element("li", folded))
    listed = element("ul", *trees, class_="cg-trees")
    frame = element("div", rows.head(), listed, class_="cg-frame", role="group", aria_label="Graph tree")
    blocks: list[Block] = [
        Custom(frame, tree_text(view, shown, fold)),
        *_more(rows.num_left_out + view.num_hidden, "recording"),
    ]
    blocks += _legend(view.recordings.values())
    blocks += [Note(words.BREAKS)] if view.pieces else []
    blocks += [Note(words.UNMEASURED)] if words.is_unmeasured(view) else []
    num_trees = sum(1 for node in view.recordings if node not in view.parents)
    title = f"{units.plural(len(view.recordings), 'graph')} in {units.plural(num_trees, 'tree')}"
    yield Section("graph-tree", "cg", title=title, blocks=tuple(blocks))


def _legend(recordings: Iterable[Recording]) -> Iterator[Block]:
    """Yield what the marks mean, of those that occur."""
    recordings = list(recordings)
    kinds: tuple[tuple[str, Callable[[Recording], bool], str], ...] = (
        ("is-current", lambda r: r.is_current, "the latest call"),
        ("is-on-path", lambda r: r.is_on_path and not r.is_current, "on the path to it"),
        ("", lambda r: not r.is_on_path, "not on the path"),
    )
    marks: list[Node | str] = [
        element("span", element("span", class_=f"cg-dot {kind}".rstrip()), f" {meaning}")
        for kind, is_such, meaning in kinds
        if any(map(is_such, recordings))
    ]
    if len(marks) < 2:  # one mark alone needs no legend
        marks.clear()
    if any(r.num_outputs is not None for r in recordings):
        marks.append("held: outputs your code still keeps / all outputs")
    if marks:
        yield Custom(element("p", *marks, class_="cg-legend"))


def _findings(view: GraphsView) -> Section | None:
    rows = [_finding(found) for found in view.findings[:_MAX_LISTED]]
    table = Table(_FINDINGS, rows, len(view.findings), _MAX_TEXT, more=("finding", _MORE), key="findings")
    return Section("graph-findings", "cg", title="What did not replay, and why", blocks=(table,)) if rows else None


def _finding(found: FindingView) -> Row:
    kind = Text(words.KINDS[found.kind], css=f"cg-kind is-{found.kind}")
    why = found.detail or found.reason or "no reason was recorded"
    parts = (found.place and Text(found.place, "place"), found.source and Text(f" {found.source}", "code"))
    place = tuple(part for part in parts if part)
    function = (*_marked(found.function, found.hue), " ", kind)
    change = tuple(Text(line, "paragraph", css="cg-change") for line in found.change.splitlines())
    saves = units.plural(found.num_launches, "launch") if found.num_launches else ""
    return Row((units.count(found.count), function, why, place, found.advice, change, saves))


def _functions(view: GraphsView) -> Section | None:
    rows = [_function(function) for function in view.functions[:_MAX_LISTED]]
    table = Table(_FUNCTIONS, rows, len(view.functions), _MAX_TEXT, more=("function", _MORE), key="functions")
    return Section("graph-functions", "cg", title="Functions", blocks=(table,)) if rows else None


def _function(one: FunctionView) -> Row:
    counts = (one.num_calls, one.num_replays, one.num_warmups, one.num_recordings, one.num_eager, one.num_graphs)
    cells: tuple[Cell, ...] = tuple(units.count(count) if count else Text("0", "muted") for count in counts)
    return Row((_marked(one.name, one.hue), *cells, Text(one.state, css="is-eager" if one.state == "eager" else "")))


def _paths(view: GraphsView) -> Section | None:
    items: tuple[Cell, ...] = tuple(
        (words.path_words(view, path), Text(f" · {units.times(path.count)}", "muted"))
        for path in view.paths[:_MAX_PATHS]
    )
    blocks: tuple[Block, ...] = (Items(items), *_more(len(view.paths) - _MAX_PATHS, "path"))
    return Section("graph-paths", "cg", title="Paths taken", blocks=blocks) if items else None


def _marked(name: str, hue: int) -> tuple[Part, ...]:
    """Return the name of a function beside its hue."""
    return Text("", css=f"cg-chip cg-f{hue}"), Text(name, "strong")
