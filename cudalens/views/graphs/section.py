"""The graph tree, what did not replay and why, functions and paths, for text, HTML and the page.

Recordings are rows: a rail at the left shows what follows what, columns show how often each was replayed, how long that
takes, what it holds. A row opens to everything that is known of it. No script is needed for that;
``js/graphs/graphs.js`` adds arrow keys, opening all at once, and showing a path in the tree.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from cudalens.analysis import units
from cudalens.frames import Trace
from cudalens.views.graphs import model, words
from cudalens.views.graphs.model import (
    Chain,
    ChainItem,
    FindingView,
    FunctionView,
    GraphsView,
    PieceView,
    Recording,
    Stop,
    graphs_view,
)
from cudalens.views.graphs.words import tree_text
from cudalens.views.sections.markup import Node, element
from cudalens.views.sections.model import Block, Cell, Column, Custom, Items, Note, Part, Row, Section, Table, Text
from cudalens.views.sections.shown import Shown
from cudalens.views.sections.trust import simulated
from cudalens.views.sections.write_html import nodes, to_html

#: Bytes of HTML of a section, about.
MAX_HTML: Final = 178_000

#: The same for the live view and the report, before compression.
_MAX_LIVE: Final = 8_000_000

_MAX_LISTED: Final = 100
_MAX_PATHS: Final = 12
_MAX_TEXT: Final = 12
_MORE: Final = "trace.graphs"
_FINDINGS: Final = (
    Column("function", text_width=80, html_width=60),
    Column("times", align="right"),
    Column("saves", align="right"),
    Column("why", is_below=True, html_width=1000),
    Column("at", "at", is_below=True),
    Column("try", "try", is_below=True, html_width=1000),
    Column("change", "change", is_below=True, html_width=2_000),
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


def explanation(trace: Trace) -> Shown | None:
    """Return the calls that did not replay, why, and what to do about it; None if there is none."""
    found = _findings(graphs_view(trace))
    return None if found is None else Shown(Section("graphs", "cg", blocks=(found,)))


def functions_shown(trace: Trace) -> Shown | None:
    """Return a line for each function; None if there is none."""
    found = _functions(graphs_view(trace))
    return None if found is None else Shown(Section("graphs", "cg", blocks=(found,)))


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
    shown, fold = model.split_branches(model.chains(view))
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
    more = ("finding", _MORE)
    table = Table(_FINDINGS, rows, len(view.findings), _MAX_TEXT, more=more, key="findings", is_stacked=True)
    return Section("graph-findings", "cg", title="What did not replay, and why", blocks=(table,)) if rows else None


def _finding(found: FindingView) -> Row:
    kind = Text(words.KINDS[found.kind], css=f"cg-kind is-{found.kind}")
    why = found.detail or found.reason or "no reason was recorded"
    parts = (found.place and Text(found.place, "place"), found.source and Text(f" {found.source}", "code"))
    place = tuple(part for part in parts if part)
    function = (*_marked(found.function, found.hue), " ", kind)
    change = tuple(Text(line, "paragraph", css="cg-change") for line in found.change.splitlines())
    saves = units.plural(found.num_launches, "launch") if found.num_launches else ""
    return Row((function, units.count(found.count), saves, why, place, found.advice, change))


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


# The rows of the graph tree as HTML: one per recording, in nested lists of chains and branches.

#: Width of the longest bar, px.
_BAR: Final = 90.0
_BAR_TEXT: Final = "90"
_BAR_HEIGHT: Final = 12
_LEAST: Final = 1.5

#: How much longer than one row the next ones may be.
_MARGIN: Final = 1.2

#: Approximate size of the lists around a row, bytes.
_AROUND: Final = 90


class Rows:
    """Makes rows within a size limit: near the limit rows have no details, beyond it they are left out.

    Args:
        recordings: All recordings of the tree; the longest time among them has the longest bar.
        pieces: Of those that are split, by their numbers.
        max_bytes: Approximate size of the HTML of all rows, bytes.

    Attributes:
        num_left_out: Recordings for which no row was made.
    """

    def __init__(
        self, recordings: Iterable[Recording], pieces: Mapping[int, Sequence[PieceView]], max_bytes: int
    ) -> None:
        recordings, self._pieces = list(recordings), pieces
        self._longest = max((max(r.eager_ns or 0, r.replay_ns or 0) for r in recordings), default=0)
        self._room = max_bytes
        self._num_waiting = len(recordings)
        self.num_left_out = 0

    def head(self) -> Node:
        """Return the titles of the columns."""
        titles = ("replays", "replay vs eager", "", "allocated", "held")
        cells = (element("span", title) for title in titles)
        return element("div", element("span", "graph"), *cells, class_="cg-head")

    def chain(self, chain: Chain) -> Node:
        """Return a chain as an ``<ol>``; its branches are lists within."""
        last = chain.stops[-1]
        rows = [self._item(item, chain.stops[0], last) for item in model.chain_items(chain)]
        return element("ol", *(row for row in rows if row is not None), class_="cg-chain")

    def _item(self, item: ChainItem, first: Stop, last: Stop) -> Node | None:
        if isinstance(item, Stop):
            return self._stop(item, item is first, item is last)
        stops = [self._stop(stop, is_first=False, is_last=False) for stop in item.stops]
        inner = element("ol", *(stop for stop in stops if stop is not None), class_="cg-chain")
        is_on_path = all(stop.recording.is_on_path for stop in item.stops)
        fold = element("details", element("summary", f"⋮ {item.label()}"), inner, class_="cg-fold")
        return element("li", fold, class_="cg-gap is-on-path" if is_on_path else "cg-gap")

    def _stop(self, stop: Stop, is_first: bool, is_last: bool) -> Node | None:
        row = self._row(stop.recording)
        if row is None:
            self.num_left_out += 1 + sum(1 for branch in stop.branches for _ in branch.recordings())
            return None
        kinds = {
            "is-first": is_first,
            "is-last": is_last,
            "is-on-path": stop.recording.is_on_path,
            "is-current": stop.recording.is_current,
            f"cg-n{stop.recording.node}": True,
        }
        class_ = " ".join(["cg-stop", *(kind for kind, holds in kinds.items() if holds)])
        split = self._split(stop.recording)
        shown, fold = model.split_branches(stop.branches)
        items = [element("li", self.chain(branch), class_="cg-branch") for branch in shown]
        if fold:
            folded_branches = (element("li", self.chain(branch), class_="cg-branch") for branch in fold.chains)
            inner = element("ul", *folded_branches, class_="cg-branches")
            folded = element("details", element("summary", f"⋮ {fold.label()}"), inner, class_="cg-fold")
            items.append(element("li", folded, class_="cg-branch is-folded"))
        branches = element("ul", *items, class_="cg-branches") if items else None
        return element("li", row, split, branches, class_=class_)

    def _split(self, recording: Recording) -> Node | None:
        """Return the pieces of a recording with what each break costs; None if it is one graph, or near the limit."""
        pieces = self._pieces.get(recording.node, ())
        items = [element("li", *_piece(text, piece)) for text, piece in words.piece_words(pieces)]
        if len(pieces) > words.MAX_PIECES:
            items.append(element("li", f"and {units.plural(len(pieces) - words.MAX_PIECES, 'piece')} more"))
        shown = element("ol", *items, class_="cg-pieces")
        size = len(shown.html())
        if not items or self._room < size:
            return None
        self._room -= size
        return shown

    def _row(self, recording: Recording) -> Node | None:
        """Return a row that opens to its details; without details, or None, if the size limit is reached."""
        self._num_waiting -= 1
        summary = element("summary", *self._cells(recording))
        plain = element("details", summary, class_="cg-row")
        least = len(plain.html()) + _AROUND
        self._room -= least
        if self._room < 0:
            return None
        details = element("dl", *_details(recording))
        size = len(details.html())
        # Details may use the space that the remaining rows do not need.
        if self._room - size < self._num_waiting * least * _MARGIN:
            return plain
        self._room -= size
        return element("details", summary, details, class_="cg-row")

    def _cells(self, recording: Recording) -> Iterator[Node]:
        dot = element("span", class_=f"cg-dot cg-f{recording.hue}")
        tags = [*_tags(recording)]
        name = element("b", units.shorten(recording.function, 60))
        variant = element("span", f" {units.shorten(recording.variant, 120)}", class_="cg-variant")
        yield element("span", dot, name, *tags, variant, class_="cg-name")
        yield element("span", f"{units.count(recording.num_replays)}x")
        yield element("span", _bars(recording, self._longest), class_="cg-bars")
        yield element("span", *_speed(recording), class_="cg-speed")
        yield element("span", "" if recording.pool_bytes is None else units.size(recording.pool_bytes))
        yield element("span", words.held(recording))


def _piece(text: str, piece: PieceView) -> Iterator[Node | str]:
    yield text
    if piece.place:
        yield " at "
        yield element("span", piece.place, class_="cl-place")
    if piece.source:
        yield " "
        yield element("code", piece.source)
    for line in piece.change.splitlines():
        yield element("code", line, class_="cg-change")


def _tags(recording: Recording) -> Iterator[Node]:
    if recording.is_equal is False:
        yield element("span", "✗ differs", class_="cg-tag is-bad")
    if recording.is_equal:
        yield element("span", "✓", class_="cg-tag is-good", title="replay equals eager")
    if recording.is_current:
        yield element("span", "current", class_="cg-tag is-now")
    if recording.mode not in ("", "inference"):
        yield element("span", units.shorten(recording.mode, 20), class_="cg-tag")


def _bars(recording: Recording, longest: int) -> Node | None:
    """Return a bar of the eager time above a bar of the replay time."""
    known = [ns for ns in (recording.eager_ns, recording.replay_ns) if ns is not None]
    if not known or not longest:
        return None
    eager, replay = units.duration(recording.eager_ns), units.duration(recording.replay_ns)
    bars = (
        element("rect", class_=f"is-{kind}", width=f"{max(_BAR * ns / longest, _LEAST):.0f}")
        for kind, ns in (("eager", recording.eager_ns), ("replay", recording.replay_ns))
        if ns is not None
    )
    title = element("title", f"eager {eager}, replay {replay}")
    return element("svg", title, *bars, width=_BAR_TEXT, height=_BAR_HEIGHT)


def _speed(recording: Recording) -> Iterator[Node | str]:
    if recording.replay_ns is not None:
        yield units.duration(recording.replay_ns)
    if recording.speedup is not None:
        yield element("b", f" {words.factor(recording.speedup)}", class_=None if recording.speedup >= 1 else "is-slow")


def _details(recording: Recording) -> Iterator[Node]:
    """Terms and descriptions of the known facts."""
    for term, text in _facts(recording):
        if text:
            yield element("dt", term)
            yield element("dd", text)
    if recording.place or recording.source:
        yield element("dt", "Called at")
        code = element("code", recording.source) if recording.source else None
        yield element("dd", element("span", recording.place, class_="cl-place"), " " if code else None, code)


def _facts(recording: Recording) -> Iterator[tuple[str, str]]:
    yield "Graph", f"number {recording.node} of {recording.function}"
    yield "For", recording.variant
    yield "Recorded", recording.why
    yield "Inputs", _inputs(recording)
    yield "Outputs", _outputs(recording)
    yield "Work", "" if recording.num_kernels is None else units.plural(recording.num_kernels, "operator")
    yield "Times", _times(recording)
    yield "Memory", _memory(recording)
    yield "Check", _check(recording)


def _inputs(recording: Recording) -> str:
    parts = []
    if recording.num_static_inputs is not None:
        parts.append(f"{units.count(recording.num_static_inputs)} used without a copy")
    if recording.num_copied_inputs is not None:
        size = "" if not recording.copied_bytes else f" ({units.size(recording.copied_bytes)})"
        parts.append(f"{units.count(recording.num_copied_inputs)} copied at each replay{size}")
    return ", ".join(parts)


def _outputs(recording: Recording) -> str:
    if recording.num_outputs is None:
        return ""
    live = recording.num_live_outputs
    held = "" if live is None else f", {units.count(live)} still held"
    return f"{units.plural(recording.num_outputs, 'tensor')}{held}"


def _times(recording: Recording) -> str:
    known = (("eager", recording.eager_ns), ("replay", recording.replay_ns), ("recording", recording.record_ns))
    return ", ".join(f"{what} {units.duration(ns)}" for what, ns in known if ns is not None)


def _memory(recording: Recording) -> str:
    parts = []
    if recording.pool_bytes is not None:
        parts.append(f"{units.size(recording.pool_bytes)} allocated after the recording")
    if recording.frees_bytes is not None:
        parts.append(f"{units.size(recording.frees_bytes)} are free for others without it and the graphs behind it")
    if recording.pool:
        size = "" if recording.reserved_bytes is None else f", {units.size(recording.reserved_bytes)} reserved"
        device = "" if recording.device is None else f" of device {recording.device}"
        parts.append(f"pool {recording.pool}{device}{size}")
    return "; ".join(parts)


def _check(recording: Recording) -> str:
    if recording.is_equal is None:
        return ""
    if recording.is_equal:
        return "replay equals eager, bit by bit"
    by = "" if recording.max_abs_diff is None else f" by up to {recording.max_abs_diff:.3g}"
    first = f"; first at {recording.first_diff}" if recording.first_diff else ""
    return f"replay differs from eager{by}{first}"
