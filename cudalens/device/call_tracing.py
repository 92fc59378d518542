"""Pause torch's recording of Python calls while cudalens's own code runs for an operator.

With ``with_stack`` torch records each Python call of the process. On a virtual device, cudalens makes about 150 calls
for an operator: twenty times as many as the program makes, and all would be removed from the profile. torch cannot
leave out calls. CPython calls ``c_profilefunc`` of the thread for each of them, so a pause sets that field to NULL.

Decorate with `pausable` what torch or the program calls: its own call and return are recorded, the calls that it makes
are not. Code of the program that it calls goes through `unpaused`. Where `find_field` does not find the field of
CPython, nothing is paused.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import sysconfig
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

#: The field is among the first words of CPython's PyThreadState.
_NUM_WORDS: Final = 40
_WORD: Final = ctypes.sizeof(ctypes.c_void_p)


class CallTracing:
    """A recording of calls, which can be paused on the thread that started it.

    Attributes:
        field: ``c_profilefunc`` of the thread.
        record: torch's function, the value of the field outside of pauses.
        is_on: Whether torch still records calls.
        is_paused: Whether the thread is in a function of cudalens.
    """

    __slots__ = ("field", "is_on", "is_paused", "record")

    def __init__(self, field: ctypes.c_void_p) -> None:
        self.is_on, self.is_paused = True, False
        self.field, self.record = field, field.value


class _Recording(threading.local):
    """The recording of each thread."""

    of_thread: CallTracing | None = None


_recording: Final = _Recording()
#: The recording that torch makes now; `stop` may be called on another thread than `start`.
_last: CallTracing | None = None


def start() -> None:
    """Allow pauses on the calling thread, on which torch has started to record calls."""
    global _last
    offset = find_field()
    if offset is None:
        return
    field = ctypes.c_void_p.from_address(_thread_state() + offset)
    if field.value is not None:
        _last = _recording.of_thread = CallTracing(field)


def stop() -> None:
    """Allow no more pauses: torch is about to stop, after which its function must not be set again."""
    global _last
    if _last is not None:
        _last.is_on = False
    _last = None


def pausable(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Return `function`, in which no call is recorded.

    The recording can end inside it. Then ``c_profilefunc`` is torch's to set, and is left as it is.
    """

    @functools.wraps(function)
    def call(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        tracing = _recording.of_thread
        if tracing is None or tracing.field.value != tracing.record:  # it is paused, or another profiler is set
            return function(*args, **kwargs)
        # Nothing else may be called here: of a call that begins or ends in a pause, half is recorded.
        try:
            tracing.is_paused = True
            if tracing.is_on:
                tracing.field.value = None
            return function(*args, **kwargs)
        finally:
            if tracing.is_on:
                tracing.field.value = tracing.record
            tracing.is_paused = False

    return call


def is_tracing_frame(frame: FrameType) -> bool:
    """Return whether a frame is only between two others, because of `pausable` or `unpaused`."""
    return frame.f_code.co_filename == __file__


def caller_of(frame: FrameType) -> FrameType | None:
    """Return the frame that called a function, without that of `pausable`."""
    caller = frame.f_back
    return caller.f_back if caller is not None and is_tracing_frame(caller) else caller


def unpaused(function: Callable[..., _Result], *args: Any, **kwargs: Any) -> _Result:
    """Call code of the program within a `pausable` function: its calls are recorded."""
    tracing = _recording.of_thread
    if tracing is None or not tracing.is_paused:
        return function(*args, **kwargs)
    try:
        tracing.is_paused = False
        if tracing.is_on:
            tracing.field.value = tracing.record
        return function(*args, **kwargs)
    finally:
        tracing.is_paused = True
        if tracing.field.value == tracing.record:
            tracing.field.value = None
        else:  # the program has ended torch's profiler, or started another one
            tracing.is_on = False


def _thread_state() -> int:
    get = ctypes.pythonapi.PyThreadState_Get
    get.restype = ctypes.c_void_p
    return int(get())


@functools.cache
def find_field() -> int | None:
    """Return the offset of ``c_profilefunc`` in a thread's state, bytes; None if it is not found.

    A thread sets a function and looks for it, once in a process, before a recording starts.
    """
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.extend(_offsets()), name="cudalens: fields of CPython")
    thread.start()
    thread.join()
    return found[0] if len(found) == 1 else None


def _offsets() -> list[int]:
    """Return the offsets, in bytes, at which this thread's state has a function while it is set, and NULL after."""
    kind = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    function = kind(lambda *_: 0)
    address = ctypes.cast(function, ctypes.c_void_p).value
    words = (ctypes.c_void_p * _NUM_WORDS).from_address(_thread_state())
    set_function = ctypes.pythonapi.PyEval_SetProfile
    set_function.argtypes, set_function.restype = (ctypes.c_void_p, ctypes.c_void_p), None
    set_function(address, None)
    places = [n for n in range(_NUM_WORDS) if words[n] == address]
    set_function(None, None)
    return [n * _WORD for n in places if words[n] is None]
