"""`Finding`, one thing that costs time with its evidence, and `Replays`, which estimate the gain of a change."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from cudalens.analysis.critical_path.graph import build_graph
from cudalens.analysis.critical_path.replay import Change
from cudalens.frames.column_arrays import Floats, Ints

if TYPE_CHECKING:
    from cudalens.analysis.critical_path.dependencies import Window
    from cudalens.frames import Trace


Confidence = Literal["high", "medium", "low"]

CONFIDENCES: Final[tuple[Confidence, ...]] = ("high", "medium", "low")

#: A measured gain comes before a likely one that is a fifth larger.
_WEIGHTS: Final[dict[Confidence, float]] = {"high": 1.0, "medium": 0.8, "low": 0.4}

#: Rows of evidence that a finding lists at most, the most expensive ones.
MAX_ROWS: Final = 1_000


@dataclass(frozen=True)
class Finding:
    """One thing that costs time.

    Attributes:
        rule: Name of the rule that found it, as `cudalens.analysis.findings.RULES` lists them.
        title: A short name for the users of the views.
        what: What was found, in one sentence with its numbers.
        gain_ns: An upper bound of the time that the advice can gain, ns; the docstring of each rule defines it. None if
            it costs something other than time. Gains of several findings can be the same work of the devices.
        share_pct: `gain_ns` as a share of the measured window; None without a gain.
        rows: Rows of ``trace.events`` that show it, in order of time: the `MAX_ROWS` most expensive ones at most.
        place: The user's line, as ``In[7]:3`` or ``file:line``; None if it is not known.
        advice: What to try.
        confidence: How certain it is that the time is lost for this reason. "high": measured directly. "medium": the
            evidence allows another reading. "low": the pattern often has this cause.
        is_modelled: Whether the times are modelled, not measured.
        rank: The rank on which it was found; None for a single Trace and for findings across ranks.
        is_idle: Whether the gain is idle time of the devices.
        idle_ns: The part of the gain that is idle time of the devices, ns. No two findings of a Trace claim the same
            idle time; `gain_ns` is in addition to what the findings before it gain.
        alone_pct: The share of the measured window that the advice can gain if no other finding's is followed: at least
            `share_pct`. None without a gain.
    """

    rule: str
    title: str
    what: str
    gain_ns: int | None
    share_pct: float | None
    rows: tuple[int, ...]
    place: str | None
    advice: str
    confidence: Confidence
    is_modelled: bool = False
    rank: int | None = None
    is_idle: bool = False
    idle_ns: int = 0
    alone_pct: float | None = None

    @property
    def weight(self) -> float:
        """Gain times confidence, ns, by which findings are ordered; -1 without a gain."""
        return -1.0 if self.gain_ns is None else self.gain_ns * _WEIGHTS[self.confidence]

    def __str__(self) -> str:
        """Title, sentence, place and advice on one line."""
        where = f" ({self.place})" if self.place else ""
        modelled = " (modelled)" if self.is_modelled else ""
        return f"{self.title}{modelled}: {self.what}{where} Try: {self.advice}"


# `Replays`: what changes of a run gain, by replaying its dependencies with other durations.

Edit = Callable[[Change], None]


class Replays:
    """What changes gain in one Trace; each replay takes milliseconds.

    The same estimates are `cudalens.analysis.CriticalPath.what_if`.

    Args:
        trace: The Trace.
        window: The part of it that is replayed.
        idle_ns: Idle time of its devices, ns.
    """

    def __init__(self, trace: Trace, window: Window, idle_ns: int) -> None:
        self._events = trace.events
        self._taken_out: tuple[Edit, ...] = ()
        self._graph = build_graph(trace, window)
        # Without the details of a stream's waits their lengths count as delays of launches, which stay: then a replay
        # can be too short by the idle time.
        self.has_event_waits = not any("CUDA events" in note for note in self._graph.notes)
        self.slack_ns = 0 if self.has_event_waits else idle_ns

    def without(self, *edits: Edit) -> Replays:
        """The replays of the run in which `edits` are made already."""
        other = copy(self)
        other._taken_out = edits
        other.__dict__.pop("length_ns", None)
        return other

    @cached_property
    def length_ns(self) -> int:
        """Length of the run, ns."""
        return self._length()

    def gain(self, *edits: Edit, after: tuple[Edit, ...] = ()) -> int:
        """By how much the run is shorter with all of `edits`, ns; 0 where it is not.

        Args:
            *edits: The changes.
            after: Changes that are made before, and whose gain does not count.
        """
        before = self._length(*after) if after else self.length_ns
        return max(before - self._length(*after, *edits), 0)

    def _length(self, *edits: Edit) -> int:
        change = Change(self._events, self._graph)
        for edit in (*self._taken_out, *edits):
            edit(change)
        return change.length_ns()

    def bound(self, size_ns: int, *edits: Edit) -> int:
        """`size_ns`, or the gain of `edits` where that is less."""
        return min(size_ns, self.gain(*edits) + self.slack_ns)


def without_host(rows: Ints) -> Edit:
    """The host spends no time in these rows and their descendants."""

    def edit(change: Change) -> None:
        which = np.zeros(len(change.events), bool)
        which[rows] = True
        change.scale_host(which, 0.0)

    return edit


def with_work(rows: Ints, factor: Floats | float) -> Edit:
    """The device work in these rows takes `factor` of its time."""
    return lambda change: change.scale_rows(rows, factor)


def without_waits(rows: Ints) -> Edit:
    """The host's calls in these rows do not wait."""
    return lambda change: change.drop_syncs(rows)


def overlapped(rows: Ints) -> Edit:
    """Work after the device work in these rows does not wait for its end."""
    return lambda change: change.overlap(rows)


def fused(rows: Ints, group: Ints, *, as_graph: bool = False) -> Edit:
    """One launch for the device work of each group; its other operators and launches take no time.

    Args:
        rows: Rows of device work, shape (n,).
        group: The group of each, shape (n,).
        as_graph: Nor does all else that the host does between the launches of a group.
    """

    def edit(change: Change) -> None:
        groups = np.full(len(change.events), -1, np.int64)
        groups[rows] = group
        change.fuse(groups, without_operators=True, as_graph=as_graph)

    return edit
