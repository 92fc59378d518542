"""``%cudasan confirm``: runs the last checked cell again with delays that provoke its races, once the user agrees."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from os import devnull
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from IPython.core.error import UsageError

from cudalens.errors import ExploreError
from cudalens.fixes.names import find_effects
from cudalens.magics.cells import display

if TYPE_CHECKING:
    from types import CodeType

    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.magics.sanitize import ConfirmOptions
    from cudalens.sanitizer import Sanitizer
    from cudalens.sanitizer.engine import Race


_last: WeakKeyDictionary[InteractiveShell, WatchedCell] = WeakKeyDictionary()


def remember(shell: InteractiveShell, cell: WatchedCell) -> None:
    """Store `cell` as the last checked one."""
    _last[shell] = cell


def forget(shell: InteractiveShell) -> None:
    """Forget the last checked cell."""
    _last.pop(shell, None)


def ended_cell(shell: InteractiveShell, sanitizer: Sanitizer, races: tuple[Race, ...], result: Any) -> WatchedCell:
    """Return the cell that has just ended.

    Args:
        shell: The shell.
        sanitizer: The sanitizer that was on.
        races: The races in the cell.
        result: IPython's result of the cell.
    """
    raw: str = result.info.raw_cell
    count = result.execution_count or shell.execution_count
    transformed = getattr(result.info, "transformed_cell", None) or shell.transform_cell(raw)  # type: ignore[no-untyped-call]
    filename = shell.compile.get_code_name(raw, transformed, count)
    lines = raw.split("\n")
    while lines and not lines[0].strip():  # IPython removes them
        lines.pop(0)
    text, first_line = bare("\n".join(lines))
    return WatchedCell(sanitizer, races, text, first_line, filename, count)


def confirm(shell: InteractiveShell, options: ConfirmOptions) -> None:
    """Print what running the last checked cell again does; with ``--yes`` run it, and show the result.

    Raises:
        ExploreError: It cannot be done.
        UsageError: An option is wrong.
    """
    from cudalens.api.confirm import MAX_RUNS, checked_device
    from cudalens.sanitizer.rerun import DEFAULT_RUNS, MAX_RACES

    runs = options.runs or DEFAULT_RUNS
    if runs > MAX_RUNS:
        raise UsageError(f"%cudasan confirm: --runs {runs}: expected a whole number from 1 to {MAX_RUNS:,}.")
    checked_device(on_virtual=options.on_virtual)
    cell = _cell(shell)
    if not options.yes:
        limit = f" --limit {options.limit_s}" if options.limit_s is not None else ""
        command = f"%cudasan confirm --runs {runs}{limit}{' --on-virtual' * options.on_virtual} --yes"
        print(question(cell, shell, runs, MAX_RACES, command))  # noqa: T201
        return
    program = program_of(cell, shell)
    found: Any = cell.sanitizer.confirm(
        program, races=cell.races, runs=runs, limit_s=options.limit_s, on_virtual=options.on_virtual
    )
    display(shell, found)


def _cell(shell: InteractiveShell) -> WatchedCell:
    cell = _last.get(shell)
    if cell is None:
        raise ExploreError(
            "no cell has been checked that used a GPU. `%cudasan on` checks the following cells, `%%cudasan` on top "
            "of a cell that cell."
        )
    if not cell.races:
        raise ExploreError(f"there is no race to confirm: {cell.name}, the last checked cell, has none.")
    return cell


#: Cell magics that do not change what the cell does: it runs again without them.
_OBSERVERS: Final = ("%%cudaprofile", "%%cudasan", "%%cudamem")

_ASKS: Final = frozenset({"input", "getpass", "breakpoint", "exit", "quit"})

_MAX_LINES: Final = 12
_MAX_LABEL: Final = 60


@dataclass(frozen=True)
class WatchedCell:
    """A cell that was checked.

    Attributes:
        sanitizer: The sanitizer that was on.
        races: The races in the cell.
        source: The cell's text, with empty strings for the magic lines of cudalens, so that lines keep their numbers.
        first_line: Number of the first line that the user wrote.
        filename: File name of its code.
        count: The n of In[n].
    """

    sanitizer: Sanitizer
    races: tuple[Race, ...]
    source: str
    first_line: int
    filename: str
    count: int

    @property
    def name(self) -> str:
        """``In[3]``."""
        return f"In[{self.count}]"

    @property
    def lines(self) -> list[str]:
        """The lines that the user wrote, without the magic lines."""
        return self.source.split("\n")[self.first_line - 1 :]

    def statements(self, shell: InteractiveShell) -> list[ast.stmt]:
        """Its statements, as IPython runs them.

        Args:
            shell: The shell that it ran in.

        Raises:
            ExploreError: It cannot run again.
        """
        try:
            text = shell.transform_cell(self.source)  # type: ignore[no-untyped-call]
            tree = shell.transform_ast(shell.compile.ast_parse(text, filename=self.filename))  # type: ignore[no-untyped-call]
        except SyntaxError as error:
            raise ExploreError(f"{self.name} cannot run again: {error}") from None
        for node in ast.walk(tree):
            if (why := _refused(node)) is not None:
                line = getattr(node, "lineno", 1)
                raise ExploreError(
                    f"{self.name} cannot run again by itself: it {why} (line {line}). Put the statements that can run "
                    "again into a cell of their own, or into a function: san.confirm(function)."
                )
        return tree.body


def bare(source: str, *, before: int = 0) -> tuple[str, int]:
    """Return a cell's text without the magic lines of cudalens on top of it, and the number of the user's first line.

    Args:
        source: The text.
        before: Number of lines above the text in the cell.
    """
    lines = source.split("\n")
    first = 0
    for number, line in enumerate(lines):
        words = line.split(maxsplit=1)
        if words and words[0] not in _OBSERVERS:
            break
        if words:
            lines[number], first = "''", number + 1
    return "\n".join(["''"] * before + lines), before + first + 1


def _refused(node: ast.AST) -> str | None:
    match node:
        case ast.Await() | ast.AsyncFor() | ast.AsyncWith():
            return "awaits"
        case ast.Name(id="get_ipython"):
            return "has a magic or a shell command"
        case ast.Call(func=ast.Name(id=name)) if name in _ASKS:
            return f"calls {name}()"
    return None


def program_of(cell: WatchedCell, shell: InteractiveShell) -> Any:
    """Return a cell as a `cudalens.sanitizer.rerun.Program`; each run shows nothing and leaves no figure open.

    Raises:
        ExploreError: It cannot run again.
    """
    from cudalens.api.confirm import holders_among, numbers_in
    from cudalens.api.explore import tensors_among
    from cudalens.fixes.names import names_of
    from cudalens.sanitizer.rerun import Program

    body = cell.statements(shell)
    codes, value, label = _compiled(cell, body, shell.compile)
    namespace: dict[str, Any] = shell.user_ns
    assigned = sorted(names_of(body).assigned)

    def run() -> Any:
        with silent(shell):
            for code in codes:
                exec(code, shell.user_global_ns, namespace)  # noqa: S102
            return eval(value, shell.user_global_ns, namespace) if value is not None else None  # noqa: S307

    def outputs(result: Any) -> dict[str, Any]:
        found = dict(tensors_among(namespace)) | dict(tensors_among({label: result}))
        for name in assigned:
            found |= dict(numbers_in(name, namespace.get(name)))
        return found | dict(numbers_in(label, result))

    tensors = [tensor for _, tensor in tensors_among(namespace)]
    return Program(run, outputs, namespace, tensors, holders_among(namespace))


def _compiled(
    cell: WatchedCell, body: Sequence[ast.stmt], compiler: Callable[..., CodeType]
) -> tuple[list[CodeType], CodeType | None, str]:
    """The code of each statement and of a last expression, as IPython compiles them, and a label of its value."""
    *rest, last = body
    if not isinstance(last, ast.Expr):
        return [compiler(ast.Module([node], []), cell.filename, "exec") for node in body], None, ""
    text = " ".join(ast.unparse(last.value).split())
    label = text if len(text) <= _MAX_LABEL else f"{text[: _MAX_LABEL - 1]}…"
    codes = [compiler(ast.Module([node], []), cell.filename, "exec") for node in rest]
    return codes, compiler(ast.Expression(last.value), cell.filename, "eval"), label


@contextmanager
def silent(shell: InteractiveShell) -> Iterator[None]:
    """Discard what is printed, displayed or plotted within the block."""
    from IPython.core.displaypub import CapturingDisplayPublisher

    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    figures = set(pyplot.get_fignums()) if pyplot is not None else set()
    capturing: Any = CapturingDisplayPublisher
    publisher, shell.display_pub = shell.display_pub, capturing()
    with ExitStack() as stack:
        stack.callback(setattr, shell, "display_pub", publisher)
        null = stack.enter_context(open(devnull, "w", encoding="utf-8"))
        stack.enter_context(redirect_stdout(null))
        stack.enter_context(redirect_stderr(null))
        yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    for number in set(pyplot.get_fignums()) - figures if pyplot is not None else ():
        pyplot.close(number)


def question(cell: WatchedCell, shell: InteractiveShell, runs: int, most_races: int, command: str) -> str:
    """Return the text that is printed before a cell runs again.

    Args:
        cell: The cell.
        shell: The shell that it ran in.
        runs: Delayed runs for each race.
        most_races: How many races are tried at a time.
        command: The line that runs it.

    Raises:
        ExploreError: The cell cannot run again.
    """
    body = cell.statements(shell)
    num_races = min(len(cell.races), most_races)
    times = 2 + 2 * num_races * runs
    races = f"{num_races} race{'s' * (num_races != 1)}"
    shown = [line for line in cell.lines if line.strip()]
    more = len(shown) - _MAX_LINES
    text = "\n".join(f"    {line}" for line in shown[:_MAX_LINES]) + (
        f"\n    … and {more} more lines" if more > 0 else ""
    )
    calls = [f"  line {line}: {what} ({call})" for line, what, call in find_effects(body)]
    does = (
        "By the names of its calls, it:\n" + "\n".join(calls)
        if calls
        else "Its calls have no names that suggest files, prints or requests."
    )
    return (
        f"To confirm {races}, the code of {cell.name} would run again, for real, up to {times:,} times "
        f"(twice in its own order, then up to {runs:,} times with delays for each race, and once more in its own order "
        f"after each run in which values differ):\n\n{text}\n\n"
        f"Each run does all that the cell does: files are written again, requests are sent again. "
        f"What it prints or shows is discarded. {does}\n"
        "Restored before each run and at the end: tensors that it writes, your variables, the contents of their lists, "
        "dictionaries and sets, random number generators, current streams.\n"
        "Not restored: files, other Python objects (a counter in an object, the position of an iterator), other "
        f"programs.\n\nNothing has run. To run it:  {command}"
    )
