"""Resolve names in the user's source: a fix uses only names that always have the same value."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, cast

from cudalens.sanitizer.fixes.source import (
    COMPREHENSIONS,
    FUNCTIONS,
    LOOPS,
    Scope,
    Source,
    dotted,
    is_stream_context,
    is_transparent,
)


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
            is_binding = node.arg == root and _function_of(source, node) is scope
        else:
            is_binding = node is not scope and _binds(node, root) and source.scope(node) is scope
        if is_binding:
            yield node


def _function_of(source: Source, argument: ast.arg) -> ast.AST:
    return next(node for node in source.ancestors(argument) if isinstance(node, FUNCTIONS))


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
    siblings = _siblings(source, first)
    for node in (second, *source.ancestors(second)):
        if node in siblings:
            return siblings.index(first) < siblings.index(node)
    return False


def _runs_all(source: Source, node: ast.AST) -> bool:
    """Return whether it is a ``with`` that suppresses no exception."""
    items = node.items if isinstance(node, (ast.With, ast.AsyncWith)) else []
    contexts = [item.context_expr for item in items]
    return bool(items) and all(is_transparent(each) or is_stream_context(source, each) for each in contexts)


def _siblings(source: Source, statement: ast.stmt) -> list[Any]:
    parent: Any = source.parents[statement]
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            return block
    return [statement]


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
