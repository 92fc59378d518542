"""Give every entry of an interrupt's traceback a line number, without which IPython does not show the error.

The compiler gives some jumps at the end of a loop's body no line. A KeyboardInterrupt can be raised at such a jump; the
``tb_lineno`` of its entry is None, and IPython (as of 9.18) prints "Unexpected exception formatting exception" instead.
"""

from __future__ import annotations

from types import CodeType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from cudalens.device.interrupts import DeferredInterrupts

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

#: An object of its own: `restore_interrupts` compares by identity whether the handler is still in place.
_INTERRUPTS: Final = (KeyboardInterrupt,)


def show_lines(error: BaseException | None) -> None:
    """Replace the traceback of `error` if it is a KeyboardInterrupt: entries have lines, and our handler has none."""
    if isinstance(error, KeyboardInterrupt):
        error.__traceback__ = with_lines(error.__traceback__)


def repair_interrupts(shell: InteractiveShell) -> None:
    """Apply `show_lines` to the interrupts of all following cells, unless the user has a handler of exceptions."""
    if not shell.custom_exceptions:
        shell.set_custom_exc(_INTERRUPTS, _show_interrupt)  # type: ignore[no-untyped-call]


def restore_interrupts(shell: InteractiveShell) -> None:
    """Undo `repair_interrupts`."""
    if shell.custom_exceptions is _INTERRUPTS:
        shell.set_custom_exc((), None)  # type: ignore[no-untyped-call]


def _show_interrupt(
    shell: InteractiveShell, kind: Any, error: BaseException, trail: Any, tb_offset: Any = None
) -> None:
    show_lines(error)
    shell.showtraceback((kind, error, error.__traceback__), tb_offset=tb_offset)


def with_lines(trail: TracebackType | None) -> TracebackType | None:
    """Return a traceback like `trail` whose entries all have lines, without entries of `DeferredInterrupts`."""
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
