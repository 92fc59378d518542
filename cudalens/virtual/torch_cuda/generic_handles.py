"""``torch.Stream`` and ``torch.Event``, the classes for any accelerator, on a virtual device.

The C classes cannot be changed, and do not support CUDA devices in a CPU build of torch; while a virtual device is
active, the names in ``torch`` refer to replacements. For another kind of device these create torch's own objects;
``isinstance`` accepts those, the replacements and ``torch.cuda.Stream`` alike, as in a CUDA build.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.timing.streams import CudaEvent, Stream
from cudalens.virtual.torch_cuda import handles
from cudalens.virtual.torch_cuda.handles import CUDA_TYPE, EVENT_KEY, STREAM_KEY

_CStream: Final = torch._C.Stream
_CEvent: Final = torch._C.Event
_MISMATCH: Final = "Event device index {ours} does not match recording stream's device index {theirs}."


def install(patches: Patches, gpus: Gpus) -> None:
    """Replace torch's classes."""
    kinds = make_classes(gpus)
    patches.set(torch, "Stream", kinds["Stream"])
    patches.set(torch, "Event", kinds["Event"])


def make_classes(gpus: Gpus) -> dict[str, Any]:
    """Return the two classes, for one set of virtual GPUs."""
    stream_kind = _StreamKind("Stream", (_CStream,), _stream_members(gpus))
    event_kind = _EventKind("Event", (), _event_members(gpus))
    gpus_classes = {"Stream": stream_kind, "Event": event_kind}
    for kind in gpus_classes.values():
        kind.__module__ = "torch"
    return gpus_classes


class _StreamKind(type):
    """Metaclass of the replaced ``torch.Stream``: implements ``isinstance``."""

    def __instancecheck__(cls, instance: object) -> bool:
        if cls.__bases__ == (_CStream,):
            return isinstance(instance, _CStream) or STREAM_KEY in getattr(instance, "__dict__", ())
        return type.__instancecheck__(cls, instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        if cls.__bases__ == (_CStream,):
            return issubclass(subclass, _CStream | torch._C._CudaStreamBase)
        return type.__subclasscheck__(cls, subclass)


class _EventKind(type):
    """Metaclass of the replaced ``torch.Event``: implements ``isinstance``."""

    def __instancecheck__(cls, instance: object) -> bool:
        if cls.__bases__ == (object,):
            return isinstance(instance, _CEvent) or EVENT_KEY in getattr(instance, "__dict__", ())
        return type.__instancecheck__(cls, instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        if cls.__bases__ == (object,):
            return type.__subclasscheck__(cls, subclass) or issubclass(subclass, _CEvent | torch._C._CudaEventBase)
        return type.__subclasscheck__(cls, subclass)


def wrap_stream(gpus: Gpus, stream: Stream) -> Any:
    """Return a ``torch.Stream`` of a virtual stream."""
    return handles.wrap_stream(gpus, torch.Stream, stream)


def _device_index(gpus: Gpus, device: Any) -> int | None:
    """Return the virtual GPU of a device argument, or None for a device of another kind."""
    return gpus.machine.current_device.index if device is None else gpus.device_index(device)


def _stream_members(gpus: Gpus) -> dict[str, Any]:
    own = ("__new__", "__init__", "priority_range")
    shared = {name: method for name, method in handles.stream_methods(gpus).items() if name not in own}
    return shared | {
        **handles.NATIVE_HANDLE,
        "__new__": staticmethod(handles.bound(gpus, _make_stream)),
        "__doc__": _CStream.__doc__,
        "__ne__": lambda self, other: not handles.is_same_stream(self, other),
        "wait_event": lambda self, event: event.wait(self),
        "wait_stream": handles.bound(gpus, _wait_stream),
        "record_event": _record_event,
    }


def _make_stream(gpus: Gpus, cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Return both signatures of torch: with a device, and with the ids of an existing stream."""
    if len(args) > 1 or kwargs.keys() & {"stream_id", "device_index", "device_type"}:
        return _find_stream(gpus, cls, *args, **kwargs)
    return _new_stream(gpus, cls, *args, **kwargs)


def _find_stream(
    gpus: Gpus, cls: Any, stream_id: int, device_index: int, device_type: int, *, priority: int = 0
) -> Any:
    if device_type != CUDA_TYPE:
        return _CStream(stream_id=stream_id, device_index=device_index, device_type=device_type)
    return handles.wrap_stream(gpus, cls, handles.known_stream(gpus, stream_id, device_index))


def _new_stream(gpus: Gpus, cls: Any, device: Any = None, *, priority: int = 0) -> Any:
    index = _device_index(gpus, device)
    if index is None:
        return _CStream(device, priority=priority)
    return handles.wrap_stream(gpus, cls, gpus.devices[index].pool_stream(priority))


def _wait_stream(gpus: Gpus, stream: Any, other: Any) -> None:
    cuda_event = CudaEvent(gpus.machine)
    handles.stream_of(gpus, other).record(cuda_event)
    handles.stream_of(gpus, stream).wait(cuda_event)
    cuda_event.delete()


def _record_event(stream: Any, event: Any = None) -> Any:
    made = torch.Event("cuda") if event is None else event
    made.record(stream)
    return made


def _event_members(gpus: Gpus) -> dict[str, Any]:
    own = ("__new__", "__init__", "record", "wait")
    shared = {name: method for name, method in handles.event_methods(gpus).items() if name not in own}
    return shared | {
        "__new__": staticmethod(handles.bound(gpus, _make_event)),
        "__doc__": _CEvent.__doc__,
        "__repr__": _show_event,
        "record": lambda self, stream=None: handles.record_event(gpus, self, _or_current(gpus, stream), _MISMATCH),
        "wait": lambda self, stream=None: _or_current(gpus, stream).wait(handles.event_of(gpus, self)),
    }


def _make_event(
    gpus: Gpus,
    cls: Any,
    device: Any = None,
    *,
    enable_timing: bool = False,
    blocking: bool = False,
    interprocess: bool = False,
) -> Any:
    if _device_index(gpus, device) is None:
        return _CEvent(device, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)
    return handles.wrap_event(gpus, cls, torch.device("cuda"), enable_timing=enable_timing, blocking=blocking)


def _or_current(gpus: Gpus, stream: Any) -> Stream:
    return gpus.machine.current_stream() if stream is None else handles.stream_of(gpus, stream)


def _show_event(event: Any) -> str:
    index = -1 if event.device.index is None else event.device.index
    flag = int(event.__dict__[EVENT_KEY].is_timed)
    return f"torch.Event device_type=cuda, device_index={index}, event_flag={flag}, event_id={event.event_id}"
