"""Records of device operations. Pointers are the numbers that torch shows.

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
    """An operation on a device; the record is delivered in the thread that performed it."""


@dataclass(frozen=True, slots=True)
class EventCreated(Record):
    """A CUDA event was created: torch does so at its first record, not when the Python object is created."""

    cuda_event: int


@dataclass(frozen=True, slots=True)
class EventDeleted(Record):
    """A CUDA event was destroyed; another event may reuse its pointer."""

    cuda_event: int


@dataclass(frozen=True, slots=True)
class EventRecorded(Record):
    """`cuda_event` was recorded on `stream`."""

    cuda_event: int
    stream: int


@dataclass(frozen=True, slots=True)
class EventWaited(Record):
    """`stream` waits for `cuda_event`."""

    cuda_event: int
    stream: int


@dataclass(frozen=True, slots=True)
class MemoryAllocated(Record):
    """The caching allocator allocated the block at `address`."""

    address: int


@dataclass(frozen=True, slots=True)
class MemoryFreed(Record):
    """The block at `address` was freed; the caching allocator may reuse it."""

    address: int


@dataclass(frozen=True, slots=True)
class StreamCreated(Record):
    """A stream was created: torch creates all streams of a device's pool together with the first one."""

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
    """The host begins to wait for `cuda_event`."""

    cuda_event: int


@dataclass(frozen=True, slots=True)
class EventFoundDone(Record):
    """A query of `cuda_event` returned True. Emitted by `cudalens.device.queries`."""

    cuda_event: int


@dataclass(frozen=True, slots=True)
class StreamFoundDone(Record):
    """A query of `stream` returned True. Emitted by `cudalens.device.queries`."""

    stream: int


@dataclass(frozen=True, slots=True)
class DevicesEnded(Record):
    """All devices ended, and with them their memory, streams, events and graphs.

    Emitted when a virtual device is disabled. Another one may use the same addresses and pointers.
    """


@dataclass(frozen=True, slots=True)
class BlockRecordedOnStream(Record):
    """``Tensor.record_stream``: `stream` uses the block at `address`, which may belong to another stream's pool.

    Emitted by the virtual device. On a real device torch fires no callback for it.
    """

    address: int
    stream: int


@dataclass(frozen=True, slots=True, eq=False)
class KernelLaunched(Record):
    """Triton launched a kernel, which bypasses torch's dispatcher.

    Emitted by `cudalens.device.launches` on a real device, and by a virtual device.

    Attributes:
        name: Name of the kernel.
        device: Index of the GPU that it was launched on.
        stream: The stream that it was launched on.
        arguments: Each tensor argument that it accesses: name of the parameter, the tensor, and whether it is
            written.
        is_certain: Whether the written tensors are known; otherwise all are listed as read.
    """

    name: str
    device: int
    stream: int
    arguments: tuple[tuple[str, torch.Tensor, bool], ...]
    is_certain: bool


@dataclass(frozen=True, slots=True)
class CaptureBegan(Record):
    """A capture began: work on `stream`, and on streams that join the capture, is captured and not executed.

    Emitted by the code that performs the capture: the virtual device, or the graph manager on a real device.

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
    """The capture into `graph` ended.

    Emitted by the code that performed the capture.

    Attributes:
        graph: As in `CaptureBegan`.
        stream: Where the capture began.
        is_valid: Whether the graph can be replayed; false after an operation that a capture does not permit.
    """

    graph: int
    stream: int
    is_valid: bool


@dataclass(frozen=True, slots=True)
class GraphReplayed(Record):
    """`graph` was launched on `stream`.

    Emitted by the code that replays: the virtual device, or the graph manager on a real device.
    """

    graph: int
    stream: int


@dataclass(frozen=True, slots=True)
class GraphDestroyed(Record):
    """`graph` was reset or deleted, and no longer uses its memory pool; another graph may reuse its number.

    Emitted by the owner of the graph: the virtual device, or the graph manager on a real device.
    """

    graph: int
