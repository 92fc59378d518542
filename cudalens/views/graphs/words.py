"""CUDA graphs as text: the verdict, the results of checks, the speed of replays, the tree as lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from cudalens.analysis import units
from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.facts import graphs_summary
from cudalens.analysis.graphs import EagerFunction, FailedCheck, GraphsSummary, Speed
from cudalens.frames import Trace
from cudalens.views.graphs import model
from cudalens.views.graphs.model import Chain, Fold, GraphsView, PathView, PieceView, Recording
from cudalens.views.sections.clean_text import printable
from cudalens.views.sections.model import Column, Row
from cudalens.views.sections.trust import simulated
from cudalens.views.sections.write_text import aligned

_MAX_NAMED: Final = 2

#: Share by which replay and eager may differ and still count as equally fast.
_SAME: Final = 0.05

#: Share of replays with known times from which on the speed counts as that of all replays.
_ALL: Final = 0.995

#: How a finding is called.
KINDS: Final = {"skip": "runs eager", "warning": "warning", "rerecord": "recorded again"}
BREAKS: Final = "Each break between pieces costs a replay the wait for the device, and the launch of one more graph."
UNMEASURED: Final = "Eager was not timed: --check, or cudagraph(fn, check=True), times it and compares the results."


@once_per_trace
def verdict(trace: Trace) -> str:
    """``3 graphs, replayed 96 of 100 calls, 4.1x faster than eager, 312 MiB reserved``; wrong results come before that.

    "" where no graph manager was used.
    """
    if trace.graphs.empty:
        return ""
    result = graphs_summary(trace)
    is_modelled = simulated(trace.info) is not None
    graphs = _graphs(result, is_modelled=is_modelled)
    return "; ".join([*_wrong(result), graphs, *_change(result), *_eager(result.eager), *_more(result)])


def has_failed(trace: Trace) -> bool:
    """Return whether a replay does not give what a call without a graph gives."""
    graphs = trace.graphs
    return bool((graphs["kind"].eq("recording") & graphs["is_equal"].eq(False).fillna(False)).any())


def _wrong(result: GraphsSummary) -> list[str]:
    if not result.failed:
        return []
    worst = max(result.failed, key=lambda failed: failed.max_abs_diff or 0.0)
    of = f"{units.count(len(result.failed))} of {units.plural(result.num_checked, 'graph')} checked"
    return [f"replay differs from eager in {of}: {failed_words(worst)}"]


def failed_words(failed: FailedCheck | Recording) -> str:
    """``decode (graph 2) by up to 0.25, first at …``: what a check found."""
    number = "" if failed.node is None else f" (graph {failed.node})"
    by = "" if failed.max_abs_diff is None else f" by up to {failed.max_abs_diff:.3g}"
    first = f", first at {units.shorten(failed.first_diff, 120)}" if failed.first_diff else ""
    return f"{units.shorten(failed.function, 60)}{number}{by}{first}"


def _graphs(result: GraphsSummary, *, is_modelled: bool) -> str:
    if not result.num_graphs:
        return _nothing(result)
    if not result.num_replays:
        replayed = "none replayed yet"
    elif result.replayed_pct is None:
        replayed = f"replayed {units.times(result.num_replays)}"
    else:
        replayed = f"replayed {units.count(result.num_replays)} of {units.plural(result.num_calls, 'call')}"
    parts = [units.plural(result.num_graphs, "graph"), replayed]
    if result.num_replays:
        parts += _gain(result, is_modelled=is_modelled)
    if result.pool_bytes is not None:
        parts.append(f"{units.size(result.pool_bytes)} reserved")
    return ", ".join(parts)


def _nothing(result: GraphsSummary) -> str:
    if result.warm:
        more = f" and {units.plural(len(result.warm) - 1, 'other')}" if len(result.warm) > 1 else ""
        verb = "are" if more else "is"
        return f"no graph recorded yet: {units.shorten(result.warm[0], 60)}{more} {verb} warm, the next call records"
    if result.num_functions and not result.num_calls:
        return "no graph recorded: nothing has been called yet"
    return f"no graph recorded in {units.plural(result.num_calls, 'call')}" if result.num_calls else "no graph recorded"


def _gain(result: GraphsSummary, *, is_modelled: bool) -> list[str]:
    """What the replays saved: device time where it is known, else launches and host time."""
    if result.speed is not None:
        return [speed_words(result.speed, result.num_replays)]
    if not result.num_launches_saved:
        return ["speed not measured"]
    parts = [f"{units.plural(result.num_launches_saved, 'launch')} fewer than eager"]
    if (gain_ns := result.host_gain_ns) is not None:
        word = "less" if gain_ns >= 0 else "more"
        how = "modelled" if is_modelled else "measured"
        parts.append(f"{units.duration(abs(gain_ns))} {word} host time a replay ({how})")
    return parts


def speed_words(speed: Speed, num_replays: int) -> str:
    """``4.1x faster than eager (310 µs less a replay)``, with the share of timed replays if not all were timed."""
    saved_ns = speed.eager_ns - speed.replay_ns
    parts = []
    if abs(speed.ratio - 1) >= _SAME:
        word = "less" if saved_ns > 0 else "more"
        parts.append(f"{units.duration(abs(saved_ns) / speed.num_replays)} {word} a replay")
    known = speed.num_replays / max(num_replays, 1)
    if known < _ALL:
        parts.append(f"measured on {units.percent(100 * known)} of replays")
    return ratio_words(speed.ratio) + (f" ({', '.join(parts)})" if parts else "")


def ratio_words(ratio: float) -> str:
    """Return how replays at `ratio` times the speed of eager compare with it."""
    if abs(ratio - 1) < _SAME:
        return "as fast as eager"
    return f"{factor(ratio)} faster than eager" if ratio > 1 else f"{factor(1 / ratio)} slower than eager"


def factor(ratio: float) -> str:
    """``4.1x``, ``12x``."""
    return f"{ratio:.1f}x" if ratio < 9.95 else f"{units.count(round(ratio))}x"


def _change(result: GraphsSummary) -> list[str]:
    """The first change, in one line: of a diff, the new line."""
    lines = [line.removeprefix("+").strip() for line in result.change.splitlines() if line.startswith("+")]
    return [f"first change: {units.shorten(printable(lines[0]), 100)}"] if lines else []


def _eager(functions: Sequence[EagerFunction]) -> list[str]:
    if not functions:
        return []
    named = [f"{units.shorten(f.name, 40)} {_sentence(f.why)}".rstrip() for f in functions[:_MAX_NAMED]]
    more = len(functions) - len(named)
    verb = "runs" if len(functions) == 1 else "run"
    names = ", ".join(named) + (f", and {units.plural(more, 'other')}" if more else "")
    return [f"{units.plural(len(functions), 'function')} {verb} eager: {names}"]


def _sentence(text: str) -> str:
    return units.shorten(text.rstrip(". "), 140)


def _more(result: GraphsSummary) -> list[str]:
    checked = f"replay equals eager ({units.plural(result.num_checked, 'graph')} checked)"
    parts = [
        f"recorded again {units.times(result.num_rerecords)}" if result.num_rerecords else "",
        units.plural(result.num_warnings, "warning") if result.num_warnings else "",
        checked if result.num_checked and not result.failed else "",
    ]
    return [part for part in parts if part]


def is_unmeasured(view: GraphsView) -> bool:
    """Return whether replays were timed and eager never was."""
    known = view.recordings.values()
    return any(r.replay_ns is not None for r in known) and all(r.eager_ns is None for r in known)


#: Pieces of a recording that are shown.
MAX_PIECES: Final = 8


def piece_words(pieces: Sequence[PieceView]) -> Iterator[tuple[str, PieceView]]:
    """Yield what each piece launches and what the break behind it costs, with the piece, of the first ones."""
    for number, piece in enumerate(pieces[:MAX_PIECES], 1):
        size = "" if piece.num_kernels is None else f": {units.plural(piece.num_kernels, 'operator')}"
        text = f"piece {number} of {len(pieces)}{size}"
        if piece.read:
            waits = "" if piece.wait_ns is None else f" waits {units.duration(piece.wait_ns)} and"
            text += f"; then the host{waits} {piece.read}"
        yield text, piece


def held(recording: Recording) -> str:
    """``1/2``: live outputs and all outputs; ``-/2`` if unknown."""
    if recording.num_outputs is None:
        return ""
    alive = "-" if recording.num_live_outputs is None else recording.num_live_outputs
    return f"{alive}/{recording.num_outputs}"


def path_words(view: GraphsView, path: PathView) -> str:
    """``prefill → (attend → mlp) x12 → sample``."""
    known = view.recordings
    names = [units.shorten(known[node].function, 40) if node in known else f"graph {node}" for node in path.nodes]
    return " → ".join(model.path_names(names))


_MAX_LINES: Final = 80
_NAME: Final = 46
_NUMBERS: Final = ("replays", "eager", "replay", "", "allocated", "held")
_COLUMNS: Final = (Column("graphs", text_width=_NAME), *(Column(title, align="right") for title in _NUMBERS))
_MARKS: Final = {"◉": "the latest call", "●": "on the path to it", "○": "not on the path"}


def tree_text(view: GraphsView, trees: Sequence[Chain], fold: Fold | None) -> str:
    """Return the trees with their columns, those in `fold` as one line, and what the marks mean."""
    items: list[Row | str] = []
    for tree in trees:
        items += [*_chain_lines(view, tree, ""), ""]
    items += [f"⋮ {fold.label('tree')}", ""] if fold else []
    head, rule, *rows = aligned(_COLUMNS, [item for item in items if isinstance(item, Row)])
    of_row = iter(rows)
    lines = [head, rule, *(item if isinstance(item, str) else next(of_row) for item in items[:-1])]
    if (more := len(lines) - _MAX_LINES) > 0:
        note = f"and {units.count(more)} lines more; trace.to_html() shows them, trace.graphs holds them"
        lines[_MAX_LINES:] = [note]
    return "\n".join([*lines, *_legend(view.recordings.values())])


def _legend(recordings: Iterable[Recording]) -> list[str]:
    marks = {_mark(recording) for recording in recordings}
    known = [f"{mark} {text}" for mark, text in _MARKS.items() if mark in marks]
    return [f"({', '.join(known)})"] if len(known) > 1 else []


def _mark(recording: Recording) -> str:
    if recording.is_current:
        return "◉"
    return "●" if recording.is_on_path else "○"


def _chain_lines(view: GraphsView, chain: Chain, indent: str, lead: str | None = None) -> Iterator[Row | str]:
    """A chain in its lane; a line for each folded part. `lead`: what begins its first line in place of the indent."""
    for item in model.chain_items(chain):
        first, lead = lead if lead is not None else indent, None
        if isinstance(item, Fold):
            yield f"{first}⋮ {item.label()}"
            continue
        recording = item.recording
        cells = (
            units.count(recording.num_replays),
            _known(units.duration(recording.eager_ns)),
            _known(units.duration(recording.replay_ns)),
            "" if recording.speedup is None else factor(recording.speedup),
            _known(units.size(recording.pool_bytes)),
            held(recording),
        )
        yield Row((f"{first}{_mark(recording)} {_described(recording, _NAME - len(first) - 2)}", *cells))
        pieces = view.pieces.get(recording.node, ())
        for text, piece in piece_words(pieces):
            yield f"{indent}│   {text}{f' at {piece.place}' if piece.place else ''}"
        if len(pieces) > MAX_PIECES:
            yield f"{indent}│   and {units.plural(len(pieces) - MAX_PIECES, 'piece')} more"
        shown, fold = model.split_branches(item.branches)
        for branch in shown:
            yield from _chain_lines(view, branch, f"{indent}│ ", f"{indent}├─")
        if fold:
            yield f"{indent}├⋮ {fold.label()}"


def _described(recording: Recording, width: int) -> str:
    """Name, mode and variant in `width` characters; of a long variant the beginning."""
    tags = [] if recording.mode in ("", "inference") else [units.shorten(recording.mode, 12)]
    name = units.shorten(recording.function, max(width // 2, 12))
    head = " ".join([*(["✗"] if recording.is_equal is False else []), name, *tags])
    room = width - len(head) - 1
    variant = " ".join(recording.variant.split())
    if not variant or room < 6:
        return head
    return f"{head} {variant if len(variant) <= room else f'{variant[: room - 1]}…'}"


def _known(text: str) -> str:
    return "" if text == "-" else text
