"""Show tracebacks of cells as without cudalens: frames of the user's program, and the lines that the user wrote.

Three things would differ. Operators of a virtual device, graphs and the sanitizer run inside of cudalens, so that an
error of the program has frames of it. A magic line is a text literal for Python (`cudalens.magics.syntax`). And the
compiler gives some jumps at the end of a loop's body no line: where a KeyboardInterrupt is raised at such a jump, the
``tb_lineno`` of its entry is None, and IPython (as of 9.18) prints "Unexpected exception formatting exception" instead.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from cudalens.device.interrupts import DeferredInterrupts
from cudalens.errors import CudalensError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_OWN: Final = str(Path(__file__).parents[1])
_SHOW: Final = "showtraceback"
#: Errors of the user's program, also where cudalens raises them. Others that cudalens raises may be faults of it.
_OF_PROGRAM: Final = (RuntimeError, CudalensError, AssertionError, KeyboardInterrupt)


def show_own_frames_only(shell: InteractiveShell) -> None:
    """Make `shell` show tracebacks without frames of cudalens and of what it calls."""
    original = shell.showtraceback

    def showtraceback(exc_tuple: Any = None, *args: Any, **options: Any) -> None:
        error = sys.exc_info()[1] if exc_tuple is None else exc_tuple[1]
        if not isinstance(error, BaseException):
            original(exc_tuple, *args, **options)
            return
        show_lines(error)
        with _users_view(error):
            original((type(error), error, error.__traceback__), *args, **options)

    showtraceback.replaced = vars(shell).get(_SHOW)  # type: ignore[attr-defined]
    setattr(shell, _SHOW, showtraceback)


def show_all_frames(shell: InteractiveShell) -> None:
    """Undo `show_own_frames_only`, unless another extension has replaced the method since: it calls this one."""
    present: Any = vars(shell).get(_SHOW)
    if getattr(present, "__module__", "") != __name__:
        return
    del vars(shell)[_SHOW]
    if present.replaced is not None:
        setattr(shell, _SHOW, present.replaced)


@contextmanager
def _users_view(error: BaseException) -> Iterator[None]:
    """Give `error` and the errors that it is raised from the frames of the user, and the cell's file its magic line."""
    errors = list(_chain(error))
    trails = [one.__traceback__ for one in errors]
    files = {entry.tb_frame.f_code.co_filename for trail in trails for entry in _entries(trail)}
    cached = {name: linecache.cache[name] for name in files if name in linecache.cache}
    try:
        for one in errors:
            one.__traceback__ = without_own_frames(one)
        for name, entry in cached.items():
            if len(entry) == 4 and entry[2] and entry[2][0].startswith(("u'%%", 'u"%%')):
                linecache.cache[name] = (entry[0], entry[1], [_as_typed(line) for line in entry[2]], entry[3])
        yield
    finally:
        linecache.cache.update(cached)
        for one, trail in zip(errors, trails, strict=True):
            one.__traceback__ = trail


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _as_typed(line: str) -> str:
    """Return the magic line of a text literal that `cudalens.magics.syntax` wrote for it.

    It is a comment: IPython shows other lines around an error where the file cannot be parsed.
    """
    if not line.startswith(("u'%%cuda", 'u"%%cuda')):
        return line
    try:
        return f"# {ast.literal_eval(line)}\n"
    except (SyntaxError, ValueError):
        return line


def without_own_frames(error: BaseException) -> TracebackType | None:
    """Return the traceback of `error` without frames of cudalens, and of torch where cudalens called it.

    All frames stay where cudalens itself raised an error that a program does not cause: they belong in a bug report.
    """
    entries = list(_entries(error.__traceback__))
    if not entries or (_is_own(entries[-1]) and not isinstance(error, _OF_PROGRAM)):
        return error.__traceback__
    kept, is_inside = [], False
    for entry in entries:
        is_inside = _is_own(entry) or (is_inside and _is_library(entry))
        if not is_inside:
            kept.append(entry)
    return _linked(kept)


def _is_own(entry: TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith(_OWN)


def _is_library(entry: TracebackType) -> bool:
    """Whether torch or Python's library is at work, which cudalens calls, or which calls cudalens."""
    module = str(entry.tb_frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] in {"torch", *sys.stdlib_module_names} and module != "__main__"


def show_lines(error: BaseException | None) -> None:
    """Replace the traceback of `error` if it is a KeyboardInterrupt: entries have lines, and our handler has none."""
    if isinstance(error, KeyboardInterrupt):
        error.__traceback__ = with_lines(error.__traceback__)


def with_lines(trail: TracebackType | None) -> TracebackType | None:
    """Return a traceback like `trail` whose entries all have lines, without entries of `DeferredInterrupts`."""
    entries = list(_entries(trail))
    while entries and entries[-1].tb_frame.f_code.co_filename == DeferredInterrupts.install.__code__.co_filename:
        entries.pop()
    return _linked(entries)


def _entries(trail: TracebackType | None) -> Iterator[TracebackType]:
    while trail is not None:
        yield trail
        trail = trail.tb_next


def _linked(entries: Iterable[TracebackType]) -> TracebackType | None:
    """Return a traceback of `entries`, in which each has a line."""
    new: TracebackType | None = None
    for entry in reversed(list(entries)):
        new = TracebackType(new, entry.tb_frame, entry.tb_lasti, _line(entry, entry.tb_frame.f_code))
    return new


def _line(entry: TracebackType, code: CodeType) -> int:
    """The line of `entry`, or of the last instruction before it that has one, or of the start of its function."""
    line: int | None = entry.tb_lineno
    if line is not None and line > 0:
        return line
    before = [line for start, _, line in code.co_lines() if line is not None and start <= entry.tb_lasti]
    return before[-1] if before else code.co_firstlineno
