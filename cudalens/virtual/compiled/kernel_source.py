"""Rewrite the source of Triton kernels, so that Python computes what Triton compiles.

Triton compiles ``not``, ``and``, ``or``, ``min`` and ``max`` to operations on each element of a block. Python takes the
truth of the block, which Triton's interpreter defines as True.
"""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Callable
from typing import Any, Final

#: The name of the interpreter's object that rewritten source refers to.
_SEMANTIC: Final = "interpreter_semantic"

_NOT_SCALAR: Final = "the condition of a branch or loop is a block of more than one element"
_CHAINED: Final = "Triton does not compile a comparison of more than two values, as in a < b < c"


@functools.cache
def transformer() -> ast.NodeTransformer:
    """The transformer that replaces the interpreter's."""
    from triton.runtime.interpreter import ASTTransformer

    base: Any = ASTTransformer

    class KernelTransformer(base):  # type: ignore[misc]
        """Replaces what Python computes for a whole block."""

        def visit_Assign(self, node: ast.Assign) -> Any:  # noqa: N802
            node.value = self.visit(node.value)
            return super().visit_Assign(node)

        def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:  # noqa: N802
            self.generic_visit(node)
            return _call("negate", node.operand) if isinstance(node.op, ast.Not) else node

        def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:  # noqa: N802
            self.generic_visit(node)
            no_arguments = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
            values: list[ast.expr] = [ast.Lambda(no_arguments, value) for value in node.values]
            return _call("all_of" if isinstance(node.op, ast.And) else "any_of", *values)

        def visit_Compare(self, node: ast.Compare) -> ast.AST:  # noqa: N802
            if len(node.ops) > 1:
                raise NotImplementedError(_CHAINED)
            return self.generic_visit(node)

        def visit_Name(self, node: ast.Name) -> ast.AST:  # noqa: N802
            is_function = node.id in ("min", "max") and isinstance(node.ctx, ast.Load)
            return _call("elementwise", node) if is_function else node

        def _visit_condition(self, node: Any) -> ast.AST:
            self.generic_visit(node)
            node.test = _call("condition", node.test)
            changed: ast.AST = node
            return changed

        visit_If = visit_IfExp = visit_While = _visit_condition  # noqa: N815

    return KernelTransformer()


def _call(name: str, *args: ast.expr) -> ast.Call:
    function = ast.Attribute(ast.Name(_SEMANTIC, ast.Load()), name, ast.Load())
    return ast.Call(function, list(args), [])


def semantic_functions() -> dict[str, Callable[..., Any]]:
    """Return the functions that rewritten source calls, by name: attributes of the interpreter's object."""
    return {
        "negate": _negate,
        "all_of": functools.partial(_combine, method="logical_and", ends=False),
        "any_of": functools.partial(_combine, method="logical_or", ends=True),
        "condition": _check_condition,
        "elementwise": _elementwise,
    }


def _is_tensor(value: Any) -> bool:
    import triton.language as tl

    return isinstance(value, tl.core.tensor)


def _negate(value: Any) -> Any:
    return value.__not__() if _is_tensor(value) else not value


def _combine(*values: Callable[[], Any], method: str, ends: bool) -> Any:
    """``and`` (which ends at False) or ``or`` (at True): of each element if a value is a tensor."""
    combined = value = None
    for compute in values:
        value = compute()
        if not _is_tensor(value):
            if bool(value) is ends:
                return value
        elif combined is None:
            combined = value
        else:
            combined = getattr(combined, method)(value)
    return value if combined is None else combined


def _check_condition(value: Any) -> Any:
    if _is_tensor(value) and value.handle.data.size > 1:
        raise NotImplementedError(_NOT_SCALAR)
    return value


def _elementwise(function: Any) -> Any:
    """Triton's function for Python's ``min`` and ``max``; functions of the program with these names as they are."""
    import triton.language as tl

    if function is not builtins.min and function is not builtins.max:
        return function
    of_blocks = tl.core.builtin_min if function is builtins.min else tl.core.builtin_max

    def choose(*args: Any) -> Any:
        return of_blocks(*args) if any(map(_is_tensor, args)) else function(*args)

    return choose
