"""The magics class: the line form of ``%cudaprofile``, and the cell form where it is called as a function."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from cudalens.errors import CudalensError
from cudalens.magics.blocks import brief, display, run_as_cell
from cudalens.magics.options import MAGIC, documented, usage

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_LINE_USAGE = (
    "usage: %cudaprofile list | show [NAME] | diff [A B] | history [on [FILE] | off]   "
    "(and %%cudaprofile on top of a cell to profile it)"
)


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

        As a line, ``%cudaprofile list`` lists the runs of this session, ``%cudaprofile show NAME`` shows one again, and
        ``%cudaprofile diff A B`` tells what became faster or slower from A to B: runs, variables or files. Without
        names they are of the last run, and of the last two.
        Runs stay in memory until ``del cudalens.runs[NAME]`` or ``cudalens.runs.clear()``.
        """
        __tracebackhide__ = True
        return self._line(line) if cell is None else run_as_cell(self._user_shell, MAGIC, line, cell)

    def _line(self, line: str) -> None:
        words = line.split(maxsplit=1)
        if not words:
            print(_LINE_USAGE)  # noqa: T201
            return
        from cudalens.api.runs import runs

        match words:
            case ["list"]:
                print(runs)  # noqa: T201
            case ["show", *rest]:
                self._show(rest[0] if rest else "")
            case ["history", *rest]:
                self._history(rest[0] if rest else "")
            case ["diff", *rest]:
                self._diff(rest[0] if rest else "")
            case _:
                raise UsageError(f"%cudaprofile: what is {line!r}?\n{_LINE_USAGE}\n\n{usage()}")

    def _show(self, name: str) -> None:
        from cudalens.api.runs import runs

        if not runs:
            raise UsageError("%cudaprofile: there is no run to show yet; put %%cudaprofile on top of a cell")
        if name and name not in runs:
            raise UsageError(f"%cudaprofile: there is no run {name!r}; there are: {', '.join(runs)}")
        display(self._user_shell, runs[name] if name else runs.last)

    def _history(self, line: str) -> None:
        from cudalens.api import history
        from cudalens.errors import HistoryError
        from cudalens.views.sections.history import History

        match line.split(maxsplit=1):
            case []:
                display(self._user_shell, History(history.table(), history.where()))
            case ["on", *file]:
                try:
                    path = history.on(file[0].strip("\"'") if file else None)
                except HistoryError as error:
                    raise brief(error) from None
                print(f"Summaries of profiled cells are kept in {path}.")  # noqa: T201
            case ["off"]:
                history.off()
            case _:
                raise UsageError(f"%cudaprofile history: what is {line!r}? Expected nothing, on [FILE] or off.")

    def _diff(self, line: str) -> None:
        from cudalens.api.compare import compare
        from cudalens.api.runs import runs

        try:
            words = shlex.split(line) or list(runs)[-2:]
        except ValueError as error:
            raise UsageError(f"%cudaprofile diff: {error} in {line!r}") from None
        if len(words) != 2:
            raise UsageError(f"%cudaprofile diff: expected two runs, variables or files, found {len(words)}: {line!r}")
        try:
            display(self._user_shell, compare(*(self._run_of(word) for word in words)))
        except CudalensError as error:
            raise brief(error) from None

    def _run_of(self, word: str) -> Any:
        """What a word of the line means: a run or a file by its name, or what a variable holds."""
        from cudalens.api.runs import runs
        from cudalens.frames import Ranks, Trace

        value = self._user_shell.user_ns.get(word)
        is_runs = isinstance(value, Trace | Ranks) or (
            isinstance(value, list | tuple) and bool(value) and all(isinstance(one, Trace | str) for one in value)
        )
        return value if is_runs and word not in runs else word

    @property
    def _user_shell(self) -> InteractiveShell:
        assert self.shell is not None
        return self.shell
