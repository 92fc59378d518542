"""Move the record of a rank to the times that it has in its job."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cudalens.virtual.jobs.layout import Layout, Members
from cudalens.virtual.jobs.operators import PAIRS
from cudalens.virtual.jobs.schedule import RankProgram, RankTimes
from cudalens.virtual.profile.recorder import Call, Cut, MemoryAct, Recorder
from cudalens.virtual.timing.interfaces import Work

Ints = NDArray[np.int64]


def retimed(
    recorder: Recorder, program: RankProgram, times: RankTimes, facts: Mapping[int, Any], cut: Cut | None
) -> Recorder:
    """Return a record with other times.

    Args:
        recorder: The record of the rank that ran.
        program: What it did.
        times: The times to use.
        facts: New facts of collectives (`Work.facts`), by the number of their work.
        cut: The moment before which everything is left out; None for nothing.
    """
    clock = _HostClock(program.calls_ns, times.calls_ns)
    made = copy.copy(recorder)
    calls = iter(times.calls_ns.tolist())
    made.acts = [_moved(act, calls, clock) for act in recorder.acts]
    starts, ends = times.starts_ns.tolist(), times.ends_ns.tolist()
    made.works = [
        (stream, _with_facts(work, facts.get(number)), placed._replace(start_ns=starts[number], end_ns=ends[number]))
        for number, (stream, work, placed) in enumerate(recorder.works)
    ]
    made.waits = [
        wait._replace(start_ns=clock(wait.start_ns), end_ns=clock(wait.end_ns))
        if start < 0
        else wait._replace(start_ns=start, end_ns=end)
        for wait, (start, end) in zip(recorder.waits, times.waits_ns.tolist(), strict=True)
    ]
    made.begun = [(number, operator, clock(now)) for number, operator, now in recorder.begun]
    made.ended = [(number, clock(now)) for number, now in recorder.ended]
    made.device_ranges = [
        found._replace(start_ns=clock(found.start_ns), end_ns=clock(found.end_ns)) for found in recorder.device_ranges
    ]
    made.start_ns, made.end_ns = clock(recorder.start_ns), clock(recorder.end_ns)
    if cut is None:
        return made
    made.start_ns = clock(cut.now_ns)
    return made.without_start(cut)


class _HostClock:
    """Maps times of the host in a record to new ones: linear between the starts and ends of calls."""

    def __init__(self, old: Ints, new: Ints) -> None:
        self._old, self._new = old.ravel(), new.ravel()

    def __call__(self, at: int) -> int:
        """Return the new time; before the first call and after the last one, at the same distance."""
        old, new = self._old, self._new
        if not len(old):
            return at
        if at <= old[0]:
            return int(at + new[0] - old[0])
        if at >= old[-1]:
            return int(at + new[-1] - old[-1])
        right = int(np.searchsorted(old, at, side="right"))
        before, after = old[right - 1], old[right]
        share = (at - before) / (after - before)
        return int(new[right - 1] + share * (new[right] - new[right - 1]))


def _moved(act: Any, calls: Any, clock: _HostClock) -> Any:
    if isinstance(act, Call):
        start, end = next(calls)
        return act._replace(start_ns=start, end_ns=end)
    assert isinstance(act, MemoryAct)
    return act._replace(now_ns=clock(act.now_ns))


def _with_facts(work: Work, facts: Any) -> Work:
    if facts is None:
        return work
    made = copy.copy(work)
    made.facts = facts
    return made


def facts_of_copy(program: RankProgram, layout: Layout, rank: int, of: int) -> dict[int, dict[str, Any]]:
    """Return the facts of the collectives of a rank that does the same as rank `of`, by the number of their work."""
    found = {}
    for number, collective in program.collectives.items():
        members, peer = layout.counterpart(collective, of, rank)
        source, target = None, None
        if collective.kind in PAIRS:
            source, target = (rank, peer) if collective.kind == "send" else (peer, rank)
        found[number] = {
            "collective": collective.torch_name,
            "process_group": group_name(layout, members),
            "group_ranks": str(list(members)),
            "group_size": len(members),
            "message_dtype": collective.dtype,
            "in_elements": collective.in_elements,
            "out_elements": collective.out_elements,
            "collective_seq": collective.seq,
            "src_rank": source,
            "dst_rank": target,
        }
    return found


def group_name(layout: Layout, members: Members) -> str:
    """Return a name of a process group that all its ranks use: its number among the groups of the job."""
    return str(layout.names[members])
