"""The shadow of one block of memory: the ranges of it that were touched, and what is left of former blocks there."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from cudalens.sanitizer.engine.accesses import Entry, Life
from cudalens.sanitizer.engine.cells import Cell
from cudalens.sanitizer.engine.clocks import Line, VectorClock
from cudalens.sanitizer.engine.regions import Region

#: Ranges that one block keeps apart; beyond, the oldest are forgotten.
MAX_CELLS: Final = 1024

_FIRST_PRUNE: Final = 64

#: A cell of a former block, and what it remembered then; the cell may be another's by now, its bytes are the same.
Past: TypeAlias = tuple[Cell, list[Entry]]

#: The cells of a former block, empty, and its layouts.
Spare: TypeAlias = "tuple[dict[Region, Cell], dict[Any, Cell]]"


class Block:
    """Shadow of a range of addresses that is, or was, one allocation.

    Attributes:
        start: First address.
        end: One past the last address.
        life: Its current allocation, or the last one; None for what is left of one that another took a part of.
        generation: Of the next allocation.
        releases: What the allocator waits for before it hands the range out again.
        is_current: Whether these addresses are still this block's.
        num_forgotten: Ranges that were given up because there were too many.
        past: Cells of former blocks and what they remembered, all of it ordered before `past_line`'s next operation;
            of interest from address `past_from` on, which nothing in here reaches.
    """

    __slots__ = (
        "_cells",
        "_prune_at",
        "end",
        "generation",
        "is_current",
        "layouts",
        "life",
        "num_forgotten",
        "past",
        "past_from",
        "past_line",
        "releases",
        "start",
    )

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.life: Life | None = None
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
        """All cells, in order of their making."""
        return list(self._cells.values())

    @property
    def num_cells(self) -> int:
        """Number of cells."""
        return len(self._cells)

    def is_used_only_by(self, owner: Line | None) -> bool:
        """Whether all that is remembered was done by one line."""
        for cell in self._cells.values():
            writer, reader = cell.writer, cell.reader
            if (
                (writer is not owner and writer is not None)
                or (reader is not owner and reader is not None)
                or cell.more is not None
            ):
                return False
        return True

    def is_before(self, line: Line) -> bool:
        """Whether all that is remembered is ordered before the next operation of a line."""
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

    def gives_way(self, line: Line) -> bool:
        """Whether an operation of a line may just take the place of a block that nobody has and nothing waits for."""
        return not self.releases and (self.life is None or not self.life.is_live) and self.is_before(line)

    def around(self, start: int, end: int) -> list[Past]:
        """What is remembered of bytes outside of a range."""
        if start <= self.start and self.end <= end:
            return []
        return self.past + [
            (cell, cell.entries)
            for cell in self._cells.values()
            if (cell.region.start < start or cell.region.end > end)
            and (cell.writer is not None or cell.reader is not None)
        ]

    def set_past(self, past: list[Past], start: int, line: Line) -> None:
        """Leave what former blocks remember of the bytes from `start` on where it is, until somebody asks for it."""
        self.past = [each for each in past if each[0].region.start < self.end and start < each[0].region.end]
        self.past_from, self.past_line = start, line

    def recall(self, known: VectorClock) -> None:
        """Take over what was left in `past`."""
        past, self.past = self.past, []
        for cell, entries in past:
            if cell.region.end > self.past_from:
                self.cell(cell.region, known).take_in(map(cell.spelled, entries))

    def forget_released(self, known: VectorClock) -> None:
        """Forget what the allocator waited for before it hands the range out again.

        Args:
            known: What the host knows to be done.
        """
        if self.releases:
            self.recall(known)
            for cell in self._cells.values():
                cell.forget_known(self.releases)
            self.releases = {}

    def strip(self) -> Spare:
        """Give up all cells, emptied, for a block of the same bounds."""
        spare = self._cells, self.layouts
        for cell in self._cells.values():
            cell.writer = cell.write = cell.reader = cell.read = cell.more = None
        self._cells, self.layouts = {}, {}
        return spare

    def equip(self, spare: Spare) -> None:
        """Begin with the empty cells of a former block of the same bounds."""
        self._cells, self.layouts = spare

    def drop_empty(self) -> None:
        """Give up cells that nothing is remembered of."""
        self._keep({cell for cell in self._cells.values() if cell.writer is not None or cell.reader is not None})

    @property
    def num_entries(self) -> int:
        """Number of accesses that are remembered."""
        return sum(len(cell.entries) for cell in self._cells.values()) + sum(len(entries) for _, entries in self.past)

    def cell(self, region: Region, known: VectorClock) -> Cell:
        """The cell of exactly these bytes, made where it is new; `known` is what the host knows to be done."""
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
        """Give up cells that have nothing to tell: all that follows is ordered after what the host knows."""
        for cell in self._cells.values():
            cell.forget_known(known)
        self._keep({cell for cell in self._cells.values() if cell.entries})
        if len(self._cells) >= MAX_CELLS:
            cells = self.cells
            self.num_forgotten += len(cells) // 2
            self._keep(set(cells[len(cells) // 2 :]))
        self._prune_at = min(max(2 * len(self._cells), _FIRST_PRUNE), MAX_CELLS)

    def _keep(self, kept: set[Cell]) -> None:
        if self.life is not None and self.life.whole is not None:
            kept.add(self.life.whole)
        if len(kept) == len(self._cells):
            return
        self.layouts.clear()
        self._cells = {region: cell for region, cell in self._cells.items() if cell in kept}
        for cell in kept:
            cell.near = [(other, covers) for other, covers in cell.near if other in kept]

    def inherit(self, other: Block, known: VectorClock, taken: set[Cell]) -> None:
        """Take over what is remembered of a former block at these addresses.

        Args:
            other: The former block, which is given up.
            known: What the host knows to be done.
            taken: Its cells that another block has taken; grows by those that this one takes. One that reaches into
                both is copied.
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


#: The block of lives whose place in the shadow nobody has asked for yet, and of those that have none.
NOWHERE: Final = Block(0, 0)
