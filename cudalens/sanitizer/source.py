"""The user's own source: which statement made an access, how it names streams and tensors, and edits as diffs.

Everything here is careful to answer None: what cannot be told from the source alone for certain (a name that is bound
twice, a statement in the head of a loop) is not edited.
"""

from __future__ import annotations

import ast
import difflib
import linecache
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Final, TypeAlias, cast

Scope: TypeAlias = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
ReadLines: TypeAlias = Callable[[str], list[str]]

_MAGIC: Final = "get_ipython()."
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES: Final = (ast.Module, ast.ClassDef, *_FUNCTIONS)
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_SIMPLE: Final = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Assert, ast.Delete)
_TRANSPARENT: Final = frozenset(
    {"StreamContext", "autocast", "device", "enable_grad", "inference_mode", "no_grad", "profile", "range"}
    | {"record_function", "sanitize", "set_grad_enabled", "stream"}
)
"""Context managers that hold back no exception."""

_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one source.

    Attributes:
        line: Number of the line, from 1, that `text` goes in front of, or that it takes the place of.
        text: Lines, each with its line end.
        is_replacement: Whether it takes the place of the line.
    """

    line: int
    text: str
    is_replacement: bool = False


@dataclass(frozen=True)
class Spot:
    """A point in the program, as a collector names it.

    Attributes:
        filename: As Python names it.
        label: As reports show it.
        line: From 1.
        span: Exact lines and columns of the expression (line, column, end line, end column), as Python's code objects
            have it; None where that is not known.
    """

    filename: str
    label: str
    line: int
    span: tuple[int, int, int, int] | None = None


def spot_of(place: Any) -> Spot | None:
    """The spot of a live collector's place, or of a text like ``train.py:12``; None where there is no source."""
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
        typed: The lines as the user typed them, where IPython made others of them (``%time`` is a call, then).

    Raises:
        SyntaxError: It is no Python.
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
        self.names: Final = frozenset(node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name))

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def scope(self, node: ast.AST) -> Scope:
        """The function, class or module that a node stands in."""
        return next(a for a in self.ancestors(node) if isinstance(a, _SCOPES))

    def diff(self, edits: list[Edit], label: str) -> str:
        """The edits as a unified diff; empty where what comes out is no Python."""
        try:
            Source(_edited(self.lines, edits))
        except SyntaxError:
            return ""
        if any(edit.is_replacement and self.typed[edit.line - 1] != self.lines[edit.line - 1] for edit in edits):
            return ""
        return "".join(difflib.unified_diff(self.typed, _edited(self.typed, edits), label, label, n=2))

    def torch_name(self) -> str | None:
        """What torch is called here; None where it is not imported or mentioned."""
        for node in ast.walk(self.tree):
            for alias in node.names if isinstance(node, ast.Import) else ():
                if alias.name == "torch" or (alias.name.startswith("torch.") and alias.asname is None):
                    return alias.asname or "torch"
        return "torch" if "torch" in self.names else None


def _ended(lines: list[str]) -> list[str]:
    return [line if line.endswith("\n") else line + "\n" for line in lines]


def _are_the_same(lines: list[str], typed: list[str]) -> bool:
    """Whether lines are what was typed, but for magics: calls now, or a text in the first line."""
    pairs = zip(_ended(lines), _ended(typed), strict=False)
    return len(lines) == len(typed) and all(a == b or _MAGIC in a or b.startswith("%%") for a, b in pairs)


def _edited(lines: list[str], edits: list[Edit]) -> list[str]:
    new = list(lines)
    for edit in sorted(edits, key=lambda edit: edit.line, reverse=True):
        new[edit.line - 1 : edit.line - 1 + edit.is_replacement] = edit.text.splitlines(keepends=True)
    return new


