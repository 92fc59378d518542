"""The summary of a Trace: verdict, what was found, and the largest costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cudalens.frames import Trace
from cudalens.views.sections import costs, page, verdict
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
        head = page.head(self.trace)
        return head if table is None else replace(head, name=table.name, css=table.css, blocks=table.blocks)

    def __str__(self) -> str:
        """All sections, at most 100 columns wide but for the verdict and lines of source."""
        return "\n\n".join(text for section in page.text_sections(self.trace) if (text := to_text(section)))


def summary(trace: Trace) -> Summary:
    """Return the summary of `trace`."""
    return Summary(trace)
