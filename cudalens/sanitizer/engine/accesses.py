"""Records of memory accesses, and vector clocks that decide which of them happened before others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from cudalens.sanitizer.engine.records import HOST, Place, StreamId

if TYPE_CHECKING:
    from cudalens.sanitizer.engine.shadow import Block, Cell


# Happens-before by vector clocks: one line of work for each stream and for the host.

#: Highest clock known to be complete, by `Line.index`.
VectorClock = dict[int, int]


def join(into: VectorClock, other: VectorClock) -> None:
    """Raise each clock of `into` to at least that of `other`."""
    for index, clock in other.items():
        if into.get(index, 0) < clock:
            into[index] = clock


class Line:
    """A line of work: a stream, or the host.

    Work of a line has an epoch, clock@line. A line's vector holds, for a point in it, the highest epoch of every line
    that is complete at that point: work of line s with clock c is complete exactly if the vector has at least c for s.

    A line's clock advances only if another line has used its vector since (FastTrack's release): until then its
    operations cannot be distinguished and share an epoch. Work that the host has observed to be complete when it issues
    an operation is complete before that operation: every launch joins the host's vector, at no cost while that has not
    changed.

    Attributes:
        id: Which stream.
        index: Its key in every vector.
        clock: Epoch of its work from now on; at least 1.
        vector: Work that is complete before its next operation, its own included.
        is_published: Whether its vector was used by another line since `clock` last advanced.
        host_version: Version of the host's vector that it has joined.
        is_tied: Whether the rules of the legacy default stream order it with other lines.
    """

    __slots__ = ("clock", "host_version", "id", "index", "is_published", "is_tied", "vector")

    def __init__(self, stream: StreamId, index: int) -> None:
        self.id, self.index = stream, index
        self.clock = 1
        self.vector: VectorClock = {}
        self.is_published = False
        self.host_version = -1
        self.is_tied = False

    def __repr__(self) -> str:
        return f"<line {self.id.device}/{self.id.stream} at {self.clock}>"

    def publish(self) -> VectorClock:
        """Return the vector, for use by another line."""
        self.is_published = True
        return self.vector

    def move_on(self) -> None:
        """Begin a new epoch."""
        if self.index in self.vector:
            self.clock += 1
        self.vector[self.index] = self.clock
        self.is_published = False


class Clocks:
    """The lines of all streams and of the host, and the vectors of events.

    Attributes:
        host: The host's line.
        host_version: Number of changes of the host's vector.
    """

    def __init__(self) -> None:
        self.host: Final = Line(HOST, 0)
        self.host.vector[0] = 1
        self.host_version = 0
        self._lines: dict[StreamId, Line] = {HOST: self.host}
        self._events: dict[object, VectorClock] = {}
        self._blocking: dict[int, list[Line]] = {}

    @property
    def lines(self) -> list[Line]:
        """The lines of the streams, in order of their first mention."""
        return [line for line in self._lines.values() if line is not self.host]

    def epochs(self) -> VectorClock:
        """Return the epoch of each stream's last work, by `Line.index`; later work has a later epoch."""
        found = {line.index: line.clock for line in self.lines if line.index in line.vector}
        for line in self.lines:
            line.is_published = True
        return found

    def num_worked(self, since: VectorClock) -> int:
        """Return the number of streams that got work since `epochs` returned `since`; with an empty one, ever."""
        return sum(line.index in line.vector and line.clock > since.get(line.index, 0) for line in self.lines)

    def line(self, stream: StreamId) -> Line:
        """Return the line of a stream or of the host, created if new."""
        line = self._lines.get(stream)
        if line is None:
            line = self._lines[stream] = Line(stream, len(self._lines))
            line.is_tied = stream.stream == 0 and bool(self._blocking.get(stream.device))
        return line

    def make_blocking(self, stream: StreamId) -> None:
        """From now on, order `stream` with the legacy default stream of its device."""
        line = self.line(stream)
        peers = self._blocking.setdefault(stream.device, [])
        if line not in peers and stream.stream != 0:
            peers.append(line)
            line.is_tied = self.line(StreamId(stream.device, 0)).is_tied = True

    def move(self, line: Line, device: int) -> None:
        """Correct the device of a stream, which was not known at its first mention."""
        before, stream = line.id, StreamId(device, line.id.stream)
        line.id = stream
        self._lines[stream] = self._lines.pop(before)
        if line in self._blocking.get(before.device, ()):
            self._blocking[before.device].remove(line)
            self.make_blocking(stream)

    def begin(self, line: Line) -> None:
        """Before an operation of `line`: join the host's vector, and apply the rules of the legacy default stream."""
        if line.host_version != self.host_version:
            join(line.vector, self.host.vector)
            line.host_version = self.host_version
        if line.is_tied:
            self._tie(line)
        if line.is_published or line.index not in line.vector:
            line.move_on()

    def _tie(self, line: Line) -> None:
        """Order a line after the legacy default stream; the legacy default stream after all blocking streams.

        Each operation of the legacy default stream does this, also an event that is recorded or waited for there (CUDA
        Runtime API, "Stream synchronization behavior"). So it is a barrier between the blocking streams.
        """
        device = line.id.device
        for other in self._blocking.get(device, []) if line.id.stream == 0 else [self.line(StreamId(device, 0))]:
            join(line.vector, other.publish())

    def host_step(self) -> None:
        """Advance the host's clock for one access by the host."""
        self.host.clock += 1
        self.host.vector[0] = self.host.clock
        self.host_version += 1

    def snapshot(self, line: Line) -> VectorClock:
        """Return the work that is complete once all work of `line` up to now is complete."""
        if line.is_tied:
            self._tie(line)
        vector = dict(line.publish())
        join(vector, self.host.vector)
        return vector

    def record(self, event: object, line: Line) -> None:
        """Record `event` on `line`: it replaces what the event recorded before."""
        self._events[event] = self.snapshot(line)

    def wait(self, event: object, line: Line) -> None:
        """Make `line` wait for `event`. An event that was never recorded orders nothing."""
        vector = self._events.get(event)
        if vector is None:
            return
        if line is self.host:
            self.host_learns(vector)
            return
        if line.is_tied:
            self._tie(line)
        join(line.vector, vector)

    def delete(self, event: object) -> None:
        """Delete `event`. Earlier waits for it stay in effect."""
        self._events.pop(event, None)

    def forget_events(self) -> None:
        """Delete all events."""
        self._events.clear()

    def host_learns(self, vector: VectorClock) -> None:
        """Add `vector` to the work that the host has observed to be complete."""
        join(self.host.vector, vector)
        self.host_version += 1

    def host_waits_for(self, line: Line) -> None:
        """The host waits for all work of `line`."""
        self.host_learns(self.snapshot(line))

    def host_waits_for_device(self, device: int) -> None:
        """The host waits for all streams of `device`."""
        for line in self.lines:
            if line.id.device == device:
                join(self.host.vector, line.publish())
        self.host_version += 1


