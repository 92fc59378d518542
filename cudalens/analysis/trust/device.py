"""Rules about what devices did: work and launches that miss each other, work that overlaps, times that cannot be."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.trust.arrays import DEVICE_WAIT, MISSING, Bools, Ints, Look, Suspicion
from cudalens.analysis.units import duration, plural
from cudalens.frames.columns import combined

#: Launches whose kernels may begin before the one before them on the stream has ended: with attributes (programmatic
#: dependent launch), HIP's out-of-order launches, and graphs, whose branches run side by side.
_BEGIN_CAPTURE: Final = re.compile(r"^(?:cuda|cu|hip)StreamBeginCapture")
_END_CAPTURE: Final = re.compile(r"^(?:cuda|cu|hip)StreamEndCapture")
_MAY_OVERLAP: Final = re.compile(r"^(?:cuda|cu)LaunchKernelEx|^hipExt\w*Launch|Graph\w*Launch")

#: Tick of the GPU's timer on many GPUs (``%globaltimer`` advances about once in a microsecond).
_TICK_NS: Final = 1_024

_DROPPED: Final = "Records were dropped; record less, or for a shorter time."
_CUPTI_HEAD: Final = (
    "CUPTI of CUDA 12.6 Update 2 to 13.0 damages the first records of every later profile of a process: profile in a "
    "fresh process, or with CUDA 13.1 or newer."
)


def lost_work(look: Look) -> list[Suspicion]:
    """Launches of kernels or graphs of which no work is recorded, though work of others is.

    Those after the last one with work, which nothing waited for, are healthy: they ran when the recording had ended.
    """
    calls = _unanswered(look)
    answered = look.work.launch[look.work.launch >= 0]
    if not len(calls) or not len(answered):
        return []  # without any link it is another rule's
    first, last = _answered_span(look, calls, answered)
    is_head, is_tail = calls < first, calls > last
    is_after = is_tail & ~_is_waited_for(look, calls)
    lost = " without any recorded work"
    what = f"{plural(int(is_after.sum()), 'launch')} of which the work ran after the recording"
    after = look.suspicion("work from after", "note", what, calls[is_after], todo="Synchronize before it ends.")
    for where, place, todo in (
        (is_head, " at the head of the recording", _CUPTI_HEAD),
        (~is_head & ~is_tail, "", _DROPPED),
        (is_tail & ~is_after, " at the end of the recording", _DROPPED),
    ):
        what = f"{plural(int(where.sum()), 'launch')}{place}{lost}"
        after += look.suspicion("lost work", "partial", what, calls[where], todo=todo)
    return after


def _answered_span(look: Look, calls: Ints, answered: Ints) -> tuple[Ints, Ints]:
    """First and last row of the launches with work, of the process of each of `calls`."""
    process = combined(look.key("pid", np.concatenate([calls, answered])))
    own, of_answered = process[: len(calls)], process[len(calls) :]
    first, last = np.full(int(process.max()) + 1, len(look)), np.full(int(process.max()) + 1, -1)
    np.minimum.at(first, of_answered, answered)
    np.maximum.at(last, of_answered, answered)
    return first[own], last[own]


def _is_waited_for(look: Look, calls: Ints) -> Bools:
    """True for calls after which their process waited for a device."""
    waits = np.flatnonzero(look.is_call & look.is_named(DEVICE_WAIT))
    process = combined(look.key("pid", np.concatenate([calls, waits])))
    last = np.full(int(process.max(initial=0)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(last, process[len(calls) :], look.ts[waits])
    waited: Bools = last[process[: len(calls)]] >= look.end[calls]
    return waited


def no_device_activity(look: Look) -> list[Suspicion]:
    """Launches, and not a single row of what a device did."""
    if len(look.work.rows) or not len(look.launches):
        return []
    calls = _unanswered(look)
    what = f"{plural(len(calls), 'launch')}, and no work of any device was recorded"
    todo = "Another tool (nsys, ncu, a second profiler, DCGM) may hold CUPTI; end it and profile again."
    return look.suspicion("no device activity", "partial", what, calls, todo=todo)


def _unanswered(look: Look) -> Ints:
    """Launch calls that a device row should name and none does; of a driver call in a runtime call the outer one.

    Calls without a correlation id cannot be told, calls while a stream is captured launch nothing.
    """
    calls = look.launches
    answered = np.zeros(len(look), bool)
    launch = look.link("launch")
    answered[launch[launch >= 0]] = True
    parent = look.link("parent")
    is_launch = np.zeros(len(look) + 1, bool)
    is_launch[calls] = True
    inner = calls[is_launch[parent[calls]]]
    answered[parent[inner[answered[inner]]]] = True
    is_asked = ~answered[calls] & ~is_launch[parent[calls]] & (look.key("correlation_id", calls) != MISSING)
    unanswered: Ints = calls[is_asked & ~_is_captured(look, calls)]
    return unanswered


def _is_captured(look: Look, calls: Ints) -> Bools:
    """True for calls between the begin and the end of a stream's capture."""
    begins = look.ts[look.is_call & look.is_named(_BEGIN_CAPTURE)]
    ends = look.ts[look.is_call & look.is_named(_END_CAPTURE)]
    num_begun = np.searchsorted(begins, look.ts[calls], side="right")
    num_ended = np.searchsorted(ends, look.ts[calls], side="right")
    captured: Bools = num_begun > num_ended
    return captured


