"""Subscribe to torch's gpu_trace callbacks: records of CUDA events, streams, memory and graphs as they happen.

    with gpu_trace.subscribe(print):
        torch.cuda.Event().record()      # EventCreated(...), EventRecorded(...)

torch has callbacks for ten kinds of operations (torch/cuda/_gpu_trace.py). On a real device they must be activated, and
up to torch 2.13 they cannot be deactivated again: from then on each such operation costs a call from C++ into Python.
This module registers one callback of each kind while there is a subscription. The virtual device fires the same
callbacks.

For some operations torch fires no callback (the start of a capture, a block used by another stream). The code of
cudalens that performs them calls `emit`; a listener receives both in one sequence of records. For CUDA graphs on a real
device, the methods of ``torch.cuda.CUDAGraph`` are wrapped when something first listens (`emit_graph_calls`).

Listeners are called synchronously, in the thread of the operation, in the order of their subscription. Each receives
the records of one thread in order: a record that a listener itself causes (memory that its garbage frees, for example)
is delivered after the current record. Two threads may call a listener at the same time. A listener that raises is
unsubscribed with a warning that names it; the others are not affected.
"""

from __future__ import annotations

import functools
import logging
import threading
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import torch

__all__ = [
    "BlockRecordedOnStream",
    "CaptureBegan",
    "CaptureEnded",
    "DeviceSynchronized",
    "DevicesEnded",
    "EventCreated",
    "EventDeleted",
    "EventRecorded",
    "EventSynchronized",
    "EventWaited",
    "GraphDestroyed",
    "GraphReplayed",
    "KernelLaunched",
    "Listener",
    "MemoryAllocated",
    "MemoryFreed",
    "Record",
    "StreamCreated",
    "StreamSynchronized",
    "Subscription",
    "emit",
    "is_on",
    "missing_kinds",
    "subscribe",
]


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
    """A query of `cuda_event` returned True. Emitted by `cudalens.device.launches`."""

    cuda_event: int


