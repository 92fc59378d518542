"""Edits that insert code into the user's source, and the names in it that always have the same value.

The functions return None for what the source does not show with certainty.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Set
from typing import Any, Final, cast

from cudalens.sanitizer.fixes.source import (
    COMPREHENSIONS,
    FUNCTIONS,
    LOOPS,
    Edit,
    Located,
    Scope,
    Source,
    dotted,
    is_stream_context,
    is_transparent,
)

_SIMPLE: Final = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Assert, ast.Delete)
_OPERATORS: Final[dict[type, tuple[str, ...]]] = {
    ast.Add: ("add",),
    ast.Sub: ("sub",),
    ast.Mult: ("mul",),
    ast.Div: ("div",),
    ast.MatMult: ("matmul", "mm", "bmm", "mv", "dot"),
    ast.Pow: ("pow",),
}
#: Methods that are ``_to_copy`` in the dispatcher.
_CONVERSIONS: Final = frozenset({"to", "cpu", "cuda", "float", "double", "half", "bfloat16", "int", "long", "type_as"})


def before(source: Source, statement: ast.stmt, code: str) -> Edit | None:
    """Code in front of a statement, which then runs each time before the statement does; None if there is no place."""
    if isinstance(statement, (*LOOPS, ast.Try, ast.Match, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return None
    line = source.lines[statement.lineno - 1]
    head = line.encode()[: statement.col_offset].decode()
    if not head.strip():
        return None if line.lstrip().startswith("elif") else Edit(statement.lineno, f"{head}{code}\n")
    is_simple = not isinstance(statement, (ast.If, ast.With, ast.AsyncWith))
    return Edit(statement.lineno, f"{code}; ", statement.col_offset) if is_simple else None


def after(source: Source, statement: ast.stmt, code: str) -> Edit | None:
    """Code after a statement, which then runs each time after the statement did; None if there is no place."""
    if not isinstance(statement, (*_SIMPLE, ast.With)) or statement.end_lineno is None:
        return None
    first, last = source.lines[statement.lineno - 1], source.lines[statement.end_lineno - 1]
    head = first.encode()[: statement.col_offset].decode()
    tail = last.encode()[statement.end_col_offset :].decode().strip()
    if not head.strip() and (not tail or tail.startswith("#")):
        return Edit(statement.end_lineno + 1, f"{head}{code}\n")
    return (
        Edit(statement.end_lineno, f"; {code}", statement.end_col_offset or 0)
        if isinstance(statement, _SIMPLE)
        else None
    )


def without_keyword(source: Source, call: ast.Call, name: str) -> Edit | None:
    """Remove a keyword argument from a call; None if it is not within one line."""
    found = next((k for k in call.keywords if k.arg == name), None)
    if found is None or call.end_lineno != found.lineno or found.lineno != found.end_lineno:
        return None
    line = source.lines[found.lineno - 1].encode()
    head, tail = line[: found.col_offset].rstrip(), line[found.end_col_offset or 0 :]
    if head.endswith(b","):
        head = head[:-1].rstrip()
    elif tail.lstrip().startswith(b","):
        tail = tail.lstrip()[1:].lstrip()
    return Edit(found.lineno, "", len(head), len(line) - len(tail))


def tensor_expression(located: Located, op: str, argument: str, arguments: Set[str]) -> str | None:
    """Return the expression in the source for a tensor argument of an operator, or None if it is not certain.

    Args:
        located: The access.
        op: The operator, as in ``aten::copy_``.
        argument: Name of the argument in its schema.
        arguments: All of its tensor arguments.
    """
    node, short = located.expression, op.rpartition("::")[2].strip("_")
    if any(isinstance(around, COMPREHENSIONS) for around in _inner(located)):
        return None
    if isinstance(node, ast.BinOp) and short in _OPERATORS.get(type(node.op), ()):
        return _operand(node, argument, arguments)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _passed(node, node.func, op, argument)
    return None


def _inner(located: Located) -> list[ast.AST]:
    if located.expression is None:
        return []
    around = list(located.source.ancestors(located.expression))
    return around[: around.index(located.statement)]


def _operand(node: ast.BinOp, argument: str, arguments: Set[str]) -> str | None:
    """The tensor of ``x + 1`` is the operand that is not a number; in ``x + y`` both must be tensors."""
    sides = [side for side in (node.left, node.right) if not isinstance(side, ast.Constant)]
    if len(sides) == 1:
        return _plain(sides[0]) if argument == "self" else None
    if len(arguments) < 2 or argument not in arguments:
        return None
    return _plain(node.left if argument == "self" else node.right)


def _passed(node: ast.Call, function: ast.Attribute, op: str, argument: str) -> str | None:
    """Return the expression for an argument in a call of the operator as a function or a method."""
    short = op.rpartition("::")[2].strip("_")
    is_function = (dotted(function.value) or "").partition(".")[0] in ("torch", "th", "F")
    if short in ("to_copy", "copy") and function.attr in _CONVERSIONS and not is_function:
        source = "self" if short == "to_copy" else "src"
        return _plain(function.value) if argument == source else None
    names = _argument_names(op, argument)
    if function.attr.strip("_") != short or names is None or any(isinstance(a, ast.Starred) for a in node.args):
        return None
    values: dict[str, ast.expr] = {k.arg: k.value for k in node.keywords if k.arg is not None}
    if not is_function:
        if "self" not in names:
            return None
        values["self"] = function.value
        names = [name for name in names if name != "self"]
    return _plain((dict(zip(names, node.args, strict=False)) | values).get(argument))


def _argument_names(op: str, argument: str) -> list[str] | None:
    """Return the names of an operator's arguments up to a tensor argument, or None if its overloads differ."""
    namespace, _, name = op.partition("::")
    torch: Any = sys.modules.get("torch")
    packet = getattr(getattr(getattr(torch, "ops", None), namespace, None), name, None)
    found = set()
    for overload in packet.overloads() if packet is not None else ():
        kinds = {a.name: str(a.type) for a in getattr(packet, overload)._schema.arguments}
        if "Tensor" not in kinds.get(argument, ""):
            continue  # the argument is not a tensor in this overload
        if "List" in kinds[argument]:
            return None
        names = list(kinds)
        found.add(tuple(names[: max(names.index(name) for name in (argument, "self") if name in kinds) + 1]))
    return list(found.pop()) if len(found) == 1 else None


