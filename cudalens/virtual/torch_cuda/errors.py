"""CUDA errors as torch raises them: exception type, message and code."""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn

import torch
from torch.cuda import _gpu_trace

from cudalens.errors import VirtualDeviceError


class _Entry(NamedTuple):
    name: str
    text: str


SUCCESS: Final = 0
INVALID_VALUE: Final = 1
OUT_OF_MEMORY: Final = 2
STUB_LIBRARY: Final = 34
INVALID_DEVICE: Final = 101
INVALID_HANDLE: Final = 400
ILLEGAL_STATE: Final = 401
NOT_READY: Final = 600
ALREADY_REGISTERED: Final = 712
NOT_REGISTERED: Final = 713
CAPTURE_UNSUPPORTED: Final = 900
CAPTURE_INVALIDATED: Final = 901
CAPTURE_MERGE: Final = 902
CAPTURE_UNMATCHED: Final = 903
CAPTURE_UNJOINED: Final = 904
CAPTURE_ISOLATION: Final = 905
CAPTURE_IMPLICIT: Final = 906
CAPTURED_EVENT: Final = 907
CAPTURE_WRONG_THREAD: Final = 908

#: What cudaGetErrorName and cudaGetErrorString print (CUDA Runtime API, "Data types used by CUDA Runtime").
_ERRORS: Final[dict[int, _Entry]] = {
    SUCCESS: _Entry("cudaSuccess", "no error"),
    INVALID_VALUE: _Entry("cudaErrorInvalidValue", "invalid argument"),
    OUT_OF_MEMORY: _Entry("cudaErrorMemoryAllocation", "out of memory"),
    STUB_LIBRARY: _Entry("cudaErrorStubLibrary", "CUDA driver is a stub library"),
    INVALID_DEVICE: _Entry("cudaErrorInvalidDevice", "invalid device ordinal"),
    INVALID_HANDLE: _Entry("cudaErrorInvalidResourceHandle", "invalid resource handle"),
    ILLEGAL_STATE: _Entry("cudaErrorIllegalState", "the operation cannot be performed in the present state"),
    NOT_READY: _Entry("cudaErrorNotReady", "device not ready"),
    ALREADY_REGISTERED: _Entry(
        "cudaErrorHostMemoryAlreadyRegistered", "part or all of the requested memory range is already mapped"
    ),
    NOT_REGISTERED: _Entry(
        "cudaErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region"
    ),
    CAPTURE_UNSUPPORTED: _Entry(
        "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"
    ),
    CAPTURE_INVALIDATED: _Entry(
        "cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"
    ),
    CAPTURE_MERGE: _Entry(
        "cudaErrorStreamCaptureMerge", "operation would result in a merge of separate capture sequences"
    ),
    CAPTURE_UNMATCHED: _Entry(
        "cudaErrorStreamCaptureUnmatched", "capture was not ended in the same stream as it began"
    ),
    CAPTURE_UNJOINED: _Entry("cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"),
    CAPTURE_ISOLATION: _Entry(
        "cudaErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream"
    ),
    CAPTURE_IMPLICIT: _Entry(
        "cudaErrorStreamCaptureImplicit",
        "operation would make the legacy stream depend on a capturing blocking stream",
    ),
    CAPTURED_EVENT: _Entry(
        "cudaErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream"
    ),
    CAPTURE_WRONG_THREAD: _Entry(
        "cudaErrorStreamCaptureWrongThread",
        "attempt to terminate a thread-local capture sequence from another thread",
    ),
}

_TYPES_PAGE: Final = "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html"


def text_of(code: int) -> str:
    """Return the text of cudaGetErrorString for the codes that the virtual device uses."""
    entry = _ERRORS.get(code)
    return "unrecognized error code" if entry is None else entry.text


