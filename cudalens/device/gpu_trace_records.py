"""The acts that a device is told of, as records. Pointers are the numbers that torch shows.

``stream`` is ``torch.cuda.Stream.cuda_stream`` (0: the legacy default stream), ``cuda_event`` is
``torch.cuda.Event.cuda_event``, ``address`` is ``Tensor.data_ptr()`` of a tensor at the start of its block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Record:
    """Something was done to a device, by the thread in which the record is told."""


@dataclass(frozen=True, slots=True)
class EventCreated(Record):
    """A CUDA event came into being: torch makes it at its first record, not when the Python object is made."""

    cuda_event: int


@dataclass(frozen=True, slots=True)
class EventDeleted(Record):
    """A CUDA event that had come into being is gone; its pointer may come back for another."""

    cuda_event: int


@dataclass(frozen=True, slots=True)
class EventRecorded(Record):
    """`stream` was marked."""

    cuda_event: int
    stream: int


@dataclass(frozen=True, slots=True)
class EventWaited(Record):
    """`stream` was told to wait for the mark."""

    cuda_event: int
    stream: int


@dataclass(frozen=True, slots=True)
class MemoryAllocated(Record):
    """The caching allocator handed out the block at `address`."""

    address: int


@dataclass(frozen=True, slots=True)
class MemoryFreed(Record):
    """The block at `address` was given back to the caching allocator, which may hand it out again."""

    address: int


@dataclass(frozen=True, slots=True)
class StreamCreated(Record):
    """A stream came into being: torch makes all of a device's pool with the first one."""

    stream: int


@dataclass(frozen=True, slots=True)
class DeviceSynchronized(Record):
    """The host begins to wait for the current device; torch does not say which that is."""


@dataclass(frozen=True, slots=True)
class StreamSynchronized(Record):
    """The host begins to wait for `stream`: also in ``.item()``, ``nonzero()`` and blocking copies."""

    stream: int


@dataclass(frozen=True, slots=True)
class EventSynchronized(Record):
    """The host begins to wait for the mark."""

    cuda_event: int


@dataclass(frozen=True, slots=True)
class EventFoundDone(Record):
    """The host asked for the mark and was told that it is done. Told by `cudalens.device.queries`."""

    cuda_event: int


@dataclass(frozen=True, slots=True)
class StreamFoundDone(Record):
    """The host asked for `stream` and was told that it is done. Told by `cudalens.device.queries`."""

    stream: int


@dataclass(frozen=True, slots=True)
class DevicesEnded(Record):
    """All devices ended, and with them their memory, streams, events and graphs.

    Emitted when a virtual device is disabled. Another one may use the same addresses and pointers.
    """


@dataclass(frozen=True, slots=True)
class BlockRecordedOnStream(Record):
    """``Tensor.record_stream``: `stream` uses the block at `address`, which may belong to another stream's pool.

    Told by the virtual device. On a real one torch tells nobody.
    """

    address: int
    stream: int


@dataclass(frozen=True, slots=True, eq=False)
class KernelLaunched(Record):
    """A kernel was launched past torch's dispatcher, by Triton.

    Told by `cudalens.device.launches` on a real device, and by the virtual one that runs it.

    Attributes:
        name: Of the kernel.
        device: Index of the GPU that it was launched on.
        stream: Where it was put.
        arguments: Each tensor that it was given and touches: what its parameter is called, the tensor, and whether
            it is written.
        is_certain: Whether it is known what it writes; otherwise all are given as read.
    """

    name: str
    device: int
    stream: int
    arguments: tuple[tuple[str, torch.Tensor, bool], ...]
    is_certain: bool


@dataclass(frozen=True, slots=True)
class CaptureBegan(Record):
    """Work on `stream`, and on streams that join it, is from now on captured instead of done.

    Told by whoever performs the capture: the virtual device, or the graph manager on a real one.

    Attributes:
        graph: ``id()`` of the ``torch.cuda.CUDAGraph``.
        stream: Where the capture began.
        pool: The memory pool's id, as ``CUDAGraph.pool()`` gives it.
    """

    graph: int
    stream: int
    pool: tuple[int, int]


@dataclass(frozen=True, slots=True)
class CaptureEnded(Record):
    """The capture into `graph` is over.

    Told by whoever performed the capture.

    Attributes:
        graph: As in `CaptureBegan`.
        stream: Where the capture began.
        is_valid: Whether there is something to replay; false after an act that no capture allows.
    """

    graph: int
    stream: int
    is_valid: bool


@dataclass(frozen=True, slots=True)
class GraphReplayed(Record):
    """What `graph` holds was put on `stream` once more.

    Told by whoever replays: the virtual device, or the graph manager on a real one.
    """

    graph: int
    stream: int


@dataclass(frozen=True, slots=True)
class GraphDestroyed(Record):
    """`graph` was reset, or is gone, and with it its claim on its memory pool; its number may come back.

    Told by whoever keeps the graph: the virtual device, or the graph manager on a real one.
    """

    graph: int
