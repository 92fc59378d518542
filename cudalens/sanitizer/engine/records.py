"""Records of a program's stream operations, in the order in which the host issues them.

They have the names of the records in `cudalens.device.gpu_trace`, with what the engine needs besides: streams
with their device, names of tensors and byte ranges.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

import numpy as np


class Region:
    """A set of bytes: runs of `run` bytes at ``start + i0*strides[0] + i1*strides[1] …`` for every index below `shape`.

    Attributes:
        start: First byte's address, in an address space of the sanitizer.
        run: Contiguous bytes of each run, at least 1.
        shape: Number of runs along each dimension, each at least 1; empty for one run.
        strides: Bytes from the start of one run to that of the next along each dimension, not negative.
        end: One past the last byte touched.
    """

    def __init__(self, start: int, run: int, shape: tuple[int, ...] = (), strides: tuple[int, ...] = ()) -> None:
        # A frozen dataclass is several times slower, and many are created while blocks are split and merged.
        self.start, self.run, self.shape, self.strides = start, run, shape, strides
        self.end = start + run
        if shape:
            self.end += sum((n - 1) * s for n, s in zip(shape, strides, strict=True))

    def __repr__(self) -> str:
        return f"Region(start={self.start}, run={self.run}, shape={self.shape}, strides={self.strides})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Region):
            return NotImplemented
        return (
            self.start == other.start
            and self.run == other.run
            and self.shape == other.shape
            and self.strides == other.strides
        )

    def __hash__(self) -> int:
        return hash((self.start, self.run, self.shape, self.strides))

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether every byte from `start` to `end` is included; False also where this is not known."""
        if not self.shape:
            return True
        filled = self.run
        for stride, count in sorted(zip(self.strides, self.shape, strict=True)):
            if count > 1 and stride > filled:
                return False
            filled += (count - 1) * stride
        return True

    @cached_property
    def _layout(self) -> np.ndarray:
        """An array at these addresses that is never read: numpy's overlap solver needs only its layout."""
        layout = {
            "data": (self.start + 1, True),  # numpy takes address 0 for "no data"
            "shape": (*self.shape, self.run),
            "strides": (*self.strides, 1),
            "typestr": "|u1",
            "version": 3,
        }
        return np.asarray(type("Layout", (), {"__array_interface__": layout})())

    def overlaps(self, other: Region) -> bool:
        """Return whether the two share a byte, exactly (a bounded Diophantine problem if both are strided)."""
        if self.end <= other.start or other.end <= self.start:
            return False
        if not self.shape and not other.shape:
            return True
        if self.is_contiguous and other.is_contiguous:
            return True
        return bool(np.shares_memory(self._layout, other._layout))

    def covers(self, other: Region) -> bool:
        """Return whether every byte of `other` is included; False also where this is not known."""
        if self.start <= other.start and other.end <= self.end:
            return not self.shape or self == other or self.is_contiguous
        return False


class StreamId(NamedTuple):
    """A stream of a device; stream 0 is the device's default stream."""

    device: int
    stream: int | str


#: The host's own line of execution, treated like a stream.
HOST: Final = StreamId(-1, "host")

#: A place in the user's program, as the collector names it (hashable); None if unknown.
Place: TypeAlias = object


@dataclass(frozen=True, slots=True)
class TensorBytes:
    """The bytes of one tensor that an operation accesses.

    Attributes:
        tensor: Name of the tensor (or allocation) as the report shows it.
        region: The bytes.
        argument: Name of the operation's argument; empty if it has none.
    """

    tensor: str
    region: Region
    argument: str = ""


@dataclass(frozen=True, slots=True)
class MemoryAllocated:
    """A block was allocated at `region`, from the pool of `stream` (HOST for pinned or pageable memory)."""

    tensor: str
    region: Region
    stream: StreamId
    place: Place = None


@dataclass(frozen=True, slots=True)
class MemoryFreed:
    """The last reference to the block at `region` was dropped."""

    tensor: str
    region: Region
    place: Place = None


@dataclass(frozen=True, slots=True)
class BlockRecordedOnStream:
    """Like ``Tensor.record_stream``: reuse of the block waits for the work of `stream` at the time of its release."""

    region: Region
    stream: StreamId


@dataclass(frozen=True, slots=True)
class OperatorLaunched:
    """An operation was launched on `stream`.

    Attributes:
        stream: The stream.
        reads: The bytes that it reads.
        writes: The bytes that it writes.
        name: Name of the operation.
        place: Place of the call that launched it; for an operation of a CUDA graph, of the replay.
        captured: For an operation of a CUDA graph, the place at which it was captured.
        is_direct: Whether the code at `place` itself called the operator, and not a function in between; None if
            unknown. The fixes of the sanitizer read it (`cudalens.sanitizer.fixes.writing`), the engine does not.
    """

    stream: StreamId
    reads: tuple[TensorBytes, ...]
    writes: tuple[TensorBytes, ...]
    name: str = ""
    place: Place = None
    captured: Place = None
    is_direct: bool | None = None


@dataclass(frozen=True, slots=True)
class OperatorCaptured:
    """An operation was captured into a CUDA graph instead of launched, at `place`.

    The fixes of the sanitizer read it (`cudalens.sanitizer.fixes.recorded`). The engine ignores it: it gets the
    operation with each replay.
    """

    place: Place


@dataclass(frozen=True, slots=True)
class HostAccessed:
    """The host itself reads or writes host memory."""

    access: TensorBytes
    is_write: bool
    place: Place = None


@dataclass(frozen=True, slots=True)
class EventRecorded:
    """`event` was recorded on `stream`."""

    event: object
    stream: StreamId


@dataclass(frozen=True, slots=True)
class EventWaited:
    """`stream` waits for `event`; without effect if it was never recorded."""

    event: object
    stream: StreamId


@dataclass(frozen=True, slots=True)
class EventSynchronized:
    """The host waits for `event`; without effect if it was never recorded."""

    event: object


@dataclass(frozen=True, slots=True)
class EventFoundDone:
    """The host queried `event`, and it was complete."""

    event: object


@dataclass(frozen=True, slots=True)
class EventDeleted:
    """`event` was deleted; a later event may have its name."""

    event: object


@dataclass(frozen=True, slots=True)
class StreamCreated:
    """`stream` was created; a blocking one is ordered with the legacy default stream of its device."""

    stream: StreamId
    is_blocking: bool = False


@dataclass(frozen=True, slots=True)
class StreamSynchronized:
    """The host waits for all work of `stream`."""

    stream: StreamId


@dataclass(frozen=True, slots=True)
class StreamFoundDone:
    """The host queried `stream`, and it was complete."""

    stream: StreamId


@dataclass(frozen=True, slots=True)
class DeviceSynchronized:
    """The host waits for all streams of `device`."""

    device: int


Record: TypeAlias = (
    MemoryAllocated
    | OperatorCaptured
    | MemoryFreed
    | BlockRecordedOnStream
    | OperatorLaunched
    | HostAccessed
    | EventRecorded
    | EventWaited
    | EventSynchronized
    | EventFoundDone
    | EventDeleted
    | StreamCreated
    | StreamSynchronized
    | StreamFoundDone
    | DeviceSynchronized
)