@dataclass(frozen=True, slots=True)
class StreamFoundDone(Record):
    """A query of `stream` returned True. Emitted by `cudalens.device.launches`."""

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

    Emitted by the virtual device, or by ``capture_begin`` on a real device.

    Attributes:
        graph: ``id()`` of the ``torch.cuda.CUDAGraph``.
        stream: Where the capture began.
        pool: The memory pool's id, as ``CUDAGraph.pool()`` gives it; (0, 0) on a real device if the program named none.
    """

    graph: int
    stream: int
    pool: tuple[int, int]


@dataclass(frozen=True, slots=True)
class CaptureEnded(Record):
    """The capture into `graph` ended.

    Emitted by the virtual device, or by ``capture_end`` on a real device.

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

    Emitted by the virtual device, or by ``replay`` on a real device.
    """

    graph: int
    stream: int


@dataclass(frozen=True, slots=True)
class GraphDestroyed(Record):
    """`graph` was reset or deleted, and no longer uses its memory pool; another graph may reuse its number.

    Emitted by the virtual device, or by ``reset`` on a real device.
    """

    graph: int


Listener = Callable[[Record], None]

#: torch.cuda._gpu_trace's registries, and the record that each becomes: the fields are the callback's arguments.
REGISTRIES: Final[dict[str, type[Record]]] = {
    "EventCreationCallbacks": EventCreated,
    "EventDeletionCallbacks": EventDeleted,
    "EventRecordCallbacks": EventRecorded,
    "EventWaitCallbacks": EventWaited,
    "MemoryAllocationCallbacks": MemoryAllocated,
    "MemoryDeallocationCallbacks": MemoryFreed,
    "StreamCreationCallbacks": StreamCreated,
    "DeviceSynchronizationCallbacks": DeviceSynchronized,
    "StreamSynchronizationCallbacks": StreamSynchronized,
    "EventSynchronizationCallbacks": EventSynchronized,
}

_logger = logging.getLogger(__name__)


class Subscription:
    """A listener's subscription; ends with `close`, or with its ``with`` block.

    Attributes:
        listener: The function that is called with each record.
        quick: Functions that are called instead for some kinds, with the record's fields.
        is_open: Whether it is active.
        error: The exception that ended the subscription, or None.
    """

    __slots__ = ("error", "is_open", "listener", "quick")

    def __init__(self, listener: Listener, quick: Mapping[type[Record], Callable[..., None]]) -> None:
        self.listener, self.quick = listener, quick
        self.is_open = True
        self.error: Exception | None = None

    def close(self) -> None:
        """End the subscription immediately. Can be called twice."""
        self.is_open = False
        global _subscriptions
        with _lock:
            _subscriptions = tuple(s for s in _subscriptions if s.is_open)
            if not _subscriptions:
                # torch's registries have no method that removes a callback; their lists must not change in place.
                import torch.cuda._gpu_trace as gpu_trace

                for name, callback in _callbacks.items():
                    registry: Any = getattr(gpu_trace, name)
                    if callback in getattr(registry, _LIST, ()):
                        setattr(registry, _LIST, [other for other in getattr(registry, _LIST) if other is not callback])

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


#: Never changed in place: an iteration sees the subscriptions at the time of the record.
_subscriptions: tuple[Subscription, ...] = ()

_lock = threading.RLock()  # reentrant: garbage collection while the tuple is rebuilt may close a subscription

#: Registries that this torch lacks; None before the first subscription.
_missing: tuple[str, ...] | None = None

#: Classes of graphs whose methods emit records.
_graph_classes: Final[set[type]] = set()

#: Our callback in each registry.
_callbacks: Final[dict[str, Callable[..., None]]] = {}

#: The attribute with a registry's callbacks. Without it, our callbacks stay and do nothing without a subscription.
_LIST: Final = "callback_list"


class _Outbox:
    """Records of one thread that wait until the current record has been delivered to all listeners."""

    __slots__ = ("is_busy", "waiting")

    def __init__(self) -> None:
        self.is_busy = False
        self.waiting: deque[Record] = deque()


class _Thread(threading.local):
    """Each thread's outbox. It is a separate object because attribute access on a thread-local object is slow."""

    def __init__(self) -> None:
        self.outbox = _Outbox()


_thread = _Thread()


def subscribe(listener: Listener, *, quick: Mapping[type[Record], Callable[..., None]] | None = None) -> Subscription:
    """Call `listener` with every record from now on.

    Args:
        listener: Called in the thread of the operation. It should be fast and must do its own locking.
        quick: Functions for frequent kinds that torch has callbacks for. They are called instead of the listener, with
            the record's fields and without creating a record, immediately, even while a listener of this thread runs.

    Returns:
        The subscription: close it, or use it as a context manager. The same listener may subscribe twice.
    """
    global _subscriptions
    subscription = Subscription(listener, quick or {})
    with _lock:
        is_first = not _subscriptions
        _subscriptions = (*_subscriptions, subscription)
        if is_first:
            _register()
    return subscription


def is_on() -> bool:
    """Return whether there is a subscription; expensive information is collected only then."""
    return bool(_subscriptions)


def emit(record: Record) -> None:
    """Deliver a record of an operation for which torch fires no callback. Returns at once without a subscription."""
    if _subscriptions:
        _deliver(record)


def missing_kinds() -> tuple[type[Record], ...]:
    """Kinds of records that this torch has no callbacks for. Valid after a first `subscribe`."""
    return tuple(REGISTRIES[name] for name in _missing or ())


def _register() -> None:
    """Register one callback in each of torch's registries, and activate them on real devices."""
    global _missing
    import torch.cuda._gpu_trace as gpu_trace

    for name, kind in REGISTRIES.items():
        registry = getattr(gpu_trace, name, None)
        if registry is not None:
            callback = _callbacks.get(name)
            if callback is None:
                callback = _callbacks[name] = _callback(kind)
            if callback not in getattr(registry, _LIST, ()):
                registry.add_callback(callback)
    if _missing is None:
        _missing = tuple(name for name in REGISTRIES if name not in _callbacks)
        # Activate the callbacks. Most builds without CUDA have this function too; one without it has no real device.
        from torch import _C

        activate: Callable[[], None] | None = getattr(_C, "_activate_gpu_trace", None)
        if activate is not None:
            activate()
    # Wrap the class of a real device's graphs. Its base is of C++; the class of a virtual device has no such base.
    import torch

    graph_class: Any = torch.cuda.CUDAGraph
    if type(graph_class).__name__ == "pybind11_type":
        emit_graph_calls(graph_class)


