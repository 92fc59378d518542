"""Record the call stack of every operator at low cost: one shared object for each distinct call stack.

A `Call` is a code object, an instruction in it, and the call that runs this code. A program repeats its call stacks, so
a stack is usually found and not created, and takes no further memory. To find it, most of the stack is not even
visited. While a function runs, its callers do not advance. So its outer calls are looked up once and stored at its
stack frame as a mark; the next operator that it calls needs one lookup by instruction. The mark is stored in
``f_trace``, the only writable attribute of a stack frame. Debuggers store their trace function there, and Python reads
it only while it traces. A debugger's function is kept, no mark is stored while a trace function is active, and `forget`
removes the marks.

A generator can be resumed from anywhere, so its outer calls are looked up each time.
"""

from __future__ import annotations

import inspect
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any, Final

import torch

from cudalens.device.stacks import NOWHERE, Place, is_own, line_of, place_of
from cudalens.sanitizer.engine import records as r
from cudalens.sanitizer.engine.accesses import AccessInfo, Allocation, CallSite, CellAccess, Line, list_accesses
from cudalens.sanitizer.engine.records import Region

#: Number of calls that are kept; beyond it, all are dropped (a recursion may have any number of call stacks).
MAX_CALLS: Final = 100_000

_getframe: Final = sys._getframe
#: torch's file of methods of tensors that are written in Python, such as ``__pow__``.
_TENSOR_METHODS: Final = torch._tensor.__file__

_RESUMED: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Call:
    """A call, and with `outer` the whole call stack: the call site of an access.

    Attributes:
        code: The caller's code; None for the root, which is no Python code.
        instruction: Offset of the call in its bytecode.
        outer: The call that runs this code; None for the root.
        place: The innermost place in user code, here or in an outer call.
        inner: Marks of the called functions, by the ``id`` of their code.
    """

    __slots__ = ("code", "inner", "instruction", "outer", "place")

    #: As of `cudalens.sanitizer.engine.accesses.CallSite`: an operator that runs now was not captured.
    captured: Final = None

    def __init__(self, code: CodeType | None, instruction: int, outer: Call | None, place: Place) -> None:
        self.code, self.instruction, self.outer, self.place = code, instruction, outer, place
        self.inner: dict[int, _Mark] = {}

    @property
    def stack(self) -> Call:
        """The call stack: this object."""
        return self

    @property
    def is_direct(self) -> bool:
        """Whether the user's code itself called the operator; torch's own methods of tensors do not count."""
        call: Call | None = self
        while call is not None and call.code is not None and call.code.co_filename == _TENSOR_METHODS:
            call = call.outer
        place = self.place
        return call is not None and call.code is place.code and call.instruction == place.instruction

    def entries(self) -> list[dict[str, Any]]:
        """Return the stack frames in the format of ``torch._C._profiler.symbolize_tracebacks``, innermost first."""
        found = []
        call: Call | None = self
        while call is not None and call.code is not None:
            code = call.code
            line = line_of(code, call.instruction)
            found.append({"filename": code.co_filename, "line": line, "name": code.co_name})
            call = call.outer
        return found


class _Mark:
    """The mark of a stack frame: its calls, and its outer call.

    Debuggers expect a trace function or None in its place. It is false, and removes itself when Python calls it, which
    happens when tracing starts.

    Attributes:
        outer: The call that runs the code of the stack frame.
        calls: The calls of the stack frame, by instruction.
        is_lasting: Whether the outer call is the same for the lifetime of the stack frame: it is not a generator.
    """

    __slots__ = ("calls", "is_lasting", "outer")

    def __init__(self, outer: Call, code: CodeType) -> None:
        self.outer, self.is_lasting = outer, not code.co_flags & _RESUMED
        self.calls: dict[int, Call] = {}

    def __bool__(self) -> bool:
        return False

    def __call__(self, stack_frame: FrameType, event: str, argument: Any) -> None:
        if stack_frame.f_trace is self:
            stack_frame.f_trace = None


_root: Final = Call(None, 0, None, NOWHERE)

#: The code of this package by its ``id``: its calls are left out.
_own: Final[dict[int, CodeType]] = {}

#: All other code.
_others: Final[dict[int, CodeType]] = {}

