"""Source text with its syntax tree, and edits of it that keep comments and the layout of everything else.

A cell may have lines that are not Python (``%matplotlib inline``, ``!ls``): they are hidden from the parser, and edits
never touch them.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cudalens.errors import FixError

#: Magic lines of cudalens that only observe: a cell runs again without them.
OBSERVERS: Final = ("%%cudaprofile", "%%cudasan", "%%cudamem")

_FOREIGN: Final = re.compile(r"^(?P<indent>\s*)(?P<target>[\w, ]+=\s*)?(?P<magic>[%!?].*|\S.*\?\??)$")
LOOPS: Final = (ast.For, ast.While, ast.AsyncFor)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, order=True)
class Edit:
    """A replacement of text between two positions, each (line from 1, column in characters)."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str


class Source:
    """A cell or a function as text.

    Args:
        name: What it is: ``In[3]``, or the name of the function.
        text: The text.
        first_line: Number of its first line, in the cell or the file.

    Attributes:
        tree: The syntax tree; its line numbers are from 1 in the text.
        foreign_lines: Numbers of the lines that are not Python.

    Raises:
        FixError: The text cannot be parsed.
    """

    def __init__(self, name: str, text: str, first_line: int = 1) -> None:
        self.name, self.text, self.first_line = name, text, first_line
        self.lines = text.split("\n")
        self.tree, self.foreign_lines = _parsed(name, self.lines)
        self._parents: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self._parents[child] = node

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return the node around `node`."""
        return self._parents.get(node)

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around `node`, innermost first."""
        current = self._parents.get(node)
        while current is not None:
            yield current
            current = self._parents.get(current)

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the innermost statement that `node` is or is in."""
        if isinstance(node, ast.stmt):
            return node
        return next(one for one in self.around(node) if isinstance(one, ast.stmt))

    def loop(self, node: ast.AST) -> ast.For | ast.While | None:
        """Return the innermost ``for`` or ``while`` whose body has `node`, in the same function; None without one."""
        inner = node
        for one in self.around(node):
            if isinstance(one, _FUNCTIONS):
                return None
            if isinstance(one, ast.For | ast.While) and inner in one.body:
                return one
            inner = one
        return None

    def in_comprehension(self, node: ast.AST) -> bool:
        """Return whether `node` is in a comprehension or a lambda of its statement."""
        for one in self.around(node):
            if isinstance(one, (*_COMPREHENSIONS, ast.Lambda)):
                return True
            if isinstance(one, ast.stmt):
                return False
        return False

    def nodes(self, *kinds: type[ast.AST]) -> Iterator[Any]:
        """Yield the nodes of these kinds, in the order of the text."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, kinds)]
        yield from sorted(found, key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))

    def text_of(self, node: ast.AST) -> str:
        """Return the text of a node, as it was written."""
        return ast.get_source_segment(self.text, node) or ast.unparse(node)

    def column(self, line: int, offset: int) -> int:
        """Return the column in characters of an offset in UTF-8 bytes."""
        return len(self.lines[line - 1].encode()[:offset].decode())

    def start(self, node: Any) -> tuple[int, int]:
        """Return where a node begins."""
        return node.lineno, self.column(node.lineno, node.col_offset)

    def end(self, node: Any) -> tuple[int, int]:
        """Return where a node ends."""
        return node.end_lineno, self.column(node.end_lineno, node.end_col_offset)

    def end_with_brackets(self, node: Any, limit: tuple[int, int]) -> tuple[int, int]:
        """Return where a node ends with the closing brackets around it, which the syntax tree leaves out.

        Args:
            node: The node.
            limit: Where the text after it is that is not part of these brackets.
        """
        end = self.end(node)
        for line in range(end[0], limit[0] + 1):
            first = end[1] if line == end[0] else 0
            text = self.lines[line - 1]
            last = limit[1] if line == limit[0] else len(text)
            for column in range(first, last):
                if text[column] == "#":
                    break
                if text[column] == ")":
                    end = line, column + 1
        return end

    def method_edit(self, call: ast.Call, text: str) -> Edit:
        """Replace ``.method(…)`` after the object that it is called on."""
        assert isinstance(call.func, ast.Attribute)
        name_end = self.end(call.func)
        start = self.end_with_brackets(call.func.value, (name_end[0], name_end[1] - len(call.func.attr)))
        return Edit(start, self.end(call), text)

    def indent(self, statement: ast.stmt) -> str:
        """Return the white space in front of a statement."""
        line = self.lines[statement.lineno - 1]
        return line[: len(line) - len(line.lstrip())]

    # Edits.

    def replace(self, node: ast.AST, text: str) -> Edit:
        """Replace a node by text."""
        return Edit(self.start(node), self.end(node), text)

    def is_alone(self, statement: ast.stmt) -> bool:
        """Return whether a statement has its lines for itself, apart from a comment."""
        first, last = self.start(statement), self.end(statement)
        tail = self.lines[last[0] - 1][last[1] :].strip()
        return not self.lines[first[0] - 1][: first[1]].strip() and (not tail or tail.startswith("#"))

    def remove(self, statement: ast.stmt) -> Edit:
        """Remove a statement with its lines, or put ``pass`` in its place where a block would be empty."""
        parent = self.parent(statement)
        blocks = [getattr(parent, name, []) for name in ("body", "orelse", "finalbody")]
        is_only = any(isinstance(block, list) and block == [statement] for block in blocks)
        if is_only and not isinstance(parent, ast.Module):
            return self.replace(statement, "pass")
        if not self.is_alone(statement):
            return self.replace(statement, "pass")
        last = int(statement.end_lineno or statement.lineno)
        if last == len(self.lines) and statement.lineno > 1:  # with the end of the line before
            before = statement.lineno - 1
            return Edit((before, len(self.lines[before - 1])), (last, len(self.lines[-1])), "")
        return Edit((statement.lineno, 0), (last + 1, 0), "")

    def remove_all(self, statements: Iterable[ast.stmt]) -> list[Edit]:
        """Remove statements, and put ``pass`` in the place of the first one of a block that would be empty."""
        removed = list(dict.fromkeys(statements))
        edits = []
        for statement in removed:
            parent = self.parent(statement)
            blocks = [getattr(parent, name, []) for name in ("body", "orelse", "finalbody")]
            block = next((one for one in blocks if isinstance(one, list) and statement in one), [])
            is_first = bool(block) and block[0] is statement
            is_emptied = all(one in removed for one in block) and not isinstance(parent, ast.Module)
            edits.append(self.replace(statement, "pass") if is_first and is_emptied else self.remove(statement))
        return edits

    def before(self, statement: ast.stmt, *lines: str) -> Edit:
        """Insert lines in front of a statement, with its indentation.

        Raises:
            FixError: It shares its line with another statement.
        """
        if self.lines[statement.lineno - 1][: self.start(statement)[1]].strip():
            raise FixError(f"{self.name}, line {statement.lineno}: no line can be inserted before this statement.")
        first = min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", []))])
        return self._insert(first, self.indent(statement), lines)

    def after(self, statement: ast.stmt, *lines: str) -> Edit:
        """Insert lines after a statement, with its indentation."""
        return self._insert(int(statement.end_lineno or statement.lineno) + 1, self.indent(statement), lines)

    def at_top(self, *lines: str) -> Edit:
        """Insert lines in front of the first statement that is not an import, a docstring or a foreign line."""
        for statement in self.tree.body:
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            is_head = is_text or isinstance(statement, ast.Import | ast.ImportFrom)
            if not is_head and statement.lineno not in self.foreign_lines:
                return self.before(statement, *lines)
        return self._insert(len(self.lines) + 1, "", lines)

    def _insert(self, line: int, indent: str, lines: Sequence[str]) -> Edit:
        text = "".join(f"{indent}{one}\n" if one else "\n" for one in lines)
        if line > len(self.lines):
            place = (len(self.lines), len(self.lines[-1]))
            return Edit(place, place, "\n" + text.rstrip("\n"))
        return Edit((line, 0), (line, 0), text)

    def edited(self, edits: Iterable[Edit]) -> str:
        """Return the text with edits.

        Raises:
            FixError: Two of them overlap, or the result is not valid.
        """
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line) + 1)

        def offset(place: tuple[int, int]) -> int:
            return (
                min(starts[place[0] - 1] + place[1], len(self.text)) if place[0] <= len(self.lines) else len(self.text)
            )

        parts, position = [], 0
        for edit in sorted(dict.fromkeys(edits), key=lambda one: (one.start, one.end)):
            if offset(edit.start) < position:
                raise FixError(f"{self.name}: two edits of this fix overlap in line {edit.start[0]}.")
            parts += [self.text[position : offset(edit.start)], edit.text]
            position = offset(edit.end)
        result = "".join([*parts, self.text[position:]])
        _parsed(self.name, result.split("\n"))
        return result

    def diff(self, edited: str) -> str:
        """Return a unified diff from the text to `edited`."""
        before, after = self.text.split("\n"), edited.split("\n")
        lines = difflib.unified_diff(before, after, self.name, f"{self.name} (fixed)", lineterm="", n=2)
        return "\n".join(lines)


