"""Which accesses are still of interest: per range of bytes, the last write and the last reads that nothing orders.

An earlier access that a later one of the same kind to the same bytes is ordered after says nothing new: whoever races
with it races with the later one, and whoever is ordered after the later one is ordered after it too. So a cell needs
one write and one read in almost all programs, and more only while accesses are unordered. Memory is
O(live ranges x streams), however often a tensor is touched. (The insight of FastTrack: Flanagan and Freund, PLDI 2009.)
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from cudalens.sanitizer.engine.clocks import Line, VectorClock
from cudalens.sanitizer.engine.records import Place
from cudalens.sanitizer.engine.regions import Region

MAX_CELLS: Final = 1024
"""Ranges that one block keeps apart; beyond, the oldest are forgotten."""

_FIRST_PRUNE: Final = 64

_MAX_PAST: Final = 16
"""Cells of former blocks that one block may leave in `Block.past`."""

_MAX_SPARE: Final = 4096
_MAX_SPARE_CELLS: Final = 8


class Use(NamedTuple):
    """An operation's argument, as reports name it: what collectors make once per operator."""

    op: str
    argument: str = ""


class Site(NamedTuple):
    """Where an operation was called.

    Attributes:
        place: Where in the user's program.
        stack: The call stack, as the collector took it.
    """

    place: Place = None
    stack: object = None


class Info(NamedTuple):
    """What is noted of an access, beside its line and clock.

    Attributes:
        use: Operation and argument.
        site: Where it was called: a `Site`, or a sequence that begins with its fields.
        shape: Of the tensor; None where it is not known.
        stride: In elements; None where the tensor is contiguous.
        dtype: Anything whose text names the type.
        life: The allocation.
        name: Of the tensor, where the collector has one; else the allocation's.
    """

    use: Use
    site: Any
    shape: tuple[int, ...] | None
    stride: tuple[int, ...] | None
    dtype: object
    life: Life
    name: str | None = None


Entry: TypeAlias = tuple[Line, int, bool, Any]
"""Line, clock, whether it is a write, and what is noted: an `Info` (or a plain tuple of its fields), or an `Op`."""

Op: TypeAlias = list[Any]
"""One operation and all that it touched, flat, so that a collector makes one object of it.

Place, call stack and line, then for each access cell, whether it writes, and `Info`'s fields use, shape, stride, dtype
and life. (Many small objects that stay for a while are what Python's cyclic garbage collector spends its time on.)
"""

OP_HEAD: Final = 3
OP_STEP: Final = 7


def info_in(op: Op, cell: Cell, is_write: bool) -> Info:
    """What an operation noted of its access to a cell; the first one, where it touched it by several arguments."""
    for at in range(OP_HEAD, len(op), OP_STEP):
        if op[at] is cell and op[at + 1] == is_write:
            use, shape, stride, dtype, life = op[at + 2 : at + OP_STEP]
            return Info(use, op[:2], shape, stride, dtype, life)
    raise LookupError(f"the operation touched no such cell: {cell.region}")


def visits_in(op: Op) -> list[tuple[Cell, bool, Info]]:
    """The accesses of an operation, one by one."""
    return [
        (op[at], op[at + 1], Info(op[at + 2], op[:2], *op[at + 3 : at + OP_STEP]))
        for at in range(OP_HEAD, len(op), OP_STEP)
    ]


class Life:
    """One allocation: a block between being handed out and being freed.

    Collectors make one for every tensor: what is rarely set is a default of the class.

    Attributes:
        block: Its shadow.
        name: As the collector names it.
        start: First address.
        num_bytes: Size.
        owner: Line whose pool it came from; None where that is not known.
        generation: How often the block has been handed out before.
        is_live: Whether it is handed out now.
        run: The collector's own mark; None once it is over, so that one look tells whether it is of use.
        recorded: Lines that ``record_stream`` named; None while there are none.
        site: Where it was allocated, as in `Info`; None where that was not seen.
        freed_site: Where it was freed.
        whole: The cell of all its bytes; None for an empty one.
        device: Index of its GPU, -1 for the host: the collector's.
        aliases: Other views of the same allocation that the collector keeps.
        shape: Of a contiguous tensor that fills it, for the collector: the next one is most often like the last.
        dtype: Likewise.
    """

    name: str = ""
    is_live: bool = True
    run: object = None
    recorded: set[Line] | None = None
    site: Any = None
    freed_site: Any = None
    device: int = -1
    aliases: list[Life] | None = None
    shape: tuple[int, ...] | None = None
    dtype: object = None

    def __init__(self, block: Block, start: int, num_bytes: int, owner: Line | None, generation: int = 0) -> None:
        self.block, self.start, self.num_bytes, self.owner = block, start, num_bytes, owner
        self.generation = generation
        self.whole: Cell | None = None


