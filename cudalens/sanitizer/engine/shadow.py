"""Who touched what: all blocks by address, and how one takes the place of another.

Memory is O(live ranges x streams), however often a tensor is touched: see `cells`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from operator import attrgetter
from typing import Final

from cudalens.sanitizer.engine.blocks import Block, Past, Spare
from cudalens.sanitizer.engine.cells import Cell
from cudalens.sanitizer.engine.clocks import Line, VectorClock

#: Cells of former blocks that one block may leave in `Block.past`.
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
        starts, blocks, found = self._starts, self._blocks, []
        at = max(bisect_left(starts, start + 1) - 1, 0)
        while at < len(starts) and (begin := starts[at]) < end:
            block = blocks[begin]
            if block.end > start:
                found.append(block)
            at += 1
        return found

    def clear(self) -> None:
        """Let go of all blocks, and of what their cells remember: an operation and a cell hold each other."""
        for block in self._blocks.values():
            block.strip()
        self._starts.clear()
        self._blocks.clear()
        self._spare.clear()

    def supersede(  # noqa: C901 - the path of every other result of a program whose tensors come and go
        self, start: int, end: int, written_to: int, line: Line
    ) -> Block | None:
        """As `claim`, where `line` is just about to write all bytes from `start` to `written_to`.

        What is ordered before that write says nothing new about these bytes, and is forgotten; what the former blocks
        remember of others is left in `Block.past`. That is the everyday life of a pool that one stream uses, where
        blocks are cut and joined all the time.

        Returns:
            The block; None where `claim` has to take a closer look.
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
            if not former.gives_way(line):
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
        """What is left of a former block in front of the one that takes its place, and behind: nobody's blocks."""
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
        """A block for exactly these addresses, which knows what its predecessors were used for.

        What the allocator has seen done before it handed the addresses out again is forgotten. That says nothing of
        other memory: had those streams been slower, the allocator would have taken another block.

        What it leaves over of them stays, as blocks that belong to nobody.

        Args:
            start: First address.
            end: One past the last.
            known: What the host knows to be done.

        Returns:
            The block.
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
            self._remove(former)
            if former.start < start:
                self._leave(former, former.start, start, known, taken)
            if end < former.end:
                self._leave(former, end, former.end, known, taken)
        self._add(block)
        return block

    def _leave(self, former: Block, start: int, end: int, known: VectorClock, taken: set[Cell]) -> None:
        """What is left of a former block, in front or behind, belongs to nobody."""
        rest = Block(start, end)
        rest.generation = former.generation
        rest.inherit(former, known, taken)
        if rest.num_cells:
            self._add(rest)

    def _add(self, block: Block) -> None:
        insort(self._starts, block.start)
        self._blocks[block.start] = block

    def _remove(self, block: Block) -> None:
        del self._starts[bisect_left(self._starts, block.start)]
        self._drop(block)

    def _drop(self, block: Block) -> None:
        del self._blocks[block.start]
        block.is_current = False
        if block.life is not None:
            block.life.is_live, block.life.run = False, None
