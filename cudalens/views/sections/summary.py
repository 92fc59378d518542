"""The summary of a Trace: verdict, what was found, and the largest costs."""

from __future__ import annotations

from dataclasses import dataclass

from cudalens.frames import Trace
from cudalens.views.graphs import text as graphs_text
from cudalens.views.memory import text as memory_text
from cudalens.views.races import text as races_text
from cudalens.views.sections import costs, findings, verdict, waits
from cudalens.views.sections.model import Section
from cudalens.views.sections.shown import Shown
from cudalens.views.sections.write_text import to_text


@dataclass(frozen=True, repr=False)
class Summary(Shown):
    """A summary that prints as text and shows as a table in a notebook.

    Attributes:
        trace: What it summarizes.
    """

    trace: Trace

    @property
    def verdict(self) -> str:
        """The answer in one line."""
        return verdict.verdict(self.trace)

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The largest costs, a row of texts each: name, kind, count, total, self, mean ± sd, share."""
        return costs.cost_rows(self.trace)

    @property
    def section(self) -> Section:
        """The verdict with its notes, and the largest costs."""
        table = costs.section(self.trace)
        return Section("summary", verdict=self.verdict, notes=_notes(self.trace), blocks=(table,) if table else ())

    def __str__(self) -> str:
        """All sections, at most 100 columns wide but for the verdict and lines of source."""
        trace = self.trace
        head = Section("summary", verdict=self.verdict, notes=_notes(trace))
        found = [races_text.report_text(trace), graphs_text.report_text(trace)]
        if graphs_text.has_failed(trace):
            found.reverse()
        middle = [to_text(findings.section(trace)), to_text(waits.section(trace)), memory_text.report_text(trace)]
        parts = (to_text(head), *found, *middle, to_text(costs.section(trace)))
        return "\n\n".join(part for part in parts if part)


def _notes(trace: Trace) -> tuple[str, ...]:
    return tuple(verdict.notes(trace.info))


def summary(trace: Trace) -> Summary:
    """The summary of `trace`."""
    return Summary(trace)