class Cell:
    """What is remembered of one exact set of bytes.

    The last write and the last read have slots of their own; accesses that they are not ordered after are in `more`.

    Attributes:
        region: The bytes.
        near: Other cells of the block that share a byte with it, and whether this one covers them.
        writer: Line of the last write; None where there is none.
        write_clock: Its clock.
        write: Its `Info`.
        reader: Line of the last read since; None where there is none.
        read_clock: Its clock.
        read: Its `Info`.
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
        self.more: dict[tuple[Line, bool], Entry] | None = None

    @property
    def entries(self) -> list[Entry]:
        """All that is remembered, oldest kind first."""
        found = list(self.more.values()) if self.more else []
        if self.writer is not None:
            found.append((self.writer, self.write_clock, True, self.write))
        if self.reader is not None:
            found.append((self.reader, self.read_clock, False, self.read))
        return found

    def spelled(self, entry: Entry) -> Entry:
        """An entry of this cell, with an `Info` that makes sense elsewhere too."""
        line, clock, is_write, info = entry
        return (line, clock, is_write, info_in(info, self, is_write)) if type(info) is list else entry

    def unordered(self, line: Line, is_write: bool) -> Iterator[Entry]:
        """What an access by `line` races with, were it to touch these bytes now."""
        if self.writer is None and self.reader is None and self.more is None:
            return
        vector = line.vector
        for entry in self.entries:
            if (is_write or entry[2]) and entry[0] is not line and vector.get(entry[0].index, 0) < entry[1]:
                yield entry

    def passes_near(self, line: Line, is_write: bool) -> bool:
        """Whether an access is plainly ordered after all that touched overlapping bytes; a write then forgets these.

        False also where that takes a closer look.
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
        """Remember an access, and forget what it is ordered after and makes uninteresting."""
        left = [
            entry
            for entry in self.entries
            if (entry[2] and not is_write) or (entry[0] is not line and line.vector.get(entry[0].index, 0) < entry[1])
        ]
        left.append((line, line.clock, is_write, info))
        self._set(left)

    def forget_known(self, vector: VectorClock) -> None:
        """Drop what is done at `vector`."""
        if self.writer is not None or self.reader is not None:
            self._set([e for e in self.entries if vector.get(e[0].index, 0) < e[1]])

    def forget_ordered(self, line: Line) -> None:
        """Drop what `line` is ordered after: a write of all these bytes has just taken its place."""
        if self.writer is not None or self.reader is not None:
            vector = line.vector
            self._set([e for e in self.entries if e[0] is not line and vector.get(e[0].index, 0) < e[1]])

    def take_in(self, entries: Iterable[Entry]) -> None:
        """Remember accesses from elsewhere, which came before all that is here."""
        mine = self.entries
        have = {(e[0], e[2]) for e in mine}
        self._set([e for e in entries if (e[0], e[2]) not in have] + mine)

    def _set(self, entries: list[Entry]) -> None:
        """Put the last write and the last read into their slots, and the others aside."""
        self.writer = self.reader = self.write = self.read = self.more = None
        more: dict[tuple[Line, bool], Entry] = {}
        for entry in reversed(entries):
            line, clock, is_write, info = entry
            if is_write and self.writer is None:
                self.writer, self.write_clock, self.write = line, clock, info
            elif not is_write and self.reader is None:
                self.reader, self.read_clock, self.read = line, clock, info
            else:
                more.setdefault((line, is_write), entry)
        self.more = dict(reversed(more.items())) or None


Past: TypeAlias = tuple[Cell, list[Entry]]
"""A cell of a former block, and what it remembered then; the cell may be another's by now, its bytes are the same."""

Spare: TypeAlias = "tuple[dict[Region, Cell], dict[Any, Cell]]"
"""The cells of a former block, empty, and its layouts."""


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