def cuda_error(code: int) -> RuntimeError:
    """Return the exception that torch raises when a CUDA call returns `code`.

    It is ``torch.AcceleratorError`` with its ``error_code``, as in torch 2.9 and later, and RuntimeError before.

    Args:
        code: A cudaError_t; one of the constants above.
    """
    kind: type[RuntimeError] = getattr(torch, "AcceleratorError", RuntimeError)
    error = kind(message(code))
    if kind is not RuntimeError:
        error.error_code = code  # type: ignore[attr-defined]
    return error


def message(code: int) -> str:
    """The text of c10's check of CUDA calls (c10/cuda/CUDAException.cpp, CUDAMiscFunctions.cpp)."""
    entry = _ERRORS[code]
    if code == INVALID_DEVICE:
        help_text = "GPU device may be out of range, do you have enough GPUs?"
    else:
        help_text = f"Search for `{entry.name}' in {_TYPES_PAGE} for more information."
    return "\n".join(
        [
            f"CUDA error: {entry.text}",
            help_text,
            "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might "
            "be incorrect.",
            "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
            "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
            "",
        ]
    )


class Handles:
    """The live torch objects of one virtual device."""

    def __init__(self) -> None:
        self._objects: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._words: dict[type, str] = {}

    def add(self, made: Any, word: str) -> None:
        """Remember an object; `word` names it in messages."""
        self._words[type(made)] = word
        self._objects[id(made)] = made

    def end(self) -> None:
        """Make the methods of the objects refuse."""
        for made in list(self._objects.values()):
            kind: type = type(made)
            made.__class__ = _ended_kind(kind, self._words[kind])
        self._objects.clear()


def refuse(word: str) -> NoReturn:
    """Refuse the use of an object.

    Raises:
        VirtualDeviceError: Always.
    """
    raise VirtualDeviceError(
        f"This {word} belongs to a virtual CUDA device that has ended. Create a new one inside the block that uses it."
    )


@functools.cache
def _ended_kind(kind: type, word: str) -> type:
    """Return a subclass whose public methods and properties refuse; the attributes that describe the object remain."""

    def refuse_call(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(word)

    members: dict[str, Any] = {}
    for name in [name for name in dir(kind) if not name.startswith("_")]:
        found = inspect.getattr_static(kind, name)
        if isinstance(found, types.FunctionType):
            members[name] = refuse_call
        elif isinstance(found, property):
            members[name] = property(refuse_call)
    if word == "stream":
        members["stream_id"] = property(refuse_call)  # torch.cuda.set_stream would find a stream of another device
    made = types.new_class(kind.__name__, (kind,), exec_body=lambda space: space.update(members))
    made.__module__, made.__qualname__ = kind.__module__, kind.__qualname__
    return made


# Fire the callbacks of torch.cuda._gpu_trace as a real device does.


def _fires(registry: str) -> Callable[..., None]:
    """Return a method that calls the callbacks of a registry; without callbacks it costs one check of a list."""

    def fire(self: Any, *pointers: int) -> None:
        callbacks = getattr(_gpu_trace, registry)
        if callbacks.callback_list:
            callbacks.fire_callbacks(*pointers)

    return fire


class GpuTraceSignals:
    """Fires torch's ten callback registries, so that their subscribers observe the virtual device.

    Implements `cudalens.virtual.timing.interfaces.Signals`.
    """

    event_created = _fires("EventCreationCallbacks")
    event_deleted = _fires("EventDeletionCallbacks")
    event_recorded = _fires("EventRecordCallbacks")
    event_waited = _fires("EventWaitCallbacks")
    memory_allocated = _fires("MemoryAllocationCallbacks")
    memory_freed = _fires("MemoryDeallocationCallbacks")
    stream_created = _fires("StreamCreationCallbacks")
    device_synchronized = _fires("DeviceSynchronizationCallbacks")
    stream_synchronized = _fires("StreamSynchronizationCallbacks")
    event_synchronized = _fires("EventSynchronizationCallbacks")
