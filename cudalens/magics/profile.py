"""The magics class: the line form of ``%cudaprofile``, and the cell form where it is called as a function."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from cudalens.magics.blocks import display, end_runs, execution_count
from cudalens.magics.options import MAGIC, documented, usage

if TYPE_CHECKING:
    from types import CodeType

    from IPython.core.interactiveshell import InteractiveShell

_LINE_USAGE = "usage: %cudaprofile list | show NAME   (and %%cudaprofile on top of a cell to profile it)"


@magics_class
class CudaprofileMagics(Magics):
    """``%%cudaprofile`` and ``%cudaprofile``."""

    @documented
    @no_var_expand
    @line_cell_magic
    def cudaprofile(self, line: str, cell: str | None = None) -> Any:
        """Profile the cell and show its timeline, its costs and its memory.

        Everything that the cell does stays as it is: its output, the value of its last expression, its exceptions,
        ``await``, and other magics in it. What was recorded is shown below, and is kept in ``cudalens.runs``.

        As a line, ``%cudaprofile list`` lists the runs of this session and ``%cudaprofile show NAME`` shows one again.
        Runs stay in memory until ``del cudalens.runs[NAME]`` or ``cudalens.runs.clear()``.
        """
        __tracebackhide__ = True
        return self._line(line) if cell is None else self._cell(line, cell)

    def _line(self, line: str) -> None:
        words = line.split(maxsplit=1)
        if not words:
            print(_LINE_USAGE)  # noqa: T201
            return
        from cudalens.session import runs

        match words:
            case ["list"]:
                print(runs)  # noqa: T201
            case ["show", name] if name in runs:
                display(self._user_shell, runs[name])
            case ["show", name]:
                raise UsageError(f"%cudaprofile: there is no run {name!r}; there are: {', '.join(runs) or 'none'}")
            case _:
                raise UsageError(f"%cudaprofile: what is {line!r}?\n{_LINE_USAGE}\n\n{usage()}")

    @property
    def _user_shell(self) -> InteractiveShell:
        assert self.shell is not None
        return self.shell

    def _cell(self, line: str, cell: str) -> Any:
        """Run `cell` as IPython would, where somebody calls the magic as a function; returns its value.

        Raises:
            UsageError: The cell is empty, or an option is wrong.
            SyntaxError: The cell is not Python; it awaits, which only a cell can that IPython itself runs.
        """
        __tracebackhide__ = True
        if not cell.strip():
            raise UsageError(f"{MAGIC} is a cell magic, but the cell body is empty.")
        shell = self._user_shell
        text = shell.transform_cell(f"{MAGIC} {line}\n{cell}")  # type: ignore[no-untyped-call]
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