class Shadow:
    """All blocks by address; blocks do not overlap."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._blocks: dict[int, Block] = {}
        self._spare: dict[tuple[int, int], Spare] = {}

    @property
    def by_start(self) -> dict[int, Block]:
        """The blocks by their first address; one dictionary for good, for looking only."""
        return self._blocks

    @property
    def blocks(self) -> list[Block]:
        """All blocks in order of address."""
        return [self._blocks[start] for start in self._starts]

    def at(self, start: int) -> Block | None:
        """The block that begins at an address."""
        return self._blocks.get(start)

    def find(self, start: int, end: int) -> Block | None:
        """The block that holds all these addresses, or None."""
        at = bisect_left(self._starts, start + 1) - 1
        if at < 0:
            return None
        block = self._blocks[self._starts[at]]
        return block if end <= block.end else None

    def overlapping(self, start: int, end: int) -> list[Block]:
        """Blocks that share an address with the range, in order of address."""
        at = max(bisect_left(self._starts, start + 1) - 1, 0)
        found = []
        for begin in self._starts[at:]:
            if begin >= end:
                break
            if self._blocks[begin].end > start:
                found.append(self._blocks[begin])
        return found

    def supersede(self, start: int, end: int, written_to: int, line: Line) -> Block | None:
        """As `claim`, where `line` is just about to write all bytes from `start` to `written_to`.

        What is ordered before that write says nothing new about these bytes, and is forgotten; what the former blocks
        remember of others is left in `Block.past`. That is the everyday life of a pool that one stream uses, where
        blocks are cut and joined all the time.

        Returns:
            The block; None where `claim` has to take a closer look.
        """
        formers = self.overlapping(start, end)
        past: list[Past] = []
        for former in formers:
            if not former.gives_way(line):
                return None
            past += former.around(start, written_to)
        if len(past) > _MAX_PAST:
            return None
        block = Block(start, end)
        for former in formers:
            block.generation = max(block.generation, former.generation)
            self._retire(former, block, past, line)
        block.set_past(past, written_to, line)
        if (spare := self._spare.pop((start, end), None)) is not None:
            block.equip(spare)
        elif len(self._spare) > _MAX_SPARE:
            self._spare.clear()
        self._add(block)
        return block

    def _retire(self, former: Block, block: Block, past: list[Past], line: Line) -> None:
        """A block takes a former one's place; what is left of that in front or behind belongs to nobody."""
        self._remove(former)
        for start, end in ((former.start, block.start), (block.end, former.end)):
            if past and start < end:
                rest = Block(start, end)
                rest.set_past(past, start, line)
                if rest.past:
                    rest.generation = former.generation
                    self._add(rest)
        if former.num_cells <= _MAX_SPARE_CELLS:
            self._spare[former.start, former.end] = former.strip()

    def claim(self, start: int, end: int, known: VectorClock) -> tuple[Block, VectorClock]:
        """A block for exactly these addresses, which knows what its predecessors were used for.

        What it leaves over of them stays, as blocks that belong to nobody.

        Args:
            start: First address.
            end: One past the last.
            known: What the host knows to be done.

        Returns:
            The block, and what the allocator waited for before it handed the addresses out.
        """
        block = self._blocks.get(start)
        if block is not None and block.end == end:
            released, block.releases = block.releases, {}
            return block, released
        block, released = Block(start, end), {}
        for former in self.overlapping(start, end):
            block.generation = max(block.generation, former.generation)
            _raise(released, former.releases)
            former.recall(known)
            taken: set[Cell] = set()
            block.inherit(former, known, taken)
            self._remove(former)
            if former.start < start:
                self._leave(former, former.start, start, known, taken)
            if end < former.end:
                self._leave(former, end, former.end, known, taken)
        self._add(block)
        return block, released

    def _leave(self, former: Block, start: int, end: int, known: VectorClock, taken: set[Cell]) -> None:
        """What is left of a former block, in front or behind, belongs to nobody."""
        rest = Block(start, end)
        rest.generation, rest.releases = former.generation, dict(former.releases)
        rest.inherit(former, known, taken)
        if rest.num_cells:
            self._add(rest)

    def _add(self, block: Block) -> None:
        insort(self._starts, block.start)
        self._blocks[block.start] = block

    def _remove(self, block: Block) -> None:
        del self._starts[bisect_left(self._starts, block.start)]
        del self._blocks[block.start]
        block.is_current = False
        if block.life is not None:
            block.life.is_live, block.life.run = False, None


def _raise(into: VectorClock, other: VectorClock) -> None:
    for index, clock in other.items():
        if into.get(index, 0) < clock:
            into[index] = clock