def without_observers(text: str) -> tuple[str, int]:
    """Return a cell's text without the magic lines of cudalens on top of it, and how many lines these are."""
    lines = text.split("\n")
    number = 0
    while number < len(lines) and (not lines[number].strip() or lines[number].split(maxsplit=1)[0] in OBSERVERS):
        number += 1
    has_magic = any(line.strip() for line in lines[:number])
    return ("\n".join(lines[number:]), number) if has_magic else (text, 0)


def _parsed(name: str, lines: Sequence[str]) -> tuple[ast.Module, frozenset[int]]:
    """The syntax tree, and the numbers of lines that are not Python; each of these is read as ``pass``."""
    text = list(lines)
    foreign: set[int] = set()
    while True:
        try:
            return ast.parse("\n".join(text)), frozenset(foreign)
        except SyntaxError as error:
            number = error.lineno or 0
            found = _FOREIGN.match(text[number - 1]) if 1 <= number <= len(text) and number not in foreign else None
            if found is None:
                raise FixError(f"{name} cannot be parsed: {error.msg} (line {number}).") from None
            foreign.add(number)
            statement = f"{found['target']}None" if found["target"] else "pass"
            text[number - 1] = found["indent"] + statement


class Names:
    """What expressions in a source mean, by the values of variables.

    Args:
        values: Variables by name, as they are after the program has run once.
        elsewhere: Values of the names that do not mean these variables: None for those of a function's own variables,
            whose values are not known.
    """

    def __init__(self, values: Mapping[str, Any], elsewhere: Mapping[ast.Name, Any] | None = None) -> None:
        self._values, self._elsewhere = values, elsewhere or {}

    def value(self, node: ast.AST | None) -> Any:
        """Return the value of a name or a dotted name; None where it is not known."""
        if isinstance(node, ast.Name):
            return self._elsewhere[node] if node in self._elsewhere else self._values.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            try:
                return None if owner is None else getattr(owner, node.attr, None)
            except Exception:  # a property that raises
                return None
        return None

    def path(self, node: ast.AST | None) -> str:
        """Return what a dotted name refers to, as ``torch.nn.functional.softmax``; "" where it is not a library's.

        Aliased imports are resolved by their values: ``import torch.nn.functional as F``.
        """
        value = self.value(node)
        if value is None:
            return dotted(node) if (dotted(node) or "").startswith("torch.") else ""
        if type(value).__name__ == "module":
            return str(value.__name__)
        if (
            isinstance(node, ast.Attribute)
            and (owner := self.path(node.value))
            and type(self.value(node.value)).__name__ == "module"
        ):
            return f"{owner}.{node.attr}"
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        return f"{module}.{name}" if isinstance(module, str) and isinstance(name, str) else ""

    def is_call_of(self, node: ast.AST | None, *names: str) -> bool:
        """Return whether `node` calls a function of torch whose last name is one of `names`."""
        if not isinstance(node, ast.Call):
            return False
        path = self.path(node.func)
        return path.partition(".")[0] == "torch" and path.rpartition(".")[2] in names


