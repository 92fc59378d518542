"""Races in words: the verdict, what may go wrong, and which bytes both accesses touch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.cached import once_per_trace
from cudalens.frames import Judged, Trace
from cudalens.views.races.model import RaceView, Site

CHECKED: Final = "Checked on the recorded run: the race is gone and nothing else changed."
NO_FIX: Final = "No fix was found that removes this race and changes nothing else."


@once_per_trace
def verdict(trace: Trace) -> str:
    """``2 races, seen 514 times``; without one, what was checked; "" where no check was made."""
    races, judged = trace.races, trace.info.judged
    shown = races[~races["is_suppressed"]]
    if shown.empty:
        return "" if races.empty and judged is None else _clean_verdict(races, judged)
    num_seen = int(shown["count"].sum())
    seen = f", seen {units.times(num_seen)}" if num_seen > len(shown) else ""
    parts = [f"{units.plural(len(shown), 'race')}{seen}{_by_value(shown)}", *_caveats(judged)]
    num_suppressed = len(races) - len(shown)
    return "; ".join([*parts, *([f"{units.count(num_suppressed)} more suppressed"] if num_suppressed else [])])


def _by_value(races: pd.DataFrame) -> str:
    """How many races change values, where other orders were tried."""
    verdicts = races["value_verdict"].dropna()
    return f", {units.count(int((verdicts == 'confirmed').sum()))} confirmed by value" if len(verdicts) else ""


def _clean_verdict(races: pd.DataFrame, judged: Judged | None) -> str:
    suppressed = f" ({units.plural(len(races), 'race')} suppressed)" if len(races) else ""
    if judged is None:
        return f"no races{suppressed}"
    streams = f" on {units.plural(judged.num_streams, 'stream')}" if judged.num_streams is not None else ""
    line = f"no races{suppressed}: {units.plural(judged.num_operations, 'operation')}{streams} checked"
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
