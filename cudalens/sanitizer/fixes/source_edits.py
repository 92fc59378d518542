"""Edits that insert code into the user's source, and the names of tensors in it.

The functions return None for what the source does not show with certainty.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Set
from typing import Any, Final

from cudalens.sanitizer.fixes.source import COMPREHENSIONS, LOOPS, Edit, Located, Source, dotted

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
    short, is_function = op.rpartition("::")[2].strip("_"), _is_torch(function.value)
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


def _is_torch(node: ast.expr) -> bool:
    return (dotted(node) or "").partition(".")[0] in ("torch", "th", "F")


def _plain(node: ast.expr | None) -> str | None:
    """Return an expression without side effects: a dotted name, or an element of one."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Name, ast.Constant)):
        return ast.unparse(node) if dotted(node.value) else None
    return None if node is None else dotted(node)
