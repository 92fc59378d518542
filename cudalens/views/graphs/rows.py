"""The rows of the graph tree as HTML: one per recording, in nested lists of chains and branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from cudalens.analysis import units
from cudalens.views.graphs import layout, words
from cudalens.views.graphs.layout import Chain, ChainItem, Fold, Stop
from cudalens.views.graphs.model import PieceView, Recording
from cudalens.views.sections.markup import Node, element

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
        rows = [self._item(item, chain.stops[0], last) for item in layout.chain_items(chain)]
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
        return element("li", row, self._split(stop.recording), self._branches(stop), class_=class_)

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

    def _branches(self, stop: Stop) -> Node | None:
        shown, fold = layout.split_branches(stop.branches)
        items = [element("li", self.chain(branch), class_="cg-branch") for branch in shown]
        if fold:
            items.append(element("li", self._folded_branches(fold), class_="cg-branch is-folded"))
        return element("ul", *items, class_="cg-branches") if items else None

    def _folded_branches(self, fold: Fold) -> Node:
        branches = (element("li", self.chain(branch), class_="cg-branch") for branch in fold.chains)
        inner = element("ul", *branches, class_="cg-branches")
        return element("details", element("summary", f"⋮ {fold.label()}"), inner, class_="cg-fold")

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
