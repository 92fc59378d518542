"""What stands around a cell's statements: keeps its value, and shows and exports the Trace when the cell has ended."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from IPython.core.displayhook import DisplayHook
from IPython.core.error import UsageError

from cudalens.magics.cell_magics import RUN_PREFIX

if TYPE_CHECKING:
    from types import CodeType

    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.errors import CudalensError
    from cudalens.frames import Trace


class CellBlock:
    """The part that all cell magics share.

    Args:
        shell: The shell that runs the cell.
        magic: Name of the magic, for messages.
        source: The cell without the magic line, or None where it is not known.
        variable: Name under which the block stands in the user's namespace until the cell has ended.
        var: Variable that receives the Trace, or None.
        outputs: Files to write, by the method of Trace that writes them.

    Attributes:
        value: The value of the cell's last expression.
        trace: What was found; None until the block has ended, and where it has none of its own.
    """

    def __init__(
        self,
        shell: InteractiveShell,
        magic: str,
        source: str | None,
        variable: str,
        *,
        var: str | None,
        outputs: dict[str, Path],
    ) -> None:
        self.value: Any = None
        self.trace: Trace | None = None
        self._shell, self._magic, self._source, self._variable = shell, magic, source, variable
        self._var, self._outputs = var, outputs
        self._notes: list[str] = []
        self._is_shown = False
        shell.events.register("post_execute", self.end)

    @property
    def is_silent(self) -> bool:
        """Whether the Trace is not shown."""
        return False

    def output(self) -> Trace | None:
        """With ``-o``: show the value of the last expression, and return the Trace as the value of the cell."""
        if self.value is not None and not _ends_in_semicolon(self._source or ""):
            display(self._shell, self.value)
        self._is_shown = self.trace is not None
        return self.trace

    def end(self) -> None:
        """The cell has ended, and IPython has shown its value: show the Trace."""
        with suppress(ValueError):
            self._shell.events.unregister("post_execute", self.end)
        self._shell.user_ns.pop(self._variable, None)
        self._show()

    def _deliver(self, trace: Trace) -> None:
        """Put the Trace where it was asked for."""
        if self._var:
            self._shell.user_ns[self._var] = trace
        for method, path in self._outputs.items():
            try:
                self._notes.append(f"Wrote {_described(getattr(trace, method)(path))}.")
            except Exception as error:  # an export that fails loses neither the trace nor what is shown
                complain(
                    f"{self._magic}: {path} was not written: {type(error).__name__}: {error} "
                    f"The run is kept as cudalens.runs[{trace.info.name!r}]."
                )

    def _show(self) -> None:
        """Show the Trace and what was written, once."""
        trace, self._is_shown, was_shown = self.trace, True, self._is_shown
        if trace is None or self.is_silent:
            return
        if not was_shown:
            display(self._shell, trace)
            _num_races_shown[self._shell] = num_races_shown(self._shell) + len(trace.races)
        while self._notes:
            print(self._notes.pop(0))  # noqa: T201


def end_runs(shell: InteractiveShell, *, spare: Collection[str]) -> None:
    """End the blocks that stand in the user's namespace, but for those named in `spare`."""
    for name in [name for name in shell.user_ns if name.startswith(RUN_PREFIX) and name not in spare]:
        shell.user_ns[name].end()


def run_as_cell(shell: InteractiveShell, magic: str, line: str, cell: str) -> Any:
    """Run `cell` as IPython would, where somebody calls the magic as a function; returns its value.

    Raises:
        UsageError: The cell is empty, or an option is wrong.
        SyntaxError: The cell is not Python; it awaits, which only a cell can that IPython itself runs.
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
        if shell.displayhook.exec_result is None:  # no cell is running whose end would show the Trace
            end_runs(shell, spare=others)


def _compiled(compiler: Any, body: list[ast.stmt], name: str) -> tuple[CodeType, CodeType | None]:
    """The code of all statements but a last expression, and the code of that expression."""
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
    """How many races stood in the Traces that cells of `shell` have shown so far."""
    return _num_races_shown.get(shell, 0)


def complain(message: str) -> None:
    """Tell the user on stderr, where an exception would be too much."""
    print(message, file=sys.stderr)  # noqa: T201


def brief(error: CudalensError) -> CudalensError:
    """`error`, shown by IPython without a traceback: the message says it all, and the cell is not to blame."""
    error._render_traceback_ = lambda: [f"{type(error).__name__}: {error}"]  # type: ignore[attr-defined]
    return error


def _described(path: Path) -> str:
    from cudalens.analysis import units

    return f"{path} ({units.size(path.stat().st_size)})"


def _ends_in_semicolon(source: str) -> bool:
    return bool(DisplayHook.semicolon_at_end_of_expression(source))  # type: ignore[no-untyped-call]
