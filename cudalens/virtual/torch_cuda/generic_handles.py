"""``torch.Stream`` and ``torch.Event``, the classes for any accelerator, on a virtual device.

The C classes cannot be changed, and do not support CUDA devices in a CPU build of torch; while a virtual device is
active, the names in ``torch`` refer to replacements. For another kind of device these create torch's own objects;
``isinstance`` accepts those, the replacements and ``torch.cuda.Stream`` alike, as in a CUDA build.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
import torch.cuda

from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches, run_source
from cudalens.virtual.timing.streams import CudaEvent, Stream
from cudalens.virtual.torch_cuda import graph_handles, handles
from cudalens.virtual.torch_cuda import memory as memory_api
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

    def find(stream_id: int, device_index: int, device_type: int, *, priority: int = 0) -> Any:
        if device_type != CUDA_TYPE:
            return _CStream(stream_id=stream_id, device_index=device_index, device_type=device_type)
        return handles.wrap_stream(gpus, cls, handles.known_stream(gpus, stream_id, device_index))

    def make(device: Any = None, *, priority: int = 0) -> Any:
        index = _device_index(gpus, device)
        if index is None:
            return _CStream(device, priority=priority)
        return handles.wrap_stream(gpus, cls, gpus.devices[index].pool_stream(priority))

    has_ids = len(args) > 1 or kwargs.keys() & {"stream_id", "device_index", "device_type"}
    return find(*args, **kwargs) if has_ids else make(*args, **kwargs)


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


# ``torch.accelerator`` on a virtual device: the accelerator is CUDA.


def install_accelerator(patches: Patches, gpus: Gpus) -> None:
    """Replace the C functions of torch.accelerator that this version of torch has."""
    for name, function in (_device_table(gpus) | _memory_table(gpus)).items():
        if hasattr(torch._C, name):
            patches.set(torch._C, name, function)
    _install_graphs(patches, gpus)
    uncached = getattr(getattr(torch.accelerator, "get_device_capability", None), "__wrapped__", None)
    if uncached is not None:  # torch caches the results for the process, but the virtual device is temporary
        patches.set(torch.accelerator, "get_device_capability", uncached)


def _install_graphs(patches: Patches, gpus: Gpus) -> None:
    """Replace ``torch.accelerator.Graph``, if torch has it, by its own source on a virtual base class."""
    if not hasattr(torch._C, "_acceleratorGraph"):
        return
    methods = graph_handles.graph_methods(gpus)
    begin = methods["capture_begin"]

    def capture_begin(self: Any, pool: Any = None, capture_error_mode: str = "default") -> None:
        begin(self, pool, "global" if capture_error_mode == "default" else capture_error_mode)

    base = type("_acceleratorGraph", (), methods | {"capture_begin": capture_begin})
    patches.set(torch._C, "_acceleratorGraph", base)
    module = torch.accelerator.graphs
    handles.replace_everywhere(patches, {module.Graph: run_source(module)["Graph"]})


def _device_table(gpus: Gpus) -> dict[str, Callable[..., Any]]:
    cuda = torch.device("cuda")
    get: Any = torch._C._cuda_getDevice
    exchange: Any = torch._C._cuda_exchangeDevice
    # Every dtype can be allocated on a CUDA device.
    dtypes = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}

    def set_index(index: int) -> None:
        exchange(index)

    def set_stream(stream: Any) -> None:
        torch.cuda._lazy_init()  # type: ignore[no-untyped-call]
        found = handles.stream_of(gpus, stream)
        gpus.machine.set_device(found.device.index)
        gpus.machine.set_stream(found)

    def get_stream(index: int) -> Any:
        torch.cuda._lazy_init()  # type: ignore[no-untyped-call]
        device = handles.checked_device(gpus, index)
        return wrap_stream(gpus, gpus.machine.current_stream(device))

    def synchronize(index: int) -> None:
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            gpus.devices[gpus.device_index(index) or 0].synchronize()

    return {
        "_accelerator_getAccelerator": lambda: cuda,
        "_get_accelerator": lambda check=False: cuda,
        "_accelerator_getDeviceIndex": get,
        "_accelerator_setDeviceIndex": set_index,
        "_accelerator_exchangeDevice": exchange,
        "_accelerator_maybeExchangeDevice": exchange,
        "_accelerator_getDeviceCapability": lambda index: {"supported_dtypes": dtypes},
        "_accelerator_getStream": get_stream,
        "_accelerator_setStream": set_stream,
        "_accelerator_synchronizeDevice": synchronize,
        "_accelerator_hooks_device_count": lambda: len(gpus.devices),
        "_accelerator_hooks_set_current_device": set_index,
        "_accelerator_hooks_get_current_device": get,
        "_accelerator_hooks_exchange_device": exchange,
        "_accelerator_hooks_maybe_exchange_device": exchange,
    }


def _memory_table(gpus: Gpus) -> dict[str, Callable[..., Any]]:
    memory = memory_api.MemoryFunctions(gpus)
    return {
        "_accelerator_isAllocatorInitialized": torch.cuda.is_initialized,
        "_accelerator_emptyCache": memory.empty_cache,
        "_accelerator_emptyHostCache": lambda: None,
        "_accelerator_getDeviceStats": memory.stats,
        "_accelerator_resetAccumulatedStats": memory.reset_accumulated_stats,
        "_accelerator_resetPeakStats": memory.reset_peak_stats,
        "_accelerator_getMemoryInfo": lambda index: memory.allocator(index).memory_info(),
        "_accelerator_getAllocatorSettings": memory.get_settings,
        "_accelerator_setAllocatorSettings": memory.set_settings,
    }
