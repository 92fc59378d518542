"""The cell runner of all cell magics: keeps the value of the cell, then shows and exports the Trace."""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from IPython.core.displayhook import DisplayHook
from IPython.core.error import UsageError

from cudalens.errors import CudalensError
from cudalens.magics.tracebacks import show_lines

if TYPE_CHECKING:
    from types import CodeType, TracebackType

    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.frames import Trace
    from cudalens.magics.options import CellOptions


#: Prefix of the names under which cell runs are in the user's namespace until the cell ends.
RUN_PREFIX: Final = "__cudalens_run_"


class CellRun:
    """The context manager around the statements of one cell. A magic implements `start`, `stop` and `collect`.

    Args:
        shell: The shell that runs the cell.
        magic: Name of the magic, for messages.
        options: Options of the magic line.
        source: The cell without the magic line, or None where it is unknown.
        variable: Name of the run in the user's namespace until the cell ends.

    Attributes:
        value: The value of the cell's last expression.
        trace: What was recorded; None until the run has ended, and where it has no Trace of its own.
    """

    def __init__(
        self, shell: InteractiveShell, magic: str, options: CellOptions, source: str | None, variable: str
    ) -> None:
        self.value: Any = None
        self.trace: Trace | None = None
        self._shell, self._magic, self._source, self._variable = shell, magic, source, variable
        self._asked = options
        self._notes: list[str] = []
        self._is_shown = self._is_inside = False
        self._thread = threading.get_ident()
        shell.events.register("post_execute", self._executed)

    @property
    def is_silent(self) -> bool:
        """Whether the Trace is not shown."""
        return self._asked.quiet

    def start(self) -> None:
        """Begin, before the first statement of the cell."""

    def stop(self, error: BaseException | None) -> None:
        """End, after the last statement of the cell or the exception `error`."""

    def collect(self, error: BaseException | None) -> Trace | None:
        """Return what was recorded."""
        raise NotImplementedError

    def __enter__(self) -> CellRun:
        check_outputs(self._magic, self._asked.outputs)
        try:
            self.start()
        except CudalensError as error:
            raise without_traceback(error) from None
        self._is_inside = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> bool | None:
        self._is_inside = False
        show_lines(error)
        self.stop(error)
        try:
            self.trace = self.collect(error)
            if self.trace is not None:
                self._deliver(self.trace)
        except Exception as failure:  # an error of cudalens neither replaces the user's exception nor fails the cell
            print_error(f"{self._magic}: the result cannot be shown: {type(failure).__name__}: {failure}")
        if error is not None:
            self._show()
        return None

    def output(self) -> Trace | None:
        """With ``-o``: show the value of the last expression, and return the Trace as the value of the cell."""
        if self.value is not None and not _ends_in_semicolon(self._source or ""):
            display(self._shell, self.value)
        self._is_shown = self.trace is not None
        return self.trace

    def _executed(self) -> None:
        """End, unless the cell still runs: messages of widgets trigger this event as well, also on other threads."""
        if not self._is_inside and threading.get_ident() == self._thread:
            self.end()

    def end(self) -> None:
        """Show the Trace, after the cell has ended and IPython has shown its value."""
        with suppress(ValueError):
            self._shell.events.unregister("post_execute", self._executed)
        self._shell.user_ns.pop(self._variable, None)
        self._show()

    def _deliver(self, trace: Trace) -> None:
        """Assign the Trace to the variable and write the files that the magic line asks for."""
        if self._asked.var:
            self._shell.user_ns[self._asked.var] = trace
        kept = f" The run is kept as cudalens.runs[{trace.info.name!r}]."
        self._notes += written(self._magic, trace, self._asked.outputs, kept)

    def _show(self) -> None:
        """Show the Trace and the notes, once."""
        trace, self._is_shown, was_shown = self.trace, True, self._is_shown
        if trace is None or self.is_silent:
            return
        if not was_shown:
            display(self._shell, trace)
            _num_races_shown[self._shell] = num_races_shown(self._shell) + len(trace.races)
        self._print_notes()

    def _print_notes(self) -> None:
        while self._notes:
            print(self._notes.pop(0))  # noqa: T201


def end_runs(shell: InteractiveShell, *, spare: Collection[str]) -> None:
    """End the runs that are in the user's namespace, except those named in `spare`."""
    for name in [name for name in shell.user_ns if name.startswith(RUN_PREFIX) and name not in spare]:
        shell.user_ns[name].end()


