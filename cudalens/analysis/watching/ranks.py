"""Which rank of a watched job arrives last: the one that waits least for the others in collectives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from cudalens.frames.watching.run import WatchedRun

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
    step_ns = float(np.median(dur))
    since = run.changes[-1].step if run.changes else 0
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
