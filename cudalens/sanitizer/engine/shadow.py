"""Which accesses are still of interest: per range of bytes, the last write and the last read of each stream.

An earlier access of the same stream and kind to the same bytes says nothing new: whoever is ordered after the later one
is ordered after it too, and whoever races with it races with the later one. An access that a covering write is ordered
after says nothing new either. So memory is O(live ranges x streams), however often a tensor is touched. (The insight
of FastTrack: Flanagan and Freund, PLDI 2009.)
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from cudalens.sanitizer.engine.clocks import VectorClock
from cudalens.sanitizer.engine.races import Touch
from cudalens.sanitizer.engine.records import StreamId
from cudalens.sanitizer.engine.regions import Region

_Key = tuple[StreamId, bool]


class Block:
    """Shadow of one block of an allocator.

    Attributes:
        start: First address.
        end: One past the last address.
        owner: Stream whose pool it came from.
        generation: How often it has been handed out.
        is_live: Whether it is handed out now.
        recorded: Streams that ``record_stream`` named since it was handed out.
        release: What the allocator waits for before it hands the block out again, known once it is freed.
    """

    __slots__ = ("_touches", "end", "generation", "is_live", "owner", "recorded", "release", "start")

    def __init__(self, start: int, end: int, owner: StreamId, generation: int = 0) -> None:
        self.start, self.end, self.owner, self.generation = start, end, owner, generation
        self.is_live = True
        self.recorded: set[StreamId] = set()
        self.release: VectorClock = {}
        self._touches: dict[Region, dict[_Key, Touch]] = {}

    def conflicts(self, region: Region, is_write: bool) -> Iterator[Touch]:
        """Remembered accesses that share a byte with `region`, at least one of the two being a write."""
        for other, touches in self._touches.items():
            relevant = [t for t in touches.values() if is_write or t.is_write]
            if relevant and other.overlaps(region):
                yield from relevant

    def remember(self, touch: Touch, clock: VectorClock) -> None:
        """Note `touch`, and forget what it makes uninteresting; `clock` is what is done before it."""
        if touch.is_write:
            self._forget_covered(touch.region, clock)
        self._touches.setdefault(touch.region, {})[touch.stream, touch.is_write] = touch

    def _forget_covered(self, region: Region, clock: VectorClock) -> None:
        for other in [r for r in self._touches if region.covers(r)]:
            touches = self._touches[other]
            for key in [k for k, t in touches.items() if clock.get(t.stream, 0) >= t.clock]:
                del touches[key]
            if not touches:
                del self._touches[other]

    def inherit(self, other: Block) -> None:
        """Take over what is remembered of a former block at these addresses."""
        for region, touches in other._touches.items():
            if region.start < self.end and self.start < region.end:
                self._touches.setdefault(region, {}).update(touches)

    @property
    def touches(self) -> list[Touch]:
        """All accesses that are remembered."""
        return [touch for touches in self._touches.values() for touch in touches.values()]

    @property
    def num_touches(self) -> int:
        """Number of accesses that are remembered."""
        return sum(map(len, self._touches.values()))


class Shadow:
    """All blocks by address; blocks do not overlap."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._blocks: dict[int, Block] = {}

    def find(self, region: Region) -> Block | None:
        """The block that holds all of `region`, or None."""
        at = bisect_left(self._starts, region.start + 1) - 1
        if at < 0:
            return None
        block = self._blocks[self._starts[at]]
        return block if region.end <= block.end else None

    def overlapping(self, region: Region) -> list[Block]:
        """Blocks that share an address with `region`, in order of address."""
        at = max(bisect_left(self._starts, region.start + 1) - 1, 0)
        found = []
        for start in self._starts[at:]:
            if start >= region.end:
                break
            if self._blocks[start].end > region.start:
                found.append(self._blocks[start])
        return found

    def add(self, block: Block) -> None:
        """Put `block` in the place of those that it overlaps, and keep what is remembered of them."""
        for former in self.overlapping(Region(block.start, block.end - block.start)):
            block.inherit(former)
            self._remove(former)
        insort(self._starts, block.start)
        self._blocks[block.start] = block

    def _remove(self, block: Block) -> None:
        del self._starts[bisect_left(self._starts, block.start)]
        del self._blocks[block.start]

    @property
    def blocks(self) -> list[Block]:
        """All blocks in order of address."""
        return [self._blocks[start] for start in self._starts]