_num_calls = 0


def call(depth: int = 1) -> Call:
    """Return the current call.

    Args:
        depth: Number of stack frames to leave out, from the caller's own.
    """
    own = _own
    try:
        stack_frame: Any = _getframe(depth)
    except ValueError:  # a thread of torch's C++ code: no Python caller
        return _root
    while id(stack_frame.f_code) in own:
        stack_frame = stack_frame.f_back
        if stack_frame is None:
            return _root
    mark = stack_frame.f_trace
    if type(mark) is _Mark:
        found = mark.calls.get(stack_frame.f_lasti)
        if found is not None:
            return found
    return _found(stack_frame)


def _found(stack_frame: Any) -> Call:
    """Go outwards to the first marked stack frame, and mark the inner ones."""
    if _num_calls >= MAX_CALLS:
        forget()
    inner = []
    found = _root
    while stack_frame is not None:
        mark = stack_frame.f_trace
        if type(mark) is _Mark:
            found = mark.calls.get(stack_frame.f_lasti) or _made(mark, stack_frame)
            break
        code = stack_frame.f_code
        if id(code) in _others or _is_new_and_not_own(code):
            inner.append(stack_frame)
        stack_frame = stack_frame.f_back
    may_mark = sys.gettrace() is None
    while inner:
        stack_frame = inner.pop()
        code = stack_frame.f_code
        mark = found.inner.get(id(code))
        if mark is None:
            mark = found.inner[id(code)] = _Mark(found, code)
        if may_mark and mark.is_lasting and stack_frame.f_trace is None:
            stack_frame.f_trace = mark
        found = mark.calls.get(stack_frame.f_lasti) or _made(mark, stack_frame)
    return found


def _made(mark: _Mark, stack_frame: Any) -> Call:
    global _num_calls
    code, instruction = stack_frame.f_code, stack_frame.f_lasti
    _num_calls += 1
    outer = mark.outer
    found = mark.calls[instruction] = Call(code, instruction, outer, place_of(code, instruction) or outer.place)
    return found


def _is_new_and_not_own(code: CodeType) -> bool:
    if id(code) in _own:
        return False
    met = _own if is_own(code.co_filename) else _others
    met[id(code)] = code
    return met is _others


def forget() -> None:
    """Drop all calls, the code except this package's, and the marks. Called when the last sanitizer stops.

    Calls that are stored elsewhere keep their outer calls.
    """
    global _num_calls
    left = [_root]
    while left:
        for mark in (inner := left.pop().inner).values():
            left += mark.calls.values()
            mark.calls.clear()
        inner.clear()
    _num_calls = 0
    _others.clear()
    for innermost in sys._current_frames().values():
        at: FrameType | None = innermost
        while at is not None:
            if type(at.f_trace) is _Mark:
                at.f_trace = None
            at = at.f_back
    del innermost  # it may be this stack frame: a reference cycle


# Keep the last records of a run compactly, and convert them to records of the engine on request.

#: Number of records that are kept; the oldest are dropped.
MAX_RECORDS: Final = 10_000

#: Number of graph captures whose records are kept.
MAX_CAPTURES: Final = 16


