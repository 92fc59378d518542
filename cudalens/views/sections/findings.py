"""Findings: what costs time, where, and what to try."""

from __future__ import annotations

import re
from typing import Final

from cudalens.analysis import Finding, units
from cudalens.analysis.facts import found_in
from cudalens.analysis.findings import MOST
from cudalens.analysis.findings.finding import sureness
from cudalens.frames import Trace
from cudalens.views.sections.markup import bar
from cudalens.views.sections.model import Cell, Column, Note, Part, Row, Section, Table, Text

#: Findings that are unfolded.
NUM_OPEN: Final = 3

_MAX_ADVICE: Final = 120
_CODE: Final = re.compile(
    r"(%%?cuda\w+(?: --\w+(?: \w+)?)*|[\w.@]+\([^()]*\)|[A-Z_]{8,}=\S+\w|\btorch(?:\.\w+)+(?: = \w+)?)"
)
_COLUMNS: Final = (
    Column("gain", "cost", "right"),
    Column("finding", "what"),
    Column("try", "try", is_below=True),
)
_LEGEND: Final = (
    "Gain: what the advice can save at most, and its share of the measured time. Findings can overlap; do not add "
    "them. (measured) or (modelled): the cause was recorded; (likely) and (possible): it was inferred, so expect less. "
    "cudalens.analysis.findings(trace) has the events of each. %cudaprofile try N runs the cell with and without "
    "the fix of finding N, and %cudaprofile try all keeps what helps."
)


def verdict(trace: Trace) -> str:
    """``up to 5.58 ms (38 %) lost to launch overhead``, of the first finding; "" where none has a gain.

    Only idle time of the devices is lost; other gains are to be saved.
    """
    first = _first(trace)
    if first is None:
        return ""
    gain = f"{units.duration(first.gain_ns)} ({units.percent(first.share_pct)})"
    words = "lost to" if first.is_idle else "to save on"
    place = f" at {units.short_place(first.place)}" if first.place else ""
    return f"{'perhaps ' if first.confidence == 'low' else ''}up to {gain} {words} {first.title}{place}"


def first_advice(trace: Trace) -> str:
    """Return the first alternative of the advice of the finding in the verdict; "" where there is none."""
    first = _first(trace)
    if first is None:
        return ""
    advice = first.advice.partition("; ")[0]
    return advice if len(advice) <= _MAX_ADVICE else advice[: advice.rfind(", ", 0, _MAX_ADVICE)].removesuffix(",")


def _first(trace: Trace) -> Finding | None:
    return next((found for found in found_in(trace) if found.gain_ns is not None), None)


def section(trace: Trace) -> Section | None:
    """Return the findings, largest gain times confidence first; None where there is none."""
    every = found_in(trace)
    found = every[:MOST]
    if not found:
        return None
    rows = [_row(one) for one in found]
    more = ("finding", "cudalens.analysis.findings(trace, most=None)")
    table = Table(_COLUMNS, rows, len(every), MOST, num_open=NUM_OPEN, more=more, is_stacked=True)
    modelled = " (modelled times)" if found[0].is_modelled else ""
    return Section(
        "findings",
        "cl-find",
        title="Findings",
        facts=f"{len(every)}, largest expected gain first{modelled}",
        blocks=(table, Note(_LEGEND, is_in_text=False)),
        is_open=True,
    )


def _row(found: Finding) -> Row:
    what: list[Part] = [Text(found.title, "strong")]
    if found.place:
        what += [" at ", Text(units.short_place(found.place), "place", full=found.place)]
    if found.rank is not None:
        what.append(f" on rank {found.rank}")
    how_sure = sureness(found.confidence, is_modelled=found.is_modelled)
    what += [Text(f" ({how_sure})", "muted"), Text(found.what, "paragraph")]
    parts = _CODE.split(found.advice)
    advice = tuple(Text(part, "code") if number % 2 else part for number, part in enumerate(parts) if part)
    return Row((_cost(found), tuple(what), advice), found.rows[0] if found.rows else None)


def _cost(found: Finding) -> Cell:
    if found.gain_ns is None:
        return "-"
    cost = units.duration(found.gain_ns)
    return (
        bar("", min((found.share_pct or 0) / 100, 1)),
        f"{cost} ",
        Text(f"({units.percent(found.share_pct)})", "muted"),
    )
