"""What can happen, in the order in which the host issues it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from cudalens.sanitizer.engine.regions import Region


class StreamId(NamedTuple):
    """A stream of a device; stream 0 is the device's default stream."""

    device: int
    stream: int | str


#: The host's own line of execution, a party like any stream.
HOST: Final = StreamId(-1, "host")

#: Where in the user's program, as the collector names it (hashable); None where it does not know.
Place: TypeAlias = object


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes of one tensor that an operation touches.

    Attributes:
        tensor: Name of the tensor (or allocation) as the report shows it.
        region: The bytes.
        argument: Name of the operation's argument; empty where it has none.
    """

    tensor: str
    region: Region
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Alloc:
    """A block was handed out at `region`, from the pool of `stream` (HOST for pinned or pageable memory)."""

    tensor: str
    region: Region
    stream: StreamId
    place: Place = None


@dataclass(frozen=True, slots=True)
class Free:
    """The last reference to the block at `region` went."""

    tensor: str
    region: Region
    place: Place = None


@dataclass(frozen=True, slots=True)
class RecordStream:
    """As ``Tensor.record_stream``: the block's next owner has to wait for what `stream` holds when it is freed."""

    region: Region
    stream: StreamId


@dataclass(frozen=True, slots=True)
class Launch:
    """An operation was put on `stream`."""

    stream: StreamId
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    name: str = ""
    place: Place = None


@dataclass(frozen=True, slots=True)
class HostAccess:
    """The host itself reads or writes memory that it can see."""

    access: Access
    is_write: bool
    place: Place = None


@dataclass(frozen=True, slots=True)
class EventRecord:
    """`event` now stands for all that `stream` holds."""

    event: object
    stream: StreamId


@dataclass(frozen=True, slots=True)
class EventWait:
    """`stream` goes on only when `event` is done; nothing at all where it was never recorded."""

    event: object
    stream: StreamId


@dataclass(frozen=True, slots=True)
class EventSync:
    """The host waits for `event`; nothing at all where it was never recorded."""

    event: object


@dataclass(frozen=True, slots=True)
class EventQuery:
    """The host asked whether `event` is done, and was told so."""

    event: object


@dataclass(frozen=True, slots=True)
class EventDelete:
    """`event` is gone; a later event may have its name."""

    event: object


@dataclass(frozen=True, slots=True)
class StreamCreate:
    """`stream` exists; a blocking one is ordered with the legacy default stream of its device."""

    stream: StreamId
    is_blocking: bool = False


@dataclass(frozen=True, slots=True)
class StreamSync:
    """The host waits for all that `stream` holds."""

    stream: StreamId


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """The host asked whether `stream` is done, and was told so."""

    stream: StreamId


@dataclass(frozen=True, slots=True)
class DeviceSync:
    """The host waits for all streams of `device`."""

    device: int


Record: TypeAlias = (
    Alloc
    | Free
    | RecordStream
    | Launch
    | HostAccess
    | EventRecord
    | EventWait
    | EventSync
    | EventQuery
    | EventDelete
    | StreamCreate
    | StreamSync
    | StreamQuery
    | DeviceSync
)
