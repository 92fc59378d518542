"""Which wait that the runtime calls tell of is which one that was seen while the program ran.

Both stand in order on each thread, so that the clocks need not agree to the microsecond: where there are as many of
either, they go together one by one; else each goes with the first that fits in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames.syncs.calls import Names, Wait, filled
from cudalens.frames.syncs.kinds import is_release, plain_call

Ints = NDArray[np.int64]

#: How long before the call a wait may be seen: whoever else is told of it comes in between.
_EARLY_NS: Final = 1_000_000

#: How long after the end of the call, by clocks that differ.
_LATE_NS: Final = 50_000

#: What the allocator waits for while it empties its cache: the device, or events of blocks that other streams use.
_WITHIN_RELEASES: Final = ("memory", "device", "event")

#: Pairs from which clocks that differ by more than that are believed to.
_ENOUGH: Final = 3

#: By how much the differences of pairs that go together one by one may differ.
_SPREAD_NS: Final = 1_000_000


def match(events: pd.DataFrame, waits: Sequence[Wait], seen: pd.DataFrame) -> list[int]:
    """For each wait the number of the row of `seen` that is the same one, -1 where there is none.

    Args:
        events: The events frame.
        waits: By start.
        seen: A ``syncs`` frame of what was seen, by time; ``call`` is what the host was about to call.
    """
    found = [-1] * len(waits)
    if not waits or not len(seen):
        return found
    tid_of_row, tids, ts = filled(events["tid"]), filled(seen["tid"]), filled(seen["ts"])
    if not np.isin(tids, tid_of_row).any():  # the recording numbers its threads in another way
        tid_of_row, tids = np.zeros_like(tid_of_row), np.zeros_like(tids)
    names = Names(events["name"])
    waiting: dict[tuple[int, str], list[int]] = {}
    for number, wait in enumerate(waits):
        act = _act(names[wait.rows[-1]])
        waiting.setdefault((int(tid_of_row[wait.rows[0]]), act), []).append(number)
    calls = [str(call) for call in seen["call"].astype(object)]
    sighted: dict[tuple[int, str], list[int]] = {}
    for at in np.argsort(ts, kind="stable").tolist():
        sighted.setdefault((int(tids[at]), _act(calls[at])), []).append(at)
    for key, numbers in sighted.items():
        if key[1] == "memory":
            continue
        for number, at in _pairs([waits[n] for n in waiting.get(key, ())], ts[numbers]):
            found[waiting[key][number]] = numbers[at]
    acts = [_act(names[wait.rows[-1]]) for wait in waits]
    may_release = [act in _WITHIN_RELEASES and n < 0 for act, n in zip(acts, found, strict=True)]
    _match_releases(waits, tid_of_row, seen, (tids, ts), (may_release, found))
    return found


def is_release_seen(call: str) -> bool:
    """Whether what was seen is the program giving memory back, which is no wait where there was none to give."""
    return _act(call) == "memory"


def _match_releases(
    waits: Sequence[Wait],
    tid_of_row: Ints,
    seen: pd.DataFrame,
    times: tuple[Ints, Ints],
    result: tuple[list[bool], list[int]],
) -> None:
    """What the host waited in while the program gave memory back belongs to that."""
    (tids, ts), (may_release, found) = times, result
    ends = ts + filled(seen["dur"])
    starts = np.array([wait.start_ns for wait in waits], np.int64)
    for at, call in enumerate(seen["call"].astype(object)):
        if not is_release_seen(str(call)):
            continue
        low, high = np.searchsorted(starts, [ts[at] - _LATE_NS, ends[at] + _LATE_NS])
        for number in range(int(low), int(high)):
            wait = waits[number]
            is_its = wait.end_ns <= ends[at] + _LATE_NS and tid_of_row[wait.rows[0]] == tids[at]
            if may_release[number] and is_its:
                found[number] = at


def _act(call: str) -> str:
    """What the host waits for in a runtime call, as torch's callbacks tell them apart; "" where they tell nothing."""
    name = plain_call(call)
    if is_release(name):
        return "memory"
    if name.endswith(("DeviceSynchronize", "CtxSynchronize", "ThreadSynchronize")):
        return "device"
    if name.endswith("EventSynchronize"):
        return "event"
    is_copy = "Memcpy" in name and not name.endswith("Async")
    return "stream" if is_copy or name.endswith("StreamSynchronize") else ""


def _pairs(waits: Sequence[Wait], ts: Ints) -> list[tuple[int, int]]:
    """Numbers of waits and of times, both in order, that go together."""
    if len(waits) == len(ts) >= _ENOUGH:
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