class Operand(NamedTuple):
    """An operator and one of its arguments, as reports name them. Collectors create one per operator and argument."""

    operator: str
    argument: str = ""


class CallSite(NamedTuple):
    """The call site of an operation.

    Attributes:
        place: Place in the user's program; for an operation of a CUDA graph, of the replay.
        stack: The call stack, as the collector recorded it.
        captured: For an operation of a CUDA graph, the place at which it was captured.
    """

    place: Place = None
    stack: object = None
    captured: Place = None


class AccessInfo(NamedTuple):
    """The description of an access, without its line and clock.

    Attributes:
        operand: Operator and argument.
        site: A `CallSite`, or another object with its attributes.
        shape: Shape of the tensor; None if unknown.
        stride: Strides in elements; None for a contiguous tensor.
        dtype: The type; any object whose text names it.
        allocation: The allocation.
        name: Name of the tensor; None to use the allocation's.
    """

    operand: Operand
    site: Any
    shape: tuple[int, ...] | None
    stride: tuple[int, ...] | None
    dtype: object
    allocation: Allocation
    name: str | None = None


#: Line, clock, whether it is a write, and the description: an `AccessInfo`, a plain tuple of its fields, or an
#: `Operation`, in which `find_access_info` finds it.
RecordedAccess: TypeAlias = tuple[Line, int, bool, Any]

