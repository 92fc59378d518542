"""Rules about devices: their clocks, work and launches without each other, work that overlaps, impossible times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.time.groups import taken
from cudalens.analysis.trust.host import (
    DEVICE_WAIT,
    MISSING,
    NOT_COMPLETE,
    Issue,
    Severity,
    TrustArrays,
    device_rows,
    has_incomplete_events,
    missing_work,
)
from cudalens.analysis.units import duration, plural
from cudalens.frames import Trace
from cudalens.frames.column_arrays import Bools, Ints, combined

_CONTEXT_SYNC: Final = "Context Sync"
_UNBOUNDED: Final = int(np.iinfo(np.int64).max)
_NEW_SESSION: Final = " This is a known problem of later profiles in one process: compare with a new process."


@dataclass(frozen=True, eq=False)
class ClockBounds:
    """By how much the times of all device work can be moved relative to the host's, ns; positive is later.

    Work starts after its launch began, and has ended when a wait for its device is over: two bounds for one offset.

    Attributes:
        lowest_ns: The smallest move after which no work starts before its launch began; None without linked work.
        highest_ns: The largest move after which no work ends after a wait for it; None without such waits.
        early: Rows of work that starts before its launch began.
        late: Rows of work that ends after a wait for it was over.
    """

    lowest_ns: int | None
    highest_ns: int | None
    early: Ints
    late: Ints


def clock_bounds(arrays: TrustArrays) -> ClockBounds:
    """Return the bounds of the offset between both clocks that the launches and waits of a trace give."""
    work = arrays.work
    linked = np.flatnonzero(work.launch >= 0)
    if not len(linked):
        return ClockBounds(None, None, linked, linked)
    lead = work.start[linked] - arrays.ts[work.launch[linked]]
    slack = _slack(arrays, linked)
    highest = int(slack.min())
    return ClockBounds(
        -int(lead.min()),
        highest if highest < _UNBOUNDED else None,
        work.rows[linked[lead < 0]],
        work.rows[linked[slack < 0]],
    )


def _slack(arrays: TrustArrays, linked: Ints) -> Ints:
    """Time from the end of each linked work to the end of the first wait for it; the largest int64 without a wait.

    A wait for the device that begins after a launch returned is over after that work; the earliest end of all such
    waits counts.
    """
    work, waits = arrays.work, _waits(arrays)
    slack = np.full(len(linked), _UNBOUNDED)
    if not len(waits):
        return slack
    earliest_end = np.minimum.accumulate(arrays.end[waits][::-1])[::-1]
    first = np.searchsorted(arrays.ts[waits], arrays.end[work.launch[linked]])
    is_waited = first < len(waits)
    # If starts and lengths are cut to microseconds, an end is up to two of them too early.
    rounding = 2 * (arrays.resolution_ns - 1)
    slack[is_waited] = earliest_end[first[is_waited]] + rounding - work.end[linked[is_waited]]
    return slack


def _waits(arrays: TrustArrays) -> Ints:
    """Calls that wait for the one device that all work ran on, in order of start; none if that is uncertain.

    A call does not record for which device it waits. CUPTI's record of it does; without one it is certain if the
    program saw only one device.
    """
    devices, calls = np.unique(arrays.work.device), arrays.calls(DEVICE_WAIT)
    if len(devices) != 1 or devices[0] < 0 or not len(calls) or not _is_one_process(arrays):
        return calls[:0]
    if len(arrays.trace.info.devices) == 1:
        return calls
    syncs = np.flatnonzero(arrays.is_in("cuda_sync"))
    names = arrays.events["name"].array[syncs]
    own = syncs[np.asarray(names == _CONTEXT_SYNC) & (arrays.ints("device", syncs) == devices[0])]
    return calls[np.isin(calls, arrays.ints("launch", own))]


def _is_one_process(arrays: TrustArrays) -> bool:
    return len(np.unique(arrays.ints("pid", arrays.is_call, missing=MISSING))) <= 1


def needed_shift_ns(arrays: TrustArrays, bounds: ClockBounds) -> int | None:
    """Return the smallest move of all device work together that is within `bounds`, ns; None if no move is proven.

    No move is proven if launches and waits require opposite moves, if the calls are from several processes, or if work
    would end after the recording of the host ended.
    """
    is_violated = len(bounds.early) or len(bounds.late)
    if not is_violated or bounds.lowest_ns is None or not _is_one_process(arrays):
        return None
    highest = _UNBOUNDED if bounds.highest_ns is None else bounds.highest_ns
    if bounds.lowest_ns > highest:
        return None
    if bounds.lowest_ns <= 0:
        return highest
    window = arrays.host_window
    is_inside = window is not None and int(arrays.work.end.max()) + bounds.lowest_ns <= window[1]
    return bounds.lowest_ns if is_inside else None


def clock(arrays: TrustArrays) -> Iterator[Issue]:
    """Work that starts before its launch began, or that ends after the host had waited for it."""
    bounds = clock_bounds(arrays)
    shift = needed_shift_ns(arrays, bounds)
    severity: Severity = "partial" if shift is None else "repairable"
    is_torchs = arrays.trace.info.source in ("cuda", "file:kineto")
    todo = f"No single offset of the clocks explains it.{_NEW_SESSION if is_torchs else ''}"
    if shift is not None:
        todo = f"All device rows move {duration(abs(shift))} {'later' if shift > 0 else 'earlier'}."
    early, late = duration(bounds.lowest_ns), duration(-(bounds.highest_ns or 0))
    what = f"{device_rows(bounds.early, 'start')} before the call that launched it began, by up to {early}"
    yield arrays.issue("early work", severity, what, bounds.early, todo)
    what = f"{device_rows(bounds.late, 'end')} after a wait for the device had ended, by up to {late}"
    yield arrays.issue("late work", severity, what, bounds.late, todo)


_BEGIN_CAPTURE: Final = r"^(?:cuda|cu|hip)StreamBeginCapture"
_END_CAPTURE: Final = r"^(?:cuda|cu|hip)StreamEndCapture"

#: Launches whose kernels can begin before the one before them on the stream has ended: with attributes (programmatic
#: dependent launch), HIP's out-of-order launches, and graphs, whose branches run in parallel.
_MAY_OVERLAP: Final = r"^(?:cuda|cu)LaunchKernelEx|^hipExt\w*Launch|Graph\w*Launch"

#: Tick of the GPU's timer on many GPUs (``%globaltimer`` advances about once in a microsecond).
_TICK_NS: Final = 1_024

#: Fewer launches take no longer than the first of them needs to reach the device.
_MIN_LATER: Final = 20

_SECOND_NS: Final = 10**9
#: Copies of pages of unified memory.
_UNIFIED: Final = r"^Memcpy .*\(Unified\)"
_UNKNOWN_LAUNCH: Final = "Operator, module and line of it are unknown"
_DROPPED: Final = "Records were dropped; record less, or for a shorter time."
_CUPTI_START: Final = (
    "CUPTI of CUDA 12.6 Update 2 to 13.0 damages the first records of every later profile of a process: profile in a "
    "new process, or with CUDA 13.1 or newer."
)


def lost_work(arrays: TrustArrays) -> Iterator[Issue]:
    """Launches of kernels or graphs without recorded work, although work of others is recorded.

    Those after the last launch with work, for which nothing waited, are healthy: they ran after the recording had
    ended.
    """
    calls = _unanswered(arrays)
    answered = arrays.work.launch[arrays.work.launch >= 0]
    if not len(calls) or not len(answered):
        return  # without any link another rule applies
    first, last = _answered_span(arrays, calls, answered)
    is_head, is_tail = calls < first, calls > last
    is_after = is_tail & ~_is_waited_for(arrays, calls)
    what = f"{plural(int(is_after.sum()), 'launch')} whose work ran after the recording"
    todo = "Synchronize before the recording ends."
    yield arrays.issue("work from after", "note", what, calls[is_after], todo)
    dropped = NOT_COMPLETE if has_incomplete_events(arrays.trace) else _DROPPED
    for chosen, where, todo in (
        (is_head, " at the start of the recording", _CUPTI_START),
        (~is_head & ~is_tail, "", dropped),
        (is_tail & ~is_after, " at the end of the recording", dropped),
    ):
        what = f"{plural(int(chosen.sum()), 'launch')}{where} without recorded work"
        yield arrays.issue("lost work", "partial", what, calls[chosen], todo)


def _answered_span(arrays: TrustArrays, calls: Ints, answered: Ints) -> tuple[Ints, Ints]:
    """First and last row of the launches with work, of the process of each of `calls`."""
    process = _processes(arrays, calls, answered)
    own, of_answered = process[: len(calls)], process[len(calls) :]
    first, last = np.full(int(process.max()) + 1, len(arrays)), np.full(int(process.max()) + 1, -1)
    np.minimum.at(first, of_answered, answered)
    np.maximum.at(last, of_answered, answered)
    return first[own], last[own]


def _is_waited_for(arrays: TrustArrays, calls: Ints) -> Bools:
    """True for calls after which their process waited for a device."""
    waits = arrays.calls(DEVICE_WAIT)
    process = _processes(arrays, calls, waits)
    last = np.full(int(process.max(initial=0)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(last, process[len(calls) :], arrays.ts[waits])
    return last[process[: len(calls)]] >= arrays.end[calls]


def _processes(arrays: TrustArrays, *rows: Ints) -> Ints:
    """Return a number for the process of each of `rows`, one part after the other."""
    return combined(arrays.ints("pid", np.concatenate(rows), missing=MISSING))


def no_device_activity(arrays: TrustArrays) -> Iterator[Issue]:
    """No row of a device, although there are launches, or the program that recorded it records work of GPUs."""
    missing = missing_work(arrays.trace)
    if missing is None:
        return
    calls = _unanswered(arrays) if len(missing.launches) else missing.launches
    if len(missing.launches) and not len(calls):
        return
    yield Issue("no device activity", "partial", missing.sentence, calls, max(len(calls), 1), "", missing.todo)


@once_per_trace
def share_of_lost_work(trace: Trace) -> float:
    """The share of the launch calls of `trace` whose device work is not recorded."""
    arrays = TrustArrays(trace)
    return len(_unanswered(arrays)) / max(len(arrays.launches), 1)


def _unanswered(arrays: TrustArrays) -> Ints:
    """Launch calls to which no device row is linked; of a driver call in a runtime call the outer one.

    Calls without a correlation id cannot be checked, and calls during the capture of a stream launch nothing.
    """
    calls, parent, launch = arrays.launches, arrays.parent, arrays.ints("launch")
    answered = np.zeros(len(arrays), bool)
    answered[launch[launch >= 0]] = True
    is_launch = np.zeros(len(arrays) + 1, bool)
    is_launch[calls] = True
    inner = calls[is_launch[parent[calls]]]
    answered[parent[inner[answered[inner]]]] = True
    has_id = arrays.ints("correlation_id", calls, missing=MISSING) != MISSING
    return calls[~answered[calls] & ~is_launch[parent[calls]] & has_id & ~_is_captured(arrays, calls)]


def _is_captured(arrays: TrustArrays, calls: Ints) -> Bools:
    """True for calls between the begin and the end of a stream's capture."""
    begun, ended = (
        np.searchsorted(arrays.ts[arrays.calls(pattern)], arrays.ts[calls], side="right")
        for pattern in (_BEGIN_CAPTURE, _END_CAPTURE)
    )
    return begun > ended