@dataclass(eq=False)
class Located:
    """An access, found in its source.

    Attributes:
        source: Where.
        spot: As it was given.
        statement: The innermost statement that made it.
        expression: The very expression; None where columns are not known.
        scope: Function or module that runs the statement.
        withs: The ``with`` blocks around it that switch the stream, innermost first, each with the stream's expression
            (None for one that is no plain name).
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
        """The one around that."""
        return self.withs[1][0] if len(self.withs) > 1 else None

    @property
    def stream(self) -> str | None:
        """The name of the stream of the innermost such block."""
        return self.withs[0][1] if self.withs else None


class Sources:
    """Reads sources, and finds accesses in them.

    Args:
        read: Lines of a file or cell by its name; none where it is not to be had. By default `linecache`, where IPython
            keeps its cells.
        typed: Lines of a cell as they were typed; None where there are no others. By default IPython's history.
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
        """A source; None where it is not to be had, or no Python."""
        if filename not in self._sources:
            lines = self._read(filename)
            try:
                self._sources[filename] = Source(lines, self._typed(filename)) if lines else None
            except (SyntaxError, ValueError):
                self._sources[filename] = None
        return self._sources[filename]

    def family(self, filename: str) -> list[Source]:
        """The source itself, and other cells of the same notebook."""
        names = [filename]
        if self._read is linecache.getlines and (head := _cell_head(filename)):
            names += [name for name in list(linecache.cache) if name != filename and _cell_head(name) == head]
        return [source for name in names if (source := self.source(name)) is not None]

    def locate(self, place: Any) -> Located | None:
        """The statement that an access was made by; None where it cannot be told."""
        if place not in self._located:
            spot = None if place is None else spot_of(place)
            source = None if spot is None else self.source(spot.filename)
            self._located[place] = None if spot is None or source is None else _locate(source, spot)
        return self._located[place]


def cell_as_typed(filename: str) -> list[str] | None:
    """Lines of a notebook's cell before IPython made Python of its magics; None for what is no cell."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", None)
    history = getattr(getattr(shell, "history_manager", None), "input_hist_raw", None)
    number = numbers.get(filename) if isinstance(numbers, dict) else None
    if number is None or history is None or number >= len(history):
        return None
    return str(history[number]).splitlines(keepends=True)


def _cell_head(filename: str) -> str:
    """What the names of a notebook's cells have in common; empty for a file."""
    if filename.startswith("<ipython-input"):
        return "<ipython-input"
    folder = PurePath(filename).parent
    return str(folder) if folder.name.startswith("ipykernel_") else ""


def _locate(source: Source, spot: Spot) -> Located | None:
    expression = None if spot.span is None else _expression(source, spot.span)
    if expression is not None:
        around = list(source.ancestors(expression))
        statement = next(node for node in around if isinstance(node, ast.stmt))
        inner = around[: around.index(statement)]
    else:
        found = _statement_at(source, spot.line)
        if found is None:
            return None
        statement, inner = found, list(ast.walk(_head(found)))
    if any(isinstance(node, (ast.Lambda, ast.GeneratorExp)) for node in inner):
        return None  # runs at another time than the statement around it
    return Located(
        source, spot, statement, expression, source.scope(statement), list(_stream_blocks(source, statement))
    )


def _expression(source: Source, span: tuple[int, int, int, int]) -> ast.expr | None:
    """The expression with exactly these lines and columns."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.expr) and _span(node) == span:
            return node
    return None


def _span(node: Any) -> tuple[int, int, int, int]:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _statement_at(source: Source, line: int) -> ast.stmt | None:
    """The one statement that a line belongs to; None where there are several."""
    around = [n for n in ast.walk(source.tree) if isinstance(n, ast.stmt) and n.lineno <= line <= (n.end_lineno or 0)]
    inner = [node for node in around if not any(node in source.ancestors(other) for other in around)]
    return inner[0] if len(inner) == 1 else None


def _head(statement: ast.stmt) -> ast.AST:
    """What a statement runs itself: of an ``if`` the test, of a ``with`` its items."""
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
                if isinstance(call, ast.Call) and _last_name(call.func) in ("stream", "StreamContext"):
                    yield node, dotted(call.args[0]) if len(call.args) == 1 and not call.keywords else None
        child = node


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def dotted(node: ast.expr) -> str | None:
    """``a`` or ``a.b.c`` as text; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = dotted(node.value)
        return f"{head}.{node.attr}" if head else None
    return None


# Names


def binder(source: Source, name: str, at: ast.AST) -> Scope | None:
    """The scope whose variable a dotted name's first part is at a node; the module where no function binds it.

    None where it has more than one value: bound twice, by a loop, declared global, deleted, or with an attribute of its
    that is set again.
    """
    root = name.partition(".")[0]
    scope = source.scope(at)
    while not isinstance(scope, ast.Module):
        if not isinstance(scope, ast.ClassDef):
            bindings = list(_bindings(source, scope, root))
            if bindings:
                return scope if _is_constant(source, scope, bindings, name) else None
        scope = source.scope(scope)
    bindings = list(_bindings(source, scope, root))
    return scope if _is_constant(source, scope, bindings, name) else None


