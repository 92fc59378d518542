"""Putting right in a trace what can be put right for sure: the clocks' offset, and rows of the host that stand twice.

No device work is ever dropped, clipped or moved against other device work: what `cudalens.analysis.device_time` says
of a trace stays as it was, to the nanosecond.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.trust.arrays import Bools, Ints, Look
from cudalens.analysis.trust.check import repaired_finding, report_of, suspicions
from cudalens.analysis.trust.clock import clock_bounds, needed_shift_ns
from cudalens.analysis.trust.host import duplicate_rows
from cudalens.frames import Trace, build_events, nullable
from cudalens.frames.catalog import columns_of
from cudalens.frames.columns import integers
from cudalens.frames.syncs.calls import Pending
from cudalens.frames.tree import sort_order

#: Rows on a stream whose times are the host's: CUPTI notes when the host waited (in recorded traces they begin and end
#: with the call that made them).
_ON_HOST_CLOCK: Final = ("cuda_sync",)


@dataclass(frozen=True)
class Plan:
    """What a repair does.

    Attributes:
        shift_ns: By how much all device rows move against the host's, ns.
        dropped: Rows of the host that are left out, ascending.
        kept: For each of them the row that stands for it.
    """

    shift_ns: int
    dropped: Ints
    kept: Ints

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to do."""
        return not self.shift_ns and not len(self.dropped)


def repaired(trace: Trace, *, repair: bool = True) -> Trace:
    """`trace` with what can be put right put right, and with its verdict in ``info.trust``.

    Repairs: all device rows are moved together against the host's by the smallest offset that lets all work start after
    its launch began and end before waits for it were over, where one offset does; rows of the host that are there
    twice are left out once. All rows are then sorted and linked anew.

    Args:
        trace: Any Trace; it stays as it is.
        repair: False to check it only.

    Returns:
        A Trace. Where there is nothing to repair its frames are those of `trace`; `trace` itself, without a verdict,
        where it has no events and nothing is wrong with it.
    """
    before = trace.info.trust
    done = [finding for finding in before.findings if finding.severity == "repaired"] if before else []
    found = suspicions(trace)
    if repair and any(suspicion.severity == "repairable" for suspicion in found):
        plan = plan_of(Look(trace))
        trace, place = _applied(trace, plan)
        done += [repaired_finding(s, place) for s in found if s.severity == "repairable"]
        found = suspicions(trace)
    if not (len(trace.events) or found or done):  # a memory snapshot, say: no times were there to be judged
        return trace
    trust = report_of(found, done).trust
    return trace.replace(info=trace.info.replace(trust=trust))


def plan_of(look: Look) -> Plan:
    """What can be put right in a trace."""
    rows = duplicate_rows(look)
    dropped = rows[~look.is_device[rows]]
    shift = needed_shift_ns(look, clock_bounds(look))
    return Plan(shift or 0, dropped, _first_of(look, dropped))


def _first_of(look: Look, dropped: Ints) -> Ints:
    """The row that each of `dropped` repeats: the nearest before it that is not dropped, of its name and lane."""
    if not len(dropped):
        return dropped
    rows = np.flatnonzero(np.isin(look.ts, look.ts[dropped]) & ~look.is_device)
    keys = [look.ts[rows], look.dur[rows]]
    keys += [look.key(name, rows) for name in ("pid", "tid", "correlation_id", "external_id")]
    keys += [look.events[name].array.codes[rows] for name in ("name", "cat", "thread")]
    group = pd.DataFrame(dict(enumerate(keys))).groupby(list(range(len(keys))), sort=False).ngroup().to_numpy()
    _, first = np.unique(group, return_index=True)
    firsts: Ints = rows[first[group[np.searchsorted(rows, dropped)]]]
    return firsts


def _applied(trace: Trace, plan: Plan) -> tuple[Trace, Ints]:
    """The Trace after `plan`, and for each row where it stands now; dropped ones where their equal does."""
    look = Look(trace)
    kept = np.ones(len(look), bool)
    kept[plan.dropped] = False
    order, place = _moved(look, plan, kept)
    frames = dict(trace.frames)
    frames["events"] = _events(look, plan, order, place)
    for name, frame in frames.items():
        links = [c.name for c in columns_of(name) if c.names == "events"] if name != "events" else []
        frames[name] = (
            frame.assign(**{link: _linked(integers(frame[link]), place) for link in links}) if links else frame
        )
    frames["syncs"] = _waited_anew(frames["syncs"], frames["events"])
    return Trace(trace.info, **frames), place


def _moved(look: Look, plan: Plan, kept: Bools) -> tuple[Ints, Ints]:
    """Rows that stay, in their old order, and where each row will stand."""
    rows = np.flatnonzero(kept)
    order = rows[sort_order(_times(look, plan)[rows], look.dur[rows])]
    place = np.empty(len(look), np.int64)
    place[order] = np.arange(len(order))
    place[plan.dropped] = place[plan.kept]
    return rows, place


def _times(look: Look, plan: Plan) -> Ints:
    if not plan.shift_ns:
        return look.ts
    moves = look.is_device & ~look.is_in(*_ON_HOST_CLOCK)
    return look.ts + np.where(moves, plan.shift_ns, 0)


def _events(look: Look, plan: Plan, rows: Ints, place: Ints) -> pd.DataFrame:
    """The events frame, built anew; parents and forward rows stay: among each other the host's rows have not moved."""
    columns = {name: look.events[name].array[rows] for name in look.events.columns}
    columns["ts"] = _times(look, plan)[rows]
    parent = look.link("parent")[rows]
    number = np.full(len(look) + 1, -1, np.int64)
    number[rows] = np.arange(len(rows))
    number[plan.dropped] = number[plan.kept]
    events = build_events(columns, async_mask=look.is_async[rows], parent=number[parent])
    forward = np.empty(len(rows), np.int64)
    forward[place[rows]] = look.link("forward")[rows]
    return events.assign(forward=_linked(forward, place))


def _linked(rows: Ints, place: Ints) -> pd.arrays.IntegerArray:
    """Old row numbers, -1 for none, as a column of the new ones."""
    missing = rows < 0
    return nullable(np.where(missing, 0, place[rows] if len(place) else 0), missing)


def _waited_anew(syncs: pd.DataFrame, events: pd.DataFrame) -> pd.DataFrame:
    """The waits with ``gpu_dur`` as the moved device rows tell it."""
    pending, known = Pending(events), syncs["gpu_dur"].notna() & syncs["dur"].notna()
    if not pending or not known.any():
        return syncs
    spans = zip(syncs["ts"][known], syncs["ts"][known] + syncs["dur"][known], strict=True)
    waited = [max(0, min(int(end), pending.until(int(end))) - int(start)) for start, end in spans]
    gpu_dur = syncs["gpu_dur"].copy()
    gpu_dur[known] = waited
    return syncs.assign(gpu_dur=gpu_dur)
