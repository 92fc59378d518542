"""Which rank of a watched job arrives last: the one that waits least for the others in collectives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from cudalens.frames.watching.run import WatchedRun

#: Steps at the end of a run that count.
_NUM_RECENT: Final = 200
#: Recordings at the end of a run that count, and how much longer than a usual step theirs may be.
_NUM_RECORDINGS: Final = 3
_MOST_UNUSUAL: Final = 2.0
#: Share of a step that the others have to wait for one rank.
_LEAST_SHARE: Final = 0.05


class RankState(NamedTuple):
    """The recent steps of one rank: medians in ns, None where unknown."""

    step_ns: float | None
    data_ns: float | None
    communication_ns: float | None


class Late(NamedTuple):
    """The rank that arrives last, and how long the others wait for it, ns a step (median)."""

    rank: int
    waited_ns: float


def rank_states(runs: Mapping[int, WatchedRun]) -> dict[int, RankState]:
    """The state of each rank; communication is the median of its last usual recordings, since its last change."""
    return {rank: _state(run) for rank, run in runs.items()}


def _state(run: WatchedRun) -> RankState:
    dur, data = run.columns["dur"][-_NUM_RECENT:], run.columns["data_ns"][-_NUM_RECENT:]
    if not len(dur):
        return RankState(None, None, None)
    step_ns = float(np.median(dur))
    since = run.changes[-1].step if run.changes else 0
    usual = [one for one in run.recordings if one.step >= since and one.step_ns <= _MOST_UNUSUAL * step_ns]
    known = [one.parts for one in usual if {"GPU compute", "communication"} & one.parts.keys()]
    waited = [parts.get("communication", 0.0) for parts in known[-_NUM_RECORDINGS:]]
    return RankState(step_ns, float(np.median(data)), float(np.median(waited)) if waited else None)


def last_arrival(states: Mapping[int, RankState]) -> Late | None:
    """The rank whose exposed communication is shortest, if the others wait for a twentieth of a step or more.

    A collective ends at the same time on all ranks, so the rank that enters it last spends the least time in it. None
    if a rank has no recording, or if all wait about as long.
    """
    known = {rank: state.communication_ns for rank, state in states.items() if state.communication_ns is not None}
    if len(known) < 2 or len(known) < len(states):
        return None
    rank = min(known, key=lambda one: known[one])
    waited = float(np.median([value for other, value in known.items() if other != rank])) - known[rank]
    step_ns = max((state.step_ns or 0.0) for state in states.values())
    return Late(rank, waited) if step_ns and waited >= _LEAST_SHARE * step_ns else None