#: An access to check: the bytes, whether it writes, and its `AccessInfo` or a plain tuple of its fields.
CellAccess: TypeAlias = "tuple[Cell, bool, Any]"

#: One operation and all its accesses, as one flat list: ``[site, time_ns, line, *access, *access, ...]``.
#:
#: `time_ns` is None if it was not measured. The fields of an access are the cell, whether it writes, and operand,
#: shape, stride, dtype and allocation of its `AccessInfo`. One object costs Python's cyclic garbage collector less.
Operation: TypeAlias = list[Any]

NUM_HEAD_FIELDS: Final = 3
NUM_ACCESS_FIELDS: Final = 7


def find_access_info(operation: Operation, cell: Cell, is_write: bool) -> AccessInfo:
    """Return the description of an operation's access to a cell; of the first one if several arguments access it."""
    for start in range(NUM_HEAD_FIELDS, len(operation), NUM_ACCESS_FIELDS):
        if operation[start] is cell and operation[start + 1] == is_write:
            operand, shape, stride, dtype, allocation = operation[start + 2 : start + NUM_ACCESS_FIELDS]
            return AccessInfo(operand, operation[0], shape, stride, dtype, allocation)
    raise LookupError(f"the operation does not access this cell: {cell.region}")


def list_accesses(operation: Operation) -> list[CellAccess]:
    """Return the accesses of an operation, each with its description."""
    accesses: list[CellAccess] = []
    for start in range(NUM_HEAD_FIELDS, len(operation), NUM_ACCESS_FIELDS):
        cell, is_write, operand, shape, stride, dtype, allocation = operation[start : start + NUM_ACCESS_FIELDS]
        accesses.append((cell, is_write, AccessInfo(operand, operation[0], shape, stride, dtype, allocation)))
    return accesses


class Allocation:
    """One allocation: a block from its allocation until it is freed.

    Collectors create one for every storage. Attributes that are rarely set are defaults of the class.

    Attributes:
        block: Its shadow.
        name: The collector's name for it.
        start: First address.
        num_bytes: Size.
        owner: Line whose pool it came from; None if unknown.
        generation: Number of earlier allocations of the block.
        is_live: Whether it is allocated now.
        run: The collector's identifier of its run; None once the allocation has ended.
        recorded: Lines that ``record_stream`` named; None while there are none.
        site: Call site of the allocation, as in `AccessInfo`; None if not recorded.
        freed_site: Call site of the release.
        whole: The cell of all its bytes; None for an empty one.
        device: Index of its GPU; -1 for the host. Set by the collector.
        is_shared: Whether a line other than its owner has accessed it, or may have. Set by the collector.
        aliases: Other views of the same allocation that the collector keeps.
        shape: Shape of the last contiguous tensor that filled it; the next tensor usually has the same.
        dtype: dtype of that tensor.
    """

    name: str = ""
    is_live: bool = True
    run: object = None
    recorded: set[Line] | None = None
    site: Any = None
    freed_site: Any = None
    device: int = -1
    generation: int = 0
    whole: Cell | None = None
    is_shared: bool = False
    aliases: list[Allocation] | None = None
    shape: tuple[int, ...] | None = None
    dtype: object = None

    def __init__(self, block: Block, start: int, num_bytes: int, owner: Line | None) -> None:
        self.block, self.start, self.num_bytes, self.owner = block, start, num_bytes, owner
