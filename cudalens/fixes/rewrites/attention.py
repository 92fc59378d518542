"""Attention written out as product, softmax, product: one call of `scaled_dot_product_attention`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from cudalens.analysis import Finding
from cudalens.fixes.rewrites.fix import Fix, Program, Unit, edits_by_unit
from cudalens.fixes.rewrites.use import is_steady
from cudalens.fixes.source import Edit, Source, argument, names_read


@dataclass(frozen=True)
class _Scores:
    """The parts of ``q @ k.transpose(-2, -1) * scale + mask``."""

    query: str
    key: str
    scale: str = "1.0"
    mask: str = ""


def fused_attention(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Rewrite ``softmax(q @ k.transpose(-2, -1) * scale + mask, -1) @ v``, in one expression or over statements."""
    edits: dict[Unit, list[Edit]] = {}
    removed: dict[Unit, list[ast.stmt]] = {}
    dropped: set[str] = set()
    for unit in program.units:
        source = unit.source
        for node in source.nodes(ast.BinOp, ast.Call):
            operands = _product(program, node)
            if operands is None:
                continue
            chain = _Chain(program, source, source.statement(node))
            scores = chain.softmax(operands[0])
            if scores is None:
                continue
            arguments = [scores.query, scores.key, source.text_of(operands[1])]
            if scores.mask:
                arguments.append(f"attn_mask={scores.mask}")
            arguments.append(f"scale={scores.scale}")
            text = f"torch.nn.functional.scaled_dot_product_attention({', '.join(arguments)})"
            found = edits.setdefault(unit, [])
            found.append(source.replace(node, text))
            removed.setdefault(unit, []).extend(chain.used)
            dropped |= chain.dropped if unit.function is None else set()
    for unit, statements in removed.items():
        edits[unit] += unit.source.remove_all(statements)
    if edits:
        yield Fix(
            "eager_attention",
            "use scaled_dot_product_attention",
            edits_by_unit(edits),
            changes_numbers=True,
            dropped=frozenset(dropped),
            needs=f"No longer assigned: {', '.join(sorted(dropped))}." if dropped else "",
        )


