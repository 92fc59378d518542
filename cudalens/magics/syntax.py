"""Puts the statements of a cell with a cell magic into a ``with`` block that IPython itself runs.

A cell magic is usually a function that gets the cell as text and executes it. It then has to imitate IPython, which is
not possible in full: ``await`` fails, line numbers in tracebacks are wrong, and the value of the last expression is
shown by other rules. `CellSyntax` removes the magic line from the cell before IPython parses magics, and lets IPython
run the rest:

1. As an input transformer it replaces the magic line by a string literal, ``u'%%cudaprofile …'``, on the same line.
   Line numbers stay, ``from __future__`` may follow, IPython sees an ``await`` below and starts its event loop, and a
   traceback that includes the first line shows what the user wrote. The prefix ``u`` distinguishes the literal from a
   string that a user wrote. A cell magic on the next line is expanded as usual.
2. As an AST transformer it finds that literal and puts the statements into one ``with`` block:

   .. code-block:: text

       with cudalens.magics.cell_run(shell, magic, line, source, name) as run:
           ...                                   # the user's statements, with their own line numbers
           run.value = <the last expression>
       run.value                                 # IPython shows it by its own rules

   The run ends when the block is left, before an exception reaches IPython and before the value is shown. With
   ``--repeat`` and ``--warmup`` the block contains a ``for`` loop over `run.steps()`.

Everything is compiled before the block is entered, so only the user's statements are profiled. Cells that IPython
transforms in other ways (``%%time``, ``%%capture``, ``%run file.ipy``) are handled in the same way.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import cell_magic, leading_indent

from cudalens.magics.cells import RUN_PREFIX
from cudalens.magics.options import HelpRequest, is_help

if TYPE_CHECKING:
    from collections.abc import Sequence

    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.magics.base import Magic
    from cudalens.magics.options import CellOptions

_PACKAGE: Final = "cudalens.magics"


class CellSyntax(ast.NodeTransformer):
    """The input transformer and the AST transformer of one shell.

    Args:
        shell: The shell.
        magics: The magics; those without a cell form are ignored.
    """

    #: IPython does not call the transformer when it only tests whether typed text is complete.
    has_side_effects = True

    def __init__(self, shell: InteractiveShell, magics: Sequence[type[Magic]]) -> None:
        self._shell = shell
        self._magics = {magic.cell_form.name: magic for magic in magics if magic.cell_form is not None}
        self._pattern = re.compile(rf"({'|'.join(map(re.escape, self._magics))})(?:[ \t]|$)")
        self._numbers: Iterator[int] = itertools.count(1)
        self._source: dict[str, str] = {}

    def __call__(self, lines: list[str]) -> list[str]:
        """Replace the magic lines on top of a cell by string literals; other cells are unchanged."""
        if not lines or not self._pattern.match(lines[0]):
            return lines
        if not "".join(lines[1:]).strip():  # IPython refuses a cell magic without a cell
            return [lines[0].removeprefix("%")] if is_help(lines[0].split()) else lines
        magic_line, body = lines[0].rstrip(), _Body(lines[1:])
        self._source = {magic_line: "".join(lines[1:])}
        # With ``-o``, a last line, so that a semicolon at the end of the user's last line does not hide the Trace.
        tail = ["\npass\n"] if _options(*self._split(magic_line)).output else []
        return [f"u{magic_line!r}\n", *body.blank, *self._expand(body.code), *tail]

    def _expand(self, code: list[str]) -> list[str]:
        if self._pattern.match(code[0]):
            source = self._source
            expanded = self(code)
            self._source = self._source | source
            return expanded
        return list(cell_magic(code))  # type: ignore[no-untyped-call]

    def visit_Module(self, node: ast.Module) -> ast.Module:
        """Put the statements of a marked cell into the block that profiles them."""
        if (line := self._marked(node.body)) is not None:
            inner = self.visit_Module(ast.Module(node.body[1:], []))
            node.body = self._wrapped(line, node.body[0], inner.body)
        return node

    def _wrapped(self, line: str, marker: ast.stmt, body: list[ast.stmt]) -> list[ast.stmt]:
        magic, arguments = self._split(line)
        options = _options(magic, arguments)
        if options.output and body and isinstance(body[-1], ast.Pass):
            body = body[:-1]
        # The leading ``from __future__`` imports are not allowed in a block.
        future = list(itertools.takewhile(_is_future, body))
        body = body[len(future) :]
        run = f"{RUN_PREFIX}{next(self._numbers)}__"
        body, shown = self._with_value(body, run)
        body = magic.rewrite(body, run, self._shell, options)
        if options.output:
            shown = [statement_at(f"{run}.output()", body[-1] if body else marker)]
        if options.is_looped and _compiles(body):
            loop = statement_at(f"for {run}.step in {run}.steps(): pass", marker)
            assert isinstance(loop, ast.For)
            loop.body = body or loop.body
            body = [loop]
        made = f"__import__({_PACKAGE!r}, fromlist=['cell_run']).cell_run"
        given = f"get_ipython(), {f'%%{magic.name}'!r}, {arguments!r}, {self._source.get(line)!r}, {run!r}"
        block = statement_at(f"with {made}({given}) as {run}: pass", marker)
        assert isinstance(block, ast.With)
        block.body = body or block.body
        return [*future, block, *shown]

    def _with_value(self, body: list[ast.stmt], run: str) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """Return the body that keeps the value which IPython would show, and the statements that show it."""
        mode = self._shell.ast_node_interactivity
        if not body or mode in ("all", "none"):  # "all" shows expressions inside a with block by itself
            return body, []
        last = body[-1]
        if isinstance(last, ast.Expr):
            keep = statement_at(f"{run}.value = None", last)
            assert isinstance(keep, ast.Assign)
            keep.value = last.value
            return [*body[:-1], keep], [statement_at(f"{run}.value", last)]
        if mode == "last_expr_or_assign" and (name := _assigned(last)):
            return body, [statement_at(name, last)]
        return body, []

    def _split(self, line: str) -> tuple[type[Magic], str]:
        """Return the magic of a magic line, and the rest of the line."""
        found = self._pattern.match(line)
        assert found is not None
        return self._magics[found[1]], line.removeprefix(found[1]).strip()

    def _marked(self, body: list[ast.stmt]) -> str | None:
        """Return the magic line of a cell that begins with the literal of `__call__`."""
        if body and isinstance(first := body[0], ast.Expr) and isinstance(literal := first.value, ast.Constant):
            text = literal.value
            if literal.kind == "u" and isinstance(text, str) and self._pattern.match(text):
                return text
        return None


class _Body:
    """The lines below a magic line: the blank lines before the code, and the code without its indentation."""

    def __init__(self, lines: list[str]) -> None:
        self.blank = list(itertools.takewhile(lambda line: not line.strip(), lines))
        self.code: list[str] = leading_indent(lines[len(self.blank) :])  # type: ignore[no-untyped-call]


def _options(magic: type[Magic], arguments: str) -> CellOptions:
    """Return the options; the defaults where they are wrong, because the run reports the error when the cell runs."""
    assert magic.cell_form is not None
    try:
        options: CellOptions = magic.cell_form.parse(arguments)
    except (UsageError, HelpRequest):
        options = magic.cell_form.parse("")
    return options


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _assigned(statement: ast.stmt) -> str | None:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    is_assignment = isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign)
    target = targets[0] if is_assignment and len(targets) == 1 else None
    return target.id if isinstance(target, ast.Name) else None


def _compiles(body: list[ast.stmt]) -> bool:
    """Return whether `body` is valid outside a loop: a loop around it must not make its ``break`` valid."""
    try:
        module = ast.Module(body, [])
        compile(module, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, TypeError):
        return False
    return True


def statement_at(source: str, like: ast.stmt) -> ast.stmt:
    """Return the statement `source`, at the place of `like` in the cell."""
    statement = ast.parse(source).body[0]
    for node in ast.walk(statement):
        ast.copy_location(node, like)
    return statement