def _bindings(source: Source, scope: Scope, root: str) -> Iterator[ast.AST]:
    """Every node that gives the name a value in a scope."""
    for node in ast.walk(scope):
        if isinstance(node, ast.arg):
            is_binding = node.arg == root and _function_of(source, node) is scope
        else:
            is_binding = node is not scope and _binds(node, root) and source.scope(node) is scope
        if is_binding:
            yield node


def _function_of(source: Source, argument: ast.arg) -> ast.AST:
    return next(node for node in source.ancestors(argument) if isinstance(node, _FUNCTIONS))


def _binds(node: ast.AST, root: str) -> bool:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return name == root
        case ast.alias():
            return (node.asname or node.name.partition(".")[0]) == root
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return node.name == root
        case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
            return node.name == root
        case ast.Global() | ast.Nonlocal():
            return root in node.names
    return False


def _is_constant(source: Source, scope: Scope, bindings: list[ast.AST], name: str) -> bool:
    if len(bindings) > 1 or (name != name.partition(".")[0] and _sets_attribute(source, scope, name)):
        return False
    if isinstance(scope, ast.Module) and _declared_global(source, name.partition(".")[0]):
        return False
    if not bindings or isinstance(bindings[0], ast.arg):
        return True
    around = list(source.ancestors(bindings[0]))
    within = around[: around.index(scope)]
    is_plain = isinstance(
        within[0] if within else None, (ast.Assign, ast.AnnAssign, ast.Tuple, ast.Import, ast.ImportFrom)
    )
    return is_plain and not any(isinstance(node, (*_LOOPS, *_COMPREHENSIONS)) for node in within)


def _sets_attribute(source: Source, scope: Scope, name: str) -> bool:
    return any(
        isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and dotted(node) == name
        for node in ast.walk(scope)
    )


def _declared_global(source: Source, root: str) -> bool:
    return any(isinstance(node, ast.Global) and root in node.names for node in ast.walk(source.tree))


def is_bound_before(source: Source, name: str, scope: Scope, at: ast.stmt) -> bool:
    """Whether a name that `binder` found in `scope` has its value whenever `at` runs.

    A variable of an outer scope has: the earlier access used it.
    """
    if source.scope(at) is not scope:
        return True
    bindings = list(_bindings(source, scope, name.partition(".")[0]))
    if not bindings:
        return isinstance(scope, ast.Module)  # of an earlier cell
    if isinstance(bindings[0], ast.arg):
        return True
    statement = next(node for node in source.ancestors(bindings[0]) if isinstance(node, ast.stmt))
    return precedes(source, statement, at)


def precedes(source: Source, first: ast.stmt, second: ast.stmt) -> bool:
    """Whether `first` has run whenever `second` runs, in the same call of their function.

    That is where it stands in front of it in the same block, or in a block around that; a ``with`` that holds back no
    exception runs its whole body.
    """
    while _runs_all(block := source.parents[first]) and block not in source.ancestors(second):
        first = cast("ast.stmt", block)
    siblings = _siblings(source, first)
    for node in (second, *source.ancestors(second)):
        if node in siblings:
            return siblings.index(first) < siblings.index(node)
    return False


def _runs_all(node: ast.AST) -> bool:
    """Whether it is a ``with`` that lets exceptions pass."""
    items = node.items if isinstance(node, (ast.With, ast.AsyncWith)) else []
    calls = [item.context_expr for item in items]
    return bool(items) and all(isinstance(c, ast.Call) and _last_name(c.func) in _TRANSPARENT for c in calls)


def _siblings(source: Source, statement: ast.stmt) -> list[Any]:
    parent: Any = source.parents[statement]
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            return block
    return [statement]


# Edits


