"""The graph tree as lines of plain text, one for each recording."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from cudalens.analysis import units
from cudalens.views.graphs import layout, words
from cudalens.views.graphs.layout import Chain, Fold, Stop
from cudalens.views.graphs.model import GraphsView, Recording
from cudalens.views.sections.model import Column, Row
from cudalens.views.sections.write_text import aligned

_MAX_LINES: Final = 80
_NAME: Final = 46
_NUMBERS: Final = ("replays", "eager", "replay", "", "allocated", "held")
_COLUMNS: Final = (Column("graphs", text_width=_NAME), *(Column(title, align="right") for title in _NUMBERS))
_MARKS: Final = {"◉": "the latest call", "●": "on the path to it", "○": "not on the path"}


def tree_text(view: GraphsView, trees: Sequence[Chain], fold: Fold | None) -> str:
    """Return the trees with their columns, those in `fold` as one line, and what the marks mean."""
    items: list[Row | str] = []
    for tree in trees:
        items += [*_chain(tree, ""), ""]
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


def _chain(chain: Chain, indent: str, lead: str | None = None) -> Iterator[Row | str]:
    """A chain in its lane; a line for each folded part. `lead`: what begins its first line in place of the indent."""
    for item in layout.chain_items(chain):
        first, lead = lead if lead is not None else indent, None
        if isinstance(item, Fold):
            yield f"{first}⋮ {item.label()}"
            continue
        yield _stop_row(item, first)
        shown, fold = layout.split_branches(item.branches)
        for branch in shown:
            yield from _chain(branch, f"{indent}│ ", f"{indent}├─")
        if fold:
            yield f"{indent}├⋮ {fold.label()}"


def _stop_row(stop: Stop, before: str) -> Row:
    recording = stop.recording
    cells = (
        units.count(recording.num_replays),
        _known(units.duration(recording.eager_ns)),
        _known(units.duration(recording.replay_ns)),
        "" if recording.speedup is None else words.factor(recording.speedup),
        _known(units.size(recording.pool_bytes)),
        words.held(recording),
    )
    return Row((f"{before}{_mark(recording)} {_described(recording, _NAME - len(before) - 2)}", *cells))


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