def run_as_cell(shell: InteractiveShell, magic: str, line: str, cell: str) -> Any:
    """Run `cell` as IPython does, for callers that use the magic as a function; returns its value.

    Raises:
        UsageError: The cell is empty, or an option is wrong.
        SyntaxError: The cell is not Python; or it has ``await``, which only a cell that IPython itself runs can have.
    """
    __tracebackhide__ = True
    if not cell.strip():
        raise UsageError(f"{magic} is a cell magic, but the cell body is empty.")
    text = shell.transform_cell(f"{magic} {line}\n{cell}")  # type: ignore[no-untyped-call]
    name = shell.compile.cache(text, execution_count(shell))
    tree = shell.transform_ast(shell.compile.ast_parse(text, filename=name))  # type: ignore[no-untyped-call]
    statements, value = _compiled(shell.compile, tree.body, name)
    others = set(shell.user_ns)
    try:
        exec(statements, shell.user_global_ns, shell.user_ns)  # noqa: S102
        return eval(value, shell.user_global_ns, shell.user_ns) if value else None  # noqa: S307
    finally:
        if shell.displayhook.exec_result is None:  # no cell is running, so no end of a cell shows the Trace
            end_runs(shell, spare=others)


def _compiled(compiler: Any, body: list[ast.stmt], name: str) -> tuple[CodeType, CodeType | None]:
    """Return the code of all statements except a last expression, and the code of that expression."""
    value = None
    if body and isinstance(last := body[-1], ast.Expr):
        body, value = body[:-1], compiler(ast.Expression(last.value), name, "eval")
    return compiler(ast.Module(body, []), name, "exec"), value


def execution_count(shell: InteractiveShell) -> int:
    """The n of In[n] of the cell that is running; also where %%capture runs the rest of it as an unstored cell."""
    running = getattr(shell.displayhook, "exec_result", None)
    count = getattr(running, "execution_count", None) or shell.execution_count
    stored = len(shell.history_manager.input_hist_raw) - 1 if shell.history_manager else 0
    return stored if stored and count == stored + 1 else count


def display(shell: InteractiveShell, thing: Any) -> None:
    """Show `thing` below the cell as IPython does, also in a shell that is not the only one of its process."""
    assert shell.display_formatter is not None
    data, metadata = shell.display_formatter.format(thing)  # type: ignore[no-untyped-call]
    if data:
        shell.display_pub.publish(data, metadata)


_num_races_shown: WeakKeyDictionary[InteractiveShell, int] = WeakKeyDictionary()


def num_races_shown(shell: InteractiveShell) -> int:
    """Number of races in the Traces that cells of `shell` have shown so far."""
    return _num_races_shown.get(shell, 0)


def print_error(message: str) -> None:
    """Print a problem on stderr that does not fail the cell."""
    print(message, file=sys.stderr)  # noqa: T201


def without_traceback(error: CudalensError) -> CudalensError:
    """`error`, which IPython then shows without a traceback: its cause is not in the code of the cell."""
    error._render_traceback_ = lambda: [f"{type(error).__name__}: {error}"]  # type: ignore[attr-defined]
    return error


def check_outputs(magic: str, outputs: dict[str, Path]) -> None:
    """Refuse outputs that cannot be written, before anything runs.

    Raises:
        UsageError: A folder is missing or not writable, or a path is a folder.
    """
    if not outputs:
        return
    from cudalens.errors import OutputError
    from cudalens.frames.files import check_target

    for file in outputs.values():
        try:
            check_target(file)
        except OutputError as error:
            raise UsageError(f"{magic}: {error} Nothing has run.") from None


def written(magic: str, trace: Trace, outputs: dict[str, Path], kept: str = "") -> list[str]:
    """Write the outputs of a Trace; returns a line for each file that was written.

    A file that cannot be written is a line on stderr, which ends with `kept`.
    """
    lines = []
    for method, path in outputs.items():
        try:
            lines.append(f"Wrote {_described(getattr(trace, method)(path))}.")
        except Exception as error:
            print_error(f"{magic}: {path} was not written: {type(error).__name__}: {error}{kept}")
    return lines


def _described(path: Path) -> str:
    from cudalens.analysis import units

    return f"{path} ({units.size(path.stat().st_size)})"


def _ends_in_semicolon(source: str) -> bool:
    return bool(DisplayHook.semicolon_at_end_of_expression(source))  # type: ignore[no-untyped-call]
