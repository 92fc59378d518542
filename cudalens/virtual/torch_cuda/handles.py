"""Replace ``torch.cuda.Stream`` and ``torch.cuda.Event``.

torch's Python classes derive from ``torch._C._CudaStreamBase`` and ``_CudaEventBase``. In a CPU build of torch these
are dummy Python classes: they get methods in place, so that names imported earlier (``from torch.cuda import Stream``)
work too. In a CUDA build they are C types that cannot be changed: torch's own source of the Python classes runs again
on virtual base classes, and the new classes replace torch's in all modules that contain them.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any, Final

import torch

from cudalens.device import streams as device_streams
from cudalens.errors import VirtualDeviceError
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches, fill, is_dummy, run_source
from cudalens.virtual.timing.machine import NUM_PRIORITIES, Device
from cudalens.virtual.timing.streams import CudaEvent, Stream
from cudalens.virtual.torch_cuda import errors
from cudalens.virtual.torch_cuda.errors import INVALID_HANDLE, cuda_error

STREAM_KEY: Final = "_cudalens_stream"
EVENT_KEY: Final = "_cudalens_event"
#: ``c10::DeviceType::CUDA``.
CUDA_TYPE: Final = 1

_ENTERED: Final = "_cudalens_entered"
_MISMATCH: Final = "Event device {ours} does not match recording stream's device {theirs}."
_NS_PER_MS: Final = 1e6
_CStream: Final = torch._C.Stream
#: Replaces an attribute of torch's C class, which asks a real GPU.
NATIVE_HANDLE: Final = {"native_handle": property(lambda self: self.__dict__["native_handle"])}


def install(patches: Patches, gpus: Gpus, *, in_place: bool | None = None) -> None:
    """Make torch.cuda's streams and events virtual.

    Args:
        patches: Undone at the end.
        gpus: The virtual GPUs.
        in_place: Whether to add methods to torch's classes or to create new classes; by default depends on torch's
            build.
    """
    if in_place is None:
        in_place = all(is_dummy(kind) for kind in (torch._C._CudaStreamBase, torch._C._CudaEventBase))
    patches.set(device_streams, "is_blocking", functools.partial(_is_blocking, gpus))
    if in_place:
        fill(patches, torch._C._CudaStreamBase, stream_methods(gpus))
        fill(patches, torch._C._CudaEventBase, event_methods(gpus))
    else:
        _replace(patches, gpus)


def _is_blocking(gpus: Gpus, pointer: int, device: int) -> bool:
    """Return whether a stream and the legacy default stream of its device wait for each other's work."""
    stream = gpus.devices[device].find_stream(pointer)
    return stream is None or stream.is_blocking


def stream_of(gpus: Gpus, stream: Any) -> Stream:
    """Return the virtual stream of a ``torch.cuda.Stream`` or a ``torch.Stream``.

    Raises:
        TypeError: It is neither.
        VirtualDeviceError: It belongs to a virtual device that has ended.
    """
    found: Stream | None = getattr(stream, "__dict__", {}).get(STREAM_KEY)
    if found is not None:
        return found if found.machine is gpus.machine and not gpus.is_closed else errors.refuse("stream")
    if isinstance(stream, _CStream) and stream.device_type == CUDA_TYPE:
        return known_stream(gpus, stream.stream_id, stream.device_index)
    raise TypeError(f"expected a torch.cuda.Stream or a torch.Stream on a CUDA device, got {type(stream).__name__}")


def event_of(gpus: Gpus, cuda_event: Any) -> CudaEvent:
    """Return the virtual event of a ``torch.cuda.Event`` or a ``torch.Event``.

    Raises:
        TypeError: It is neither.
        VirtualDeviceError: It belongs to a virtual device that has ended.
    """
    found: CudaEvent | None = getattr(cuda_event, "__dict__", {}).get(EVENT_KEY)
    if found is None:
        raise TypeError(f"expected a torch.cuda.Event or a torch.Event, got {type(cuda_event).__name__}")
    return found if found.machine is gpus.machine and not gpus.is_closed else errors.refuse("event")


def known_stream(gpus: Gpus, stream_id: int, device_index: int) -> Stream:
    """Return the stream of a torch stream_id.

    Raises:
        RuntimeError: There is none; torch's exception type.
    """
    device = checked_device(gpus, device_index)
    try:
        return device.stream(stream_id)
    except KeyError:
        raise RuntimeError(
            f"Unrecognized stream {stream_id} on device cuda:{device_index}. Did you manufacture the StreamId "
            "yourself? Use torch.cuda.Stream() or torch.cuda.ExternalStream(pointer)."
        ) from None


def checked_device(gpus: Gpus, index: int) -> Device:
    """Return the device of an index; a negative one is the current device.

    Raises:
        RuntimeError: There is no such device; torch's message for streams.
    """
    if index < 0:
        return gpus.machine.current_device
    if index >= len(gpus.devices):
        raise RuntimeError(f"Device index value {index} is out of index range [0, {len(gpus.devices)})")
    return gpus.devices[index]


