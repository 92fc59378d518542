"""The shadow of one block of memory: its accessed ranges, and the accesses of earlier blocks at its addresses."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from cudalens.sanitizer.engine.accesses import Allocation, RecordedAccess
from cudalens.sanitizer.engine.cells import Cell
from cudalens.sanitizer.engine.clocks import Line, VectorClock
from cudalens.sanitizer.engine.regions import Region

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
        """Whether all recorded accesses are ordered before the next operation of a line."""
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
        """The recorded accesses of bytes outside of a range."""
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
