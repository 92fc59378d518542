"""How far a trace can be trusted, in words: a badge, notes beside the verdict, and the list of findings."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from html import escape
from typing import Final

import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.trust.check import TrustReport, verdict_line
from cudalens.analysis.trust.check import trust as _checked
from cudalens.frames import RunInfo, Trace
from cudalens.frames.info import Trust, TrustFinding

_WIDTH: Final = 100
_ALREADY_NOTED: Final = ("damage",)
"""Rules whose findings stand among the notes already, as problems of the data."""

_MARKS: Final = {"note": "note", "repaired": "put right", "partial": "wrong"}


def mark(info: RunInfo) -> str | None:
    """What must stand on the face of a trace that is not clean: ``partial trace`` or ``repaired trace``; else None."""
    return None if info.trust is None or info.trust.verdict == "clean" else f"{info.trust.verdict} trace"


def notes(info: RunInfo) -> list[str]:
    """What is wrong or was put right, a line each."""
    findings = info.trust.findings if info.trust else ()
    return [_note(f) for f in findings if f.severity != "note" and f.rule not in _ALREADY_NOTED]


def overhead(info: RunInfo) -> list[str]:
    """What profiling cost the code, as a part of the verdict; nothing where nobody measured it."""
    cost = info.overhead
    if cost is None:
        return []
    if cost.unprofiled_ns is None or cost.slowdown_pct is None:
        return [f"its slowdown by profiling is not known: the unprofiled run raised {cost.error or 'something'}"]
    profiled, plain = units.duration(cost.profiled_ns), units.duration(cost.unprofiled_ns)
    percent, way = units.percent(abs(cost.slowdown_pct)), "slower" if cost.slowdown_pct >= 0 else "faster"
    kind = "means" if cost.low_pct is None else "medians"
    again = f", {kind} of {cost.num_profiled} runs" if cost.num_profiled > 1 else ""
    again += "" if cost.is_warm else " (the profiled run was the first: warm up to compare)"
    made = f"profiling made it {percent} {way}" if cost.slowdown_pct >= 0 else f"profiled it ran {percent} {way}"
    if cost.low_pct is not None and cost.high_pct is not None:
        ends = f"95 % interval {_signed(cost.low_pct)} to {_signed(cost.high_pct)}"
        if cost.low_pct <= 0 <= cost.high_pct:
            return [f"profiling did not slow it beyond noise: {profiled} against {plain} unprofiled{again} ({ends})"]
        made = f"{made} ({ends})"
    return [f"{made}: {profiled} against {plain} unprofiled{again}"]


def _signed(percent: float) -> str:
    return f"{'-' if percent < 0 else '+' if percent else ''}{units.percent(abs(percent))}"


def trust(trace: Trace) -> TrustText:
    """How far `trace` can be trusted; prints as text, shows as a table in a notebook."""
    report = _checked(trace)
    return TrustText(report)


def static_html(trace: Trace) -> str:
    """The findings of ``trace.info.trust`` for a page's footer, or "" where nobody checked it."""
    found = trace.info.trust
    if found is None:
        return ""
    terms = "".join(
        f"<dt>{escape(_MARKS[f.severity])}: {escape(f.rule)}</dt><dd>{escape(_sentence(f))}</dd>"
        for f in found.findings
    )
    body = terms or "<dt>nothing</dt><dd>No rule of trust found anything.</dd>"
    return f"<details><summary>How far to trust it: {escape(found.verdict)}</summary><dl>{body}</dl></details>"


@dataclass(frozen=True, repr=False)
class TrustText:
    """A report of trust that prints.

    Attributes:
        report: What the rules found.
    """

    report: TrustReport

    @property
    def verdict(self) -> str:
        """``clean``, ``repaired`` or ``partial``, and why, in one line."""
        return self.report.verdict

    @property
    def trust(self) -> Trust:
        """The verdict and the findings as ``trace.info.trust`` keeps them."""
        return self.report.trust

    @property
    def frame(self) -> pd.DataFrame:
        """A row per finding, as `cudalens.analysis.TrustReport.frame` defines it."""
        return self.report.frame

    def __str__(self) -> str:
        """The verdict, then the findings, at most 100 columns wide."""
        return "\n".join([self.verdict, *(line for f in self.trust.findings for line in _lines(f))])

    def __repr__(self) -> str:
        """The same as printed."""
        return str(self)

    def _repr_html_(self) -> str:
        head = f"<p><strong>{escape(self.verdict)}</strong></p>"
        if not self.trust.findings:
            return f'<div class="cudalens-trust">{head}</div>'
        titles = "".join(f"<th{_LEFT}>{title}</th>" for title in ("", "rule", "count", "what", "first", "done"))
        body = "".join(f"<tr>{''.join(map(_cell, _texts(f)))}</tr>" for f in self.trust.findings)
        table = f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"
        return f'<div class="cudalens-trust">{head}{table}</div>'


_LEFT: Final = ' style="text-align:left;vertical-align:top"'


def _texts(finding: TrustFinding) -> tuple[str, ...]:
    mark, number = _MARKS[finding.severity], units.count(finding.count)
    return mark, finding.rule, number, finding.what, finding.where, finding.done


def _cell(text: str) -> str:
    return f"<td{_LEFT}>{escape(units.shorten(text, 300))}</td>"


def _lines(finding: TrustFinding) -> list[str]:
    head = f"  {_MARKS[finding.severity]:<10}{finding.rule}: "
    return textwrap.wrap(_sentence(finding), _WIDTH, initial_indent=head, subsequent_indent=" " * 12)


def _sentence(finding: TrustFinding) -> str:
    number = f"{units.count(finding.count)}x " if not finding.rows and finding.count > 1 else ""
    first = f" (first: {finding.where})" if finding.where else ""
    done = f" {finding.done}" if finding.done else ""
    return units.shorten(f"{number}{finding.what}{first}.{done}", 600)


def _note(finding: TrustFinding) -> str:
    first = f" (first: {finding.where})" if finding.where else ""
    return f"{_MARKS[finding.severity]}: {finding.what}{first}. {finding.done}"


def line(trace: Trace) -> str:
    """The verdict of ``trace.info.trust`` and its first reason; "" where nobody checked it."""
    return verdict_line(trace.info.trust) if trace.info.trust else ""
