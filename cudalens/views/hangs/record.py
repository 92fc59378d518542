"""`FlightRecord`: the collectives of a job, and which rank holds it up."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

import pandas as pd

from cudalens.analysis.hangs import Hang, diagnose
from cudalens.analysis.hangs.frame import collectives
from cudalens.frames.flight_records import FlightRecords
from cudalens.views.hangs import section as view
from cudalens.views.sections.html_page import write_page
from cudalens.views.sections.model import Section
from cudalens.views.sections.shown import Shown


class FlightRecord(Shown):
    """The collectives that each rank of a job entered; prints which rank holds up the others."""

    def __init__(self, records: FlightRecords) -> None:
        self._records = records

    @cached_property
    def hang(self) -> Hang:
        """What holds up the job: its status, the ranks at fault and why, and the ranks that wait."""
        return diagnose(self._records)

    @property
    def verdict(self) -> str:
        """The answer in one line."""
        return view.verdict(self.hang)

    @cached_property
    def entries(self) -> pd.DataFrame:
        """A row for each collective of each dump: rank, dump, group, seq, op, sizes, dtypes, finished, time, place."""
        return collectives(self._records)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one offline page; returns its path.

        Raises:
            OutputError: The file cannot be written; an existing file is unchanged.
        """
        return write_page(path, "Hang", self._repr_html_())

    @property
    def section(self) -> Section:
        """The verdict, the ranks, and what the dumps cannot say."""
        return view.section(self._records, self.hang)
