"""Raise KeyboardInterrupt at a chosen line of cudalens while a program runs."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import cudalens

PACKAGE = str(Path(cudalens.__file__).parent)


@dataclass(frozen=True)
class Place:
    """A line of cudalens that a program executes."""

    path: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} ({self.function})"


def place_of(code: CodeType, line: int) -> Place:
    """Return a line of a function as a `Place`."""
    return Place(str(Path(code.co_filename).relative_to(PACKAGE)), line, code.co_qualname)


def executed_places(program: Callable[[], object]) -> list[Place]:
    """Run a program and return the lines of cudalens that this thread executes, each once, in order."""
    seen: dict[tuple[CodeType, int], None] = {}
    trace_lines(program, lambda frame: seen.setdefault((frame.f_code, frame.f_lineno)))
    return [place_of(code, line) for code, line in seen]


@dataclass
class Interruption:
    """What became of an interrupt: whether its line was reached, and what the program raised."""

    is_reached: bool = False
    is_ignored: bool = False
    error: BaseException | None = None


def interrupt_at(place: Place, program: Callable[[], object]) -> Interruption:
    """Run a program and deliver SIGINT, as its handler gets it, where it first executes a line.

    Python ignores an exception in a finalizer or in a callback of the garbage collector, an interrupt as well: then
    the result says so.
    """
    result = Interruption()

    def deliver(frame: FrameType) -> None:
        if result.is_reached or frame.f_lineno != place.line or place_of(frame.f_code, place.line) != place:
            return
        result.is_reached = True
        signal.getsignal(signal.SIGINT)(signal.SIGINT, frame)

    def ignored(unraisable: Any) -> None:
        result.is_ignored |= isinstance(unraisable.exc_value, KeyboardInterrupt)

    hook, sys.unraisablehook = sys.unraisablehook, ignored
    try:
        trace_lines(program, deliver)
    except BaseException as error:
        result.error = error.with_traceback(None)
    finally:
        sys.unraisablehook = hook
    return result


def trace_lines(program: Callable[[], object], on_line: Callable[[FrameType], object]) -> None:
    """Run a program and call `on_line` before each line of cudalens that this thread executes."""

    def local(frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            on_line(frame)
        return local

    def enter(frame: FrameType, event: str, _: object) -> Any:
        return local if frame.f_code.co_filename.startswith(PACKAGE) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        program()
    finally:
        sys.settrace(before)