def bound(gpus: Gpus, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a torch class: `function` with the virtual GPUs as first argument."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(gpus, self, *args, **kwargs)

    method.__name__, method.__doc__ = function.__name__, function.__doc__
    return method


def stream_methods(gpus: Gpus) -> dict[str, Any]:
    """Return the methods of ``_CudaStreamBase`` by name."""
    return {
        "__new__": staticmethod(bound(gpus, _make_stream)),
        "__init__": lambda self, *args, **kwargs: None,
        "__eq__": is_same_stream,
        "__hash__": lambda self: hash((self.stream_id, self.device)),
        "__enter__": bound(gpus, enter_stream),
        "__exit__": bound(gpus, leave_stream),
        "query": lambda self: query_stream(stream_of(gpus, self)),
        "synchronize": bound(gpus, _synchronize_stream),
        "is_capturing": lambda self: stream_of(gpus, self).capture is not None,
        "priority_range": staticmethod(lambda: (0, 1 - NUM_PRIORITIES)),
    }


def _synchronize_stream(gpus: Gpus, stream: Any) -> None:
    """Wait for a stream after a check of the sync debug mode, as c10::cuda::stream_synchronize does."""
    found = stream_of(gpus, stream)
    gpus.check_sync()
    found.synchronize()


def _make_stream(
    gpus: Gpus,
    cls: Any,
    priority: int = 0,
    stream_id: int = 0,
    device_index: int = 0,
    device_type: int = 0,
    stream_ptr: int = 0,
) -> Any:
    """Return the stream of an id, else of an external handle, else the next stream of the pool."""
    if stream_ptr and priority:
        raise RuntimeError("Priority was explicitly set for a external stream")
    if stream_id or device_index or device_type:
        stream = known_stream(gpus, stream_id, device_index)
    elif stream_ptr:
        stream = gpus.machine.current_device.external_stream(stream_ptr)
    else:
        stream = gpus.machine.current_device.pool_stream(priority)
    return wrap_stream(gpus, cls, stream)


def wrap_stream(gpus: Gpus, cls: Any, stream: Stream) -> Any:
    """Create a torch object for a virtual stream, of a subclass of torch's C streams or of another class."""
    if issubclass(cls, _CStream):
        made = _CStream.__new__(cls, stream_id=stream.id, device_index=stream.device.index, device_type=CUDA_TYPE)
    else:
        made = object.__new__(cls)
    # These remain after the virtual device ends, so that the object can be printed.
    made.__dict__.update(
        {
            STREAM_KEY: stream,
            "stream_id": stream.id,
            "device_index": stream.device.index,
            "device_type": CUDA_TYPE,
            "device": gpus.torch_devices[stream.device.index],
            "cuda_stream": stream.handle,
            "native_handle": stream.handle,
            "priority": stream.priority,
        }
    )
    gpus.handles.add(made, "stream")
    return made


def is_same_stream(stream: Any, other: Any) -> bool:
    """Return whether two torch objects have the same virtual stream."""
    ours = stream.__dict__.get(STREAM_KEY)
    return ours is not None and ours is getattr(other, "__dict__", {}).get(STREAM_KEY)


def enter_stream(gpus: Gpus, owner: Any) -> Any:
    """Start ``with stream:``: set the thread's device and stream; the previous ones are saved in `owner`."""
    machine, stream = gpus.machine, stream_of(gpus, owner)
    before = machine.current_device.index, machine.current_stream(stream.device)
    owner.__dict__.setdefault(_ENTERED, []).append(before)
    machine.set_device(stream.device.index)
    machine.set_stream(stream)
    return owner


def leave_stream(gpus: Gpus, owner: Any, *exception: object) -> None:
    """End ``with stream:``: restore the thread's device and stream."""
    index, stream = owner.__dict__[_ENTERED].pop()
    if stream.machine is gpus.machine:
        gpus.machine.set_stream(stream)
        gpus.machine.set_device(index)


def query_stream(stream: Stream) -> bool:
    """Query a stream (cudaStreamQuery). This takes host time, so that a polling loop ends."""
    if stream.capture is None:
        stream.machine.call("cudaStreamQuery", stream.machine.spec.event_ns)
    return stream.is_done()


def record_event(gpus: Gpus, owner: Any, stream: Stream, mismatch: str) -> None:
    """Record a torch event object, which is created at its first record.

    Raises:
        RuntimeError: The event belongs to another device; with the message `mismatch`.
    """
    cuda_event = event_of(gpus, owner)
    if cuda_event.handle and cuda_event.device is not stream.device:
        ours = cuda_event.device.index if cuda_event.device is not None else -1
        raise RuntimeError(mismatch.format(ours=ours, theirs=stream.device.index))
    try:
        stream.record(cuda_event)
    finally:
        # Return the attributes of a torch event object; they remain after the virtual device ends.
        device = None if cuda_event.device is None else gpus.torch_devices[cuda_event.device.index]
        describe_event = {"cuda_event": cuda_event.handle, "event_id": cuda_event.handle, "device": device}
        owner.__dict__.update(describe_event)


def query_event(cuda_event: CudaEvent) -> bool:
    """Query a CUDA event (cudaEventQuery). This takes host time, so that a polling loop ends."""
    if cuda_event.handle and cuda_event.capture is None:
        cuda_event.machine.call("cudaEventQuery", cuda_event.machine.spec.event_ns)
    return cuda_event.is_done()


def elapsed_ms(begin: CudaEvent, end: CudaEvent) -> float:
    """Milliseconds of virtual time between two recorded events.

    Raises:
        ValueError: An event has no timing, or was not recorded; torch's message.
        RuntimeError: An event is not complete, or they are on different devices; torch's message.
    """
    if not (begin.is_timed and end.is_timed):
        raise ValueError("Both events must be created with argument 'enable_timing=True'.")
    if not (begin.handle and end.handle):
        raise ValueError("Both events must be recorded before calculating elapsed time.")
    if not (query_event(begin) and query_event(end)):
        raise RuntimeError("Both events must be completed before calculating elapsed time.")
    if begin.device is not end.device or begin.recorded_ns is None or end.recorded_ns is None:
        raise cuda_error(INVALID_HANDLE)
    return (end.recorded_ns - begin.recorded_ns) / _NS_PER_MS


def delete_event(gpus: Gpus, owner: Any) -> None:
    """Delete the CUDA event of a torch event object, which fires the callback if the event was created."""
    cuda_event: CudaEvent | None = owner.__dict__.get(EVENT_KEY)
    if cuda_event is not None and cuda_event.machine is gpus.machine and not gpus.is_closed:
        cuda_event.delete()


def event_methods(gpus: Gpus) -> dict[str, Any]:
    """Return the methods of ``_CudaEventBase`` by name."""
    return {
        "__new__": staticmethod(bound(gpus, _make_event)),
        "__init__": lambda self, *args, **kwargs: None,
        "__del__": bound(gpus, delete_event),
        "record": lambda self, stream: record_event(gpus, self, stream_of(gpus, stream), _MISMATCH),
        "wait": lambda self, stream: stream_of(gpus, stream).wait(event_of(gpus, self)),
        "query": lambda self: query_event(event_of(gpus, self)),
        "elapsed_time": lambda self, other: elapsed_ms(event_of(gpus, self), event_of(gpus, other)),
        "synchronize": lambda self: event_of(gpus, self).synchronize(),
        "ipc_handle": lambda self: refuse_ipc(),
        "from_ipc_handle": classmethod(lambda cls, device, handle: refuse_ipc()),
    }


def _make_event(
    gpus: Gpus,
    cls: Any,
    enable_timing: bool = False,
    blocking: bool = False,
    interprocess: bool = False,
    external: bool = False,
) -> Any:
    """Return a new event object; the CUDA event is created at its first record."""
    return wrap_event(gpus, cls, None, enable_timing=enable_timing, blocking=blocking, external=external)


def wrap_event(
    gpus: Gpus,
    cls: Any,
    device: torch.device | None,
    *,
    enable_timing: bool,
    blocking: bool,
    external: bool = False,
) -> Any:
    """Create a torch object for a new virtual event."""
    made = object.__new__(cls)
    made.__dict__[EVENT_KEY] = CudaEvent(
        gpus.machine, is_timed=bool(enable_timing), is_blocking=bool(blocking), is_external=bool(external)
    )
    made.__dict__.update(cuda_event=0, event_id=0, device=device)
    gpus.handles.add(made, "event")
    return made


def refuse_ipc() -> Any:
    """Refuse to share an event with another process.

    Raises:
        VirtualDeviceError: Always.
    """
    raise VirtualDeviceError(
        "A virtual CUDA device exists in one process: a CUDA event cannot be shared through an IPC handle. "
        "Synchronise the processes by other means (torch.multiprocessing.Event), or use a real GPU."
    )


def _replace(patches: Patches, gpus: Gpus) -> None:
    """Replace torch's classes by classes from torch's own source on virtual base classes."""
    module = torch.cuda.streams
    bases = {
        "_CudaStreamBase": type("_CudaStreamBase", (_CStream,), stream_methods(gpus) | NATIVE_HANDLE),
        "_CudaEventBase": type("_CudaEventBase", (), event_methods(gpus)),
    }
    for name, base in bases.items():
        patches.set(torch._C, name, base)
    made = run_source(module)
    replace_everywhere(patches, {vars(module)[name]: made[name] for name in ("Stream", "ExternalStream", "Event")})


def replace_everywhere(patches: Patches, classes: dict[type, type]) -> None:
    """Replace classes in all modules, including names from ``from torch.cuda import Stream``.

    Args:
        patches: Undone at the end.
        classes: The new class by the old one.
    """
    new_by_id = {id(old): new for old, new in classes.items()}
    ids = frozenset(new_by_id)
    for module in [module for module in list(sys.modules.values()) if isinstance(module, types.ModuleType)]:
        if ids.isdisjoint(map(id, list(vars(module).values()))):  # the fastest search of all names
            continue
        for name, value in list(vars(module).items()):
            if id(value) in new_by_id:
                patches.set(module, name, new_by_id[id(value)])
