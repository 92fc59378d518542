"""How ``%%cudaprofile``, ``%%cudasan`` and ``%%cudagraph`` on top of a cell leave the cell the user's.

A cell magic is usually a function that gets the cell as text and executes it by itself; it then has to imitate
IPython, and cannot: ``await`` does not work, tracebacks count lines from the wrong place, the value of the last
expression is shown by other rules. So `CellSyntax` takes the magic line out of the cell before IPython sees a magic,
and lets IPython run the rest natively:

1. As an input transformer it replaces the magic line by a string literal, ``u'%%cudaprofile …'``, on the same line.
   Line numbers stay, ``from __future__`` may follow, IPython sees an ``await`` below and starts its event loop, and a
   traceback that reaches up to the first line shows what the user wrote. (The prefix ``u`` is what tells the literal
   from a string that somebody just happens to begin a cell with.) A cell magic on the next line is expanded as usual.
2. As an AST transformer it finds that literal and puts the statements into one ``with`` block:

   .. code-block:: text

       with cudalens.magics.running.profiled(shell, line, source) as run:
           ...                                   # the user's statements, with their own line numbers
           run.value = <the last expression>
       run.value                                 # IPython shows it by its own rules

   The profiler stops when the block is left, by whatever way, before an exception reaches IPython and before the
   value is shown. With ``--repeat`` and ``--warmup`` a ``for`` loop over `run.steps()` stands inside the block.

Everything is compiled before the block is entered, so nothing but the user's statements is profiled. Paths that run a
cell through IPython's own transformations (``%%time``, ``%%capture``, ``%run file.ipy``) get the same treatment.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import cell_magic, leading_indent

from cudalens.magics.cell_magics import CELL_MAGICS, RUN_PREFIX, CellMagic, CellOptions

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_MAGIC_LINE: Final = re.compile(rf"({'|'.join(map(re.escape, CELL_MAGICS))})(?:[ \t]|$)")


class CellSyntax(ast.NodeTransformer):
    """The input transformer and the AST transformer of one shell."""

    has_side_effects = True
    """Tells IPython to leave us out when it only asks whether what was typed is complete."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._numbers: Iterator[int] = itertools.count(1)
        self._source: dict[str, str] = {}

    def __call__(self, lines: list[str]) -> list[str]:
        """Replace the magic lines on top of a cell by string literals; other cells pass unchanged."""
        if not lines or not _MAGIC_LINE.match(lines[0]) or not "".join(lines[1:]).strip():
            return lines
        magic_line, body = lines[0].rstrip(), _Body(lines[1:])
        self._source = {magic_line: "".join(lines[1:])}
        return [f"u{magic_line!r}\n", *body.blank, *self._expand(body.code), *_tail(magic_line)]

    def _expand(self, code: list[str]) -> list[str]:
        if _MAGIC_LINE.match(code[0]):
            source = self._source
            expanded = self(code)
            self._source = self._source | source
            return expanded
        return list(cell_magic(code))  # type: ignore[no-untyped-call]

    def visit_Module(self, node: ast.Module) -> ast.Module:
        """Put the statements of a marked cell into the block that profiles them."""
        if (line := _marked(node.body)) is not None:
            inner = self.visit_Module(ast.Module(node.body[1:], []))
            node.body = self._wrapped(line, node.body[0], inner.body)
        return node

    def _wrapped(self, line: str, marker: ast.stmt, body: list[ast.stmt]) -> list[ast.stmt]:
        magic, arguments = _split(line)
        options = _options(magic, arguments)
        if options.output and body and isinstance(body[-1], ast.Pass):
            body = body[:-1]
        future, body = _split_future(body)
        run = f"{RUN_PREFIX}{next(self._numbers)}__"
        body, shown = self._with_value(body, run)
        if magic.rewrite is not None:
            body = magic.rewrite(body, run, self._shell, options)
        if options.output:
            shown = [_at(f"{run}.output()", body[-1] if body else marker)]
        if options.is_looped and _compiles(body):
            loop = _at(f"for {run}.step in {run}.steps(): pass", marker)
            assert isinstance(loop, ast.For)
            loop.body = body or loop.body
            body = [loop]
        room = f"__import__({magic.room!r}, fromlist=[{magic.function!r}])"
        run_of = f"{room}.{magic.function}(get_ipython(), {arguments!r}, {self._source.get(line)!r}, {run!r})"
        block = _at(f"with {run_of} as {run}: pass", marker)
        assert isinstance(block, ast.With)
        block.body = body or block.body
        return [*future, block, *shown]

    def _with_value(self, body: list[ast.stmt], run: str) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """The body that keeps the value which IPython would show, and the statements that show it."""
        mode = self._shell.ast_node_interactivity
        if not body or mode in ("all", "none"):  # "all" shows expressions inside a with block by itself
            return body, []
        last = body[-1]
        if isinstance(last, ast.Expr):
            keep = _at(f"{run}.value = None", last)
            assert isinstance(keep, ast.Assign)
            keep.value = last.value
            return [*body[:-1], keep], [_at(f"{run}.value", last)]
        if mode == "last_expr_or_assign" and (name := _assigned(last)):
            return body, [_at(name, last)]
        return body, []


class _Body:
    """The lines below a magic line: blank ones, which keep their places, and the code, not indented."""

    def __init__(self, lines: list[str]) -> None:
        self.blank = list(itertools.takewhile(lambda line: not line.strip(), lines))
        self.code: list[str] = leading_indent(lines[len(self.blank) :])  # type: ignore[no-untyped-call]


def _split(line: str) -> tuple[CellMagic, str]:
    """The magic of a magic line, and what stands behind its name."""
    found = _MAGIC_LINE.match(line)
    assert found is not None
    return CELL_MAGICS[found[1]], line.removeprefix(found[1]).strip()


def _options(magic: CellMagic, arguments: str) -> CellOptions:
    """The options, or the usual ones where they are wrong: the block says so when the cell runs."""
    try:
        return magic.parse(arguments)
    except UsageError:
        return magic.parse("")


def _tail(magic_line: str) -> list[str]:
    """With ``-o`` the Trace shows also when the user's last line ends in a semicolon, which hides only that line."""
    return ["\npass\n"] if _options(*_split(magic_line)).output else []


def _marked(body: list[ast.stmt]) -> str | None:
    if body and isinstance(first := body[0], ast.Expr) and isinstance(literal := first.value, ast.Constant):
        text = literal.value
        if literal.kind == "u" and isinstance(text, str) and _MAGIC_LINE.match(text):
            return text
    return None


def _split_future(body: list[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The leading ``from __future__`` imports, which may stand in no block, and the rest."""
    future = list(itertools.takewhile(_is_future, body))
    return future, body[len(future) :]


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _assigned(statement: ast.stmt) -> str | None:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    is_assignment = isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign)
    target = targets[0] if is_assignment and len(targets) == 1 else None
    return target.id if isinstance(target, ast.Name) else None


def _compiles(body: list[ast.stmt]) -> bool:
    """Whether `body` is valid outside a loop; if not, no loop may make its ``break`` valid."""
    try:
        module = ast.Module(body, [])
        compile(module, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, TypeError):
        return False
    return True


def _at(source: str, like: ast.stmt) -> ast.stmt:
    """The statement `source`, at the place of `like` in the cell."""
    statement = ast.parse(source).body[0]
    for node in ast.walk(statement):
        ast.copy_location(node, like)
    return statement
