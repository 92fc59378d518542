"""Records in, races out.

`Detector.add` takes records one by one. A live collector calls what stands behind it (`launch`, `alloc`, `free` …)
with lines, cells and lives that it keeps, so that nothing is looked up or built while nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from cudalens.sanitizer.engine import records as r
from cudalens.sanitizer.engine.accesses import OP_HEAD, OP_STEP, Entry, Info, Life, Op, Site, Use
from cudalens.sanitizer.engine.blocks import NOWHERE, Block
from cudalens.sanitizer.engine.cells import Cell
from cudalens.sanitizer.engine.clocks import Clocks, Line, join
from cudalens.sanitizer.engine.races import Findings, Memory, Race, Touch
from cudalens.sanitizer.engine.regions import Region
from cudalens.sanitizer.engine.shadow import Shadow

#: An access to be judged: the bytes, whether it writes, `Info` (or a plain tuple of its fields).
Visit: TypeAlias = tuple[Cell, bool, Any]


class Detector:
    """Judges one program, record by record.

    Args:
        findings: Where races go; by default a list of its own.

    Attributes:
        clocks: What happens before what.
        shadow: Who touched what.
        findings: The races so far.
        position: Number that the next finding gets as its `Race.position`; the caller counts.
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
        """Number of accesses that are remembered; bounded by live ranges times streams."""
        return sum(block.num_entries for block in self.shadow.blocks)

    @property
    def num_forgotten(self) -> int:
        """Ranges that were given up because one block had too many of them."""
        return sum(block.num_forgotten for block in self.shadow.blocks)

    def add(self, record: r.Record) -> list[Race]:
        """Take in `record`; returns the races that it makes, also those that were seen before.

        Raises:
            TypeError: It is no record.
            ValueError: It touches memory that was never handed out.
        """
        act = _ACTS.get(type(record))
        if act is None:
            raise TypeError(f"{record!r} is no record of the sanitizer; see cudalens.sanitizer.engine.records")
        return act(self, record) or []

    def launch(self, line: Line, visits: Iterable[Visit]) -> list[Race]:
        """Put one operation on a line, with all that it touches.

        Args:
            line: Where; the host's for what the host does itself, after `Clocks.host_step`.
            visits: What it touches. An operation does not race with itself, whatever their order.

        Returns:
            The races that it makes, also those that were seen before; empty almost always.
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

    def launch_op(self, op: Op) -> Sequence[Race]:  # noqa: C901 - the rule for every operator
        """As `launch`, for what a live collector made of an operation."""
        line: Line = op[2]
        clocks = self.clocks
        if line.host_version != clocks.host_version or line.is_tied or line.is_published:
            clocks.begin(line)
        clock, known = line.clock, line.vector.get
        races: list[Race] | None = None
        for at in range(OP_HEAD, len(op), OP_STEP):
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
        """The whole rule for one access, of which `launch` has the everyday part."""
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

    def alloc(self, name: str, start: int, num_bytes: int, owner: Line | None, *, extent: int = 0) -> Life:
        """A block was handed out.

        Args:
            name: As the collector names it.
            start: Its address.
            num_bytes: Its size.
            owner: Line whose pool it came from; None where that is not known.
            extent: Bytes that the allocator gave it, where that is more.
        """
        life = Life(NOWHERE, start, num_bytes, owner)
        if name:
            life.name = name
        self.settle(life, extent)
        return life

    def settle(self, life: Life, extent: int = 0) -> None:
        """Give an allocation that a collector has made its place in the shadow.

        Args:
            life: The allocation.
            extent: As for `alloc`.
        """
        start, num_bytes = life.start, life.num_bytes
        end = start + max(num_bytes, extent)
        block = self.shadow.at(start)
        if block is None or block.end != end or block.releases:
            block = self.shadow.claim(start, end, self.clocks.host.vector)
        elif block.past:
            block.recall(self.clocks.host.vector)
        former = block.life
        life.block, life.generation = block, block.generation
        block.life = life
        block.generation += 1
        if former is not None:
            if former.is_live:
                former.is_live, former.run = False, None
            if former.num_bytes == num_bytes:
                life.whole = former.whole
        if num_bytes and life.whole is None:
            life.whole = block.cell(Region(start, num_bytes), self.clocks.host.vector)

    def free(self, life: Life) -> None:
        """The last reference to an allocation went."""
        if not life.is_live:
            return
        life.is_live, life.run = False, None
        if life.aliases is not None:
            for alias in life.aliases:
                alias.is_live, alias.run = False, None
        if life.recorded is not None or life.owner is self.clocks.host:
            for line in self._awaited(life):
                join(life.block.releases, self.clocks.snapshot(line))

    def _awaited(self, life: Life) -> set[Line]:
        """Lines that the allocator waits for before it reuses the block.

        The device's allocator knows only what record_stream told it. The pinned one notes every stream that copied.
        """
        host = self.clocks.host
        if life.owner is not host:
            return life.recorded or set()
        users = {entry[0] for cell in life.block.cells for entry in cell.entries}
        return (users | (life.recorded or set())) - {host}

    def cell(self, tensor: str, region: Region) -> tuple[Life, Cell]:
        """The allocation that holds a region, and the region's cell.

        Raises:
            ValueError: None does.
        """
        block = self._block(tensor, region)
        assert block.life is not None
        return block.life, block.cell(region, self.clocks.host.vector)

    def _block(self, tensor: str, region: Region) -> Block:
        block = self.shadow.find(region.start, region.end)
        if block is None or block.life is None:
            raise ValueError(
                f"'{tensor}': bytes {region.start:#x} to {region.end:#x} lie in no allocation; "
                "expected an Alloc record that covers them first"
            )
        return block

    def _on_launch(self, record: r.Launch) -> list[Race]:
        line = self.clocks.line(record.stream)
        visits = [self._visit_of(a, False, record.name, record.place) for a in record.reads]
        visits += [self._visit_of(a, True, record.name, record.place) for a in record.writes]
        return self.launch(line, visits)

    def _on_host_access(self, record: r.HostAccess) -> list[Race]:
        op = "host write" if record.is_write else "host read"
        visit = self._visit_of(record.access, record.is_write, op, record.place)
        self.clocks.host_step()
        return self.launch(self.clocks.host, [visit])

    def _visit_of(self, access: r.Access, is_write: bool, op: str, place: r.Place) -> Visit:
        life, cell = self.cell(access.tensor, access.region)
        return cell, is_write, Info(Use(op, access.argument), Site(place), None, None, "", life, access.tensor)

    def _on_alloc(self, record: r.Alloc) -> None:
        region = record.region
        life = self.alloc(record.tensor, region.start, region.end - region.start, self.clocks.line(record.stream))
        life.site = Site(record.place)

    def _on_free(self, record: r.Free) -> None:
        life = self._block(record.tensor, record.region).life
        assert life is not None
        life.freed_site = Site(record.place)
        self.free(life)

    def _on_record_stream(self, record: r.RecordStream) -> None:
        life = self._block("record_stream", record.region).life
        assert life is not None
        self.record_stream(life, self.clocks.line(record.stream))

    def record_stream(self, life: Life, line: Line) -> None:
        """The block's next owner has to wait for what `line` holds when it is freed.

        The allocator ignores the stream whose pool the block came from: reuse is ordered there as it is.
        """
        if line is life.owner:
            return
        if life.recorded is None:
            life.recorded = set()
        life.recorded.add(line)

    def _on_stream_create(self, record: r.StreamCreate) -> None:
        self.clocks.line(record.stream)
        if record.is_blocking:
            self.clocks.make_blocking(record.stream)


def _touch(cell: Cell, entry: Entry) -> Touch:
    """An access as reports show it."""
    line, clock, is_write, fields = cell.spelled(entry)
    info = Info(*fields)
    life, site = info.life, info.site
    return Touch(
        stream=line.id,
        clock=clock,
        is_write=is_write,
        tensor=info.name or life.name or _described(info),
        region=cell.region,
        op=info.use.op,
        place=site.place,
        generation=life.generation,
        argument=info.use.argument,
        shape=None if info.shape is None else tuple(info.shape),
        stride=info.stride,
        dtype=_dtype(info),
        stack=site.stack,
        memory=memory_of(life),
    )


def _dtype(info: Info) -> str:
    return str(info.dtype).removeprefix("torch.")


def _described(info: Info) -> str:
    """A tensor without a name, as ``float32[4, 256]``."""
    return f"{_dtype(info)}{list(info.shape or ())}"


def memory_of(life: Life) -> Memory:
    """An allocation as it is now."""
    made, freed = life.site or Site(), life.freed_site or Site()
    return Memory(
        name=life.name,
        start=life.start,
        num_bytes=life.num_bytes,
        stream=None if life.owner is None else life.owner.id,
        place=made.place,
        stack=made.stack,
        freed_place=freed.place,
        freed_stack=freed.stack,
    )


_ACTS: Final[dict[type, Callable[[Detector, Any], list[Race] | None]]] = {
    r.Launch: Detector._on_launch,
    r.HostAccess: Detector._on_host_access,
    r.Alloc: Detector._on_alloc,
    r.Free: Detector._on_free,
    r.RecordStream: Detector._on_record_stream,
    r.EventRecord: lambda self, record: self.clocks.record(record.event, self.clocks.line(record.stream)),
    r.EventWait: lambda self, record: self.clocks.wait(record.event, self.clocks.line(record.stream)),
    r.EventSync: lambda self, record: self.clocks.wait(record.event, self.clocks.host),
    r.EventQuery: lambda self, record: self.clocks.wait(record.event, self.clocks.host),
    r.EventDelete: lambda self, record: self.clocks.delete(record.event),
    r.StreamCreate: Detector._on_stream_create,
    r.StreamSync: lambda self, record: self.clocks.host_waits_for(self.clocks.line(record.stream)),
    r.StreamQuery: lambda self, record: self.clocks.host_waits_for(self.clocks.line(record.stream)),
    r.DeviceSync: lambda self, record: self.clocks.host_waits_for_device(record.device),
}
