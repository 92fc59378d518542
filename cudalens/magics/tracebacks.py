"""Give every entry of an interrupt's traceback a line number, without which IPython does not show the error.

The compiler gives some jumps at the end of a loop's body no line. A KeyboardInterrupt can be raised at such a jump; the
``tb_lineno`` of its entry is None, and IPython (as of 9.18) prints "Unexpected exception formatting exception" instead.
"""

from __future__ import annotations

from types import CodeType, TracebackType

from cudalens.device.interrupts import DeferredInterrupts


def show_lines(error: BaseException | None) -> None:
    """Replace the traceback of `error` if it is a KeyboardInterrupt: entries have lines, and our handler has none."""
    if isinstance(error, KeyboardInterrupt):
        error.__traceback__ = with_lines(error.__traceback__)


def with_lines(trail: TracebackType | None) -> TracebackType | None:
    """A traceback like `trail` whose entries all have lines, without entries of `DeferredInterrupts`."""
    entries = []
    while trail is not None:
        entries.append(trail)
        trail = trail.tb_next
    new: TracebackType | None = None
    for entry in reversed(entries):
        code = entry.tb_frame.f_code
        if new is None and code.co_filename == DeferredInterrupts.install.__code__.co_filename:
            continue
        new = TracebackType(new, entry.tb_frame, entry.tb_lasti, _line(entry, code))
    return new


def _line(entry: TracebackType, code: CodeType) -> int:
    """The line of `entry`, or of the last instruction before it that has one, or of the start of its function."""
    line: int | None = entry.tb_lineno
    if line is not None and line > 0:
        return line
    before = [line for start, _, line in code.co_lines() if line is not None and start <= entry.tb_lasti]
    return before[-1] if before else code.co_firstlineno