def emit_graph_calls(kind: type[Any]) -> None:
    """Let the methods of a class of graphs emit records; without a subscription they do what they did before.

    Args:
        kind: ``torch.cuda.CUDAGraph``. It is wrapped once and stays so: other code may wrap its methods, too.
    """
    if kind in _graph_classes:
        return
    _graph_classes.add(kind)
    begin, end, replay, reset = kind.capture_begin, kind.capture_end, kind.replay, kind.reset

    @functools.wraps(begin)
    def capture_begin(self: Any, pool: Any = None, *args: Any, **kwargs: Any) -> None:
        begin(self, pool, *args, **kwargs)
        emit(CaptureBegan(id(self), _current_stream(), (0, 0) if pool is None else tuple(pool)))

    @functools.wraps(end)
    def capture_end(self: Any) -> None:
        is_valid, stream = False, _current_stream()
        try:
            end(self)
            is_valid = True
        finally:
            emit(CaptureEnded(id(self), stream, is_valid))

    @functools.wraps(replay)
    def launch(self: Any) -> None:
        replay(self)
        if is_on():
            emit(GraphReplayed(id(self), _current_stream()))

    @functools.wraps(reset)
    def release(self: Any) -> None:
        reset(self)
        emit(GraphDestroyed(id(self)))

    for name, method in (
        ("capture_begin", capture_begin),
        ("capture_end", capture_end),
        ("replay", launch),
        ("reset", release),
    ):
        setattr(kind, name, method)


def _current_stream() -> int:
    import torch

    return int(torch.cuda.current_stream().cuda_stream) if is_on() else 0


def _callback(kind: type[Record]) -> Callable[..., None]:
    make: Callable[..., Any] = kind

    def callback(*arguments: int) -> None:
        waits_for_record = False
        for subscription in _subscriptions:
            quick = subscription.quick.get(kind)
            if quick is None:
                waits_for_record = True
            elif subscription.is_open:
                try:
                    quick(*arguments)
                except Exception as error:
                    _end(subscription, make(*arguments), error)
        if waits_for_record:
            _deliver(make(*arguments))

    callback.__qualname__ = f"cudalens {kind.__name__}"
    return callback


def _deliver(record: Record) -> None:
    outbox = _thread.outbox
    outbox.waiting.append(record)
    if outbox.is_busy:
        return
    outbox.is_busy = True
    try:
        while outbox.waiting:
            _notify_all(outbox.waiting.popleft())
    finally:
        # Not empty if a listener was interrupted (KeyboardInterrupt); waiting records go out with the next one.
        outbox.is_busy = False


def _notify_all(record: Record) -> None:
    for subscription in _subscriptions:
        if not subscription.is_open or type(record) in subscription.quick:
            continue  # closed since the record, or already called with it
        try:
            subscription.listener(record)
        except Exception as error:
            _end(subscription, record, error)


def _end(subscription: Subscription, record: Record, error: Exception) -> None:
    subscription.error = error
    subscription.close()
    _warn(subscription, record, error)


def _warn(subscription: Subscription, record: Record, error: Exception) -> None:
    listener: Any = subscription.listener
    name = getattr(listener, "__qualname__", None) or type(listener).__qualname__
    message = (
        f"the listener {getattr(listener, '__module__', '?')}.{name} raised {type(error).__name__}: {error}; it was "
        f"called with {record} and will not be called again. The program continues unchanged"
    )
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    except RuntimeWarning:  # warnings are errors here; the user's program did nothing wrong
        _logger.warning(message, exc_info=error)
