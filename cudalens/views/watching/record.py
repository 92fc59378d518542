"""`WatchRecord`: a watched run to print, to show in a notebook, and to write as one offline page."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

from cudalens.frames import Trace
from cudalens.frames.watching.run import WatchedRun
from cudalens.views.sections.html_page import write_page
from cudalens.views.sections.model import Section
from cudalens.views.sections.shown import Shown
from cudalens.views.watching import section as view
from cudalens.views.watching import words


class WatchRecord(Shown):
    """A watched run: its steps, the changes of their time, and its recordings."""

    def __init__(self, run: WatchedRun) -> None:
        self._run = run

    @property
    def run(self) -> WatchedRun:
        """All that is known of the run."""
        return self._run

    @property
    def verdict(self) -> str:
        """The answer in one line."""
        return words.verdict(self._run)

    @property
    def steps(self) -> pd.DataFrame:
        """A row per step, as `cudalens.frames.watching.run.WatchedRun.steps` defines it."""
        return self._run.steps()

    @property
    def traces(self) -> list[Trace]:
        """The Traces of the recordings that are kept, oldest first."""
        return [self._run.trace(recording) for recording in self._run.recordings]

    def summary(self) -> WatchRecord:
        """Itself, as `Trace.summary` returns what to print."""
        return self

    def to_html(self, path: str | os.PathLike[str], title: str | None = None) -> Path:
        """Write one offline page; returns its path.

        Args:
            path: The file.
            title: Title of the page; by default the name of the run.

        Raises:
            OutputError: The file cannot be written; an existing file is unchanged.
        """
        return write_page(path, title or self._run.facts.name, self._repr_html_())

    @property
    def section(self) -> Section:
        """Verdict, step times, parts of a step, changes, recordings, and the timeline of the last recording."""
        recordings = self._run.recordings
        return view.section(self._run, self._run.trace(recordings[-1]) if recordings else None)