def unlinked_work(look: Look) -> list[Suspicion]:
    """Device work that no recorded call launched, though calls were recorded.

    Work that was launched before the recording began is healthy: its correlation ids are smaller than those of all
    calls, or it stands on its stream before all work of recorded calls.
    """
    work = look.work
    at = np.flatnonzero(work.launch < 0)
    if not len(at) or not len(look.launches):
        return []
    if len(at) == len(work.rows):
        what = f"none of the {plural(len(at), 'device row')} names the call that launched it"
        todo = "Costs of devices cannot be told by operator, module or line; record correlation ids."
        return look.suspicion("unlinked work", "partial", what, work.rows, todo=todo)
    before = _is_from_before(look, at)
    todo = "Operator, module and line of it are unknown; synchronize before the recording begins."
    what = f"{plural(int(before.sum()), 'device row')} launched before the recording began"
    found = look.suspicion("work from before", "note", what, work.rows[at[before]], todo=todo)
    what = f"{plural(int((~before).sum()), 'device row')} that no recorded call launched"
    todo = "Operator, module and line of it are unknown: ids or records of calls were lost."
    return found + look.suspicion("unlinked work", "partial", what, work.rows[at[~before]], todo=todo)


def _is_from_before(look: Look, at: Ints) -> Bools:
    work = look.work
    calls = np.flatnonzero(look.is_call)
    ids, of_calls = look.key("correlation_id", work.rows[at]), look.key("correlation_id", calls)
    known = of_calls[of_calls > 0]
    is_older = (ids > 0) & (ids < (known.min() if len(known) else 0))
    lane = combined(work.device, work.stream)
    first = np.full(int(lane.max()) + 1, len(lane), np.int64)
    linked = np.flatnonzero(work.launch >= 0)
    np.minimum.at(first, lane[linked], linked)
    has_linked = first[lane[at]] < len(lane)
    before: Bools = is_older | (has_linked & (at < first[lane[at]]))
    return before


def shared_ids(look: Look) -> list[Suspicion]:
    """Calls that share a correlation id with an earlier call that they are not part of, and that work names."""
    calls = np.flatnonzero(look.is_call)
    ids = look.key("correlation_id", calls)
    calls, ids = calls[ids > 0], ids[ids > 0]
    order = np.argsort(ids, kind="stable")
    calls, ids = calls[order], ids[order]
    again = np.flatnonzero(ids[1:] == ids[:-1]) + 1
    if not len(again):
        return []
    first = calls[np.searchsorted(ids, ids[again])]
    is_part = look.end[calls[again]] <= look.end[first]
    is_part &= look.key("tid", calls[again]) == look.key("tid", first)
    named = np.isin(ids[again], look.key("correlation_id", look.work.rows))
    rows: Ints = calls[again[~is_part & named]]
    what = (
        f"{plural(len(rows), 'call')} with the correlation id of an earlier call; work of the id counts for the first"
    )
    return look.suspicion("shared ids", "partial", what, rows, todo="Ids of several processes or sessions were mixed.")


