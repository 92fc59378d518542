"""Findings in words: the dearest in the verdict, and the list of the plain text."""

from __future__ import annotations

from typing import Final

from cudalens.analysis import Finding, findings, units
from cudalens.frames import Trace
from cudalens.views.sections.syncs_text import short_place

_MAX_ROWS: Final = 8
_MAX_TEXT: Final = 320
_WIDTH: Final = 100
_INDENT: Final = 20

SURENESS: Final = {"high": "measured", "medium": "likely", "low": "possible"}
"""What a reader makes of a confidence."""


def verdict(trace: Trace) -> str:
    """``up to 5.58 ms (38 %) lost to launch overhead``, of the dearest finding; "" where none has a cost."""
    first = next((found for found in findings(trace) if found.cost_ns is not None), None)
    if first is None:
        return ""
    return f"{'perhaps ' if first.confidence == 'low' else ''}up to {cost(first)} lost to {first.title}"


def cost(found: Finding) -> str:
    """``5.58 ms (38 %)``; "" without a cost."""
    if found.cost_ns is None:
        return ""
    return f"{units.duration(found.cost_ns)} ({units.percent(found.share_pct)})"


def report_text(trace: Trace) -> str:
    """The findings as lines, the dearest first, each with its place and what to try; "" where there is none."""
    found = findings(trace)
    if not found:
        return ""
    lines = [f"Findings, the dearest first{' (modelled times)' if found[0].is_modelled else ''}"]
    for one in found[:_MAX_ROWS]:
        where = f" at {short_place(one.place)}" if one.place else ""
        lines.append(f"  {cost(one):>{_INDENT - 4}}  {one.title}{where} ({SURENESS[one.confidence]})")
        lines += wrapped(one.what) + wrapped(f"try: {one.advice}")
    if len(found) > _MAX_ROWS:
        lines.append(f"  and {units.plural(len(found) - _MAX_ROWS, 'other')}: cudalens.analysis.findings(trace)")
    return "\n".join(lines)


def wrapped(text: str) -> list[str]:
    """`text`, indented below a finding's title, at most 100 columns wide."""
    import textwrap

    margin = " " * _INDENT
    short = units.shorten(text, _MAX_TEXT)
    return textwrap.wrap(short, _WIDTH, initial_indent=margin, subsequent_indent=margin, break_on_hyphens=False)
