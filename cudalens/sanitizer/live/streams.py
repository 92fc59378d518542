"""Find the engine's line for a stream pointer of torch, and the names of streams in the user's program."""

from __future__ import annotations

import ast
import itertools
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

import torch
from torch import _C

from cudalens.device import streams as device_streams
from cudalens.device.stacks import is_passed_by
from cudalens.sanitizer.engine import HOST, Access, Race
from cudalens.sanitizer.engine.clocks import Clocks, Line
from cudalens.sanitizer.engine.records import StreamId
from cudalens.sanitizer.fixes.source import Sources, is_stream_context
from cudalens.sanitizer.fixes.source_edits import sets_stream
from cudalens.sanitizer.live.calls import Call

_torch: Final[Any] = _C

#: Distance of the numbers for per-thread default streams, which all have the same pointer. No pointer is as large.
_THREAD_STEP: Final = 1 << 64


class Streams:
    """Finds the line of a stream by its pointer.

    The legacy default stream of every device has the pointer 0; the device distinguishes them. Not all of torch's
    callbacks include the device of a pointer: it is taken to be the current one, until an operator shows another.

    Args:
        clocks: Provides the lines.
        lock: Held while the lines of the clocks are accessed.
        blocking: Receives the lines that are ordered with the legacy default stream of their device.
    """

    def __init__(self, clocks: Clocks, lock: AbstractContextManager[Any], blocking: set[Line]) -> None:
        self._clocks, self._lock, self._blocking = clocks, lock, blocking
        self._lines: dict[int, Line] = {}
        self._used: dict[int, Line] = {}
        self._thread = threading.local()
        self._numbers = itertools.count(1)
        self._names: dict[int, str] = {}

    def of_operator(self, device: int) -> Line:
        """Return the line of the current stream of a device."""
        try:
            pointer = _torch._cuda_getCurrentRawStream(device)  # inlined `current_stream`
        except (AttributeError, RuntimeError):
            pointer = device_streams.current_stream(device)
        line = self._used.get(pointer or ~device)
        if line is not None:
            return line
        with self._lock:
            return self._first_use(pointer, device)

    def of_pointer(self, pointer: int, device: int) -> Line:
        """Return the line of a stream that a callback names.

        Args:
            pointer: The pointer of the stream, or what `unambiguous` returned for it.
            device: The GPU that was current at the callback.
        """
        line = self._lines.get(pointer or ~device)
        return self._make(pointer, device) if line is None else line

    def unambiguous(self, pointer: int) -> int:
        """Return a pointer itself, and for the calling thread's own default stream a number of that thread."""
        if pointer != device_streams.PER_THREAD:
            return pointer
        number: int | None = getattr(self._thread, "number", None)
        if number is None:
            number = self._thread.number = next(self._numbers)
            name = threading.current_thread().name
            self._names[number] = name if name not in self._names.values() else f"{name} ({number})"
        return pointer + _THREAD_STEP * number

    def forget(self) -> None:
        """Drop all pointers: another device may use them for other streams."""
        self._lines.clear()
        self._used.clear()

    def _make(self, pointer: int, device: int) -> Line:
        if pointer == device_streams.LEGACY:
            return self.of_pointer(0, device)
        if pointer >= _THREAD_STEP:
            stream = StreamId(device, f"per-thread default of {self._names[pointer // _THREAD_STEP]}")
            return self._make_blocking(stream)
        stream = StreamId(device, pointer)
        is_blocking = pointer != 0 and device_streams.is_blocking(pointer, device)
        line = self._make_blocking(stream) if is_blocking else self._clocks.line(stream)
        self._lines[pointer or ~device] = line
        return line

    def _make_blocking(self, stream: StreamId) -> Line:
        line = self._clocks.line(stream)
        self._clocks.make_blocking(stream)
        self._blocking.add(line)
        return line

    def _first_use(self, pointer: int, device: int) -> Line:
        if pointer in (device_streams.LEGACY, device_streams.PER_THREAD):  # one on each device
            return self._make(self.unambiguous(pointer), device)
        line = self._lines.get(pointer or ~device)
        if line is None:
            line = self._make(pointer, device)
        elif line.id.device != device:
            self._clocks.move(line, device)
        self._used[pointer or ~device] = line
        return line