def overlaps(look: Look) -> list[Suspicion]:
    """Work that starts while earlier work of the same stream still runs, by more than what times are rounded to."""
    work = look.work
    if len(work.rows) < 2:
        return []
    lane = combined(work.device, work.stream)
    order = np.lexsort((np.arange(len(lane)), lane))
    start, end, of_lane = work.start[order], work.end[order], lane[order]
    touches = (end[:-1] - start[1:] > look.resolution_ns - 1) & (of_lane[1:] == of_lane[:-1])
    if not touches.any():
        return []  # the first overlap of a stream is one of neighbours
    reach = pd.Series(end).groupby(of_lane).cummax().to_numpy()
    by = np.zeros(len(start), np.int64)
    by[1:] = np.where(of_lane[1:] == of_lane[:-1], reach[:-1] - start[1:], 0)
    hit = by > look.resolution_ns - 1
    rows, by, launch = work.rows[order][hit], by[hit], work.launch[order][hit]
    may = ((launch >= 0) & look.is_named(_MAY_OVERLAP)[launch]) | (by <= _TICK_NS)
    return [
        *_overlapping(look, rows[may], by[may], may=True),
        *_overlapping(look, rows[~may], by[~may], may=False),
    ]


def _overlapping(look: Look, rows: Ints, by: Ints, *, may: bool) -> list[Suspicion]:
    most = duration(int(by.max(initial=0)))
    what = f"{plural(len(rows), 'device row')} before earlier work of the same stream ended, by up to {most}"
    what = what.replace("rows ", "rows begin ", 1).replace("row ", "row begins ", 1)
    if may:
        todo = "They were launched so that they may (with attributes, by a graph), or it is a tick of the GPU's timer."
        return look.suspicion("allowed overlap", "note", what, rows, todo=todo)
    todo = "A stream does one thing at a time: times of these rows are wrong, or their streams."
    return look.suspicion("overlapping work", "partial", what, rows, todo=todo)


def durations(look: Look) -> list[Suspicion]:
    """Rows of negative length, device work of none, device work that is longer than the whole recording."""
    negative = np.flatnonzero(look.dur < 0)
    what = f"{plural(len(negative), 'row')} of negative length"
    found = look.suspicion("negative durations", "partial", what, negative, todo="Their ends are not known.")
    work = look.work
    length = work.end - work.start
    none = work.rows[length == 0]
    if look.resolution_ns > 1:
        what = f"{plural(len(none), 'device row')} too short for the microseconds that this file counts in"
        found += look.suspicion("rounded to nothing", "note", what, none)
    else:
        what = f"{plural(len(none), 'device row')} of no length: their times were not recorded"
        found += look.suspicion("no duration", "partial", what, none, todo=_CUPTI_HEAD)
    return found + _absurd(look)


def all_later(look: Look) -> list[Suspicion]:
    """Device work all of which begins when the host's recording is over, of a program that launched `_MIN_LATER` times.

    A device that is busy with work of before, which is not recorded, does so; and so does one whose clock is late.
    """
    work, window = look.work, look.host_window
    if window is None or int((work.launch >= 0).sum()) < _MIN_LATER or int(work.start[0]) < window[1]:
        return []
    late = duration(int(work.start[0]) - window[1])
    what = f"all {plural(len(work.rows), 'device row')} begin when the host's recording is over, by {late} and more"
    todo = "The device had earlier work to do, which is not recorded, or its clock is late: launch delays hold it, too."
    return look.suspicion("work all later", "note", what, work.rows, todo=todo)


#: Fewer launches take no longer than the first of them needs to reach the device.
_MIN_LATER: Final = 20


def _absurd(look: Look) -> list[Suspicion]:
    work, window = look.work, look.host_window
    if window is None:
        return []
    length = work.end - work.start
    rows = work.rows[length > max(window[1] - window[0], 0) + _SECOND_NS]
    what = f"{plural(len(rows), 'device row')} longer than the whole recording of the host"
    return look.suspicion("absurd durations", "partial", what, rows, todo="Their ends cannot be right.")


_SECOND_NS: Final = 10**9
