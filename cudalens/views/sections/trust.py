"""How far a trace can be trusted: notes and badges beside the verdict, and the list of what the checks found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.trust.check import TrustReport
from cudalens.analysis.trust.check import trust as _checked
from cudalens.frames import RunInfo, Trace
from cudalens.frames.info import Trust, TrustFinding
from cudalens.gpus.predict import Band
from cudalens.views.sections.model import Column, Facts, Row, Section, Table
from cudalens.views.sections.shown import Shown

#: Rules whose findings are among the notes already, as problems of the data.
_ALREADY_NOTED: Final = ("damage",)
_MARKS: Final = {"note": "note", "repaired": "repaired", "partial": "wrong"}
_COLUMNS: Final = (
    Column("kind"),
    Column("rule"),
    Column("count", align="right"),
    Column("what", html_width=300, is_below=True),
    Column("first", html_width=300, is_below=True),
    Column("done", html_width=300, is_below=True),
)


def trust_notes(info: RunInfo) -> list[str]:
    """Return what is wrong or was repaired, a line each."""
    findings = info.trust.findings if info.trust else ()
    shown = (f for f in findings if f.severity != "note" and f.rule not in _ALREADY_NOTED)
    return [f"{_MARKS[f.severity]}: {f.what}{_first(f)}. {f.done}" for f in shown]


def trust_section(trace: Trace) -> Section | None:
    """Return the findings of ``trace.info.trust``, folded; None where the trace was not checked."""
    found = trace.info.trust
    if found is None:
        return None
    items = tuple((f"{_MARKS[f.severity]}: {f.rule}", _sentence(f)) for f in found.findings)
    facts = Facts(items or (("nothing", "No check found anything."),))
    return Section("trust", title=f"How far to trust it: {found.verdict}", blocks=(facts,), is_open=False)


def trust_text(trace: Trace) -> TrustText:
    """Return how far `trace` can be trusted; prints as text, shows as a table in a notebook."""
    return TrustText(_checked(trace))


@dataclass(frozen=True, repr=False)
class TrustText(Shown):
    """A report of trust that prints.

    Attributes:
        report: What the checks found.
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

    @property
    def section(self) -> Section:
        """The verdict, then the findings."""
        rows = [Row(_texts(finding)) for finding in self.trust.findings]
        table = Table(_COLUMNS, rows, max_text=len(rows))
        return Section("trust", verdict=self.verdict, blocks=(table,) if rows else ())


def _texts(finding: TrustFinding) -> tuple[str, ...]:
    mark, number = _MARKS[finding.severity], units.count(finding.count)
    return mark, finding.rule, number, finding.what, finding.where or "", finding.done


def _sentence(finding: TrustFinding) -> str:
    number = f"{units.count(finding.count)}x " if not finding.rows and finding.count > 1 else ""
    return units.shorten(f"{number}{finding.what}{_first(finding)}. {finding.done}".rstrip(), 600)


def _first(finding: TrustFinding) -> str:
    return f" (first: {finding.where})" if finding.where else ""


def simulated(info: RunInfo) -> str | None:
    """``simulated: <spec>`` for times of a model, else None."""
    return f"simulated: {info.source.removeprefix('virtual:')}" if info.is_simulated else None


def band_words(info: RunInfo) -> str:
    """Return ``modelled kernel times ± 9 %``: the 80 % band of a simulated run's kernels, or "" where it is unknown."""
    band = info.kernel_time_band
    return f"modelled kernel times {Band(*band).words}" if band else ""


def trusted(info: RunInfo) -> str | None:
    """``partial trace`` or ``repaired trace`` where a check found something, else None."""
    return None if info.trust is None or info.trust.verdict == "clean" else f"{info.trust.verdict} trace"


def badges(info: RunInfo) -> str | None:
    """Return all badges of a run in one text, or None."""
    return " · ".join(filter(None, (simulated(info), trusted(info)))) or None
