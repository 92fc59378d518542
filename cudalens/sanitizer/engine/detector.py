"""Records in, races out."""

from __future__ import annotations

from functools import singledispatchmethod

from cudalens.sanitizer.engine import records as r
from cudalens.sanitizer.engine.clocks import Clocks, VectorClock, join
from cudalens.sanitizer.engine.races import Race, Touch
from cudalens.sanitizer.engine.regions import Region
from cudalens.sanitizer.engine.shadow import Block, Shadow


class Detector:
    """Judges one program, record by record.

    Attributes:
        races: Every race so far, one per finding, in order of discovery.
        counts: How often each finding (`Race.key`) was seen.
    """

    def __init__(self) -> None:
        self._clocks = Clocks()
        self._shadow = Shadow()
        self.races: list[Race] = []
        self.counts: dict[tuple[object, ...], int] = {}

    @property
    def num_touches(self) -> int:
        """Number of accesses that are remembered; bounded by live ranges times streams."""
        return sum(block.num_touches for block in self._shadow.blocks)

    @singledispatchmethod
    def add(self, record: r.Record) -> list[Race]:
        """Take in `record`; returns the races that it makes, also those that were seen before.

        Raises:
            TypeError: It is no record.
            ValueError: It touches memory that was never handed out.
        """
        raise TypeError(f"{record!r} is no record of the sanitizer; see cudalens.sanitizer.engine.records")

    @add.register
    def _(self, record: r.Launch) -> list[Race]:
        clock = self._clocks.begin(record.stream)
        accesses = [(a, False) for a in record.reads] + [(a, True) for a in record.writes]
        return self._touch_all(record.stream, clock, accesses, record.name, record.place)

    @add.register
    def _(self, record: r.HostAccess) -> list[Race]:
        clock = self._clocks.host_step()
        op = "host write" if record.is_write else "host read"
        return self._touch_all(r.HOST, clock, [(record.access, record.is_write)], op, record.place)

    @add.register
    def _(self, record: r.Alloc) -> list[Race]:
        region = record.region
        former = self._shadow.overlapping(region)
        for block in former:
            # The allocator has seen these done, on the host, before it hands the memory out again.
            join(self._clocks.host, block.release)
        generation = 1 + max((b.generation for b in former), default=-1)
        self._shadow.add(Block(region.start, region.end, record.stream, generation))
        return []

    @add.register
    def _(self, record: r.Free) -> list[Race]:
        block = self._block(record.tensor, record.region)
        block.is_live = False
        for stream in self._streams_awaited(block):
            join(block.release, self._clocks.of(stream))
        return []

    @add.register
    def _(self, record: r.RecordStream) -> list[Race]:
        self._block("record_stream", record.region).recorded.add(record.stream)
        return []

    @add.register
    def _(self, record: r.EventRecord) -> list[Race]:
        self._clocks.record(record.event, record.stream)
        return []

    @add.register
    def _(self, record: r.EventWait) -> list[Race]:
        self._clocks.wait(record.event, record.stream)
        return []

    @add.register(r.EventSync)
    @add.register(r.EventQuery)
    def _(self, record: r.EventSync | r.EventQuery) -> list[Race]:
        self._clocks.wait(record.event, r.HOST)
        return []

    @add.register
    def _(self, record: r.EventDelete) -> list[Race]:
        self._clocks.delete(record.event)
        return []

    @add.register
    def _(self, record: r.StreamCreate) -> list[Race]:
        self._clocks.of(record.stream)
        if record.is_blocking:
            self._clocks.make_blocking(record.stream)
        return []

    @add.register(r.StreamSync)
    @add.register(r.StreamQuery)
    def _(self, record: r.StreamSync | r.StreamQuery) -> list[Race]:
        self._clocks.host_waits_for(record.stream)
        return []

    @add.register
    def _(self, record: r.DeviceSync) -> list[Race]:
        self._clocks.host_waits_for_device(record.device)
        return []

    def _block(self, tensor: str, region: Region) -> Block:
        block = self._shadow.find(region)
        if block is None:
            raise ValueError(
                f"'{tensor}': bytes {region.start:#x} to {region.end:#x} lie in no allocation; "
                "expected an Alloc record that covers them first"
            )
        return block

    def _streams_awaited(self, block: Block) -> set[r.StreamId]:
        """Streams that the allocator waits for before it reuses `block`.

        The device's allocator knows only what record_stream told it. The pinned one notes every stream that copied.
        """
        if block.owner != r.HOST:
            return block.recorded
        return block.recorded | {t.stream for t in block.touches if t.stream != r.HOST}

    def _touch_all(
        self,
        stream: r.StreamId,
        clock: VectorClock,
        accesses: list[tuple[r.Access, bool]],
        op: str,
        place: r.Place,
    ) -> list[Race]:
        """Check all accesses of one operation against the past, and only then remember them."""
        touches, races = [], []
        for access, is_write in accesses:
            block = self._block(access.tensor, access.region)
            touch = Touch(stream, clock[stream], is_write, access.tensor, access.region, op, place, block.generation)
            touches.append((block, touch))
            races += [
                Race(other, touch)
                for other in block.conflicts(access.region, is_write)
                if clock.get(other.stream, 0) < other.clock
            ]
        for block, touch in touches:
            block.remember(touch, clock)
        for race in races:
            self._count(race)
        return races

    def _count(self, race: Race) -> None:
        seen = self.counts.get(race.key, 0)
        self.counts[race.key] = seen + 1
        if not seen:
            self.races.append(race)
