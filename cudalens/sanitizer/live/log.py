"""Keep the last records of a run compactly, and convert them to records of the engine on request."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from cudalens.sanitizer.engine import records as r
from cudalens.sanitizer.engine.accesses import AccessInfo, Allocation, CallSite, CellAccess, list_accesses
from cudalens.sanitizer.engine.clocks import Line
from cudalens.sanitizer.engine.records import Region

#: Number of records that are kept; the oldest are dropped.
MAX_RECORDS: Final = 10_000

#: Number of graph captures whose records are kept.
MAX_CAPTURES: Final = 16


class Log:
    """The input of the engine in order: the last `MAX_RECORDS` since the last synchronisation of the whole device.

    Suggested fixes are checked on it. A synchronisation of the only device in use orders all earlier work before all
    later work, so earlier records are needed only if they raced. An allocation from before the first record is added
    before the first record that accesses it.

    Attributes:
        append: Add an entry.
        captured: Places of operations that were captured into CUDA graphs.
        blocking: Lines that are ordered with the legacy default stream of their device.
        captures: Entries of the last graph captures, each a program of its own.

    An entry is an `Operation`, ``(line, visits)`` of a graph's replay, or ``(kind, …)`` with one of the names below.
    """

    def __init__(self) -> None:
        self._entries: deque[Sequence[Any]] = deque(maxlen=MAX_RECORDS)
        self.append: Final[Callable[[Sequence[Any]], None]] = self._entries.append
        self.captured: Final[set[r.Place]] = set()
        self.blocking: Final[set[Line]] = set()
        self.captures: Final[deque[Sequence[Sequence[Any]]]] = deque(maxlen=MAX_CAPTURES)

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Drop the records of launched work; what was captured may be launched again."""
        self._entries.clear()

    def capture_records(self) -> list[list[r.Record]]:
        """The records of each of the last graph captures; a race between its streams is one of the capture."""
        return [list(_Naming().records(list(entries))) for entries in self.captures]

    def records(self) -> list[r.Record]:
        """The entries as records for `cudalens.sanitizer.engine.Detector.add`.

        Allocations are named ``t0``, ``t1`` …; accesses have the names of arguments, launches have places. Captured
        operations that `capture_records` does not have are `OperatorCaptured`.
        """
        kept = {entry[0].place for entries in self.captures for entry in entries if isinstance(entry, list)}
        blocking = [r.StreamCreated(line.id, is_blocking=True) for line in self.blocking]
        return [*map(r.OperatorCaptured, self.captured - kept), *blocking, *_Naming().records(list(self._entries))]


class _Naming:
    """Converts entries, and names allocations at their first use."""

    def __init__(self) -> None:
        self._names: dict[Allocation, str] = {}

    def records(self, entries: list[Sequence[Any]]) -> Iterator[r.Record]:
        for entry in entries:
            kind = entry[0]
            if isinstance(entry, list):
                yield from self._launch(entry[2], list_accesses(entry))
            elif isinstance(kind, Line):
                yield from self._replay(*entry)
            elif kind == "free":
                yield from self._alloc(entry[1])
                yield r.MemoryFreed(self._names[entry[1]], _extent(entry[1]), _place(entry[1].freed_site))
            elif kind == "record_stream":
                yield from self._alloc(entry[1])
                yield r.BlockRecordedOnStream(_extent(entry[1]), entry[2].id)
            else:
                yield _SYNCS[kind](*(part.id if isinstance(part, Line) else part for part in entry[1:]))

    def _alloc(self, allocation: Allocation) -> Iterator[r.Record]:
        if allocation in self._names:
            return
        self._names[allocation] = allocation.name or f"t{len(self._names)}"
        if allocation.owner is not None:
            owner = allocation.owner.id
        else:
            owner = r.HOST if allocation.device < 0 else r.StreamId(0, 0)
        yield r.MemoryAllocated(self._names[allocation], _extent(allocation), owner, _place(allocation.site))

    def _replay(self, line: Line, visits: Sequence[CellAccess]) -> Iterator[r.Record]:
        """One launch for each operation of the graph."""
        by_op: dict[tuple[str, r.Place], list[CellAccess]] = {}
        for visit in visits:
            info = AccessInfo(*visit[2])
            by_op.setdefault((info.operand.operator, info.site.captured), []).append(visit)
        for group in by_op.values():
            yield from self._launch(line, group)

    def _launch(self, line: Line, visits: Sequence[CellAccess]) -> Iterator[r.Record]:
        accesses: tuple[list[r.TensorBytes], list[r.TensorBytes]] = ([], [])
        op, site = "", CallSite()
        for cell, is_write, fields in visits:
            info = AccessInfo(*fields)
            yield from self._alloc(info.allocation)
            accesses[is_write].append(r.TensorBytes(self._names[info.allocation], cell.region, info.operand.argument))
            op, site = info.operand.operator, info.site
        if line.id != r.HOST:
            is_direct = getattr(site, "is_direct", None)
            yield r.OperatorLaunched(
                line.id, tuple(accesses[0]), tuple(accesses[1]), op, site.place, site.captured, is_direct
            )
            return
        for is_write in (False, True):
            yield from (r.HostAccessed(access, is_write, site.place) for access in accesses[is_write])


def _extent(allocation: Allocation) -> Region:
    return Region(allocation.start, allocation.num_bytes)


def _place(site: Any) -> r.Place:
    place: r.Place = site.place if site else None
    return place


#: Kinds of entries whose fields are those of a record, with lines for streams.
_SYNCS: Final[dict[str, Callable[..., r.Record]]] = {
    "event_record": r.EventRecorded,
    "event_wait": r.EventWaited,
    "event_sync": r.EventSynchronized,
    "event_delete": r.EventDeleted,
    "stream_sync": r.StreamSynchronized,
    "device_sync": r.DeviceSynchronized,
}