class Log:
    """The input of the engine in order: the last `MAX_RECORDS` since the last synchronisation of the whole device.

    Suggested fixes are checked on it. A synchronisation of the only device in use orders all earlier work before all
    later work, so earlier records are needed only if they raced. An allocation from before the first record is added
    before the first record that accesses it.

    Attributes:
        append: Add an entry.
        captured: Places of operations that were captured into CUDA graphs.
        blocking: Lines that are ordered with the legacy default stream of their device.
        captures: Entries of the last graph captures, each a program of its own.

    An entry is an `Operation`, ``(line, visits)`` of a graph's replay, or ``(kind, …)`` with one of the names below.
    """

    def __init__(self) -> None:
        self._entries: deque[Sequence[Any]] = deque(maxlen=MAX_RECORDS)
        self.append: Final[Callable[[Sequence[Any]], None]] = self._entries.append
        self.captured: Final[set[r.Place]] = set()
        self.blocking: Final[set[Line]] = set()
        self.captures: Final[deque[Sequence[Sequence[Any]]]] = deque(maxlen=MAX_CAPTURES)

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Drop the records of launched work; what was captured may be launched again."""
        self._entries.clear()

    def capture_records(self) -> list[list[r.Record]]:
        """The records of each of the last graph captures; a race between its streams is one of the capture."""
        return [list(_Naming().records(list(entries))) for entries in self.captures]

    def records(self) -> list[r.Record]:
        """The entries as records for `cudalens.sanitizer.engine.Detector.add`.

        Allocations are named ``t0``, ``t1`` …; accesses have the names of arguments, launches have places. Captured
        operations that `capture_records` does not have are `OperatorCaptured`.
        """
        kept = {entry[0].place for entries in self.captures for entry in entries if isinstance(entry, list)}
        blocking = [r.StreamCreated(line.id, is_blocking=True) for line in self.blocking]
        return [*map(r.OperatorCaptured, self.captured - kept), *blocking, *_Naming().records(list(self._entries))]


class _Naming:
    """Converts entries, and names allocations at their first use."""

    def __init__(self) -> None:
        self._names: dict[Allocation, str] = {}

    def records(self, entries: list[Sequence[Any]]) -> Iterator[r.Record]:
        for entry in entries:
            kind = entry[0]
            if isinstance(entry, list):
                yield from self._launch(entry[2], list_accesses(entry))
            elif isinstance(kind, Line):
                yield from self._replay(*entry)
            elif kind == "free":
                yield from self._alloc(entry[1])
                yield r.MemoryFreed(self._names[entry[1]], _extent(entry[1]), _place(entry[1].freed_site))
            elif kind == "record_stream":
                yield from self._alloc(entry[1])
                yield r.BlockRecordedOnStream(_extent(entry[1]), entry[2].id)
            else:
                yield _SYNCS[kind](*(part.id if isinstance(part, Line) else part for part in entry[1:]))

    def _alloc(self, allocation: Allocation) -> Iterator[r.Record]:
        if allocation in self._names:
            return
        self._names[allocation] = allocation.name or f"t{len(self._names)}"
        if allocation.owner is not None:
            owner = allocation.owner.id
        else:
            owner = r.HOST if allocation.device < 0 else r.StreamId(0, 0)
        yield r.MemoryAllocated(self._names[allocation], _extent(allocation), owner, _place(allocation.site))

    def _replay(self, line: Line, visits: Sequence[CellAccess]) -> Iterator[r.Record]:
        """One launch for each operation of the graph."""
        by_op: dict[tuple[str, r.Place], list[CellAccess]] = {}
        for visit in visits:
            info = AccessInfo(*visit[2])
            by_op.setdefault((info.operand.operator, info.site.captured), []).append(visit)
        for group in by_op.values():
            yield from self._launch(line, group)

    def _launch(self, line: Line, visits: Sequence[CellAccess]) -> Iterator[r.Record]:
        accesses: tuple[list[r.TensorBytes], list[r.TensorBytes]] = ([], [])
        op, site = "", CallSite()
        for cell, is_write, fields in visits:
            info = AccessInfo(*fields)
            yield from self._alloc(info.allocation)
            accesses[is_write].append(r.TensorBytes(self._names[info.allocation], cell.region, info.operand.argument))
            op, site = info.operand.operator, info.site
        if line.id != r.HOST:
            is_direct = getattr(site, "is_direct", None)
            yield r.OperatorLaunched(
                line.id, tuple(accesses[0]), tuple(accesses[1]), op, site.place, site.captured, is_direct
            )
            return
        for is_write in (False, True):
            yield from (r.HostAccessed(access, is_write, site.place) for access in accesses[is_write])


def _extent(allocation: Allocation) -> Region:
    return Region(allocation.start, allocation.num_bytes)


def _place(site: Any) -> r.Place:
    return site.place if site else None


#: Kinds of entries whose fields are those of a record, with lines for streams.
_SYNCS: Final[dict[str, Callable[..., r.Record]]] = {
    "event_record": r.EventRecorded,
    "event_wait": r.EventWaited,
    "event_sync": r.EventSynchronized,
    "event_delete": r.EventDeleted,
    "stream_sync": r.StreamSynchronized,
    "device_sync": r.DeviceSynchronized,
}
