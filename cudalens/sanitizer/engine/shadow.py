"""The shadow memory: the accesses to each range of bytes that matter for races, by block and by address."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, Final, TypeAlias

from cudalens.sanitizer.engine.accesses import Allocation, Line, RecordedAccess, VectorClock, find_access_info
from cudalens.sanitizer.engine.records import Region


class Cell:
    """The recorded accesses of one exact set of bytes.

    The last write and the last read have their own attributes; accesses that are not ordered before them are in `more`.

    Attributes:
        region: The bytes.
        near: Other cells of the block that share a byte with it, and whether this one covers them.
        writer: Line of the last write; None if there is none.
        write_clock: Its clock.
        write: Its `AccessInfo`.
        reader: Line of the last read since; None if there is none.
        read_clock: Its clock.
        read: Its `AccessInfo`.
        more: Older accesses, one per line and kind; None while there are none.
    """

    __slots__ = ("more", "near", "read", "read_clock", "reader", "region", "write", "write_clock", "writer")

    def __init__(self, region: Region) -> None:
        self.region = region
        self.near: list[tuple[Cell, bool]] = []
        self.writer: Line | None = None
        self.write_clock = 0
        self.write: Any = None
        self.reader: Line | None = None
        self.read_clock = 0
        self.read: Any = None
        self.more: dict[tuple[Line, bool], RecordedAccess] | None = None

    @property
    def entries(self) -> list[RecordedAccess]:
        """All recorded accesses: `more` first, then the last write, then the last read."""
        found = list(self.more.values()) if self.more else []
        if self.writer is not None:
            found.append((self.writer, self.write_clock, True, self.write))
        if self.reader is not None:
            found.append((self.reader, self.read_clock, False, self.read))
        return found

    def spelled(self, entry: RecordedAccess) -> RecordedAccess:
        """Return an entry of this cell with an `AccessInfo` that does not refer to the cell."""
        line, clock, is_write, info = entry
        return (line, clock, is_write, find_access_info(info, self, is_write)) if type(info) is list else entry

    def unordered(self, line: Line, is_write: bool) -> Iterator[RecordedAccess]:
        """Yield the entries that an access of these bytes by `line` would race with now."""
        if self.writer is None and self.reader is None and self.more is None:
            return
        vector = line.vector
        for entry in self.entries:
            if (is_write or entry[2]) and entry[0] is not line and vector.get(entry[0].index, 0) < entry[1]:
                yield entry

    def passes_near(self, line: Line, is_write: bool) -> bool:
        """Whether an access is ordered after all entries of overlapping cells; a write then clears covered cells.

        May return False if a full check is needed.
        """
        known = line.vector.get
        for other, _ in self.near:
            writer, reader = other.writer, other.reader
            if (
                other.more is not None
                or (writer is not None and writer is not line and known(writer.index, 0) < other.write_clock)
                or (
                    is_write and reader is not None and reader is not line and known(reader.index, 0) < other.read_clock
                )
            ):
                return False
        if is_write:
            for other, is_covered in self.near:
                if is_covered:
                    other.writer = other.write = other.reader = other.read = None
        return True

    def note(self, line: Line, is_write: bool, info: Any) -> None:
        """Record an access and drop the entries that it makes redundant."""
        left = [
            entry
            for entry in self.entries
            if (entry[2] and not is_write) or (entry[0] is not line and line.vector.get(entry[0].index, 0) < entry[1])
        ]
        left.append((line, line.clock, is_write, info))
        self._set(left)

    def forget_known(self, vector: VectorClock) -> None:
        """Drop entries that are complete at `vector`."""
        if self.writer is not None or self.reader is not None:
            self._set([e for e in self.entries if vector.get(e[0].index, 0) < e[1]])

    def forget_ordered(self, line: Line) -> None:
        """Drop entries that `line` is ordered after: a write of all these bytes has replaced them."""
        if self.writer is not None or self.reader is not None:
            vector = line.vector
            self._set([e for e in self.entries if e[0] is not line and vector.get(e[0].index, 0) < e[1]])

    def take_in(self, entries: Iterable[RecordedAccess]) -> None:
        """Record entries of another cell, all earlier than those of this one."""
        mine = self.entries
        have = {(e[0], e[2]) for e in mine}
        self._set([e for e in entries if (e[0], e[2]) not in have] + mine)

    def _set(self, entries: list[RecordedAccess]) -> None:
        """Store the last write and the last read in their attributes, and the others in `more`."""
        self.writer = self.reader = self.write = self.read = self.more = None
        more: dict[tuple[Line, bool], RecordedAccess] = {}
        for entry in reversed(entries):
            line, clock, is_write, info = entry
            if is_write and self.writer is None:
                self.writer, self.write_clock, self.write = line, clock, info
            elif not is_write and self.reader is None:
                self.reader, self.read_clock, self.read = line, clock, info
            else:
                more.setdefault((line, is_write), entry)
        self.more = dict(reversed(more.items())) or None


#: Largest number of ranges of one block; beyond it, the oldest are dropped.
MAX_CELLS: Final = 1024

_FIRST_PRUNE: Final = 64

#: A cell of an earlier block, and its entries at that time. Another block may own the cell now; its bytes are the same.
Past: TypeAlias = tuple[Cell, list[RecordedAccess]]

#: The emptied cells of an earlier block, and its layouts.
Spare: TypeAlias = "tuple[dict[Region, Cell], dict[Any, Cell]]"


class Block:
    """The shadow of a range of addresses that is, or was, one allocation.

    Attributes:
        start: First address.
        end: One past the last address.
        allocation: Its current or last allocation; None for the rest of a block of which a part was allocated again.
        generation: Generation of the next allocation.
        releases: Work that the allocator waits for before it allocates the range again.
        is_current: Whether this block still owns its addresses.
        num_forgotten: Number of ranges that were dropped because there were too many.
        past: Cells of earlier blocks with their entries, all ordered before `past_line`'s next operation. They matter
            from address `past_from` on, which no cell of this block reaches.
    """

    __slots__ = (
        "_cells",
        "_prune_at",
        "allocation",
        "end",
        "generation",
        "is_current",
        "layouts",
        "num_forgotten",
        "past",
        "past_from",
        "past_line",
        "releases",
        "start",
    )

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.allocation: Allocation | None = None
        self.generation = 0
        self.releases: VectorClock = {}
        self.is_current = True
        self.num_forgotten = 0
        self.layouts: dict[Any, Cell] = {}
        self.past: list[Past] = []
        self.past_from = end
        self.past_line: Line | None = None
        self._cells: dict[Region, Cell] = {}
        self._prune_at = _FIRST_PRUNE

    @property
    def cells(self) -> list[Cell]:
        """All cells, in order of creation."""
        return list(self._cells.values())

    @property
    def num_cells(self) -> int:
        """Number of cells."""
        return len(self._cells)

    def is_before(self, line: Line) -> bool:
        """Return whether all recorded accesses are ordered before the next operation of a line."""
        if self.past and self.past_line is not line:
            return False
        known = line.vector.get
        for cell in self._cells.values():
            writer, reader = cell.writer, cell.reader
            if (
                cell.more is not None
                or (writer is not None and writer is not line and known(writer.index, 0) < cell.write_clock)
                or (reader is not None and reader is not line and known(reader.index, 0) < cell.read_clock)
            ):
                return False
        return True

    def is_replaceable_by(self, line: Line) -> bool:
        """Whether the block is free, awaits nothing, and all its accesses are ordered before the line's next one."""
        return not self.releases and (self.allocation is None or not self.allocation.is_live) and self.is_before(line)

    def around(self, start: int, end: int) -> list[Past]:
        """Return the recorded accesses of bytes outside of a range."""
        if start <= self.start and self.end <= end:
            return []
        return self.past + [
            (cell, cell.entries)
            for cell in self._cells.values()
            if (cell.region.start < start or cell.region.end > end)
            and (cell.writer is not None or cell.reader is not None)
        ]

    def set_past(self, past: list[Past], start: int, line: Line) -> None:
        """Keep a reference to entries of earlier blocks from address `start` on; `recall` copies them when needed."""
        self.past = [each for each in past if each[0].region.start < self.end and start < each[0].region.end]
        self.past_from, self.past_line = start, line

    def recall(self, known: VectorClock) -> None:
        """Copy the entries in `past` into cells of this block."""
        past, self.past = self.past, []
        for cell, entries in past:
            if cell.region.end > self.past_from:
                self.cell(cell.region, known).take_in(map(cell.spelled, entries))

    def forget_released(self, known: VectorClock) -> None:
        """Drop entries that the allocator waited for before it allocates the range again.

        Args:
            known: Work that the host has observed to be complete.
        """
        if self.releases:
            self.recall(known)
            for cell in self._cells.values():
                cell.forget_known(self.releases)
            self.releases = {}

    def strip(self) -> Spare:
        """Remove all cells and return them, emptied, for a block of the same bounds."""
        spare = self._cells, self.layouts
        for cell in self._cells.values():
            cell.writer = cell.write = cell.reader = cell.read = cell.more = None
        self._cells, self.layouts = {}, {}
        return spare

    def equip(self, spare: Spare) -> None:
        """Use the empty cells of an earlier block of the same bounds."""
        self._cells, self.layouts = spare

    def drop_empty(self) -> None:
        """Remove cells without entries."""
        self._keep({cell for cell in self._cells.values() if cell.writer is not None or cell.reader is not None})

    @property
    def num_entries(self) -> int:
        """Number of recorded accesses."""
        return sum(len(cell.entries) for cell in self._cells.values()) + sum(len(entries) for _, entries in self.past)

    def cell(self, region: Region, known: VectorClock) -> Cell:
        """The cell of exactly these bytes, created if new. `known`: work that the host has observed to be complete."""
        if self.past and region.end > self.past_from:
            self.recall(known)
        cell = self._cells.get(region)
        if cell is None:
            if len(self._cells) >= self._prune_at:
                self.prune(known)
            cell = Cell(region)
            self._adopt(cell)
        return cell

    def prune(self, known: VectorClock) -> None:
        """Remove cells whose entries are all complete for the host: every later operation is ordered after them."""
        for cell in self._cells.values():
            cell.forget_known(known)
        self._keep({cell for cell in self._cells.values() if cell.entries})
        if len(self._cells) >= MAX_CELLS:
            cells = self.cells
            self.num_forgotten += len(cells) // 2
            self._keep(set(cells[len(cells) // 2 :]))
        self._prune_at = min(max(2 * len(self._cells), _FIRST_PRUNE), MAX_CELLS)

    def _keep(self, kept: set[Cell]) -> None:
        if self.allocation is not None and self.allocation.whole is not None:
            kept.add(self.allocation.whole)
        if len(kept) == len(self._cells):
            return
        self.layouts.clear()
        self._cells = {region: cell for region, cell in self._cells.items() if cell in kept}
        for cell in kept:
            cell.near = [(other, covers) for other, covers in cell.near if other in kept]

    def inherit(self, other: Block, known: VectorClock, taken: set[Cell]) -> None:
        """Take over the entries of an earlier block at these addresses.

        Args:
            other: The earlier block, which is discarded.
            known: Work that the host has observed to be complete.
            taken: Its cells that another block has taken. Those that this block takes are added. A cell that reaches
                into both blocks is copied.
        """
        for cell in other._cells.values():
            region = cell.region
            if region.start >= self.end or self.start >= region.end or (cell.writer is None and cell.reader is None):
                continue
            if cell in taken or region in self._cells:
                self.cell(region, known).take_in(map(cell.spelled, cell.entries))
            else:
                taken.add(cell)
                self._adopt(cell)

    def _adopt(self, cell: Cell) -> None:
        region = cell.region
        cell.near = []
        for other in self._cells.values():
            if other.region.overlaps(region):
                cell.near.append((other, region.covers(other.region)))
                other.near.append((cell, other.region.covers(region)))
        self._cells[region] = cell


#: The block of allocations that have no place in the shadow, or none yet.
NOWHERE: Final = Block(0, 0)


#: Largest number of cells of earlier blocks in `Block.past`.
_MAX_PAST: Final = 16

_start_of: Final = attrgetter("start")
_MAX_SPARE: Final = 4096
_MAX_SPARE_CELLS: Final = 8


class Shadow:
    """All blocks by address; blocks do not overlap."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._blocks: dict[int, Block] = {}
        self._spare: dict[tuple[int, int], Spare] = {}

    @property
    def by_start(self) -> dict[int, Block]:
        """The blocks by their first address: always the same dictionary, read-only."""
        return self._blocks

    @property
    def blocks(self) -> list[Block]:
        """All blocks in order of address."""
        return [self._blocks[start] for start in self._starts]

    def at(self, start: int) -> Block | None:
        """Return the block that starts at an address, or None."""
        return self._blocks.get(start)

    def find(self, start: int, end: int) -> Block | None:
        """Return the block that contains all these addresses, or None."""
        at = bisect_left(self._starts, start + 1) - 1
        if at < 0:
            return None
        block = self._blocks[self._starts[at]]
        return block if end <= block.end else None

    def overlapping(self, start: int, end: int) -> list[Block]:
        """Blocks that share an address with the range, in order of address."""
        starts, blocks, found = self._starts, self._blocks, []
        at = max(bisect_left(starts, start + 1) - 1, 0)
        while at < len(starts) and (begin := starts[at]) < end:
            block = blocks[begin]
            if block.end > start:
                found.append(block)
            at += 1
        return found

    def clear(self, below: int | None = None) -> list[Block]:
        """Drop blocks and the entries of their cells: operations and cells form reference cycles.

        Args:
            below: Drop only blocks that start before this address.

        Returns:
            The dropped blocks.
        """
        at = len(self._starts) if below is None else bisect_left(self._starts, below)
        dropped = [self._blocks.pop(start) for start in self._starts[:at]]
        for block in dropped:
            block.strip()
            block.is_current = False
        del self._starts[:at]
        self._spare.clear()
        return dropped

    def supersede(  # noqa: C901 - the path of every other result of a program whose tensors come and go
        self, start: int, end: int, written_to: int, line: Line
    ) -> Block | None:
        """Like `claim`, when `line` is about to write all bytes from `start` to `written_to`.

        Entries that are ordered before that write are redundant for these bytes and are dropped. Entries of earlier
        blocks for other bytes stay in `Block.past`. This is the common case of a pool that one stream uses, whose
        blocks are split and merged all the time.

        Returns:
            The block; None if `claim` is needed.
        """
        starts, blocks = self._starts, self._blocks
        first = at = bisect_right(starts, start)
        if first and blocks[starts[first - 1]].end > start:
            first -= 1
            at = first
        formers: list[Block] = []
        past: list[Past] = []
        while at < len(starts) and starts[at] < end:
            former = blocks[starts[at]]
            if not former.is_replaceable_by(line):
                return None
            if former.start < start or former.end > written_to:
                past += former.around(start, written_to)
            formers.append(former)
            at += 1
        if len(past) > _MAX_PAST:
            return None
        block = Block(start, end)
        left = [block]
        for former in formers:
            if former.generation > block.generation:
                block.generation = former.generation
            self._drop(former)
            if past:
                left += self._rests(former, block, past, line)
            if former.num_cells <= _MAX_SPARE_CELLS:
                self._spare[former.start, former.end] = former.strip()
        if past:
            block.set_past(past, written_to, line)
        if (spare := self._spare.pop((start, end), None)) is not None:
            block.equip(spare)
        elif len(self._spare) > _MAX_SPARE:
            self._spare.clear()
        if len(left) > 1:
            left.sort(key=_start_of)
        starts[first:at] = [each.start for each in left]
        for each in left:
            blocks[each.start] = each
        return block

    def _rests(self, former: Block, block: Block, past: list[Past], line: Line) -> list[Block]:
        """The rests of an earlier block before and after the one that replaces it: blocks without an allocation."""
        rests = []
        for start, end in ((former.start, block.start), (block.end, former.end)):
            if start < end:
                rest = Block(start, end)
                rest.set_past(past, start, line)
                if rest.past:
                    rest.generation = former.generation
                    rests.append(rest)
        return rests

    def claim(self, start: int, end: int, known: VectorClock) -> Block:
        """Return a block for exactly these addresses, with the entries of its predecessors.

        Entries that the allocator waited for before it allocated the addresses again are dropped. This does not apply
        to other memory: with slower streams, the allocator would have taken another block. The rests of the
        predecessors stay as blocks without an allocation.

        Args:
            start: First address.
            end: One past the last.
            known: Work that the host has observed to be complete.
        """
        block = self._blocks.get(start)
        if block is not None and block.end == end:
            block.forget_released(known)
            return block
        block = Block(start, end)
        for former in self.overlapping(start, end):
            block.generation = max(block.generation, former.generation)
            former.recall(known)
            former.forget_released(known)
            taken: set[Cell] = set()
            block.inherit(former, known, taken)
            del self._starts[bisect_left(self._starts, former.start)]
            self._drop(former)
            if former.start < start:
                self._leave(former, former.start, start, known, taken)
            if end < former.end:
                self._leave(former, end, former.end, known, taken)
        self._add(block)
        return block

    def _leave(self, former: Block, start: int, end: int, known: VectorClock, taken: set[Cell]) -> None:
        """Keep the rest of an earlier block as a block without an allocation."""
        rest = Block(start, end)
        rest.generation = former.generation
        rest.inherit(former, known, taken)
        if rest.num_cells:
            self._add(rest)

    def _add(self, block: Block) -> None:
        insort(self._starts, block.start)
        self._blocks[block.start] = block

    def _drop(self, block: Block) -> None:
        del self._blocks[block.start]
        block.is_current = False
        if block.allocation is not None:
            block.allocation.is_live, block.allocation.run = False, None