def dotted(node: ast.AST | None) -> str:
    """Return a dotted name as text; "" for another expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def assigned_in(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that statements bind, or whose objects they may write into."""
    found: set[str] = set()
    for node in (one for statement in nodes for one in ast.walk(statement)):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            found.add(node.name or "")
        elif isinstance(node, ast.Global | ast.Nonlocal):
            found |= set(node.names)
        elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            found.add(root_name(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_in_place = node.func.attr.endswith("_") and not node.func.attr.startswith("_")
            if is_in_place or node.func.attr in MUTATING:
                found.add(root_name(node.func))
            found |= {root_name(keyword.value) for keyword in node.keywords if keyword.arg == "out"}
    return found - {""}


#: Methods that change the object that they are called on.
MUTATING: Final = frozenset(
    {"append", "extend", "insert", "pop", "clear", "update", "remove", "step", "backward", "zero_grad", "train", "eval"}
    | {"load_state_dict", "setdefault", "add", "discard", "sort", "reverse", "scale", "unscale_"}
)


def own_names(source: Source) -> Iterator[ast.Name]:
    """Yield the names in a source that mean variables of a function, a class body or a comprehension in it."""
    bound: dict[ast.AST, set[str]] = {}
    for name in source.nodes(ast.Name):
        for scope in source.around(name):
            if not isinstance(scope, (*_FUNCTIONS, *_COMPREHENSIONS, ast.ClassDef)):
                continue
            if scope not in bound:
                bound[scope] = _bound_in_scope(scope)
            if name.id in bound[scope]:
                yield name
                break


def _bound_in_scope(scope: ast.AST) -> set[str]:
    """The names that a function, a class body or a comprehension binds for itself."""
    found: set[str] = set()
    outside: set[str] = set()
    waiting: list[ast.AST] = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            found.add(node.name or "")
        elif isinstance(node, ast.Global | ast.Nonlocal):
            outside |= set(node.names)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif not isinstance(node, (ast.Lambda, *_COMPREHENSIONS)):
            waiting += ast.iter_child_nodes(node)
    return found - outside


def root_name(node: ast.AST) -> str:
    """Return the name at the beginning of ``x[0].data``; "" where there is none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call | ast.Starred):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def names_read(node: ast.AST) -> set[str]:
    """Return the names that an expression or a statement reads."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}


def argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """Return the argument of a call at a position or by name; None if it is not given."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if position < len(call.args) and not any(isinstance(one, ast.Starred) for one in call.args[: position + 1]):
        return call.args[position]
    return None


def keyword_edit(source: Source, call: ast.Call, name: str, value: str | None) -> Edit:
    """Set a keyword argument of a call, or remove it where `value` is None.

    Raises:
        FixError: It cannot be removed because it is not given.
    """
    given = next((one for one in call.keywords if one.arg == name), None)
    if given is not None and value is not None:
        return source.replace(given.value, value)
    if given is not None:
        return _without(source, call, given)
    if value is None:
        raise FixError(f"{source.name}, line {call.lineno}: there is no argument {name} to remove.")
    end = source.end(call)
    everything = [*call.args, *(one.value for one in call.keywords)]
    text = f"{name}={value}"
    if not everything:
        return Edit((end[0], end[1] - 1), (end[0], end[1] - 1), text)
    last = max(everything, key=lambda one: (one.end_lineno or 0, one.end_col_offset or 0))
    place = source.end_with_brackets(last, (end[0], end[1] - 1))
    return Edit(place, place, f", {text}")


def _without(source: Source, call: ast.Call, given: ast.keyword) -> Edit:
    """Remove a keyword with the comma before it; the first argument with the comma after it."""
    everything: list[Any] = sorted([*call.args, *call.keywords], key=lambda one: (one.lineno, one.col_offset))
    number = everything.index(given)
    if number:
        return Edit(source.end(everything[number - 1]), source.end(given), "")
    if len(everything) > 1:
        return Edit(source.start(given), source.start(everything[1]), "")
    return Edit(source.start(given), source.end(given), "")
