"""What happens on the device, as it happens: the one subscription to torch's gpu_trace callbacks.

    with hooks.subscribe(print):
        torch.cuda.Event().record()      # EventCreated(...), EventRecorded(...)

torch tells Python of ten kinds of acts (torch/cuda/_gpu_trace.py), on a real device once that has been switched on, and
up to torch 2.13 it cannot be switched off again: from then on each act on a real device costs a call from C++ into
Python. There is one callback of each kind in a process, which is in torch's list while anybody listens. The virtual
device fires the same callbacks.

torch has no callback for some acts that our own rooms have to tell each other (a capture began, a block is used by
another stream too). Whoever performs them says so with `emit`; a listener sees one row of records.

Listeners are called at once, in the thread that acted, in the order in which they subscribed. Each sees the records of
one thread in the order of the acts: what a listener itself causes (memory that its garbage frees, say) is told to all
after the record at hand. Records of several threads come as those threads act, so that a listener may be called by two
of them at a time. A listener that raises is unsubscribed, with a warning that names it; nobody else notices.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from cudalens.device.gpu_trace_records import (
    BlockRecordedOnStream,
    CaptureBegan,
    CaptureEnded,
    DeviceSynchronized,
    EventCreated,
    EventDeleted,
    EventRecorded,
    EventSynchronized,
    EventWaited,
    GraphDestroyed,
    GraphReplayed,
    KernelLaunched,
    MemoryAllocated,
    MemoryFreed,
    Record,
    StreamCreated,
    StreamSynchronized,
)

__all__ = [
    "BlockRecordedOnStream",
    "CaptureBegan",
    "CaptureEnded",
    "DeviceSynchronized",
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
    """A listener's place in the row; ends with `close`, or with the ``with`` block that it heads.

    Attributes:
        listener: Who is called.
        quick: Who is called instead for some kinds, with the record's fields.
        is_open: Whether it still is.
        error: What it raised, which ended the subscription; None while all is well.
    """

    __slots__ = ("error", "is_open", "listener", "quick")

    def __init__(self, listener: Listener, quick: Mapping[type[Record], Callable[..., None]]) -> None:
        self.listener, self.quick = listener, quick
        self.is_open = True
        self.error: Exception | None = None

    def close(self) -> None:
        """Stop listening, at once. Nothing happens where that has been done."""
        self.is_open = False
        _remove_closed()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


#: Never changed in place: whoever walks it sees the row as it was when the record came.
_subscriptions: tuple[Subscription, ...] = ()

#: Registries that this torch lacks; None before the first subscription.
_lock = threading.RLock()  # reentrant: garbage that is collected while a row is made anew may close a subscription
_missing: tuple[str, ...] | None = None


#: Ours, by registry.
_callbacks: Final[dict[str, Callable[..., None]]] = {}

#: Where a registry keeps callbacks; where it does not, they stay, and do nothing while nobody listens.
_LIST: Final = "callback_list"


class _Outbox:
    """Records of one thread that wait until all have been told of the one at hand."""

    __slots__ = ("is_busy", "waiting")

    def __init__(self) -> None:
        self.is_busy = False
        self.waiting: deque[Record] = deque()


class _Thread(threading.local):
    """Each thread's outbox; an object of its own, because looking into a thread-local one takes long."""

    def __init__(self) -> None:
        self.outbox = _Outbox()


_thread = _Thread()


def subscribe(listener: Listener, *, quick: Mapping[type[Record], Callable[..., None]] | None = None) -> Subscription:
    """Call `listener` with every record from now on.

    Args:
        listener: Called in the thread that acts; it should be quick, and does its own locking.
        quick: For kinds that torch has callbacks for and that come all the time: called in the listener's place with
            the record's fields, without a record being made. It is called at once, also while a listener of this
            thread is at work.

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
    """Whether anybody listens: what is costly to find out need not be found out for nobody."""
    return bool(_subscriptions)


def emit(record: Record) -> None:
    """Tell the listeners of an act that torch has no callback for; returns at once where nobody listens."""
    if _subscriptions:
        _deliver(record)


def missing_kinds() -> tuple[type[Record], ...]:
    """Records that cannot come from this torch, which lacks their callbacks; meaningful after a first `subscribe`."""
    return tuple(REGISTRIES[name] for name in _missing or ())


def _remove_closed() -> None:
    global _subscriptions
    with _lock:
        _subscriptions = tuple(s for s in _subscriptions if s.is_open)
        if not _subscriptions:
            _withdraw()


def _register() -> None:
    """One callback in each of torch's registries, and real devices told to fire them."""
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
        _activate()


def _withdraw() -> None:
    """Leave torch's registries, which have no method for it; a list that is being walked stays as it is."""
    import torch.cuda._gpu_trace as gpu_trace

    for name, callback in _callbacks.items():
        registry: Any = getattr(gpu_trace, name)
        if callback in getattr(registry, _LIST, ()):
            setattr(registry, _LIST, [other for other in getattr(registry, _LIST) if other is not callback])


def _activate() -> None:
    """Builds without CUDA have the switch too, in most versions; one without it has no real device to switch on."""
    from torch import _C

    activate: Callable[[], None] | None = getattr(_C, "_activate_gpu_trace", None)
    if activate is not None:
        activate()


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
            _tell_all(outbox.waiting.popleft())
    finally:
        # Not empty where a listener was interrupted (KeyboardInterrupt); what waited is told with the next record.
        outbox.is_busy = False


def _tell_all(record: Record) -> None:
    for subscription in _subscriptions:
        if not subscription.is_open or type(record) in subscription.quick:
            continue  # closed since the record came, or told of it already
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
