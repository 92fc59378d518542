"""Compare the device's clock with the host's: the offsets that launches and waits allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from cudalens.analysis.event_arrays import Ints
from cudalens.analysis.trust.arrays import DEVICE_WAIT, MISSING, Issue, Severity, TrustArrays, device_rows
from cudalens.analysis.units import duration

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