def unlinked_work(arrays: TrustArrays) -> Iterator[Issue]:
    """Device work that no recorded call launched, although calls were recorded.

    Work that was launched before the recording began is healthy: its correlation ids are smaller than those of all
    calls, or it precedes all work of recorded calls on its stream. The driver migrates pages of unified memory without
    a call.
    """
    work = arrays.work
    is_migration = arrays.is_named(_UNIFIED)[work.rows]
    at = np.flatnonzero((work.launch < 0) & ~is_migration)
    if not len(at) or not len(arrays.launches):
        return
    if len(at) == len(work.rows):
        what = f"none of the {plural(len(at), 'device row')} has a link to the call that launched it"
        todo = "Device costs by operator, module or line are unknown; record correlation ids."
        yield arrays.issue("unlinked work", "partial", what, work.rows, todo)
        return
    before = _is_from_before(arrays, at)
    what = f"{plural(int(before.sum()), 'device row')} launched before the recording began"
    todo = f"{_UNKNOWN_LAUNCH}; synchronize before the recording begins."
    yield arrays.issue("work from before", "note", what, work.rows[at[before]], todo)
    what = f"{plural(int((~before).sum()), 'device row')} that no recorded call launched"
    todo = f"{_UNKNOWN_LAUNCH}: ids or records of calls were lost."
    yield arrays.issue("unlinked work", "partial", what, work.rows[at[~before]], todo)


