"""Races in words: the verdict, one sentence for each, and the report that ``text/plain`` holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import Final

import pandas as pd

from cudalens.analysis import units
from cudalens.frames import Judged, Trace
from cudalens.views.races.model import AccessView, RaceView, Site, StackLine, folded, race_views
from cudalens.views.races.values import text_lines

CHECKED: Final = "checked on the recorded run: the race is gone and nothing else changed"
NO_FIX: Final = "No fix was found that removes this race and changes nothing else."

#: Races that the plain text tells in full; the others get a line each, up to `_MAX_LINES`.
MAX_RACES: Final = 10

_MAX_LINES: Final = 40
_WIDTH: Final = 100
_LABEL: Final = 8
_DIFFERS: Final = "≠ "


def verdict(trace: Trace) -> str:
    """``2 races in 3 places, seen 514 times``; without one, what was judged; empty text where nobody looked."""
    races, judged = trace.races, trace.info.judged
    shown = races[~races["is_suppressed"]]
    if shown.empty:
        return "" if races.empty and judged is None else _clean_verdict(races, judged)
    places = pd.concat([shown[f"{side}_place"].astype(object).dropna() for side in ("first", "second")])
    where = f" in {units.plural(places.nunique(), 'place')}" if len(places) else ""
    seen = f"{units.plural(len(shown), 'race')}{where}, seen {units.times(int(shown['count'].sum()))}"
    parts = [f"{seen}{_by_value(shown)}", *_caveats(judged)]
    num_suppressed = len(races) - len(shown)
    return "; ".join([*parts, *([f"{units.count(num_suppressed)} more suppressed"] if num_suppressed else [])])


def _by_value(races: pd.DataFrame) -> str:
    """How many of them show in values, where other orders were tried."""
    verdicts = races["value_verdict"].dropna()
    return f", {units.count(int((verdicts == 'confirmed').sum()))} confirmed by value" if len(verdicts) else ""


def _clean_verdict(races: pd.DataFrame, judged: Judged | None) -> str:
    suppressed = f" ({units.plural(len(races), 'race')} suppressed)" if len(races) else ""
    if judged is None:
        return f"no races{suppressed}"
    streams = f" on {units.plural(judged.num_streams, 'stream')}" if judged.num_streams is not None else ""
    line = f"no races{suppressed}: {units.plural(judged.num_operations, 'operation')}{streams} judged"
    return "; ".join([line, *_caveats(judged)])


def _caveats(judged: Judged | None) -> list[str]:
    if judged is None or judged.error is None:
        return []
    return [f"the sanitizer stopped early, because of an error in it: {units.shorten(judged.error, 200)}"]


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


def report_text(trace: Trace) -> str:
    """Each race of `trace` that is not suppressed, worst first, about 100 columns wide; empty text without any."""
    races = race_views(trace)
    parts = [_race_text(number, race, len(races)) for number, race in enumerate(races[:MAX_RACES], 1)]
    rest = list(enumerate(races, 1))[MAX_RACES:]
    lines = [f"race {number}: {race_line(race)}" for number, race in rest[:_MAX_LINES]]
    if len(rest) > _MAX_LINES:
        lines.append(f"and {units.count(len(rest) - _MAX_LINES)} more in trace.races")
    return "\n\n".join([*parts, *(["\n".join(lines)] if lines else [])])


def race_line(race: RaceView) -> str:
    """A race in one line: kind, memory, both places, how often."""
    first, second = (side.site.place or side.title for side in (race.first, race.second))
    value = ", confirmed by value" if race.is_confirmed else ""
    return f"{race.title} of {race.tensor}, {first} and {second}, seen {units.times(race.count)}{value}"


def _race_text(number: int, race: RaceView, num_races: int) -> str:
    head = f"── race {number} of {num_races}: {race.title}, seen {units.times(race.count)} "
    lines = [head + "─" * max(0, _WIDTH - len(head)), *wrap(consequence(race), _WIDTH)]
    first, second = race.first, race.second
    for label, one, two in _facts(first, second):
        lines += _pair(label, [one], [two])
    lines += _stacks(first.site.stack, second.site.stack)
    if race.value is not None:
        for position, line in enumerate(text_lines(race.value)):
            lines += _wrapped("" if position else "value", line)
    lines.append(_labelled("memory", overlap_words(race)))
    lines += [_labelled("", f"{what} at {_site(site)}") for what, site in sites(race)]
    lines += _wrapped("fix", f"{race.fix} ({CHECKED})" if race.fix else NO_FIX)
    lines += [" " * (_LABEL + 2) + line for line in race.fix_diff]
    return "\n".join(line.rstrip() for line in lines)


def sites(race: RaceView) -> Iterator[tuple[str, Site]]:
    """Where the memory was allocated and, where that matters, freed: (words, site) of what is known."""
    if race.alloc.place or race.alloc.stack:
        yield "allocated", race.alloc
    if race.kind == "use after free" and (race.free.place or race.free.stack):
        yield "the earlier tensor was freed", race.free


def _facts(first: AccessView, second: AccessView) -> Iterator[tuple[str, str, str]]:
    yield "", "earlier", "later"
    for label, tell in _TOLD.items():
        yield label, tell(first), tell(second)


#: What is told of both accesses, by its label.
_TOLD: Final[dict[str, Callable[[AccessView], str]]] = {
    "op": lambda access: f"{access.title} {access.verb} {access.argument}".strip(),
    "on": lambda access: access.stream,
    "tensor": lambda access: " ".join(part for part in dict.fromkeys((access.tensor, access.layout)) if part),
    "bytes": lambda access: span(access.low, access.high).removeprefix("bytes "),
    "at": lambda access: access.site.place,
    "line": lambda access: access.site.source,
}


def _stacks(first: Sequence[StackLine], second: Sequence[StackLine]) -> Iterator[str]:
    """The stack frames that differ, side by side, and those in common in one line."""
    one, two, common = folded(tuple(first), tuple(second))
    yield from _pair("stack", [f"{_DIFFERS}{s}" for s in first[:one]], [f"{_DIFFERS}{s}" for s in second[:two]])
    if common:
        yield _labelled("" if one or two else "stack", f"{units.plural(common, 'stack frame')} in common: {first[one]}")


def _site(site: Site) -> str:
    place = site.place or str(site.stack[0])
    return f"{place}: {site.source}" if site.source else place


def _labelled(label: str, text: str) -> str:
    return f"  {label:<{_LABEL}}{text}"


def _wrapped(label: str, text: str) -> Iterator[str]:
    for number, line in enumerate(wrap(text, _WIDTH - _LABEL - 2, break_long_words=False, break_on_hyphens=False)):
        yield _labelled("" if number else label, line)


def _pair(label: str, first: list[str], second: list[str]) -> Iterator[str]:
    """Two columns, line by line."""
    width = (_WIDTH - _LABEL - 5) // 2
    for number, (one, two) in enumerate(zip_longest(first, second, fillvalue="")):
        if one or two:
            yield f"  {'' if number else label:<{_LABEL}}{_cut(one, width):<{width}} │ {_cut(two, width)}"


def _cut(text: str, width: int) -> str:
    """At most `width` characters; the end of a path tells more than its beginning."""
    if len(text) <= width:
        return text
    head = _DIFFERS if text.startswith(_DIFFERS) else ""
    return f"{head}…{text[len(text) - width + len(head) + 1 :]}"
