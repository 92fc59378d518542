"""The races of a Trace: the verdict, a section with a card for each race, and the same cards for the page.

A card holds the two accesses side by side, the bytes that both touch, where that memory came from, what happened on the
streams, and the fix. It needs no script; ``js/races/races.js`` adds the list, the filter and copying.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.cached import once_per_trace
from cudalens.frames import Judged, Trace
from cudalens.views.races import values
from cudalens.views.races.model import RaceView, Site, StackLine, folded, race_views
from cudalens.views.races.svg import bytes_bars, happens_before_svg
from cudalens.views.races.values import MAX_CELLS
from cudalens.views.sections.markup import Node, element
from cudalens.views.sections.model import (
    Block,
    Cell,
    Code,
    Column,
    Facts,
    Items,
    Note,
    Picture,
    Row,
    Section,
    Table,
    Text,
    marked_code,
)
from cudalens.views.sections.write_html import nodes, to_html

#: Races that the live view and the report hold; the others are counted.
MAX_CARDS: Final = 1000

#: Bytes of HTML of the cards in a section; races beyond them get a line each.
MAX_HTML: Final = 110_000

#: Races that plain text shows in full; others get a line each.
MAX_TEXT: Final = 10

_MAX_LINES: Final = 40
_MAX_CARD_BYTES: Final = 10_000_000

#: Rows and columns of a tensor's pictures in a section.
_STATIC_CELLS: Final = 32
_CSS: Final = "cl-race"
_SIDES: Final = (
    Column("", text_width=10),
    Column("Earlier access", text_width=43),
    Column("Later access", text_width=43),
)


def has_races(trace: Trace) -> bool:
    """Whether there is a race to show."""
    return bool((~trace.races["is_suppressed"]).any())


def section(trace: Trace) -> Section | None:
    """The races, worst first, the worst one open; None where there is none."""
    races = list(enumerate(race_views(trace), 1))
    if not races:
        return None
    folds: list[Section] = []
    size = 0
    for number, race in races:
        blocks = tuple(_blocks(race, _STATIC_CELLS))
        body = Section("race", _CSS, blocks=blocks, is_in_text=number <= MAX_TEXT)
        title, facts = f"Race {number}", race_line(race)
        folds.append(Section("race-fold", _CSS, title=title, facts=facts, blocks=(body,), is_open=number == 1))
        size += len(to_html(folds[-1]).encode("utf-8", "replace"))
        if size > MAX_HTML:
            folds.pop()
            break
    return Section("races", _CSS, blocks=(*folds, *_lines(races[len(folds) :])))


def _lines(races: Sequence[tuple[int, RaceView]]) -> Iterator[Block]:
    if races:
        yield Items(tuple(f"Race {number}: {race_line(race)}" for number, race in races[:_MAX_LINES]))
    if (left := len(races) - _MAX_LINES) > 0:
        yield Note(f"and {units.count(left)} more in trace.races")


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
    return {
        "row": race.row,
        "kind": race.kind or "race",
        "title": race.title,
        "tensor": race.tensor,
        "places": race.places,
        "times": times_words(race),
        "card": card(number, race).json(),
    }


def card(number: int, race: RaceView) -> Node:
    """Race `number`, from 1, as an ``<article>``."""
    facts = f"of {race.tensor} · seen {units.times(race.count)}"
    shown = Section("", _CSS, f"{number}. {race.title}", facts, blocks=tuple(_blocks(race, MAX_CELLS)))
    label = f"Race {number}: {race.title} of {race.tensor}"
    return element("article", *nodes(shown), class_="cudalens-race", aria_label=label)


def _blocks(race: RaceView, cells: int) -> Iterator[Block]:
    """What a card holds; `cells`: rows and columns of pictures of tensors, at most."""
    yield Note(consequence(race), "what")
    yield Table(_SIDES, list(_side_rows(race)), max_text=200, key="sides")
    # The stack frames that both accesses have, folded.
    stack = race.first.site.stack
    one, _, common = folded(stack, race.second.site.stack)
    if common:
        yield _stack(f"{units.plural(common, 'stack frame')} in common", str(stack[one]), stack[one:])
    yield from values.section_of(race, cells)
    yield Note((Text("Memory: ", "strong"), f"{overlap_words(race)}."), "caption")
    yield Facts(tuple(zip(("Earlier", "Later"), map(Picture, bytes_bars(race)), strict=True)))
    yield from (_origin(what, site) for what, site in sites(race))
    yield Note(Text("Happens-before", "strong"), "caption", is_in_text=False)
    yield Picture(happens_before_svg(race), is_wide=True)
    if race.between is None:
        yield Note("What happened in between was not recorded.", is_in_text=False)
    yield from _fix(race)


def _side_rows(race: RaceView) -> Iterator[Row]:
    """The facts about both accesses, if one of them has it."""
    first, second = race.first, race.second
    mark = "" if first.stream == second.stream else "cl-race-differs"
    one, two, _ = folded(first.site.stack, second.site.stack)
    rows: tuple[tuple[str, Cell, Cell], ...] = (
        ("Stream", Text(first.stream, css=mark), Text(second.stream, css=mark)),
        ("Tensor", _tensor(race, 0), _tensor(race, 1)),
        ("Bytes", span(first.low, first.high), span(second.low, second.high)),
        ("Where", _place(first.site), _place(second.site)),
        ("Line", Text(first.site.source, "code"), Text(second.site.source, "code")),
        ("Captured", _captured(first.site), _captured(second.site)),
        ("Call stack", _frames(first.site.stack[:one]), _frames(second.site.stack[:two])),
    )
    yield Row(("Operation", _operation(race, 0), _operation(race, 1)))
    for label, *sides in rows:
        known = [bool(side.text if isinstance(side, Text) else side) for side in sides]
        unknown = "not in a graph" if label == "Captured" else "not recorded"
        if any(known):
            cells = (side if is_known else unknown for side, is_known in zip(sides, known, strict=True))
            yield Row((label, *cells))


def _operation(race: RaceView, side: int) -> Cell:
    access = (race.first, race.second)[side]
    verb = Text(f" {access.verb} ", "strong", css="cl-race-write" if access.is_write else "")
    return Text(access.title, "code"), verb, Text(access.argument, "code")


def _tensor(race: RaceView, side: int) -> Cell:
    access = (race.first, race.second)[side]
    name = "" if access.tensor == access.layout else access.tensor
    parts = (name and f"{name} ", access.layout and Text(access.layout, "code"))
    return tuple(part for part in parts if part)


def _place(site: Site) -> Text:
    short = units.short_place(site.place)
    return Text(short, "place", full=site.place if short != site.place else "")


def _captured(site: Site) -> Cell:
    """Where an operation of a CUDA graph was captured."""
    if site.captured is None:
        return ()
    short = units.short_place(site.captured.place)
    full = site.captured.place if short != site.captured.place else ""
    return Text(f"{short} ", "place", full=full), Text(site.captured.source, "code")


def _frames(lines: Sequence[StackLine]) -> Cell:
    """Stack frames that only one of two accesses has, innermost first."""
    return tuple(Text(f"called from {line.words}", "line", css="cl-race-place cl-race-differs") for line in lines)


def _stack(title: str, facts: str, lines: Sequence[StackLine]) -> Section:
    frames = Items(tuple(Text(str(line), "place") for line in lines), max_text=0)
    return Section("race-stack", _CSS, title=title, facts=facts, blocks=(frames,), is_open=False)


def _origin(what: str, site: Site) -> Block:
    title = f"{what} at {site.place or site.stack[0]}"
    if len(site.stack) > 1:
        return _stack(title, site.source, site.stack)
    return Note((f"{title}: ", Text(site.source, "code")) if site.source else title, "origin")


def _fix(race: RaceView) -> Iterator[Block]:
    if not race.fix and not race.fix_diff:
        yield Note(NO_FIX)
        return
    yield Note((Text("Fix: ", "strong"), *marked_code(race.fix)), "caption")
    if race.fix_diff:
        yield Code("\n".join(race.fix_diff), "diff")
    yield Note(f"✓ {CHECKED}", "checked")


CHECKED: Final = "Checked on the recorded run: the race is gone and nothing else changed."
NO_FIX: Final = "No fix was found that removes this race and changes nothing else."


@once_per_trace
def races_verdict(trace: Trace) -> str:
    """``2 races, seen 514 times``; without one, what was checked; "" where no check was made."""
    races, judged = trace.races, trace.info.judged
    shown = races[~races["is_suppressed"]]
    if shown.empty:
        return "" if races.empty and judged is None else _clean_verdict(races, judged)
    num_seen = int(shown["count"].sum())
    seen = f", seen {units.times(num_seen)}" if num_seen > len(shown) else ""
    verdicts = shown["value_verdict"].dropna()  # where other orders were tried
    by_value = f", {units.count(int((verdicts == 'confirmed').sum()))} confirmed by value" if len(verdicts) else ""
    parts = [f"{units.plural(len(shown), 'race')}{seen}{by_value}", *_caveats(judged)]
    num_suppressed = len(races) - len(shown)
    return "; ".join([*parts, *([f"{units.count(num_suppressed)} more suppressed"] if num_suppressed else [])])


def _clean_verdict(races: pd.DataFrame, judged: Judged | None) -> str:
    suppressed = f" ({units.plural(len(races), 'race')} suppressed)" if len(races) else ""
    if judged is None:
        return f"no races{suppressed}"
    streams = f" on {units.plural(judged.num_streams, 'stream')}" if judged.num_streams is not None else ""
    line = f"no races{suppressed}: {units.plural(judged.num_operations, 'operation')}{streams} checked"
    return "; ".join([line, *_caveats(judged)])


def _caveats(judged: Judged | None) -> list[str]:
    """What was not checked: replays of graphs whose capture was not seen, and what came after an error."""
    if judged is None:
        return []
    found = []
    if judged.num_unseen_replays:
        replays = units.plural(judged.num_unseen_replays, "replay")
        found.append(f"{replays} of CUDA graphs that were captured before the sanitizer was on: not checked")
    if judged.error is not None:
        error = units.shorten(judged.error, 200)
        found.append(f"the sanitizer stopped early, because of an error in it: {error}")
    return found


def consequence(race: RaceView) -> str:
    """What may go wrong, in one sentence."""
    first, second = race.first, race.second
    if race.kind == "use after free":
        return (
            f"{first.title} on {first.stream} may still use memory that was freed and handed out again: "
            f"{second.title} on {second.stream} {second.verb} it as another tensor."
        )
    if first.is_write and second.is_write:
        return f"{first.title} and {second.title} write the same bytes, and either may come last."
    if first.is_write:
        return f"{second.title} on {second.stream} may read before {first.title} on {first.stream} has written."
    return f"{second.title} on {second.stream} may overwrite what {first.title} on {first.stream} has yet to read."


def span(low: int, high: int) -> str:
    """``bytes 0 to 4,095 (4.00 KiB)``, or one byte."""
    if high <= low:
        return f"byte {units.count(low)}"
    return f"bytes {units.count(low)} to {units.count(high)} ({units.size(high - low + 1)})"


def overlap_words(race: RaceView) -> str:
    """Which bytes both touch, and of how large a block."""
    width = race.overlap_high - race.overlap_low + 1
    within = race.overlap_bytes not in (None, width)
    counted = f", {units.size(race.overlap_bytes)} of them" if within else ""
    block = f" of the block's {units.size(race.block_bytes)}" if race.block_bytes is not None else ""
    return f"both touch {span(race.overlap_low, race.overlap_high)}{counted}{block}"


def times_words(race: RaceView) -> str:
    """``512 times, confirmed by value``."""
    return f"{units.times(race.count)}{', confirmed by value' if race.is_confirmed else ''}"


def race_line(race: RaceView) -> str:
    """A race in one line: kind, memory, both places, how often."""
    first, second = map(units.short_place, race.places)
    return f"{race.title} of {race.tensor}, {first} and {second}, seen {times_words(race)}"


def sites(race: RaceView) -> Iterator[tuple[str, Site]]:
    """Where the memory was allocated and, for a use after free, freed: (words, site), if recorded."""
    if race.alloc.place or race.alloc.stack:
        yield "Allocated", race.alloc
    if race.kind == "use after free" and (race.free.place or race.free.stack):
        yield "The earlier tensor was freed", race.free
