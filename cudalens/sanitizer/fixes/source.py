"""Find the statement and the stream of an access in the user's source, and make diffs of edits."""

from __future__ import annotations

import ast
import difflib
import linecache
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath
from typing import Any, Final, TypeAlias

Scope: TypeAlias = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
ReadLines: TypeAlias = Callable[[str], list[str]]

_MAGIC: Final = "get_ipython()."
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES: Final = (ast.Module, ast.ClassDef, *FUNCTIONS)
LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one source.

    Attributes:
        line: Number of the line, from 1.
        text: The inserted text; whole lines end with a line end.
        column: Where it is inserted in the line, in bytes of UTF-8, as in `ast`.
        end: End of the bytes that it replaces; None if it replaces none.
    """

    line: int
    text: str
    column: int = 0
    end: int | None = None

    @property
    def is_inline(self) -> bool:
        """Whether it changes a line, and does not only add lines."""
        return bool(self.column or self.end)


@dataclass(frozen=True)
class Spot:
    """A place in the program, as a collector names it.

    Attributes:
        filename: The name that Python uses.
        label: The name in reports.
        line: Number of the line, from 1.
        span: Exact lines and columns of the expression (line, column, end line, end column), as in Python's
            code objects; None if unknown.
    """

    filename: str
    label: str
    line: int
    span: tuple[int, int, int, int] | None = None


def spot_of(place: Any) -> Spot | None:
    """Return the spot of a live collector's place, or of a text like ``train.py:12``, or None for anything else."""
    label, _, number = str(place).rpartition(":")
    code = getattr(place, "code", None)
    if code is not None:
        line, end, column, end_column = list(code.co_positions())[place.instruction // 2]
        span = (line, column, end, end_column)
        return Spot(place.filename, label, place.line, span if None not in span else None)
    return Spot(label, label, int(number)) if label and number.isdigit() else None


class Source:
    """One file, or one cell of a notebook.

    Args:
        lines: Its lines, each with its line end.
        typed: The lines as the user typed them, if IPython transformed them (magics are calls in `lines`).

    Raises:
        SyntaxError: It is not Python.
    """

    def __init__(self, lines: list[str], typed: list[str] | None = None) -> None:
        self.lines = _ended(lines)
        self.typed = _ended(typed) if typed is not None and _are_the_same(lines, typed) else self.lines
        self.tree: ast.Module = compile(
            "".join(self.lines), "<source>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        )
        self.parents: dict[ast.AST, ast.AST] = {
            child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)
        }
        self.nodes: Final = list(ast.walk(self.tree))
        self._nodes_in: Final[dict[Scope, Sequence[ast.AST]]] = {self.tree: self.nodes}
        self.names: Final = frozenset(node.id for node in self.nodes if isinstance(node, ast.Name))

    @cached_property
    def _imports(self) -> list[ast.Import | ast.ImportFrom]:
        return [node for node in self.nodes if isinstance(node, (ast.Import, ast.ImportFrom))]

    @cached_property
    def _expressions(self) -> dict[tuple[int, int, int, int], ast.expr]:
        """The outermost expression of each span."""
        found: dict[tuple[int, int, int, int], ast.expr] = {}
        for node in self.nodes:
            if isinstance(node, ast.expr):
                found.setdefault(_span(node), node)
        return found

    def expression(self, span: tuple[int, int, int, int]) -> ast.expr | None:
        """Return the expression with exactly these lines and columns."""
        return self._expressions.get(span)

    def imports(self, module: str) -> set[str]:
        """Return the names of a module that is imported, as in ``import torch.cuda as tc``."""
        imports = [node for node in self._imports if isinstance(node, ast.Import)]
        names = {alias.asname or alias.name for node in imports for alias in node.names if alias.name == module}
        return {name for name in names if "." not in name}

    def imported_from(self, module: str) -> set[str]:
        """Return the names that are imported from a module."""
        imports = [node for node in self._imports if isinstance(node, ast.ImportFrom) and node.module == module]
        return {alias.asname or alias.name for node in imports for alias in node.names}

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the enclosing nodes of a node, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def nodes_in(self, scope: Scope) -> Sequence[ast.AST]:
        """Return a function, class or module, and all nodes in it."""
        found = self._nodes_in.get(scope)
        if found is None:
            found = self._nodes_in[scope] = list(ast.walk(scope))
        return found

    def scope(self, node: ast.AST) -> Scope:
        """Return the function, class or module that contains a node."""
        return next(a for a in self.ancestors(node) if isinstance(a, _SCOPES))

    def edited(self, edits: Sequence[Edit]) -> str:
        """Return the whole text with edits; those at one place come in their order."""
        return _edited(self.lines, edits)

    def diff(self, edits: Sequence[Edit], label: str) -> str:
        """Return the edits as a unified diff; empty if the result does not compile."""
        try:
            compile(self.edited(edits), "<source>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        except SyntaxError:
            return ""
        if any(edit.is_inline and self.typed[edit.line - 1] != self.lines[edit.line - 1] for edit in edits):
            return ""
        return "".join(
            difflib.unified_diff(self.typed, _edited(self.typed, edits).splitlines(keepends=True), label, label, n=2)
        )

    def torch_name(self, scope: Scope | None = None) -> str | None:
        """The name of torch in the module, or in one of its functions; None if it is neither imported nor used there.

        Args:
            scope: The function; by default the module.
        """
        reached = [self.tree, *(() if scope is None else (scope, *self.ancestors(scope)))]
        is_used = "torch" in self.names
        for node in self._imports:
            for alias in node.names if isinstance(node, ast.Import) else ():
                if alias.name == "torch" or (alias.name.startswith("torch.") and alias.asname is None):
                    if self.scope(node) in reached:
                        return alias.asname or "torch"
                    is_used = False  # only in another function
        return "torch" if is_used else None


def _ended(lines: list[str]) -> list[str]:
    return [line if line.endswith("\n") else line + "\n" for line in lines]


def _are_the_same(lines: list[str], typed: list[str]) -> bool:
    """Return whether lines are the typed ones except for magics, which are calls, or text in the first line."""
    pairs = zip(_ended(lines), _ended(typed), strict=False)
    return len(lines) == len(typed) and all(a == b or _MAGIC in a or b.startswith("%%") for a, b in pairs)


def _edited(lines: list[str], edits: Sequence[Edit]) -> str:
    new = [line.encode() for line in lines] + [b""]
    for edit in sorted(edits, key=lambda edit: (edit.line, edit.column))[::-1]:
        line = new[edit.line - 1]
        end = edit.column if edit.end is None else edit.end
        new[edit.line - 1] = line[: edit.column] + edit.text.encode() + line[end:]
    return b"".join(new).decode()


@dataclass(eq=False)
class Located:
    """The statement of an access.

    Attributes:
        source: Its source.
        spot: Its place.
        statement: The innermost statement.
        expression: The expression; None if the columns are unknown.
        scope: Function or module that runs the statement.
        withs: The enclosing ``with`` blocks that switch the stream, or may do so, innermost first, each with the
            expression of the stream (None if it is not a plain name, or if the block is of an unknown kind).
    """

    source: Source
    spot: Spot
    statement: ast.stmt
    expression: ast.expr | None
    scope: Scope
    withs: list[tuple[ast.With | ast.AsyncWith, str | None]] = field(default_factory=list)

    @property
    def stream_block(self) -> ast.AST | None:
        """The innermost block that switches the stream."""
        return self.withs[0][0] if self.withs else None

    @property
    def outer_block(self) -> ast.AST | None:
        """The next enclosing block that switches the stream."""
        return self.withs[1][0] if len(self.withs) > 1 else None

    @property
    def stream(self) -> str | None:
        """The name of the stream of the innermost block."""
        return self.withs[0][1] if self.withs else None


class Sources:
    """Reads sources and finds accesses in them.

    Args:
        read: Returns the lines of a file or cell by its name; empty if it is not available. By default `linecache`,
            which includes the cells of IPython.
        typed: Returns the lines of a cell as they were typed; None if unknown. By default from IPython's history.
    """

    def __init__(
        self,
        read: ReadLines = linecache.getlines,
        typed: Callable[[str], list[str] | None] | None = None,
    ) -> None:
        self._read, self._typed = read, typed or cell_as_typed
        self._sources: dict[str, Source | None] = {}
        self._located: dict[object, Located | None] = {}

    def source(self, filename: str) -> Source | None:
        """Return a source, or None if it is not available, or not Python."""
        if filename not in self._sources:
            lines = self._read(filename)
            try:
                self._sources[filename] = Source(lines, self._typed(filename)) if lines else None
            except (SyntaxError, ValueError):
                self._sources[filename] = None
        return self._sources[filename]

    def family(self, filename: str) -> list[Source]:
        """Return the source itself, and other cells of the same notebook."""
        names = [filename]
        if self._read is linecache.getlines and (head := _cell_head(filename)):
            names += [name for name in list(linecache.cache) if name != filename and _cell_head(name) == head]
        return [source for name in names if (source := self.source(name)) is not None]

    def locate(self, place: Any) -> Located | None:
        """Return the statement that made an access, or None if it is unknown or ambiguous."""
        if place not in self._located:
            spot = None if place is None else spot_of(place)
            source = None if spot is None else self.source(spot.filename)
            self._located[place] = None if spot is None or source is None else _locate(source, spot)
        return self._located[place]


def cell_as_typed(filename: str) -> list[str] | None:
    """Lines of a notebook cell as they were typed; None if it is not a cell."""
    history = getattr(getattr(_shell(), "history_manager", None), "input_hist_raw", None)
    number = cell_number(filename)
    if number is None or history is None or number >= len(history):
        return None
    return str(history[number]).splitlines(keepends=True)


def cell_number(filename: str) -> int | None:
    """Return the number of a notebook cell by the name of its file; None if it is not a cell."""
    numbers = getattr(getattr(_shell(), "compile", None), "_filename_map", None)
    return numbers.get(filename) if isinstance(numbers, dict) else None


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None


def _cell_head(filename: str) -> str:
    """Return the common prefix of the names of a notebook's cells; empty for a file."""
    if filename.startswith("<ipython-input"):
        return "<ipython-input"
    folder = PurePath(filename).parent
    return str(folder) if folder.name.startswith("ipykernel_") else ""


def _locate(source: Source, spot: Spot) -> Located | None:
    expression = None if spot.span is None else source.expression(spot.span)
    if expression is not None:
        ancestors = list(source.ancestors(expression))
        statement = next(node for node in ancestors if isinstance(node, ast.stmt))
        inner = ancestors[: ancestors.index(statement)]
    else:
        line = spot.line
        around = [n for n in source.nodes if isinstance(n, ast.stmt) and n.lineno <= line <= (n.end_lineno or 0)]
        innermost = [node for node in around if not any(node in source.ancestors(other) for other in around)]
        if len(innermost) != 1:
            return None
        statement, inner = innermost[0], list(ast.walk(_head(innermost[0])))
    if any(isinstance(node, (ast.Lambda, ast.GeneratorExp)) for node in inner):
        return None  # runs at another time than the statement around it
    return Located(
        source, spot, statement, expression, source.scope(statement), list(_stream_blocks(source, statement))
    )


def _span(node: Any) -> tuple[int, int, int, int]:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _head(statement: ast.stmt) -> ast.AST:
    """Return the part of a statement that it runs itself: the test of an ``if``, the items of a ``with``."""
    if isinstance(statement, (ast.If, ast.While)):
        return statement.test
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return ast.Tuple([item.context_expr for item in statement.items], ast.Load())
    return statement


def _stream_blocks(source: Source, statement: ast.stmt) -> Iterator[tuple[ast.With | ast.AsyncWith, str | None]]:
    child: ast.AST = statement
    for node in source.ancestors(statement):
        if isinstance(node, _SCOPES):
            return
        if isinstance(node, (ast.With, ast.AsyncWith)) and child in node.body:
            for item in reversed(node.items):
                call = item.context_expr
                if is_stream_context(source, call):
                    assert isinstance(call, ast.Call)
                    yield node, dotted(call.args[0]) if len(call.args) == 1 and not call.keywords else None
                elif not is_transparent(call):
                    yield node, None
        child = node


#: Functions whose ``with`` blocks run on the current stream, and suppress no exception.
_TRANSPARENT: Final = frozenset(
    {"autocast", "device", "enable_grad", "inference_mode", "no_grad", "profile", "range", "record_function"}
    | {"sanitize", "set_grad_enabled"}
)


def is_transparent(context: ast.expr) -> bool:
    """Return whether a context manager runs its block on the current stream, and suppresses no exception."""
    return isinstance(context, ast.Call) and last_name(context.func) in _TRANSPARENT


def is_stream_context(source: Source, context: ast.expr) -> bool:
    """Return whether a context manager is ``torch.cuda.stream(…)``, which takes nothing but a stream."""
    name = dotted(context.func) if isinstance(context, ast.Call) else None
    if name is None or last_name(context.func) not in ("stream", "StreamContext"):  # type: ignore[attr-defined]
        return False
    module, _, function = name.rpartition(".")
    if not module:
        return function in source.imported_from("torch.cuda")
    root, _, rest = module.partition(".")
    if root in source.imported_from("torch") | source.imports("torch.cuda"):
        return rest == ""
    return rest == "cuda" and (root in source.imports("torch") or root in ("torch", "th"))


def last_name(node: ast.expr) -> str:
    """``c`` of ``a.b.c``; empty if there is no name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def dotted(node: ast.expr) -> str | None:
    """``a`` or ``a.b.c`` as text; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = dotted(node.value)
        return f"{head}.{node.attr}" if head else None
    return None
