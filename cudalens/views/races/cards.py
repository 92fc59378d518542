"""The race diff: a card for each race, made once as a tree of elements and shown in saved notebooks, reports and live.

A card holds the two accesses side by side, the bytes that both touch, where that memory came from, what happened on the
streams, and the fix. It needs no script to be read; ``js/races/races.js`` adds the list, the filter and copying.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any, Final

from cudalens.analysis import units
from cudalens.frames import Trace
from cudalens.views.races import text as words
from cudalens.views.races import values as races_value
from cudalens.views.races.model import AccessView, RaceView, Site, StackLine, folded, race_views
from cudalens.views.races.svg import bytes_bars, happens_before_svg
from cudalens.views.races.value_maps import MAX_CELLS
from cudalens.views.sections.markup import Node, element

#: Races that the live view and the report hold; the others are counted.
MAX_CARDS: Final = 1000

#: Bytes of cards in a saved notebook's picture; races beyond them get a line each.
MAX_HTML: Final = 110_000

#: Rows and columns of a tensor's pictures there.
_STATIC_CELLS: Final = 32

#: Before compression, which leaves some 2 % of it.
_MAX_HTML_LINES: Final = 100
_MAX_CARD_BYTES: Final = 10_000_000


def has_races(trace: Trace) -> bool:
    """Whether there is a race to show."""
    return bool((~trace.races["is_suppressed"]).any())


def pack(trace: Trace) -> bytes:
    """The races of `trace` for the page: gzipped JSON, the same each time.

    ``races``: for each its ``row``, ``kind``, ``title``, ``tensor``, ``places``, ``times`` and ``card``, a tree as
    `markup.Node.json` has it; worst first. ``more``: how many are left out.
    """
    races = race_views(trace)
    entries: list[str] = []
    size = 0
    for number, race in enumerate(races[:MAX_CARDS], 1):
        entries.append(json.dumps(_entry(number, race)))
        size += len(entries[-1])
        if size > _MAX_CARD_BYTES:
            break
    text = f'{{"races": [{",".join(entries)}], "more": {len(races) - len(entries)}}}'
    return gzip.compress(text.encode("ascii"), compresslevel=6, mtime=0)


def _entry(number: int, race: RaceView) -> dict[str, Any]:
    places = [side.site.place or side.title for side in (race.first, race.second)]
    return {
        "row": race.row,
        "kind": race.kind or "race",
        "title": race.title,
        "tensor": race.tensor,
        "places": places,
        "times": units.times(race.count) + (", confirmed by value" if race.is_confirmed else ""),
        "card": card(number, race).json(),
    }


def static_html(trace: Trace) -> str:
    """The races as HTML that stands alone, at most some `MAX_HTML` bytes: cards to open, the worst one open."""
    races = race_views(trace)
    if not races:
        return ""
    parts: list[str] = []
    size = 0
    for number, race in enumerate(races, 1):
        part = _folded_card(number, race, is_open=number == 1)
        size += len(part.encode("utf-8", "replace"))
        if size > MAX_HTML:
            break
        parts.append(part)
    rest = list(enumerate(races, 1))[len(parts) :]
    return f'<div class="cudalens-races">{"".join(parts)}{_lines(rest)}</div>'


def _folded_card(number: int, race: RaceView, *, is_open: bool) -> str:
    summary = element("summary", element("strong", f"Race {number}"), f" · {words.race_line(race)}")
    return element(
        "details", summary, card(number, race, cells=_STATIC_CELLS), class_="cl-race-fold", open=is_open
    ).html()


def _lines(races: list[tuple[int, RaceView]]) -> str:
    if not races:
        return ""
    shown = races[:_MAX_HTML_LINES]
    items = "".join(f"<li>Race {number} · {escape(words.race_line(race))}</li>" for number, race in shown)
    left = len(races) - len(shown)
    more = f"<li>and {units.count(left)} more in trace.races</li>" if left else ""
    return f'<ul class="cl-race-lines">{items}{more}</ul>'


def card(number: int, race: RaceView, *, cells: int = MAX_CELLS) -> Node:
    """One race as an ``<article>``.

    Args:
        number: Of the race, from 1.
        race: It.
        cells: Rows and columns of pictures of tensors, at most.
    """
    head = element(
        "p",
        element("strong", f"{number}. {race.title}", class_="cl-race-kind"),
        element("span", f" of {race.tensor}", class_="cl-race-tensor"),
        element("span", f" · seen {units.times(race.count)}", class_="cl-race-times"),
        class_="cl-race-head",
    )
    return element(
        "article",
        head,
        element("p", words.consequence(race), class_="cl-race-what"),
        _sides(race),
        races_value.section(race, cells=cells),
        _memory(race),
        _picture(race),
        _fix(race),
        class_="cl-race",
        aria_label=f"Race {number}: {race.title} of {race.tensor}",
    )


def _sides(race: RaceView) -> Node:
    """The two accesses side by side; what they have in common stands across both."""
    first, second = race.first, race.second
    head = element(
        "tr",
        element("td"),
        element("th", "Earlier access", scope="col"),
        element("th", "Later access", scope="col"),
    )
    rows = [
        _row("Operation", _operation(first), _operation(second)),
        _row("Stream", first.stream, second.stream, differs=True),
        _row("Tensor", _tensor(first), _tensor(second)),
        _row("Bytes", words.span(first.low, first.high), words.span(second.low, second.high)),
        _row("Where", _where(first.site), _where(second.site)),
        *_stack_rows(first.site.stack, second.site.stack),
    ]
    body = [row for row in rows if row is not None]
    return element("table", element("thead", head), element("tbody", *body), class_="cl-race-sides")


def _row(label: str, first: Node | str, second: Node | str, *, differs: bool = False) -> Node | None:
    """A row of the table; None where neither side is known."""
    texts = [side.text() if isinstance(side, Node) else side for side in (first, second)]
    if not any(texts):
        return None
    mark = "cl-race-differs" if differs and texts[0] != texts[1] else None
    cells = [element("td", side or "not recorded", class_=mark) for side in (first, second)]
    return element("tr", element("th", label, scope="row"), *cells)


def _operation(access: AccessView) -> Node:
    act = f" {access.verb} " if access.argument else f" {access.verb}"
    return element(
        "span",
        element("code", access.title),
        element("b", act, class_="cl-race-write" if access.is_write else "cl-race-read"),
        element("code", access.argument) if access.argument else None,
    )


def _tensor(access: AccessView) -> Node | str:
    if not access.tensor or access.tensor == access.layout:
        return element("code", access.layout) if access.layout else ""
    layout = element("code", access.layout) if access.layout else None
    return element("span", access.tensor, " " if layout else None, layout)


def _where(site: Site) -> Node | str:
    if not site.place:
        return ""
    source = element("code", site.source, class_="cl-race-source") if site.source else None
    return element("div", element("span", site.place, class_="cl-race-place"), source)


def _stack_rows(first: tuple[StackLine, ...], second: tuple[StackLine, ...]) -> Iterator[Node]:
    """The stack frames that differ, side by side, and one row that folds those in common."""
    if not first and not second:
        return
    one, two, common = folded(first, second)
    if one or two:
        row = _row("Call stack", _stack(first[:one]), _stack(second[:two]))
        if row is not None:
            yield row
    if common:
        label = f"{units.plural(common, 'stack frame')} in common"
        fold = element("details", element("summary", label), _stack(first[one:], is_common=True))
        head = element("th", "" if one or two else "Call stack", scope="row")
        yield element("tr", head, element("td", fold, colspan=2), class_="cl-race-common")


def _stack(lines: Iterable[StackLine], *, is_common: bool = False) -> Node | str:
    """Stack frames, innermost first; those that are not in common are marked."""
    mark = None if is_common else element("span", "≠ ", class_="cl-race-mark", title="not on the other access's stack")
    items = [
        element("li", mark, element("span", line.place, class_="cl-race-place"), f" {line.function}") for line in lines
    ]
    return element("ul", *items, class_="cl-race-stack") if items else ""


def _memory(race: RaceView) -> Node:
    """The bytes that both touch, and where the block came from."""
    label = words.overlap_words(race)
    bars = (
        element("div", element("span", side, class_="cl-race-label"), bar, class_="cl-race-bar")
        for side, bar in zip(("Earlier", "Later"), bytes_bars(race), strict=True)
    )
    origins = (_origin(f"{what[0].upper()}{what[1:]}", site) for what, site in words.sites(race))
    head = element("p", element("strong", "Memory: "), f"{label}.", class_="cl-race-caption")
    return element("div", head, *bars, *origins, class_="cl-race-bytes")


def _origin(what: str, site: Site) -> Node:
    place = element("span", site.place or str(site.stack[0]), class_="cl-race-place")
    source = element("code", site.source) if site.source else None
    line = (f"{what} at ", place, ": " if source else None, source)
    if len(site.stack) < 2:
        return element("p", *line, class_="cl-race-origin")
    return element("details", element("summary", *line), _stack(site.stack, is_common=True), class_="cl-race-origin")


def _picture(race: RaceView) -> Node:
    note = None if race.between is not None else "What happened in between was not recorded."
    return element(
        "div",
        element("p", element("strong", "Happens-before"), class_="cl-race-caption"),
        element("div", happens_before_svg(race), class_="cl-race-scroll", tabindex=0, role="group"),
        element("p", note, class_="cl-race-note") if note else None,
        class_="cl-race-order",
    )


def _fix(race: RaceView) -> Node:
    if not race.fix and not race.fix_diff:
        return element("div", element("p", words.NO_FIX, class_="cl-race-note"), class_="cl-race-fix")
    parts = [element("p", element("strong", "Fix: "), *_with_code(race.fix), class_="cl-race-caption")]
    if race.fix_diff:
        lines = [element("span", f"{line}\n", class_=_diff_class(line)) for line in race.fix_diff]
        parts.append(element("pre", *lines, class_="cl-race-diff", tabindex=0))
    checked = f"{words.CHECKED[0].upper()}{words.CHECKED[1:]}."
    parts.append(element("p", f"✓ {checked}", class_="cl-race-checked"))
    return element("div", *parts, class_="cl-race-fix")


def _with_code(text: str) -> Iterator[Node | str]:
    """`text` with what stands between backticks as code; an odd backtick stays what it is."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        parts[-2:] = ["`".join(parts[-2:])]
    for number, part in enumerate(parts):
        yield element("code", part) if number % 2 else part


def _diff_class(line: str) -> str | None:
    if line.startswith(("+++", "---")):
        return "cl-diff-file"
    return {"+": "cl-diff-add", "-": "cl-diff-del", "@": "cl-diff-hunk"}.get(line[:1])