def before(source: Source, statement: ast.stmt, code: str) -> Edit | None:
    """A line of code in front of a statement, which then runs whenever the statement is about to."""
    if isinstance(statement, (*_LOOPS, ast.Try, ast.Match, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return None
    line = source.lines[statement.lineno - 1]
    head = line.encode()[: statement.col_offset].decode()
    if head.strip() or line.lstrip().startswith("elif"):
        return None
    return Edit(statement.lineno, f"{head}{code}\n")


def after(source: Source, statement: ast.stmt, code: str) -> Edit | None:
    """A line of code behind a statement, which then runs whenever the statement has."""
    if not isinstance(statement, (*_SIMPLE, ast.With)) or statement.end_lineno is None:
        return None
    first, last = source.lines[statement.lineno - 1], source.lines[statement.end_lineno - 1]
    head = first.encode()[: statement.col_offset].decode()
    tail = last.encode()[statement.end_col_offset :].decode().strip()
    if head.strip() or (tail and not tail.startswith("#")):
        return None
    return Edit(statement.end_lineno + 1, f"{head}{code}\n")


def without_keyword(source: Source, call: ast.Call, name: str) -> Edit | None:
    """The call without a keyword argument; None where that would not be a change within one line."""
    found = next((k for k in call.keywords if k.arg == name), None)
    if found is None or call.end_lineno != found.lineno or found.lineno != found.end_lineno:
        return None
    line = source.lines[found.lineno - 1].encode()
    start, end = found.col_offset, found.end_col_offset or 0
    head, tail = line[:start].rstrip(), line[end:]
    if head.endswith(b","):
        head = head[:-1].rstrip()
    elif tail.lstrip().startswith(b","):
        tail = tail.lstrip()[1:].lstrip()
    return Edit(found.lineno, (head + tail).decode(), is_replacement=True)


# Expressions


_OPERATORS: Final[dict[type, tuple[str, ...]]] = {
    ast.Add: ("add",),
    ast.Sub: ("sub",),
    ast.Mult: ("mul",),
    ast.Div: ("div",),
    ast.MatMult: ("matmul", "mm", "bmm", "mv", "dot"),
    ast.Pow: ("pow",),
}
_CONVERSIONS: Final = frozenset({"to", "cpu", "cuda", "float", "double", "half", "bfloat16", "int", "long", "type_as"})
_SECOND: Final = frozenset({"other", "src", "mat2", "exponent", "tensor", "vec", "vec2"})
"""Names that aten gives the second tensor of an operator."""


def tensor_expression(located: Located, op: str, argument: str) -> str | None:
    """How the source names the tensor that an operator was given for an argument.

    Args:
        located: The access.
        op: The operator, as in ``aten::copy_``.
        argument: The argument's name in its schema.
    """
    node, short = located.expression, op.rpartition("::")[2].partition(".")[0].strip("_")
    if any(isinstance(a, _COMPREHENSIONS) for a in _inner(located)):
        return None
    if isinstance(node, ast.BinOp) and short in _OPERATORS.get(type(node.op), ()):
        return _plain(node.left if argument == "self" else node.right if argument in _SECOND else None)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or (node.keywords and not node.args):
        return _receiver(node, short, argument)
    if _receiver(node, short, argument) is not None:
        return _receiver(node, short, argument)
    if node.func.attr.strip("_") != short or any(isinstance(a, ast.Starred) for a in node.args):
        return None
    values = node.args if _is_torch(node.func.value) else [node.func.value, *node.args]
    position = 0 if argument in ("self", "input") else 1 if argument in _SECOND else len(values)
    return _plain(values[position]) if position < len(values) else None


def _inner(located: Located) -> list[ast.AST]:
    if located.expression is None:
        return []
    around = list(located.source.ancestors(located.expression))
    return around[: around.index(located.statement)]


def _receiver(node: ast.expr | None, short: str, argument: str) -> str | None:
    """Of a method call, the tensor it is called on."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or argument != "self":
        return None
    name = node.func.attr
    is_it = name.strip("_") == short or (short in ("to_copy", "copy") and name in _CONVERSIONS)
    return _plain(node.func.value) if is_it and not _is_torch(node.func.value) else None


def _is_torch(node: ast.expr) -> bool:
    return (dotted(node) or "").partition(".")[0] in ("torch", "th", "F")


def _plain(node: ast.expr | None) -> str | None:
    """An expression that may be evaluated twice: a dotted name, or an element of one."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Name, ast.Constant)):
        return ast.unparse(node) if dotted(node.value) else None
    return None if node is None else dotted(node)


def num_bindings(source: Source, name: str) -> int:
    """How often the module gives a dotted name's first part a value, or might."""
    root = name.partition(".")[0]
    more = _declared_global(source, root) + (name != root and _sets_attribute(source, source.tree, name))
    return len(list(_bindings(source, source.tree, root))) + 2 * more


def sets_stream(source: Source) -> bool:
    """Whether the source switches the stream in a way that no block shows."""
    return "set_stream" in source.names or any(
        isinstance(node, ast.Attribute) and node.attr == "set_stream" for node in ast.walk(source.tree)
    )
