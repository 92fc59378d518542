"""A watched run as a section: verdict, step times, parts of a step, changes, recordings, the last timeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cudalens.analysis import units
from cudalens.analysis.watching.disturbances import grouped
from cudalens.frames import Trace
from cudalens.frames.watching.run import WatchedChange, WatchedRecording, WatchedRun
from cudalens.views.foreign import clean
from cudalens.views.sections.model import Block, Column, Facts, Items, Picture, Row, Section, Table
from cudalens.views.timeline.svg import timeline_svg
from cudalens.views.watching import pictures, words

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
    blocks: list[Block] = [Facts(words.about(run))]
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
        verdict=clean(words.verdict(run)),
        badge=words.badge(run),
        notes=tuple(map(clean, run.facts.notes)),
        blocks=tuple(blocks),
    )


def _changes(run: WatchedRun) -> Table:
    groups = grouped(run.changes)
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
        return words.disturbance(group)
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