#: Items of a list of streams that get a name.
_MAX_ITEMS = 64


def names_of_streams(
    namespace: Mapping[str, object] | None = None, races: Iterable[Race] = (), sources: Sources | None = None
) -> dict[StreamId, str]:
    """Return the name of each stream that has one: that of the first variable that holds it, else that at an access.

    Args:
        namespace: The variables; by default the globals of ``__main__``, which are those of a notebook, and then the
            local variables of the functions that run now.
        races: Races whose accesses show names of streams that no variable holds any more. Only of programs on one
            device: elsewhere the block around an access may switch the stream of another device.
        sources: Provides the user's source; by default `linecache`.
    """
    found: dict[StreamId, str] = {}
    if namespace is not None:
        _add_variables(found, namespace)
    else:
        if "__main__" in sys.modules:
            _add_variables(found, vars(sys.modules["__main__"]))
        for variables in _local_variables():
            _add_variables(found, variables)
    sources = sources or Sources()
    for access in [access for race in races for access in (race.first, race.second)]:
        if access.stream == HOST or not access.stream.stream or access.stream in found:
            continue
        name = _name_at_access(access, sources)
        if name is not None:
            found[access.stream] = name
    return found


def _add_variables(found: dict[StreamId, str], variables: Mapping[str, object]) -> None:
    """Add the streams that variables hold, and those in lists and dictionaries."""
    for variable, value in list(variables.items()):
        if variable.startswith("_"):
            continue
        for name, item in _items(variable, value):
            stream = _stream_of(item) if isinstance(item, torch.cuda.Stream) else None
            if stream is not None and stream.stream:  # the default stream has a name of its own
                found.setdefault(stream, name)


def _items(name: str, value: object) -> Iterator[tuple[str, object]]:
    if type(value) in (list, tuple):
        items: Any = value
        yield from ((f"{name}[{index}]", item) for index, item in enumerate(items[:_MAX_ITEMS]))
    elif type(value) is dict:
        yield from ((f"{name}[{key!r}]", value[key]) for key in list(value)[:_MAX_ITEMS] if isinstance(key, int | str))
    else:
        yield name, value


def _local_variables() -> Iterator[Mapping[str, object]]:
    """Local variables of the user's functions that run now, on all threads, innermost first."""
    for innermost in list(sys._current_frames().values()):
        stack_frame: Any = innermost
        while stack_frame is not None:
            if stack_frame.f_locals is not stack_frame.f_globals and not is_passed_by(stack_frame.f_code.co_filename):
                yield stack_frame.f_locals
            stack_frame = stack_frame.f_back


def _stream_of(stream: torch.cuda.Stream) -> StreamId | None:
    try:
        return StreamId(int(stream.device_index), int(stream.cuda_stream))
    except RuntimeError:  # of a virtual device that has ended
        return None


def _name_at_access(access: Access, sources: Sources) -> str | None:
    """The stream as the innermost ``with torch.cuda.stream(…)`` around an access names it; None if that is unknown."""
    call = access.stack if isinstance(access.stack, Call) else None
    while call is not None and call.code is not None:
        place = call.place
        if place.code is call.code and place.instruction == call.instruction:
            located = sources.locate(place)
            if located is None or sets_stream(located.source):
                return None
            if located.withs:
                block = located.withs[0][0]
                contexts = [
                    item.context_expr for item in block.items if is_stream_context(located.source, item.context_expr)
                ]
                return _text_of_argument(contexts[-1]) if contexts else None
        call = call.outer
    return None


def _text_of_argument(call: Any) -> str | None:
    argument = call.args[0] if len(call.args) == 1 and not call.keywords else None
    if isinstance(argument, ast.Name | ast.Attribute | ast.Subscript):
        text = ast.unparse(argument)
        return text if len(text) <= 40 else None
    return None
