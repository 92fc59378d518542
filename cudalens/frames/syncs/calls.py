"""Finds the runtime calls of a recording in which the host waited, and groups those of one operation.

A blocking copy is a copy call and the wait for its stream. An allocator that is out of memory calls the driver,
releases memory and calls the driver again. A call counts if it always blocks (synchronisations, ``cudaMemcpy``) or if
it blocks with its arguments: an asynchronous copy of pageable memory, a release of memory while the GPU was at work.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames.build import GPU_ACTIVITIES, RUNTIME_CATEGORIES
from cudalens.frames.column_arrays import Ints, integers, is_category, map_texts
from cudalens.frames.syncs.kinds import is_allocation, is_host_copy, is_release, plain_call, sync_target

_WAY: Final = re.compile(r"HtoD|DtoH")

#: Upper limit of the difference between the clocks of host and device in a recording.
SKEW_NS: Final = 10_000

_NOTHING, _SYNC, _STREAM_SYNC, _BLOCKING_COPY, _COPY_CALL, _RELEASE, _ALLOCATION = range(7)


@dataclass(slots=True)
class Wait:
    """Calls of one thread by which the host waited once.

    Attributes:
        rows: Rows of the calls, in order.
        start_ns: Start of the first.
        end_ns: End of the last.
        work: Row of its copy or synchronisation on the device; -1 if not recorded.
        way: ``HtoD``, ``DtoH`` or "" of the copy.
        is_pageable: Whether the copy's host side is pageable; None if unknown.
    """

    rows: list[int]
    start_ns: int
    end_ns: int
    work: int = -1
    way: str = ""
    is_pageable: bool | None = None


def find_waits(events: pd.DataFrame, names: Names | None = None) -> list[Wait]:
    """The waits in the runtime calls of `events`, by start. `names` are those of the events, if they are known."""
    is_call = is_category(events["cat"].array, RUNTIME_CATEGORIES)
    kind = np.full(len(events), _NOTHING)
    kind[is_call] = map_texts(events["name"].array[is_call], _kind_of_call, _NOTHING)
    rows = np.flatnonzero(kind != _NOTHING)
    if not len(rows):
        return []
    table = _Calls(events, names or Names(events["name"]), kind, is_call, rows)
    found = [wait for group in table.groups() for wait in table.waits(group)]
    return sorted(found, key=lambda wait: (wait.start_ns, wait.rows[0]))


def _kind_of_call(name: str) -> int:
    call = plain_call(name)
    if target := sync_target(call):
        return _STREAM_SYNC if target == "stream" else _SYNC
    if is_host_copy(call):
        return _COPY_CALL if call.endswith("Async") else _BLOCKING_COPY
    if is_release(call):
        return _RELEASE
    return _ALLOCATION if is_allocation(call) else _NOTHING


class _Calls:
    """The calls that may have blocked, and the rows around them."""

    def __init__(self, events: pd.DataFrame, names: Names, kind: Ints, is_call: NDArray[np.bool_], rows: Ints) -> None:
        start, parent = events["ts"].to_numpy(), integers(events["parent"])
        # Memory views: faster by element than arrays.
        self._start, self._end = start.data, (start + events["dur"].to_numpy()).data
        self._parent, self._tids, self._kind = parent.data, integers(events["tid"]), kind.data
        self._tid = self._tids.data
        self._work = _device_rows(events, rows)
        self._names = names
        self._pending = Pending(events)
        self._is_call = is_call
        self._is_op = is_category(events["cat"].array, ("cpu_op",))
        above = parent[rows]
        inner = (above >= 0) & (kind[above] != _NOTHING)  # a driver call inside the runtime call that made it
        self._rows = rows[~inner]
        self._place = self._places()

    def _places(self) -> dict[int, int]:
        """Number of each call among all calls of its thread."""
        calls = np.flatnonzero(self._is_call)
        order = calls[np.lexsort((calls, self._tids[calls]))]
        place = np.empty(len(self._tids), np.int64)
        place[order] = np.arange(len(order))
        return dict(zip(self._rows.tolist(), place[self._rows].tolist(), strict=True))

    def groups(self) -> Iterator[list[int]]:
        """Consecutive calls of the same thread and parent that are one operation."""
        group: list[int] = []
        for row in self._rows[np.argsort(self._tids[self._rows], kind="stable")].tolist():
            if group and not (self._follows(group[-1], row) and self._belongs(group, row)):
                yield group
                group = []
            group.append(row)
        if group:
            yield group

    def _follows(self, before: int, row: int) -> bool:
        is_next = self._place[row] == self._place[before] + 1 and self._tid[row] == self._tid[before]
        return is_next and self._parent[row] == self._parent[before]

    def _belongs(self, group: list[int], row: int) -> bool:
        before, kind = self._kind[group[-1]], self._kind[row]
        if kind == _STREAM_SYNC:
            return before == _COPY_CALL and self._way(group[-1]) != "other"
        memory = (_RELEASE, _ALLOCATION)
        return before in memory and kind in memory

    def waits(self, group: list[int]) -> Iterator[Wait]:
        """Yield the wait of a group; none if the host did not wait."""
        kinds = {self._kind[row] for row in group}
        if kinds <= {_RELEASE, _ALLOCATION}:
            yield from self._of_memory(group)
            return
        wait = self._wait(group)
        copies = [row for row in group if self._kind[row] in (_COPY_CALL, _BLOCKING_COPY)]
        if copies:
            way, name = self._way(copies[0]), self._work_name(copies[0])
            wait.way = way if way != "other" else ""
            wait.is_pageable = None
            if "Pageable" in name or "Pinned" in name:
                wait.is_pageable = "Pageable" in name
        if kinds != {_COPY_CALL} or (wait.is_pageable and wait.way):
            yield wait

    def _of_memory(self, group: list[int]) -> Iterator[Wait]:
        """Find retries of the allocator: a release between two allocations is one.

        Other releases are waits if no operator was running (the program itself released memory), or if the call lasted
        as long as the GPU was at work: libraries also release memory during their initialisation.
        """
        released = [row for row in group if self._kind[row] == _RELEASE]
        if not released:
            return
        first, last = group.index(released[0]), len(group) - 1 - group[::-1].index(released[-1])
        if first > 0 and last < len(group) - 1:
            yield self._wait(group[first - 1 : last + 2])
            return
        wait = self._wait(group[first : last + 1])
        busy_ns = int(self._pending.until(np.array([wait.start_ns]))[0])
        if not self._is_in_operator(wait.rows[0]) or wait.start_ns < busy_ns <= wait.end_ns + SKEW_NS:
            yield wait

    def _is_in_operator(self, row: int) -> bool:
        while row >= 0 and not self._is_op[row]:
            row = self._parent[row]
        return row >= 0

    def _wait(self, rows: list[int]) -> Wait:
        work = next((self._work[row] for row in rows if row in self._work), -1)
        return Wait(rows, self._start[rows[0]], max(map(self._end.__getitem__, rows)), work)

    def _work_name(self, row: int) -> str:
        work = self._work.get(row, -1)
        return self._names[work] if work >= 0 else ""

    def _way(self, row: int) -> str:
        """``HtoD`` or ``DtoH`` of a copy call, "" if its copy was not recorded, "other" between devices."""
        name = self._work_name(row)
        found = _WAY.search(name or self._names[row])
        if found:
            return found[0]
        return "other" if name else ""


class Pending:
    """End of the GPU work that was issued before a time."""

    def __init__(self, events: pd.DataFrame) -> None:
        work = np.flatnonzero(is_category(events["cat"].array, GPU_ACTIVITIES))
        start = events["ts"].to_numpy()
        launch = integers(events["launch"])[work]
        issued = np.where(launch >= 0, start[launch], start[work])
        order = np.argsort(issued, kind="stable")
        end = (start + events["dur"].to_numpy())[work]
        self._issued = issued[order]
        #: Of the first k works by the time at which they were issued.
        self._last_end = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, end[order]))

    def __bool__(self) -> bool:
        """Return whether any work was recorded."""
        return len(self._issued) > 0

    def until(self, ts: Ints) -> Ints:
        """End of the last work that was issued before each of `ts`, ns; the smallest int64 if there is none."""
        return self._last_end[np.searchsorted(self._issued, ts)]

    def gpu_durs(self, start_ns: Ints, end_ns: Ints) -> Ints:
        """Return how much of each span of the host the GPU was at work that was issued before its end, ns."""
        return np.maximum(start_ns, np.minimum(end_ns, self.until(end_ns))) - start_ns


class Names:
    """Texts of a categorical column by row, faster than the column itself.

    Attributes:
        texts: The distinct texts, and at the end "" for rows without one.
    """

    def __init__(self, column: pd.Series) -> None:
        self._codes: memoryview = column.array.codes.data
        self.texts = [*map(str, column.array.categories.tolist()), ""]

    def __getitem__(self, row: int) -> str:
        return self.texts[self._codes[row]]

    def of(self, rows: Sequence[int]) -> tuple[str, ...]:
        """Return the texts of some rows."""
        texts, codes = self.texts, self._codes
        return tuple([texts[codes[row]] for row in rows])


def _device_rows(events: pd.DataFrame, rows: Ints) -> dict[int, int]:
    """Return the first device row of each of `rows`, calls; copies come before rows of synchronisation."""
    launch = integers(events["launch"])
    device = np.flatnonzero(np.isin(launch, rows))
    first, at = np.unique(launch[device], return_index=True)
    return dict(zip(first.tolist(), device[at].tolist(), strict=True))
