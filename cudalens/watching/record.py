"""A watched run as a section, and `WatchRecord`: to print, to show in a notebook, and to write as one offline page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pandas as pd

from cudalens.analysis import units
from cudalens.frames import Trace
from cudalens.views.foreign import clean
from cudalens.views.sections.html_page import write_page
from cudalens.views.sections.model import Block, Column, Facts, Items, Picture, Row, Section, Table
from cudalens.views.sections.shown import Shown
from cudalens.views.timeline.svg import timeline_svg
from cudalens.watching import pictures, sentences
from cudalens.watching.disturbances import group_changes
from cudalens.watching.run import WatchedChange, WatchedRecording, WatchedRun

_CHANGES: Final = (
    Column("since step", "step", "right"),
    Column("before", "before", "right"),
    Column("after", "after", "right"),
    Column("what changed", "causes", text_width=90),
)
_RECORDINGS: Final = (
    Column("step", "step", "right"),
    Column("kept because", "reason"),
    Column("a step", "time", "right"),
    Column("verdict", "verdict", text_width=80),
)
_MOST_CHANGES: Final = 20
#: Longest finding, in characters: its advice is at its end.
_MAX_FINDING: Final = 800


def section(run: WatchedRun, last: Trace | None = None) -> Section:
    """Return all that is known of a run.

    Args:
        run: The run.
        last: The Trace of the last recording, for its timeline; None to leave it out.
    """
    blocks: list[Block] = [Facts(sentences.run_facts(run))]
    drawn = (pictures.step_times(run), pictures.part_bars(run.recordings))
    blocks += [Picture(svg, is_wide=True) for svg in drawn if svg is not None]
    if run.changes:
        blocks.append(_changes(run))
    if run.recordings:
        blocks += [_findings(run.recordings[-1]), _recordings(run)]
    if last is not None and (timeline := timeline_svg(last)) is not None:
        step = run.recordings[-1].step if run.recordings else 0
        blocks.append(
            Section("", "cl-watch", title=f"Timeline of step {step:,}", blocks=(Picture(timeline, is_wide=True),))
        )
    return Section(
        "watch",
        "cl-watch",
        verdict=clean(sentences.verdict(run)),
        badge=sentences.simulated_badge(run),
        notes=tuple(map(clean, run.facts.notes)),
        blocks=tuple(blocks),
    )


def _changes(run: WatchedRun) -> Table:
    groups = group_changes(run.changes)
    rows = [
        Row(
            (
                f"{group[0].step:,}",
                units.duration(group[0].before_ns),
                units.duration(group[-1].after_ns),
                _causes(group),
            )
        )
        for group in groups[: -_MOST_CHANGES - 1 : -1]
    ]
    return Table(_CHANGES, rows, num_rows=len(groups), num_open=5, more=("change", "w.changes"), key="changes")


def _causes(group: Sequence[WatchedChange]) -> str:
    if len(group) > 1:
        return sentences.describe_disturbance(group)
    return clean("; ".join(group[0].causes)) or "not known: no recording on both sides"


def _findings(one: WatchedRecording) -> Items:
    found = tuple(clean(text, _MAX_FINDING) for text in one.findings)
    return Items(found, title=f"Findings of step {one.step:,}" if one.findings else "")


def _recordings(run: WatchedRun) -> Table:
    rows = [
        Row((f"{one.step:,}", one.reason, units.duration(one.step_ns), clean(one.verdict)))
        for one in reversed(run.recordings)
    ]
    return Table(_RECORDINGS, rows, num_open=4, more=("recording", "w.traces"), key="recordings")


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
        return sentences.verdict(self._run)

    @property
    def steps(self) -> pd.DataFrame:
        """A row per step, as `cudalens.watching.run.WatchedRun.steps` defines it."""
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
        return section(self._run, self._run.trace(recordings[-1]) if recordings else None)
