"""The call stack of every operator, cheaply: one object for each way in which the program came to a call.

A `Call` is a code object, an instruction in it and the call around it. A program comes by the same ways again and
again, so that a stack is found, not made, and costs no memory of its own. To find it, not even the whole stack is
looked at. While a function runs, nothing above it can move; so what is around it is found once, and left with its stack
frame as a mark: the next operator that it calls needs one look for its own instruction. A stack frame has one place for
something of ours, ``f_trace``. Debuggers keep their function for this one stack frame there; Python looks at it only
while it traces. A debugger's is left alone, nothing is marked while somebody traces, and `forget` takes the marks away.

A generator is resumed from anywhere: what is around it is looked up each time.
"""

from __future__ import annotations

import inspect
import sys
from types import CodeType, FrameType
from typing import Any, Final

from cudalens.device.stacks import NOWHERE, Place, is_own, line_of, place_of

#: Calls that are kept; beyond, all are found anew (a recursion may have any number of ways).
MAX_CALLS: Final = 100_000

_getframe: Final = sys._getframe
_RESUMED: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Call:
    """A call, and by way of `outer` the whole stack: what a collector notes as the site of an access.

    Attributes:
        code: The caller's code; None for the outermost, which stands for no Python at all.
        instruction: Offset of the call in its bytecode.
        outer: The call that runs this code; None for the outermost.
        place: The innermost place of the user's, here or farther out.
        inner: Marks for what this one calls, by the ``id`` of its code.
    """

    __slots__ = ("code", "inner", "instruction", "outer", "place")

    def __init__(self, code: CodeType | None, instruction: int, outer: Call | None, place: Place) -> None:
        self.code, self.instruction, self.outer, self.place = code, instruction, outer, place
        self.inner: dict[int, _Mark] = {}

    @property
    def stack(self) -> Call:
        """The call stack: itself."""
        return self

    def entries(self) -> list[dict[str, Any]]:
        """The stack frames as ``torch._C._profiler.symbolize_tracebacks`` names them, innermost first."""
        found = []
        call: Call | None = self
        while call is not None and call.code is not None:
            code = call.code
            line = line_of(code, call.instruction)
            found.append({"filename": code.co_filename, "line": line, "name": code.co_name})
            call = call.outer
        return found


class _Mark:
    """What a stack frame carries: the calls within it, and what is around it.

    To debuggers, which look for their function in its place, it is as good as None: it is false, and the first time
    that Python calls it, which is when somebody has begun to trace, it takes itself away.

    Attributes:
        outer: The call that runs the code of the stack frame.
        calls: Those within it, by their instruction.
        is_lasting: What is around the code stays as long as its stack frame: it is no generator's.
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


#: The code of this package by its ``id``: calls from it are left out.
_root: Final = Call(None, 0, None, NOWHERE)
_own: Final[dict[int, CodeType]] = {}

#: All other code that was met.
_others: Final[dict[int, CodeType]] = {}

_num_calls = 0


def call(depth: int = 1) -> Call:
    """The call that is under way.

    Args:
        depth: Stack frames to leave out, from the caller's own.
    """
    own = _own
    try:
        stack_frame: Any = _getframe(depth)
    except ValueError:  # a thread of torch's own: nothing in Python called
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
    """Go out to the first stack frame that is marked, and mark all on the way back."""
    way = []
    found = _root
    while stack_frame is not None:
        mark = stack_frame.f_trace
        if type(mark) is _Mark:
            found = mark.calls.get(stack_frame.f_lasti) or _made(mark, stack_frame)
            break
        code = stack_frame.f_code
        if id(code) in _others or _is_new_and_not_own(code):
            way.append(stack_frame)
        stack_frame = stack_frame.f_back
    may_mark = sys.gettrace() is None
    while way:
        stack_frame = way.pop()
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
    if _num_calls >= MAX_CALLS:
        _forget_calls()
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


def _forget_calls() -> None:
    """Begin anew, also where a mark leads: calls that somebody has noted keep what is around them."""
    global _num_calls
    left = [_root]
    while left:
        for mark in (inner := left.pop().inner).values():
            left += mark.calls.values()
            mark.calls.clear()
        inner.clear()
    _num_calls = 0


def forget() -> None:
    """Let go of all code but this package's, and of the marks; called when the last sanitizer has gone off."""
    _forget_calls()
    _others.clear()
    for innermost in sys._current_frames().values():
        _unmark(innermost)
    del innermost  # it may be this stack frame, which would hold itself and all its callers


def _unmark(stack_frame: FrameType) -> None:
    at: FrameType | None = stack_frame
    while at is not None:
        if type(at.f_trace) is _Mark:
            at.f_trace = None
        at = at.f_back