class _Chain:
    """Reads an expression, through variables that the statements before assign and only it reads."""

    def __init__(self, program: Program, source: Source, statement: ast.stmt) -> None:
        self._program, self._source, self._statement = program, source, statement
        self.used: list[ast.stmt] = []
        self.dropped: set[str] = set()

    def softmax(self, node: ast.expr) -> _Scores | None:
        """Read the attention weights."""
        node = self._inlined(node)
        if not isinstance(node, ast.Call):
            return None
        is_method = isinstance(node.func, ast.Attribute) and not self._program.names.path(node.func)
        is_method = is_method or _is_tensor(self._program, getattr(node.func, "value", None))
        if is_method:
            if getattr(node.func, "attr", "") != "softmax":
                return None
            scores, dim = node.func.value, argument(node, 0, "dim")  # type: ignore[attr-defined]
        elif self._program.names.is_call_of(node, "softmax") and node.args:
            scores, dim = node.args[0], argument(node, 1, "dim")
        else:
            return None
        if dim is None or ast.unparse(dim) not in ("-1", "3") or any(one.arg == "dtype" for one in node.keywords):
            return None
        return self._scores(scores)

    def _scores(self, node: ast.expr) -> _Scores | None:
        node = self._inlined(node)
        text = self._source.text_of
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            inner = self._scores(node.left)
            is_other = str(getattr(self._program.names.value(node.right), "dtype", "")) == "torch.bool"
            return None if inner is None or inner.mask or is_other else replace(inner, mask=text(node.right))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
            left = self._scores(node.left)
            if left is not None and left.scale == "1.0" and not left.mask:
                factor = text(node.right) if isinstance(node.op, ast.Mult) else f"1 / {_in_brackets(node.right, text)}"
                return replace(left, scale=factor) if self._is_number(node.right) else None
            right = self._scores(node.right) if isinstance(node.op, ast.Mult) else None
            if right is not None and right.scale == "1.0" and not right.mask and self._is_number(node.left):
                return replace(right, scale=text(node.left))
            return None
        operands = _product(self._program, node)
        if operands is None:
            return None
        key = _transposed(operands[1], text)
        return None if key is None else _Scores(text(operands[0]), key)

    def _is_number(self, node: ast.expr) -> bool:
        """Whether a factor is a number, as far as its text and the values of variables show."""
        if isinstance(node, ast.Constant):
            return isinstance(node.value, int | float)
        if isinstance(node, ast.BinOp):
            return self._is_number(node.left) and self._is_number(node.right)
        if isinstance(node, ast.UnaryOp):
            return self._is_number(node.operand)
        if isinstance(node, ast.Call):
            return self._program.names.path(node.func) in ("math.sqrt", "numpy.sqrt") or _is_size(node)
        value = self._program.names.value(node)
        if value is None:
            return (isinstance(node, ast.Subscript) and getattr(node.value, "attr", "") == "shape") or _is_scale_name(
                node
            )
        return isinstance(value, int | float)

    def _inlined(self, node: ast.expr) -> ast.expr:
        """Return what a variable holds that one statement assigns and only this expression reads."""
        if not isinstance(node, ast.Name):
            return node
        statement = self._definition(node)
        if statement is None or statement not in self._block():
            return node
        # The expression moves to the statement of the product: what it reads must be the same there.
        if not is_steady(self._source, names_read(statement.value), statement, self._statement):
            return node
        self.used.append(statement)
        self.dropped.add(node.id)
        return statement.value

    def _definition(self, use: ast.Name) -> ast.Assign | None:
        """Return the assignment of the value that a name has at `use`, if nothing else reads this value."""
        found = [one for one in ast.walk(self._scope()) if isinstance(one, ast.Name) and one.id == use.id]
        is_store = {one: not isinstance(one.ctx, ast.Load) for one in found}
        # Within a statement, what it reads comes before what it assigns.
        found.sort(key=lambda one: (self._source.statement(one).lineno, is_store[one], one.lineno, one.col_offset))
        if not is_store[found[0]]:  # of an iteration before
            return None
        if any(isinstance(one.ctx, ast.Del) for one in found) or self._is_captured(use.id):
            return None
        place = found.index(use)
        if not is_store[found[place - 1]] or (place + 1 < len(found) and not is_store[found[place + 1]]):
            return None
        store = found[place - 1]
        statement = self._source.statement(store)
        is_plain = isinstance(statement, ast.Assign) and statement.targets == [store]
        return statement if is_plain and isinstance(statement, ast.Assign) else None

    def _is_captured(self, name: str) -> bool:
        """Whether a function inside of the scope reads the name, whenever it is called."""
        inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        scope = self._scope()
        functions = [one for one in ast.walk(scope) if isinstance(one, inner) and one is not scope]
        return any(name in names_read(one) for one in functions)

    def _block(self) -> list[ast.stmt]:
        parent = self._source.parent(self._statement)
        blocks = [getattr(parent, name, []) for name in ("body", "orelse", "finalbody")]
        return next((block for block in blocks if isinstance(block, list) and self._statement in block), [])

    def _scope(self) -> ast.AST:
        for one in self._source.around(self._statement):
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                return one
        return self._source.tree


def _product(program: Program, node: Any) -> tuple[ast.expr, ast.expr] | None:
    """The operands of a matrix product."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return node.left, node.right
    if isinstance(node, ast.Call) and program.names.is_call_of(node, "matmul", "bmm") and len(node.args) == 2:
        return node.args[0], node.args[1]
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1
    if is_method and node.func.attr in ("matmul", "bmm") and not program.names.path(node.func.value):
        return node.func.value, node.args[0]
    return None


def _transposed(node: ast.expr, text: Any) -> str | None:
    """The text of ``k`` in ``k.transpose(-2, -1)``, ``k.mT`` or ``k.permute(0, 1, 3, 2)``."""
    if isinstance(node, ast.Attribute) and node.attr == "mT":
        return str(text(node.value))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        given = [ast.unparse(one) for one in node.args]
        if node.func.attr == "transpose" and sorted(given) in (["-1", "-2"], ["2", "3"]):
            return str(text(node.func.value))
        if node.func.attr == "permute" and given == ["0", "1", "3", "2"]:
            return str(text(node.func.value))
    return None


def _is_tensor(program: Program, node: ast.AST | None) -> bool:
    return hasattr(program.names.value(node), "untyped_storage")


def _is_size(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "size"


def _is_scale_name(node: ast.expr) -> bool:
    """Whether a local variable or an attribute is called as a number of attention is called."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in ("scale", "scaling", "d_k", "head_dim", "dim_head", "d_head", "softmax_scale", "sqrt_d")


def _in_brackets(node: ast.expr, text: Any) -> str:
    return (
        str(text(node)) if isinstance(node, ast.Constant | ast.Name | ast.Call | ast.Attribute) else f"({text(node)})"
    )
