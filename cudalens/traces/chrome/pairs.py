"""Match begin and end events to ranges: B and E on one thread, b and e (older: S and F) across threads."""

from __future__ import annotations

from typing import Final

import numpy as np

from cudalens.frames.limits import Problems
from cudalens.traces.chrome.columns import EventColumns
from cudalens.traces.chrome.records import Record

_SYNC: Final = frozenset("BE")
_OPENS: Final = frozenset("BbS")
_LEGACY: Final = frozenset("SF")
#: The phases that `Pairs` accepts. T and p are steps within an asynchronous range; they are not intervals.
PHASES: Final = frozenset("BEbeSFTp")


class Pairs:
    """Collects begins and ends, and matches them once all have been read, since files need not be in time order."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._sync: list[tuple[int, Record]] = []
        self._async: list[tuple[int, Record]] = []

    def add(self, record: Record, ts: int) -> None:
        """Keep one begin or end."""
        if record.ph in _SYNC:
            self._sync.append((ts, record))
        elif record.ph not in "Tp":
            self._async.append((ts, record))

    def add_to(self, events: EventColumns) -> int:
        """Append the matched ranges to `events`, those on threads first; returns the number of asynchronous ones."""
        self._match(self._sync, events)
        before = events.num_rows
        self._match(self._async, events)
        return events.num_rows - before

    def _match(self, found: list[tuple[int, Record]], events: EventColumns) -> None:
        found.sort(key=lambda pair: pair[0])
        open_: dict[object, list[int]] = {}
        closed: dict[int, int] = {}  # position of each begin in `found`, and its length
        for at, (ts, record) in enumerate(found):
            stack = open_.setdefault(_key(record), [])
            if record.ph in _OPENS:
                stack.append(at)
            elif stack:
                began = stack.pop(_opened_by(stack, record, found))
                closed[began] = ts - found[began][0]
            else:
                self._problems.add("end without a begin", f"'{record.name[:60]}' at {ts} ns")
        left = [at for stack in open_.values() for at in stack]
        if left:
            first = found[left[0]][1].name[:60]
            self._problems.add("begin without an end, ended with the trace", f"'{first}'", len(left))
            closed |= {at: found[-1][0] - found[at][0] for at in left}
        if closed:
            # In order of their begins: of two ranges with the same start and end, the first begin is the outer range.
            ts_, dur, records = zip(*((found[at][0], closed[at], found[at][1]) for at in sorted(closed)), strict=True)
            events.add(records, np.array(ts_, np.int64), np.array(dur, np.int64), "begin and end pairs")


def _key(record: Record) -> object:
    """Return the key that the begin and the end of a range share."""
    if record.ph in _SYNC:
        return record.pid, record.tid
    shared, local = record.id, None
    if record.id2:
        shared, local = record.id2.get("global", shared), record.id2.get("local")
    process = record.pid if local is not None else None
    is_named = record.ph in _LEGACY or (shared is None and local is None)
    return record.cat, record.scope, shared, local, process, record.name if is_named else None


def _opened_by(stack: list[int], end: Record, found: list[tuple[int, Record]]) -> int:
    """Position in `stack` of the begin that `end` closes: the innermost; for asynchronous ranges, of the same name."""
    if end.ph not in _SYNC and end.name:
        named = (i for i in range(len(stack) - 1, -1, -1) if found[stack[i]][1].name == end.name)
        return next(named, -1)
    return -1
