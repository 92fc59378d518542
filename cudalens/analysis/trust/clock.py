"""The device's clock against the host's: what launches and waits prove of it, and by how much it is off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cudalens.analysis.trust.arrays import DEVICE_WAIT, Ints, Look, Severity, Suspicion
from cudalens.analysis.units import duration, plural

_CONTEXT_SYNC: Final = "Context Sync"
_UNBOUNDED: Final = int(np.iinfo(np.int64).max)
_NEW_SESSION: Final = " Profiles after the first of a process are known for it: compare with a fresh process."


@dataclass(frozen=True, eq=False)
class ClockBounds:
    """By how much the times of all device work may be moved against the host's, ns; more than 0 is later.

    Work starts after its launch began, and has ended when a wait for its device is over: two bounds for one offset.

    Attributes:
        lowest_ns: The least move after which no work starts before its launch began; None without linked work.
        highest_ns: The largest move after which no work outlasts a wait for it; None where no wait tells.
        early: Rows of work that starts before its launch began.
        late: Rows of work that ends after a wait for it was over.
    """

    lowest_ns: int | None
    highest_ns: int | None
    early: Ints
    late: Ints

    @property
    def is_violated(self) -> bool:
        """Whether any work stands where it cannot."""
        return bool(len(self.early) or len(self.late))


def clock_bounds(look: Look) -> ClockBounds:
    """What the launches and waits of a trace prove of its two clocks."""
    work = look.work
    linked = np.flatnonzero(work.launch >= 0)
    if not len(linked):
        nothing = np.empty(0, np.int64)
        return ClockBounds(None, None, nothing, nothing)
    lead = work.start[linked] - look.ts[work.launch[linked]]
    slack = _slack(look, linked)
    is_bounded = slack < _UNBOUNDED
    return ClockBounds(
        -int(lead.min()),
        int(slack[is_bounded].min()) if is_bounded.any() else None,
        work.rows[linked[lead < 0]],
        work.rows[linked[slack < 0]],
    )


def _slack(look: Look, linked: Ints) -> Ints:
    """For each linked work how long before the end of the first wait for it it ended; the largest int64 for none.

    A wait for the device that begins after a launch returned is over after that work; the earliest end of all such
    waits counts.
    """
    work = look.work
    waits = _waits(look)
    if not len(waits):
        return np.full(len(linked), _UNBOUNDED)
    earliest_end = np.minimum.accumulate(look.end[waits][::-1])[::-1]
    first = np.searchsorted(look.ts[waits], look.end[work.launch[linked]])
    is_waited = first < len(waits)
    slack = np.full(len(linked), _UNBOUNDED)
    # Where starts and lengths are cut to microseconds, an end is up to two of them too early.
    rounding = 2 * (look.resolution_ns - 1)
    slack[is_waited] = earliest_end[first[is_waited]] + rounding - work.end[linked[is_waited]]
    return slack


def _waits(look: Look) -> Ints:
    """Calls that wait for the one device that all work ran on, in order of start; none where that is not sure.

    A call does not say for which device it waits. CUPTI's record of it does; without one it is taken for sure where
    the program saw only one device.
    """
    devices, calls = np.unique(look.work.device), np.flatnonzero(look.is_call & look.is_named(DEVICE_WAIT))
    if len(devices) != 1 or devices[0] < 0 or not len(calls) or not _is_one_process(look):
        return np.empty(0, np.int64)
    if len(look.info.devices) == 1:
        return calls
    syncs = np.flatnonzero(look.is_in("cuda_sync"))
    names = look.events["name"].array[syncs]
    told = syncs[np.asarray(names == _CONTEXT_SYNC) & (look.key("device", syncs) == devices[0])]
    launch = look.link("launch")[told]
    return calls[np.isin(calls, launch)]


def _is_one_process(look: Look) -> bool:
    return len(np.unique(look.key("pid", np.flatnonzero(look.is_call)))) <= 1


def needed_shift_ns(look: Look, bounds: ClockBounds) -> int | None:
    """The smallest move of all device work together that is in its bounds, ns; None where no move is proven.

    It is not, where launches and waits ask for opposite moves, where the calls are of several processes, or where work
    would end after the recording of the host ended.
    """
    if not bounds.is_violated or bounds.lowest_ns is None or not _is_one_process(look):
        return None
    highest = _UNBOUNDED if bounds.highest_ns is None else bounds.highest_ns
    if bounds.lowest_ns > highest:
        return None
    if bounds.lowest_ns <= 0:
        return highest
    window = look.host_window
    is_inside = window is not None and int(look.work.end.max()) + bounds.lowest_ns <= window[1]
    return bounds.lowest_ns if is_inside else None


def clock(look: Look) -> list[Suspicion]:
    """Work that starts before its launch began, or that ends after the host had waited for it."""
    bounds = clock_bounds(look)
    if not bounds.is_violated:
        return []
    shift = needed_shift_ns(look, bounds)
    severity: Severity = "partial" if shift is None else "repairable"
    is_torchs = look.info.source in ("cuda", "file:kineto")
    todo = f"No single offset of the clocks explains it.{_NEW_SESSION if is_torchs else ''}"
    if shift is not None:
        todo = f"All device rows belong {duration(abs(shift))} {'later' if shift > 0 else 'earlier'}."
    found = []
    if len(bounds.early):
        by = duration(bounds.lowest_ns)
        what = f"{_rows(bounds.early, 'start')} before the call that launched it began, by up to {by}"
        found += look.suspicion("early work", severity, what, bounds.early, todo=todo)
    if len(bounds.late) and bounds.highest_ns is not None:
        by = duration(-bounds.highest_ns)
        what = f"{_rows(bounds.late, 'end')} after the host had waited for them, by up to {by}"
        found += look.suspicion("late work", severity, what, bounds.late, todo=todo)
    return found


def _rows(rows: Ints, verb: str) -> str:
    return f"{plural(len(rows), 'device row')} {verb}{'s' if len(rows) == 1 else ''}"