def _plain(node: ast.expr | None) -> str | None:
    """Return an expression without side effects: a dotted name, or an element of one."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Name, ast.Constant)):
        return ast.unparse(node) if dotted(node.value) else None
    return None if node is None else dotted(node)


def binder(source: Source, name: str, at: ast.AST) -> Scope | None:
    """Return the scope that binds the first part of a dotted name at a node; the module if no function does.

    None if it may have several values: it is bound twice or by a loop, declared global or deleted, or the attribute is
    assigned.
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
    """Yield every node in a scope that binds the name."""
    for node in source.nodes_in(scope):
        if isinstance(node, ast.arg):
            function = next(outer for outer in source.ancestors(node) if isinstance(outer, FUNCTIONS))
            is_binding = node.arg == root and function is scope
        else:
            is_binding = node is not scope and _binds(node, root) and source.scope(node) is scope
        if is_binding:
            yield node


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
    return is_plain and not any(isinstance(node, (*LOOPS, *COMPREHENSIONS)) for node in within)


def _sets_attribute(source: Source, scope: Scope, name: str) -> bool:
    return any(_sets(node, name) for node in source.nodes_in(scope))


def _sets(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and dotted(node) == name


def _declared_global(source: Source, root: str) -> bool:
    return any(isinstance(node, ast.Global) and root in node.names for node in source.nodes)


def is_bound_before(source: Source, name: str, scope: Scope, at: ast.stmt) -> bool:
    """Return whether a name that `binder` found in `scope` is bound whenever `at` runs.

    A variable of an outer scope is, because the earlier access used it.
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
    """Return whether `first` has run whenever `second` runs, in the same call of their function.

    That is so if it precedes `second` in its block or in an enclosing block; a ``with`` that suppresses no exception
    runs its whole body.
    """
    while _runs_all(source, block := source.parents[first]) and block not in source.ancestors(second):
        first = cast("ast.stmt", block)
    siblings: list[Any] = [first]
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(source.parents[first], name, None)
        if isinstance(statements, list) and first in statements:
            siblings = statements
    for node in (second, *source.ancestors(second)):
        if node in siblings:
            return siblings.index(first) < siblings.index(node)
    return False


def _runs_all(source: Source, node: ast.AST) -> bool:
    """Return whether it is a ``with`` that suppresses no exception."""
    items = node.items if isinstance(node, (ast.With, ast.AsyncWith)) else []
    contexts = [item.context_expr for item in items]
    return bool(items) and all(is_transparent(each) or is_stream_context(source, each) for each in contexts)


def num_bindings(source: Source, name: str) -> int:
    """Return how often the module binds, or may bind, the first part of a dotted name."""
    root = name.partition(".")[0]
    more = _declared_global(source, root) + (name != root and _sets_attribute(source, source.tree, name))
    return len(list(_bindings(source, source.tree, root))) + 2 * more


def is_steady(source: Source, name: str, block: ast.stmt) -> bool:
    """Return whether a dotted name has the same value before and after a ``with`` block as at its start."""
    root = name.partition(".")[0]
    if any(_binds(node, root) for node in ast.walk(block)):
        return False
    if name != root and any(_sets(node, name) for node in ast.walk(block)):
        return False
    return not _declared_global(source, root)


def sets_stream(source: Source) -> bool:
    """Return whether the source switches the stream without a ``with`` block."""
    setters = ("set_stream", "enter_context", "__enter__")
    return not source.names.isdisjoint(setters) or any(
        isinstance(node, ast.Attribute) and node.attr in setters for node in source.nodes
    )
