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
from types import CodeType, FrameType
from typing import Any, Final

import torch

from cudalens.device.stacks import NOWHERE, Place, is_own, line_of, place_of

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
