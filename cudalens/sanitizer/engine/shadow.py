"""The shadow memory: all blocks by address, and the replacement of one block by another.

Memory is O(live ranges x streams), however often a tensor is accessed: see `cells`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from operator import attrgetter
from typing import Final

from cudalens.sanitizer.engine.blocks import Block, Past, Spare
from cudalens.sanitizer.engine.cells import Cell
from cudalens.sanitizer.engine.clocks import Line, VectorClock

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
        """The block that starts at an address, or None."""
        return self._blocks.get(start)

    def find(self, start: int, end: int) -> Block | None:
        """The block that contains all these addresses, or None."""
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
        """A block for exactly these addresses, with the entries of its predecessors.

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
            self._remove(former)
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

    def _remove(self, block: Block) -> None:
        del self._starts[bisect_left(self._starts, block.start)]
        self._drop(block)

    def _drop(self, block: Block) -> None:
        del self._blocks[block.start]
        block.is_current = False
        if block.allocation is not None:
            block.allocation.is_live, block.allocation.run = False, None
