"""Ranges that a trace tells as a begin and an end: B and E on one thread, b and e (older: S and F) anywhere."""

from __future__ import annotations

from typing import Final

import numpy as np

from cudalens.traces.columns import EventColumns
from cudalens.traces.problems import Problems
from cudalens.traces.records import Record

_SYNC: Final = frozenset("BE")
_OPENS: Final = frozenset("BbS")
PHASES: Final = frozenset("BEbeSFTp")
"""The phases that `Pairs` takes; T and p are steps within an asynchronous range, which tell no interval."""


class Pairs:
    """Gathers begins and ends, and matches them once all have been read, since files need not be in time order."""

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
        open_: dict[object, list[tuple[int, Record]]] = {}
        closed: list[tuple[int, int, Record]] = []
        for ts, record in found:
            stack = open_.setdefault(_key(record), [])
            if record.ph in _OPENS:
                stack.append((ts, record))
            elif stack:
                began, opener = stack.pop()
                closed.append((began, ts - began, opener))
            else:
                self._problems.add("end without a begin", f"'{record.name[:60]}' at {ts} ns")
        left = [pair for stack in open_.values() for pair in stack]
        if left:
            last = found[-1][0]
            self._problems.add("begin without an end, ended with the trace", f"'{left[0][1].name[:60]}'", len(left))
            closed += [(began, last - began, opener) for began, opener in left]
        if closed:
            ts_, dur, records = zip(*closed, strict=True)
            events.add(records, np.array(ts_, np.int64), np.array(dur, np.int64), "begin and end pairs")


def _key(record: Record) -> object:
    if record.ph in _SYNC:
        return record.pid, record.tid
    return record.cat, record.id, record.name if record.id is None else None
