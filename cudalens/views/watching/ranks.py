"""Several ranks of a job that watch themselves: a map of step times by rank, and the rank that arrives last."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from cudalens.analysis import units
from cudalens.analysis.watching.ranks import RankState, last_arrival, rank_states
from cudalens.errors import TraceFormatError
from cudalens.frames.watching.run import WatchedRun, is_watched, read_watched
from cudalens.views.foreign import clean
from cudalens.views.sections.html_page import write_page
from cudalens.views.sections.markup import Node, element, svg
from cudalens.views.sections.model import Column, Picture, Row, Section, Table
from cudalens.views.sections.shown import Shown
from cudalens.views.watching import words
from cudalens.views.watching.record import WatchRecord

_FOLDER: Final = re.compile(r"rank-(\d{1,6})")
_MOST_RANKS: Final = 4096
_WIDTH, _LEFT, _NUM_BINS, _MOST_ROWS = 720, 74, 120, 64
_FONT: Final = {"font_family": "system-ui, sans-serif", "font_size": 11, "fill": "currentColor"}
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
    simulated = "simulated" if any(words.badge(run) for run in runs.values()) else ""
    return Section("watch", "cl-watch", verdict=verdict(runs), badge=simulated, blocks=blocks)


def _row(rank: int, state: RankState, run: WatchedRun) -> Row:
    times = (state.step_ns, state.data_ns, state.communication_ns)
    shown = ("-" if value is None else units.duration(value) for value in times)
    return Row((str(rank), f"{run.facts.num_steps:,}", *shown, clean(words.verdict(run))))


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
        nodes.append(element("text", f"rank {rank}", x=_LEFT - 6, y=k * height + 12, text_anchor="end", **_FONT))
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
    nodes.append(element("text", foot, x=_LEFT, y=len(known) * height + 15, opacity=".75", **_FONT))
    return svg(_WIDTH, len(known) * height + 22, "Step times by rank and step", *nodes)


def _binned(columns: Mapping[str, Any], last: int) -> Any:
    """Mean step time in each of `_NUM_BINS` equal stretches of steps; NaN where there is none."""
    place = np.minimum(columns["step"] * _NUM_BINS // max(last, 1), _NUM_BINS - 1)
    weight = columns["num_steps"].astype(np.float64)
    total = np.bincount(place, weights=weight * columns["dur"], minlength=_NUM_BINS)
    count = np.bincount(place, weights=weight, minlength=_NUM_BINS)
    return np.divide(total, count, out=np.full(_NUM_BINS, np.nan), where=count > 0)
