"""Matches the waits in the runtime calls with the waits that were observed while the program ran.

Both are in order on each thread, so the clocks may differ by microseconds: if there are equally many, they are matched
one by one; else each wait is matched with the first observed one at its time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from cudalens.frames.column_arrays import Ints, integers
from cudalens.frames.syncs.calls import Names, Wait
from cudalens.frames.syncs.kinds import is_release, plain_call, sync_target

#: Longest time from an observation to its call: other callbacks may run in between.
_EARLY_NS: Final = 1_000_000

#: Longest time from the end of the call to its observation, since clocks differ.
_LATE_NS: Final = 50_000

#: What the allocator waits for while it empties its cache: the device, or events of blocks that other streams use.
_WITHIN_RELEASES: Final = ("memory", "device", "event")

#: Least number of pairs that are matched one by one although the clocks differ.
_MIN_PAIRS: Final = 3

#: Largest spread of the differences of pairs that are matched one by one.
_SPREAD_NS: Final = 1_000_000


def match(events: pd.DataFrame, waits: Sequence[Wait], observed: pd.DataFrame) -> list[int]:
    """For each wait the row number of the same wait in `observed`, -1 for none.

    Args:
        events: The events frame.
        waits: By start.
        observed: A ``syncs`` frame of the observed waits, by time; ``call`` is the call after the observation.
    """
    found = [-1] * len(waits)
    if not waits or not len(observed):
        return found
    tid_of_row, tids, ts = integers(events["tid"]), integers(observed["tid"]), integers(observed["ts"])
    if not np.isin(tids, tid_of_row).any():  # the recording has other thread ids
        tid_of_row, tids = np.zeros_like(tid_of_row), np.zeros_like(tids)
    names = Names(events["name"])
    targets = [_target(names[wait.rows[-1]]) for wait in waits]
    waiting, at_call = defaultdict[tuple[int, str], list[int]](list), defaultdict[tuple[int, str], list[int]](list)
    for number, (wait, target) in enumerate(zip(waits, targets, strict=True)):
        waiting[int(tid_of_row[wait.rows[0]]), target].append(number)
    calls = [str(call) for call in observed["call"].astype(object)]
    for at in np.argsort(ts, kind="stable").tolist():
        at_call[int(tids[at]), _target(calls[at])].append(at)
    for key, numbers in at_call.items():
        if key[1] != "memory":
            for number, at in _pairs([waits[n] for n in waiting[key]], ts[numbers]):
                found[waiting[key][number]] = numbers[at]
    may_release = [target in _WITHIN_RELEASES and n < 0 for target, n in zip(targets, found, strict=True)]
    _match_releases(waits, tid_of_row, observed, (tids, ts), (may_release, found))
    return found


def is_release_call(call: str) -> bool:
    """Return whether an observed call releases memory; that is not a wait if there was no memory to release."""
    return _target(call) == "memory"


def _match_releases(
    waits: Sequence[Wait],
    tid_of_row: Ints,
    observed: pd.DataFrame,
    times: tuple[Ints, Ints],
    result: tuple[list[bool], list[int]],
) -> None:
    """Match the waits during a release of memory with that release."""
    (tids, ts), (may_release, found) = times, result
    ends = ts + integers(observed["dur"])
    starts = np.array([wait.start_ns for wait in waits], np.int64)
    for at, call in enumerate(observed["call"].astype(object)):
        if not is_release_call(str(call)):
            continue
        low, high = np.searchsorted(starts, [ts[at] - _LATE_NS, ends[at] + _LATE_NS])
        for number in range(int(low), int(high)):
            wait = waits[number]
            is_its = wait.end_ns <= ends[at] + _LATE_NS and tid_of_row[wait.rows[0]] == tids[at]
            if may_release[number] and is_its:
                found[number] = at


def _target(call: str) -> str:
    """What the host waits for in a runtime call: memory, device, event or stream, as in torch's callbacks; or ""."""
    name = plain_call(call)
    if is_release(name):
        return "memory"
    is_copy = "Memcpy" in name and not name.endswith(("Async", "Synchronize"))
    return "stream" if is_copy else sync_target(name)


def _pairs(waits: Sequence[Wait], ts: Ints) -> list[tuple[int, int]]:
    """Numbers of matching waits and times, both in order."""
    if len(waits) == len(ts) >= _MIN_PAIRS:
        apart = np.array([wait.start_ns for wait in waits], np.int64) - ts
        if np.abs(apart - np.median(apart)).max() <= _SPREAD_NS:
            return [(number, number) for number in range(len(ts))]
    found, at = [], 0
    for number, wait in enumerate(waits):
        while at < len(ts) and ts[at] < wait.start_ns - _EARLY_NS:
            at += 1
        if at < len(ts) and ts[at] <= wait.end_ns + _LATE_NS:
            found.append((number, at))
            at += 1
    return found