def _is_from_before(arrays: TrustArrays, at: Ints) -> Bools:
    work = arrays.work
    ids = arrays.ints("correlation_id", work.rows[at])
    known = arrays.ints("correlation_id", arrays.is_call)
    known = known[known > 0]
    is_older = (ids > 0) & (ids < (known.min() if len(known) else 0))
    lane = combined(work.device, work.stream)
    first = np.full(int(lane.max()) + 1, len(lane), np.int64)
    linked = np.flatnonzero(work.launch >= 0)
    np.minimum.at(first, lane[linked], linked)
    has_linked = first[lane[at]] < len(lane)
    return is_older | (has_linked & (at < first[lane[at]]))


def shared_ids(arrays: TrustArrays) -> Iterator[Issue]:
    """Calls with the correlation id of an earlier call that they are not part of, and to which work is linked."""
    calls = np.flatnonzero(arrays.is_call)
    ids = arrays.ints("correlation_id", calls)
    calls, ids = calls[ids > 0], ids[ids > 0]
    order = np.argsort(ids, kind="stable")
    calls, ids = calls[order], ids[order]
    again = np.flatnonzero(ids[1:] == ids[:-1]) + 1
    if not len(again):
        return
    first, later = calls[np.searchsorted(ids, ids[again])], calls[again]
    tid = arrays.ints("tid", missing=MISSING)
    is_part = (arrays.end[later] <= arrays.end[first]) & (tid[later] == tid[first])
    rows: Ints = later[~is_part & np.isin(ids[again], arrays.ints("correlation_id", arrays.work.rows))]
    what = (
        f"{plural(len(rows), 'call')} with the correlation id of an earlier call; work of the id counts for the first"
    )
    yield arrays.issue("shared ids", "partial", what, rows, "Ids of several processes or sessions were mixed.")


