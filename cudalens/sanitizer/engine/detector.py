"""The race detector: records in, races out.

`Detector.add` takes records one by one. A live collector calls the methods below it (`launch`, `alloc`, `free` …) with
lines, cells and allocations that it keeps, so that nothing is looked up or created while there is no race.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from cudalens.sanitizer.engine import records as r
from cudalens.sanitizer.engine.accesses import (
    NUM_ACCESS_FIELDS,
    NUM_HEAD_FIELDS,
    AccessInfo,
    Allocation,
    CallSite,
    CellAccess,
    Clocks,
    Line,
    Operand,
    Operation,
    RecordedAccess,
    join,
)
from cudalens.sanitizer.engine.races import Access, Findings, Memory, Race
from cudalens.sanitizer.engine.records import Region
from cudalens.sanitizer.engine.shadow import NOWHERE, Block, Cell, Shadow


class Detector:
    """Checks one program, record by record.

    Args:
        findings: Receives the races; by default a new list.

    Attributes:
        clocks: The happens-before relation.
        shadow: The recorded accesses.
        findings: The races so far.
        position: `Race.position` of the next finding; the caller advances it.
    """

    def __init__(self, findings: Findings | None = None) -> None:
        self.clocks = Clocks()
        self.shadow = Shadow()
        self.findings = Findings() if findings is None else findings
        self.position = 0

    @property
    def races(self) -> list[Race]:
        """Every race so far, one per finding, in order of discovery."""
        return self.findings.races

    @property
    def counts(self) -> dict[tuple[object, ...], int]:
        """How often each finding (`Race.key`) was seen."""
        return self.findings.counts

    @property
    def num_touches(self) -> int:
        """Number of recorded accesses; at most the number of live ranges times the number of streams."""
        return sum(block.num_entries for block in self.shadow.blocks)

    @property
    def num_forgotten(self) -> int:
        """Number of ranges that were dropped because one block had too many."""
        return sum(block.num_forgotten for block in self.shadow.blocks)

    def add(self, record: r.Record) -> list[Race]:
        """Check `record`; returns its races, including those seen before.

        Raises:
            TypeError: It is not a record.
            ValueError: It accesses memory that was never allocated.
        """
        act = _ACTS.get(type(record))
        if act is None:
            raise TypeError(f"{record!r} is not a record of the sanitizer; see cudalens.sanitizer.engine.records")
        return act(self, record) or []

    def launch(self, line: Line, visits: Iterable[CellAccess]) -> list[Race]:
        """Launch one operation on a line and check its accesses.

        Args:
            line: The line; for accesses by the host, the host's line, after `Clocks.host_step`.
            visits: The accesses. An operation does not race with itself.

        Returns:
            Its races, including those seen before; empty in almost all cases.
        """
        clocks = self.clocks
        if line.host_version != clocks.host_version or line.is_tied or line.is_published:
            clocks.begin(line)
        clock, known = line.clock, line.vector.get
        races: list[Race] = []
        for cell, is_write, info in visits:
            writer, reader = cell.writer, cell.reader
            if (
                cell.more is not None
                or (writer is not None and writer is not line and known(writer.index, 0) < cell.write_clock)
                or (reader is not None and reader is not line and known(reader.index, 0) < cell.read_clock)
                or (cell.near and not cell.passes_near(line, is_write))
            ):
                races += self._visit(line, cell, is_write, info)
            elif is_write:
                cell.writer, cell.write_clock, cell.write = line, clock, info
                cell.reader = cell.read = None
            else:
                cell.reader, cell.read_clock, cell.read = line, clock, info
        return races

    def launch_op(self, op: Operation) -> Sequence[Race]:
        """Like `launch`, for an operation as a live collector records it."""
        line: Line = op[2]
        clocks = self.clocks
        if line.host_version != clocks.host_version or line.is_tied or line.is_published:
            clocks.begin(line)
        clock, known = line.clock, line.vector.get
        races: list[Race] | None = None
        for at in range(NUM_HEAD_FIELDS, len(op), NUM_ACCESS_FIELDS):
            cell: Cell = op[at]
            writer, reader = cell.writer, cell.reader
            if (
                (writer is not line and writer is not None and known(writer.index, 0) < cell.write_clock)
                or (reader is not line and reader is not None and known(reader.index, 0) < cell.read_clock)
                or cell.more is not None
                or (cell.near and not cell.passes_near(line, op[at + 1]))
            ):
                found = self._visit(line, cell, op[at + 1], op)
                if found:
                    races = found if races is None else races + found
            elif op[at + 1]:
                if writer is not line:
                    cell.writer = line
                cell.write_clock = clock
                cell.write = op
                if reader is not None:
                    cell.reader = cell.read = None
            else:
                if reader is not line:
                    cell.reader = line
                cell.read_clock = clock
                cell.read = op
        return () if races is None else races

    def _visit(self, line: Line, cell: Cell, is_write: bool, info: Any) -> list[Race]:
        """Return the full check of one access; `launch` has only the common case."""
        clashes = [(cell, entry) for entry in cell.unordered(line, is_write)]
        for other, _ in cell.near:
            clashes += [(other, entry) for entry in other.unordered(line, is_write)]
        cell.note(line, is_write, info)
        if is_write:
            for other, is_covered in cell.near:
                if is_covered:
                    other.forget_ordered(line)
        if not clashes:
            return []
        second = _touch(cell, (line, line.clock, is_write, info))
        position, add = self.position, self.findings.add
        seen_ns = info[1] if type(info) is list else None
        found = (add(Race(_touch(other, e), second, position=position, seen_ns=seen_ns)) for other, e in clashes)
        return [race for race in found if race is not None]

    def alloc(self, name: str, start: int, num_bytes: int, owner: Line | None, *, extent: int = 0) -> Allocation:
        """Add an allocation.

        Args:
            name: The collector's name for it.
            start: Its address.
            num_bytes: Its size.
            owner: Line whose pool it came from; None if unknown.
            extent: Size of its block, if that is more than `num_bytes`.
        """
        allocation = Allocation(NOWHERE, start, num_bytes, owner)
        if name:
            allocation.name = name
        self.settle(allocation, extent)
        return allocation

    def settle(self, allocation: Allocation, extent: int = 0) -> None:
        """Place an allocation that a collector has created in the shadow.

        Args:
            allocation: The allocation.
            extent: As for `alloc`.
        """
        start, num_bytes = allocation.start, allocation.num_bytes
        end = start + max(num_bytes, extent)
        block = self.shadow.at(start)
        if block is None or block.end != end or block.releases:
            block = self.shadow.claim(start, end, self.clocks.host.vector)
        elif block.past:
            block.recall(self.clocks.host.vector)
        former = block.allocation
        allocation.block, allocation.generation = block, block.generation
        block.allocation = allocation
        block.generation += 1
        if former is not None:
            if former.is_live:
                former.is_live, former.run = False, None
            if former.num_bytes == num_bytes:
                allocation.whole = former.whole
        if num_bytes and allocation.whole is None:
            allocation.whole = block.cell(Region(start, num_bytes), self.clocks.host.vector)

    def free(self, allocation: Allocation) -> None:
        """The last reference to an allocation was dropped."""
        if not allocation.is_live:
            return
        allocation.is_live, allocation.run = False, None
        if allocation.aliases is not None:
            for alias in allocation.aliases:
                alias.is_live, alias.run = False, None
        # The device's allocator waits for streams given to record_stream before it reuses the block. The pinned one
        # waits for every copy's stream.
        awaited = allocation.recorded or set()
        if allocation.owner is self.clocks.host:
            users = {entry[0] for cell in allocation.block.cells for entry in cell.entries}
            awaited = (users | awaited) - {self.clocks.host}
        for line in awaited:
            join(allocation.block.releases, self.clocks.snapshot(line))

    def cell(self, tensor: str, region: Region) -> tuple[Allocation, Cell]:
        """Return the allocation that holds a region, and the region's cell.

        Raises:
            ValueError: None does.
        """
        block = self._block(tensor, region)
        assert block.allocation is not None
        return block.allocation, block.cell(region, self.clocks.host.vector)

    def _block(self, tensor: str, region: Region) -> Block:
        block = self.shadow.find(region.start, region.end)
        if block is None or block.allocation is None:
            raise ValueError(
                f"'{tensor}': bytes {region.start:#x} to {region.end:#x} lie in no allocation; "
                "expected an Alloc record that covers them first"
            )
        return block

    def _on_launch(self, record: r.OperatorLaunched) -> list[Race]:
        line = self.clocks.line(record.stream)
        site = CallSite(record.place, None, record.captured)
        visits = [self._visit_of(access, False, record.name, site) for access in record.reads]
        visits += [self._visit_of(access, True, record.name, site) for access in record.writes]
        return self.launch(line, visits)

    def _on_host_access(self, record: r.HostAccessed) -> list[Race]:
        op = "host write" if record.is_write else "host read"
        visit = self._visit_of(record.access, record.is_write, op, CallSite(record.place))
        self.clocks.host_step()
        return self.launch(self.clocks.host, [visit])

    def _visit_of(self, access: r.TensorBytes, is_write: bool, op: str, site: CallSite) -> CellAccess:
        allocation, cell = self.cell(access.tensor, access.region)
        return cell, is_write, AccessInfo(Operand(op, access.argument), site, None, None, "", allocation, access.tensor)

    def _on_alloc(self, record: r.MemoryAllocated) -> None:
        region = record.region
        allocation = self.alloc(record.tensor, region.start, region.end - region.start, self.clocks.line(record.stream))
        allocation.site = CallSite(record.place)

    def _on_free(self, record: r.MemoryFreed) -> None:
        allocation = self._block(record.tensor, record.region).allocation
        assert allocation is not None
        allocation.freed_site = CallSite(record.place)
        self.free(allocation)

    def _on_record_stream(self, record: r.BlockRecordedOnStream) -> None:
        allocation = self._block("record_stream", record.region).allocation
        assert allocation is not None
        self.record_stream(allocation, self.clocks.line(record.stream))

    def record_stream(self, allocation: Allocation, line: Line) -> None:
        """Make the reuse of the block wait for the work of `line` at the time of the release.

        The allocator ignores the stream whose pool the block came from: reuse is ordered there already.
        """
        if line is allocation.owner:
            return
        if allocation.recorded is None:
            allocation.recorded = set()
        allocation.recorded.add(line)

    def _on_stream_create(self, record: r.StreamCreated) -> None:
        self.clocks.line(record.stream)
        if record.is_blocking:
            self.clocks.make_blocking(record.stream)


def _touch(cell: Cell, entry: RecordedAccess) -> Access:
    """Return the access as reports show it."""
    line, clock, is_write, fields = cell.spelled(entry)
    info = AccessInfo(*fields)
    allocation, site = info.allocation, info.site
    return Access(
        stream=line.id,
        clock=clock,
        is_write=is_write,
        tensor=info.name or allocation.name or _described(info),
        region=cell.region,
        op=info.operand.operator,
        place=site.place,
        generation=allocation.generation,
        argument=info.operand.argument,
        shape=None if info.shape is None else tuple(info.shape),
        stride=info.stride,
        dtype=_dtype(info),
        stack=site.stack,
        memory=memory_of(allocation),
        captured=site.captured,
    )


def _dtype(info: AccessInfo) -> str:
    return str(info.dtype).removeprefix("torch.")


def _described(info: AccessInfo) -> str:
    """Return a description of a tensor without a name: ``float32[4, 256]``."""
    return f"{_dtype(info)}{list(info.shape or ())}"


def memory_of(allocation: Allocation) -> Memory:
    """Return the current state of an allocation."""
    made, freed = allocation.site or CallSite(), allocation.freed_site or CallSite()
    return Memory(
        name=allocation.name,
        start=allocation.start,
        num_bytes=allocation.num_bytes,
        stream=None if allocation.owner is None else allocation.owner.id,
        place=made.place,
        stack=made.stack,
        freed_place=freed.place,
        freed_stack=freed.stack,
    )


_ACTS: Final[dict[type, Callable[[Detector, Any], list[Race] | None]]] = {
    r.OperatorCaptured: lambda self, record: None,
    r.OperatorLaunched: Detector._on_launch,
    r.HostAccessed: Detector._on_host_access,
    r.MemoryAllocated: Detector._on_alloc,
    r.MemoryFreed: Detector._on_free,
    r.BlockRecordedOnStream: Detector._on_record_stream,
    r.EventRecorded: lambda self, record: self.clocks.record(record.event, self.clocks.line(record.stream)),
    r.EventWaited: lambda self, record: self.clocks.wait(record.event, self.clocks.line(record.stream)),
    r.EventSynchronized: lambda self, record: self.clocks.wait(record.event, self.clocks.host),
    r.EventFoundDone: lambda self, record: self.clocks.wait(record.event, self.clocks.host),
    r.EventDeleted: lambda self, record: self.clocks.delete(record.event),
    r.StreamCreated: Detector._on_stream_create,
    r.StreamSynchronized: lambda self, record: self.clocks.host_waits_for(self.clocks.line(record.stream)),
    r.StreamFoundDone: lambda self, record: self.clocks.host_waits_for(self.clocks.line(record.stream)),
    r.DeviceSynchronized: lambda self, record: self.clocks.host_waits_for_device(record.device),
}
