"""Several ranks of a job that watch themselves: a map of step times by rank, and the rank that arrives last."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from cudalens.analysis import units
from cudalens.errors import TraceFormatError
from cudalens.views.sections.clean_text import clean
from cudalens.views.sections.markup import Node, element, svg
from cudalens.views.sections.model import Column, Picture, Row, Section, Table
from cudalens.views.sections.shown import Shown, write_page
from cudalens.watching import record
from cudalens.watching.levels import present_level
from cudalens.watching.record import FONT, WatchRecord
from cudalens.watching.run import WatchedRun, is_watched, read_watched

#: Steps at the end of a run that count.
_NUM_RECENT: Final = 200
#: Recordings at the end of a run that count and are needed, and how much longer than a usual step theirs may be.
_NUM_RECORDINGS: Final = 3
_MOST_UNUSUAL: Final = 2.0
#: Share of a step that the others have to wait for one rank.
_LEAST_SHARE: Final = 0.05


class RankState(NamedTuple):
    """The recent steps of one rank.

    Attributes:
        step_ns: Median time of a step; None if unknown.
        data_ns: Median time in which a step waited for its DataLoader; None if unknown.
        waits_ns: Exposed communication of a step in each of the last usual recordings, since the last change.
    """

    step_ns: float | None
    data_ns: float | None
    waits_ns: tuple[float, ...] = ()

    @property
    def communication_ns(self) -> float | None:
        """Median exposed communication of a step; None if unknown."""
        return float(np.median(self.waits_ns)) if self.waits_ns else None


class Late(NamedTuple):
    """The rank that arrives last, and how long the others wait for it, ns a step (median)."""

    rank: int
    waited_ns: float


def rank_states(runs: Mapping[int, WatchedRun]) -> dict[int, RankState]:
    """Return the state of each rank."""
    return {rank: _state(run) for rank, run in runs.items()}


def _state(run: WatchedRun) -> RankState:
    dur, data = run.columns["dur"][-_NUM_RECENT:], run.columns["data_ns"][-_NUM_RECENT:]
    if not len(dur):
        return RankState(None, None)
    since = run.changes[-1].step if run.changes else 0
    level = present_level(run.columns, since)
    step_ns = float(np.median(dur)) if level is None else level.step_ns
    usual = [one for one in run.recordings if one.step >= since and one.step_ns <= _MOST_UNUSUAL * step_ns]
    known = [one.parts for one in usual if {"GPU compute", "communication"} & one.parts.keys()]
    waits = tuple(parts.get("communication", 0.0) for parts in known[-_NUM_RECORDINGS:])
    return RankState(step_ns, float(np.median(data)), waits)


def last_arrival(states: Mapping[int, RankState]) -> Late | None:
    """Return the rank whose exposed communication is shortest, if the others wait for a twentieth of a step or more.

    A collective ends at the same time on all ranks, so the rank that enters it last spends the least time in it. The
    ranks record different steps, in which any of them can be late by chance. So each rank needs `_NUM_RECORDINGS`, and
    the last rank has to wait less in each of them than every other rank in any. None if that is so for no rank.
    """
    if len(states) < 2 or any(len(state.waits_ns) < _NUM_RECORDINGS for state in states.values()):
        return None
    rank = min(states, key=lambda one: max(states[one].waits_ns))
    others = [state for other, state in states.items() if other != rank]
    if max(states[rank].waits_ns) >= min(min(state.waits_ns) for state in others):
        return None
    waited = float(np.median([np.median(state.waits_ns) for state in others]) - np.median(states[rank].waits_ns))
    step_ns = max((state.step_ns or 0.0) for state in states.values())
    return Late(rank, waited) if step_ns and waited >= _LEAST_SHARE * step_ns else None


_FOLDER: Final = re.compile(r"rank-(\d{1,6})")
_MOST_RANKS: Final = 4096
_WIDTH, _LEFT, _NUM_BINS, _MOST_ROWS = 720, 74, 120, 64
_COLUMNS: Final = (
    Column("rank", "rank", "right"),
    Column("steps", "steps", "right"),
    Column("a step", "time", "right"),
    Column("data loading", "before", "right"),
    Column("communication", "after", "right"),
    Column("verdict", "causes", text_width=70),
)


class WatchedRanks(Shown):
    """The ranks of a job that wrote into one folder.

    Attributes:
        runs: The run of each rank.
    """

    def __init__(self, runs: Mapping[int, WatchedRun]) -> None:
        self.runs = dict(sorted(runs.items()))

    def __getitem__(self, rank: int) -> WatchRecord:
        """The record of one rank."""
        return WatchRecord(self.runs[rank])

    @property
    def verdict(self) -> str:
        """The answer in one line."""
        return verdict(self.runs)

    def summary(self) -> WatchedRanks:
        """Itself, as `Trace.summary` returns what to print."""
        return self

    @property
    def section(self) -> Section:
        """The verdict, a map of step times, and a row for each rank."""
        return section(self.runs)

    def to_html(self, path: str | os.PathLike[str], title: str | None = None) -> Path:
        """Write one offline page; returns its path.

        Raises:
            OutputError: The file cannot be written; an existing file is unchanged.
        """
        return write_page(path, title or "Ranks", self._repr_html_())


def has_ranks(folder: str | os.PathLike[str]) -> bool:
    """Return whether watched ranks have written into `folder`."""
    return any(is_watched(path) for path in Path(folder).glob("rank-*"))


def read_ranks(folder: str | os.PathLike[str]) -> WatchedRanks:
    """Return the ranks that have written into `folder`.

    Raises:
        TraceFormatError: There are none, too many, or one is damaged.
    """
    found = {
        int(match[1]): path
        for path in Path(folder).glob("rank-*")
        if (match := _FOLDER.fullmatch(path.name)) and is_watched(path)
    }
    if not found or len(found) > _MOST_RANKS:
        raise TraceFormatError(folder, found=f"{len(found)} ranks", expected=f"1 to {_MOST_RANKS} watched ranks")
    return WatchedRanks({rank: read_watched(path) for rank, path in found.items()})


def verdict(runs: Mapping[int, WatchedRun]) -> str:
    """``4 ranks, 20.1 ms a step; rank 3 arrives last: the others wait 5.10 ms a step for it``."""
    states = rank_states(runs)
    times = [state.step_ns for state in states.values() if state.step_ns]
    head = f"{units.plural(len(runs), 'rank')}, " + (
        f"{units.duration(float(np.median(times)))} a step" if times else "no step"
    )
    late = last_arrival(states)
    if late is None:
        return head
    return f"{head}; rank {late.rank} arrives last: the others wait {units.duration(late.waited_ns)} a step for it"


def section(runs: Mapping[int, WatchedRun]) -> Section:
    """Return the verdict, a map of step times, and a row for each rank."""
    states = rank_states(runs)
    rows = [_row(rank, state, runs[rank]) for rank, state in states.items()]
    picture = rank_map(runs)
    blocks = (*((Picture(picture, is_wide=True),) if picture is not None else ()), Table(_COLUMNS, rows, num_open=16))
    simulated = "simulated" if any(record.simulated_badge(run) for run in runs.values()) else ""
    return Section("watch", "cl-watch", verdict=verdict(runs), badge=simulated, blocks=blocks)


def _row(rank: int, state: RankState, run: WatchedRun) -> Row:
    times = (state.step_ns, state.data_ns, state.communication_ns)
    shown = ("-" if value is None else units.duration(value) for value in times)
    return Row((str(rank), f"{run.facts.num_steps:,}", *shown, clean(record.verdict(run))))


def rank_map(runs: Mapping[int, WatchedRun]) -> Node | None:
    """Rank by step: the darker, the longer the steps, on one scale; None if there is no step."""
    known = {rank: run for rank, run in list(runs.items())[:_MOST_ROWS] if len(run.columns["step"])}
    if not known:
        return None
    last = max(int(run.columns["step"][-1]) for run in known.values()) + 1
    table = np.array([_binned(run.columns, last) for run in known.values()])
    low, high = np.nanpercentile(table, (2, 98))
    height, cell = 16, (_WIDTH - _LEFT - 8) / _NUM_BINS
    nodes = []
    for k, (rank, values) in enumerate(zip(known, table, strict=True)):
        nodes.append(element("text", f"rank {rank}", x=_LEFT - 6, y=k * height + 12, text_anchor="end", **FONT))
        for at, value in enumerate(values):
            if not np.isnan(value):
                share = min(max((value - low) / max(high - low, 1.0), 0.0), 1.0)
                box = {
                    "x": f"{_LEFT + at * cell:.1f}",
                    "y": k * height + 1,
                    "width": f"{cell:.2f}",
                    "height": height - 2,
                }
                nodes.append(element("rect", fill="#0072b2", fill_opacity=f"{0.1 + 0.9 * share:.2f}", **box))
    foot = f"steps 0 to {last - 1:,}; light {units.duration(float(low))}, dark {units.duration(float(high))} a step"
    nodes.append(element("text", foot, x=_LEFT, y=len(known) * height + 15, opacity=".75", **FONT))
    return svg(_WIDTH, len(known) * height + 22, "Step times by rank and step", *nodes)


def _binned(columns: Mapping[str, Any], last: int) -> Any:
    """Mean step time in each of `_NUM_BINS` equal stretches of steps; NaN where there is none."""
    place = np.minimum(columns["step"] * _NUM_BINS // max(last, 1), _NUM_BINS - 1)
    weight = columns["num_steps"].astype(np.float64)
    total = np.bincount(place, weights=weight * columns["dur"], minlength=_NUM_BINS)
    count = np.bincount(place, weights=weight, minlength=_NUM_BINS)
    return np.divide(total, count, out=np.full(_NUM_BINS, np.nan), where=count > 0)