def overlaps(arrays: TrustArrays) -> Iterator[Issue]:
    """Work that starts while earlier work of the same stream still runs, by more than the rounding of times."""
    work, rounding = arrays.work, arrays.resolution_ns - 1
    # Pages of unified memory move beside the work of any stream.
    work = taken(work, np.flatnonzero(~arrays.is_named(_UNIFIED)[work.rows]))
    lane = combined(work.device, work.stream)
    order = np.lexsort((np.arange(len(lane)), lane))
    start, end, of_lane = work.start[order], work.end[order], lane[order]
    is_same = of_lane[1:] == of_lane[:-1]
    if not (is_same & (end[:-1] - start[1:] > rounding)).any():
        return  # the first overlap of a stream is one of neighbours
    reach = pd.Series(end).groupby(of_lane).cummax().to_numpy()
    by = np.append(0, np.where(is_same, reach[:-1] - start[1:], 0))
    hit = by > rounding
    rows, by, launch = work.rows[order][hit], by[hit], work.launch[order][hit]
    may = ((launch >= 0) & arrays.is_named(_MAY_OVERLAP)[launch]) | (by <= _TICK_NS)
    todo = "The launch allows it (attributes, a graph), or it is one tick of the GPU's timer."
    yield arrays.issue("allowed overlap", "note", _overlapping(rows[may], by[may]), rows[may], todo)
    todo = "A stream runs its work in order: the times of these rows are wrong, or their streams."
    yield arrays.issue("overlapping work", "partial", _overlapping(rows[~may], by[~may]), rows[~may], todo)


def _overlapping(rows: Ints, by: Ints) -> str:
    most = duration(int(by.max(initial=0)))
    return f"{device_rows(rows, 'begin')} before earlier work of the same stream ended, by up to {most}"


def durations(arrays: TrustArrays) -> Iterator[Issue]:
    """Rows of negative length, device work of length 0, device work that is longer than the whole recording."""
    negative = np.flatnonzero(arrays.dur < 0)
    what = f"{plural(len(negative), 'row')} of negative length"
    yield arrays.issue("negative durations", "partial", what, negative, "Their ends are not known.")
    work, window = arrays.work, arrays.host_window
    length = work.end - work.start
    none = work.rows[length == 0]
    if arrays.resolution_ns > 1:
        what = f"{plural(len(none), 'device row')} shorter than the microseconds in which this file counts"
        yield arrays.issue("rounded to nothing", "note", what, none)
    else:
        what = f"{plural(len(none), 'device row')} of length 0: their times were not recorded"
        yield arrays.issue("no duration", "partial", what, none, _CUPTI_START)
    if window is not None:
        rows = work.rows[length > max(window[1] - window[0], 0) + _SECOND_NS]
        what = f"{plural(len(rows), 'device row')} longer than the whole recording of the host"
        yield arrays.issue("absurd durations", "partial", what, rows, "Their ends cannot be right.")


def all_later(arrays: TrustArrays) -> Iterator[Issue]:
    """Report that all device work of at least `_MIN_LATER` launches begins after the host's recording has ended.

    A device that runs earlier work, which is not recorded, does so; and so does one whose clock is late.
    """
    work, window = arrays.work, arrays.host_window
    if window is None or int((work.launch >= 0).sum()) < _MIN_LATER or int(work.start[0]) < window[1]:
        return
    late = duration(int(work.start[0]) - window[1])
    what = f"all {plural(len(work.rows), 'device row')} begin after the host's recording has ended, by {late} or more"
    todo = "The device ran earlier work that is not recorded, or its clock is late: launch delays include it, too."
    yield arrays.issue("work all later", "note", what, work.rows, todo)
