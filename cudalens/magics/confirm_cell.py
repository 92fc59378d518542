"""The last watched cell as something that can run again, and what to tell before it does."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from os import devnull
from typing import TYPE_CHECKING, Any, Final

from cudalens.errors import ExploreError

if TYPE_CHECKING:
    from types import CodeType

    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.sanitizer import Sanitizer
    from cudalens.sanitizer.engine import Race

_OBSERVERS: Final = ("%%cudaprofile", "%%cudasan", "%%cudamem")
"""Cell magics that leave the cell what it is: it runs again without them."""

_ASKS: Final = frozenset({"input", "getpass", "breakpoint", "exit", "quit"})

_EFFECTS: Final = {
    "writes files": frozenset(
        {"open", "save", "dump", "write", "writelines", "write_text", "write_bytes", "to_csv", "to_parquet", "to_json"}
        | {"to_html", "to_pickle", "savez", "savetxt", "savefig", "save_pretrained", "save_file", "mkdir", "makedirs"}
        | {"unlink", "remove", "rename", "replace", "rmtree", "copyfile", "copytree", "move", "add_scalar"}
    ),
    "starts programs": frozenset({"system", "Popen", "check_call", "check_output", "spawn"}),
    "speaks with others": frozenset({"urlopen", "urlretrieve", "request", "post", "put", "send", "sendall", "publish"}),
    "prints": frozenset({"print", "display", "pprint"}),
    "takes from an iterator": frozenset({"next"}),
}
"""What a call of that name does, as far as a name tells."""

_MAX_LINES: Final = 12
_MAX_LABEL: Final = 60


@dataclass(frozen=True)
class WatchedCell:
    """A cell that was watched.

    Attributes:
        sanitizer: It watched.
        races: What it found in it.
        source: The cell's text; magics that observe are blank texts in it, so that lines keep their numbers.
        first_line: Number of the first line that the user wrote.
        filename: Of its code, as Python names it.
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
        """What the user wrote, without the magic lines."""
        return self.source.split("\n")[self.first_line - 1 :]

    def statements(self, shell: InteractiveShell) -> list[ast.stmt]:
        """Its statements, as IPython runs them.

        Args:
            shell: The shell that it ran in.

        Raises:
            ExploreError: It is nothing that can run again.
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
                    f"{self.name} cannot run again by itself: it {why} (line {line}). Put what is to run again into a "
                    "cell of its own, or into a function: san.confirm(function)."
                )
        found: list[ast.stmt] = tree.body
        return found


def bare(source: str, *, before: int = 0) -> tuple[str, int]:
    """A cell's text without the magics on top of it that observe, and the number of the user's first line.

    Args:
        source: The text.
        before: Lines above it that are not in it.
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
            return "holds a magic or a shell command"
        case ast.Call(func=ast.Name(id=name)) if name in _ASKS:
            return f"calls {name}()"
    return None


def program_of(cell: WatchedCell, shell: InteractiveShell) -> Any:
    """A cell as a `cudalens.sanitizer.rerun.Program`: each run of it is silent, and leaves no figure behind.

    Raises:
        ExploreError: It is nothing that can run again.
    """
    from cudalens.api.confirm import holders_among, numbers_in
    from cudalens.api.explore import tensors_among
    from cudalens.magics.cell_names import names_of
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
    """The code of each statement, as IPython compiles them; that of a last expression, and what to call its value."""
    *rest, last = body
    if not isinstance(last, ast.Expr):
        return [compiler(ast.Module([node], []), cell.filename, "exec") for node in body], None, ""
    text = " ".join(ast.unparse(last.value).split())
    label = text if len(text) <= _MAX_LABEL else f"{text[: _MAX_LABEL - 1]}…"
    codes = [compiler(ast.Module([node], []), cell.filename, "exec") for node in rest]
    return codes, compiler(ast.Expression(last.value), cell.filename, "eval"), label


@contextmanager
def silent(shell: InteractiveShell) -> Iterator[None]:
    """Nothing that is printed, displayed or plotted meanwhile is seen."""
    from IPython.core.displaypub import CapturingDisplayPublisher

    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    figures = set(pyplot.get_fignums()) if pyplot is not None else set()
    nobody: Any = CapturingDisplayPublisher
    publisher, shell.display_pub = shell.display_pub, nobody()
    with ExitStack() as stack:
        stack.callback(setattr, shell, "display_pub", publisher)
        nowhere = stack.enter_context(open(devnull, "w", encoding="utf-8"))
        stack.enter_context(redirect_stdout(nowhere))
        stack.enter_context(redirect_stderr(nowhere))
        yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    for number in set(pyplot.get_fignums()) - figures if pyplot is not None else ():
        pyplot.close(number)


def question(cell: WatchedCell, shell: InteractiveShell, runs: int, most_races: int, command: str) -> str:
    """What to tell before a cell runs again.

    Args:
        cell: The cell.
        shell: The shell that it ran in.
        runs: Steered runs for each race.
        most_races: How many races are tried at a time.
        command: The line that says yes.

    Raises:
        ExploreError: The cell is nothing that can run again.
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
    told = [f"  line {line}: {what} ({call})" for line, what, call in effects(body)]
    does = (
        "As far as its text shows, it:\n" + "\n".join(told) if told else "Its text shows no files, prints or requests."
    )
    return (
        f"To confirm {races}, the code of {cell.name} would run again, for real, up to {times:,} times "
        f"(twice in its own order, then up to {runs:,} times steered for each race, and after each run in which values "
        f"differ once more in its own order):\n\n{text}\n\n"
        f"Each run does all that the cell does: files that it writes are written again, requests are sent again. "
        f"What it prints or shows is not seen. {does}\n"
        "Put back before each run and at the end: tensors that it writes, your variables, what their lists, "
        "dictionaries and sets hold, random numbers, current streams.\n"
        "Not put back: files, other Python objects (a counter in an object of yours, the place of an iterator), other "
        f"programs.\n\nNothing has run. To go on:  {command}"
    )


def effects(body: Sequence[ast.stmt]) -> list[tuple[int, str, str]]:
    """Calls that reach beyond the cell's tensors, as far as names tell: line, what it does, the call."""
    found = []
    for node in (node for statement in body for node in ast.walk(statement)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            found += [(node.lineno, what, ast.unparse(node.func)) for what, names in _EFFECTS.items() if name in names]
    return sorted(dict.fromkeys(found))
