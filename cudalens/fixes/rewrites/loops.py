"""Work in a loop that can be done once before it, for all iterations at once, or not at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final

from cudalens.analysis import Finding
from cudalens.fixes.rewrites.fix import Fix, Program, Unit, edits_by_unit
from cudalens.fixes.source import Edit, Source, assigned_in, dotted, names_read, root_name

#: Methods whose result depends on their arguments alone.
_PURE_METHODS: Final = frozenset(
    {"to", "half", "float", "double", "bfloat16", "int", "long", "bool", "cuda", "contiguous", "clone", "type_as"}
    | {"t", "transpose", "permute", "tril", "triu"}
)
_PURE_FUNCTIONS: Final = frozenset(
    {"tensor", "as_tensor", "zeros", "ones", "full", "arange", "eye", "linspace", "tril", "triu", "zeros_like"}
    | {"ones_like", "full_like"}
)
_MOVES: Final = frozenset({"to", "half", "float", "double", "bfloat16", "cuda", "contiguous", "clone", "int", "long"})
#: What the result of a hoisted call may be used for: these read it and return another tensor.
_READERS: Final = (ast.BinOp, ast.Call, ast.Compare, ast.Subscript, ast.keyword)


def hoist(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Make tensors that are the same in each iteration before the loop: constants, casts, copies, layouts."""
    rule = finding.rule if finding is not None else "copies"
    edits: dict[Unit, list[Edit]] = {}
    for unit in program.units:
        source, number = unit.source, 0
        for loop in source.nodes(ast.For, ast.While):
            if source.loop(loop) is not None or not source.is_alone(loop):
                continue
            for call in _invariant(program, source, loop):
                name = f"_{_label(call)}_{number}" if number else f"_{_label(call)}"
                number += 1
                edits.setdefault(unit, []).append(source.before(loop, f"{name} = {ast.unparse(call)}"))
                statement = source.statement(call)
                is_unused = isinstance(statement, ast.Expr) and statement.value is call
                edits[unit].append(source.remove(statement) if is_unused else source.replace(call, name))
                if is_unused:
                    edits[unit].pop(-2)
    if edits:
        yield Fix(
            rule,
            "make tensors that are the same in each iteration once, before the loop",
            edits_by_unit(edits),
        )


def drop_copies(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Remove ``.clone()`` and ``.contiguous()`` where the copy is only read by the next operator."""
    edits: dict[Unit, list[Edit]] = {}
    for unit in program.units:
        for call in unit.source.nodes(ast.Call):
            if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("clone", "contiguous"):
                continue
            if call.args or call.keywords or not _is_read_at_once(unit.source, call):
                continue
            edits.setdefault(unit, []).append(Edit(unit.source.end(call.func.value), unit.source.end(call), ""))
    if edits:
        yield Fix(
            finding.rule if finding is not None else "copies",
            "do not copy what is only read",
            edits_by_unit(edits),
        )


def batch_products(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Rewrite ``for k in range(n): torch.mm(a[k], b[k])`` as one `torch.bmm`."""
    edits: dict[Unit, list[Edit]] = {}
    for unit in program.units:
        for loop in unit.source.nodes(ast.For):
            text = _batched(program, unit.source, loop)
            if text is not None:
                edits.setdefault(unit, []).append(unit.source.replace(loop, text))
    if edits:
        yield Fix(
            finding.rule if finding is not None else "launch_bound",
            "run one batched product instead of a loop of products",
            edits_by_unit(edits),
            changes_numbers=True,
            dropped=_targets(edits),
        )


def whole_rows(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Rewrite ``for row in x: row.mul_(w)`` as ``x.mul_(w)``."""
    edits: dict[Unit, list[Edit]] = {}
    for unit in program.units:
        for loop in unit.source.nodes(ast.For):
            call = _only_call(loop)
            if call is None or not isinstance(call.func, ast.Attribute) or not isinstance(loop.target, ast.Name):
                continue
            tensor = program.names.value(loop.iter)
            is_row = isinstance(call.func.value, ast.Name) and call.func.value.id == loop.target.id
            if not is_row or call.func.attr not in _IN_PLACE or not hasattr(tensor, "untyped_storage"):
                continue
            others = [program.names.value(one) for one in (*call.args, *(k.value for k in call.keywords))]
            constants = [isinstance(one, ast.Constant) for one in call.args]
            is_scalar = [getattr(other, "numel", lambda: 1)() == 1 for other in others]
            if all(
                known or (other is not None and one)
                for known, other, one in zip(constants, others, is_scalar, strict=False)
            ):
                given = unit.source.text_of(call)[len(loop.target.id) :]
                edit = unit.source.replace(loop, f"{unit.source.text_of(loop.iter)}{given}")
                edits.setdefault(unit, []).append(edit)
    if edits:
        yield Fix(
            finding.rule if finding is not None else "launch_bound",
            "work on the whole tensor instead of its rows",
            edits_by_unit(edits),
            dropped=_targets(edits),
        )


def stack_before_copy(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Rewrite ``[value.to("cuda") for value in values]`` as one copy of all values."""
    edits: dict[Unit, list[Edit]] = {}
    for unit in program.units:
        for node in unit.source.nodes(ast.ListComp):
            text = _stacked(program, unit.source, node)
            if text is not None:
                edits.setdefault(unit, []).append(unit.source.replace(node, text))
    if edits:
        yield Fix(
            "small_copies",
            "copy all values to the GPU at once",
            edits_by_unit(edits),
        )


_IN_PLACE: Final = frozenset({"mul_", "add_", "div_", "sub_", "zero_", "fill_", "neg_", "exp_", "relu_", "clamp_"})


def _invariant(program: Program, source: Source, loop: ast.For | ast.While) -> Iterator[ast.Call]:
    """The outermost calls in a loop that give the same tensor in each iteration."""
    changed = assigned_in([loop])
    done: list[ast.Call] = []
    for node in sorted(
        (one for one in ast.walk(loop) if isinstance(one, ast.Call)),
        key=lambda one: (one.lineno, one.col_offset, -(one.end_col_offset or 0)),
    ):
        if any(node in ast.walk(other) for other in done) or source.in_comprehension(node):
            continue
        if not any(node in ast.walk(statement) for statement in loop.body):
            continue
        if _is_pure_call(program, node) and not names_read(node) & changed and not _is_written(source, loop, node):
            done.append(node)
            yield node


def _is_pure_call(program: Program, call: ast.AST) -> bool:
    if not isinstance(call, ast.Call):
        return False
    parts = [*call.args, *(one.value for one in call.keywords)]
    if not all(_is_plain(program, part) for part in parts):
        return False
    path = program.names.path(call.func)
    if path.startswith("torch."):
        return path.rpartition(".")[2] in _PURE_FUNCTIONS
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _PURE_METHODS:
        return False
    owner = call.func.value
    return hasattr(program.names.value(owner), "untyped_storage") or _is_pure_call(program, owner)


def _is_plain(program: Program, node: ast.AST) -> bool:
    """Whether an argument is made of constants, dotted names, pure calls, and tuples and sums of these."""
    if isinstance(node, ast.Constant) or (isinstance(node, ast.Name | ast.Attribute) and dotted(node)):
        return True
    if isinstance(node, ast.List | ast.Tuple):
        return all(_is_plain(program, one) for one in node.elts)
    if isinstance(node, ast.BinOp):
        return _is_plain(program, node.left) and _is_plain(program, node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_plain(program, node.operand)
    return _is_pure_call(program, node)


def _is_written(source: Source, loop: ast.AST, call: ast.Call) -> bool:
    """Whether the loop may write into the tensor that a call made: then each iteration needs one of its own."""
    parent = source.parent(call)
    if isinstance(parent, ast.Attribute):
        around = source.parent(parent)
        return not (isinstance(around, ast.Call) and around.func is parent and not parent.attr.endswith("_"))
    if isinstance(parent, ast.Assign):
        names = [one.id for one in parent.targets if isinstance(one, ast.Name)]
        if len(names) != len(parent.targets) or len(names) != 1:
            return True
        return _is_kept_or_written(source, loop, names[0], parent)
    if isinstance(parent, ast.Call):
        func = parent.func
        is_kept = isinstance(func, ast.Attribute) and func.attr in ("append", "add", "put", "insert", "extend")
        return is_kept or isinstance(func, ast.Name)  # an own function may write into it or keep it
    return not isinstance(parent, (*_READERS, ast.Expr))


def _is_kept_or_written(source: Source, loop: ast.AST, name: str, assignment: ast.Assign) -> bool:
    for node in ast.walk(loop):
        if not isinstance(node, ast.Name) or node.id != name or node in ast.walk(assignment):
            continue
        if not isinstance(node.ctx, ast.Load):
            return True
        parent = source.parent(node)
        if isinstance(parent, ast.Attribute) and parent.attr.endswith("_"):
            return True
        if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name):
            return True
        if isinstance(parent, ast.Call) and getattr(parent.func, "attr", "") in ("append", "add", "put", "insert"):
            return True
        if isinstance(parent, ast.keyword) and parent.arg == "out":
            return True
        if not isinstance(parent, (*_READERS, ast.Attribute, ast.UnaryOp)):
            return True
        if isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load):
            return True
    return False


def _label(call: ast.Call) -> str:
    name = dotted(call.func).rpartition(".")[2] or getattr(call.func, "attr", "value")
    root = root_name(call.func)
    return f"{root}_{name}" if root and root not in ("torch", "F") else f"{name}_once"


def _is_read_at_once(source: Source, call: ast.Call) -> bool:
    """Whether a copy is only an operand of an expression whose operator returns another tensor."""
    parent = source.parent(call)
    if isinstance(parent, ast.BinOp | ast.Compare):
        return True
    if isinstance(parent, ast.Attribute):
        around = source.parent(parent)
        return isinstance(around, ast.Call) and around.func is parent and parent.attr in _REDUCERS
    return False


_REDUCERS: Final = frozenset(
    {"sum", "mean", "max", "min", "amax", "amin", "std", "var", "norm", "softmax", "relu", "exp", "log", "sigmoid"}
    | {"tanh", "argmax", "cumsum", "matmul", "mm", "bmm", "abs", "sqrt", "sin", "cos", "add", "mul"}
)


def _only_call(loop: ast.For) -> ast.Call | None:
    """The call that is the only statement of a loop."""
    if len(loop.body) != 1 or loop.orelse or not isinstance(loop.body[0], ast.Expr):
        return None
    return loop.body[0].value if isinstance(loop.body[0].value, ast.Call) else None


def _batched(program: Program, source: Source, loop: ast.For) -> str | None:
    """The batched form of a loop of products."""
    if len(loop.body) != 1 or loop.orelse or not isinstance(loop.target, ast.Name):
        return None
    statement, index = loop.body[0], loop.target.id
    kept, value = None, getattr(statement, "value", None)
    if isinstance(statement, ast.Expr) and isinstance(value, ast.Call) and getattr(value.func, "attr", "") == "append":
        assert isinstance(value.func, ast.Attribute)
        kept, value = source.text_of(value.func.value), value.args[0] if value.args else None
    elif not isinstance(statement, ast.Expr):
        return None
    operands: list[Any] = []
    if isinstance(value, ast.Call) and program.names.is_call_of(value, "mm", "matmul") and len(value.args) == 2:
        operands = list(value.args)
    elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.MatMult):
        operands = [value.left, value.right]
    bases = [one.value for one in operands if _is_indexed(one, index)]
    tensors = [program.names.value(one) for one in bases]
    if (
        len(bases) != 2
        or not all(getattr(one, "ndim", 0) == 3 for one in tensors)
        or not _covers(program, loop, tensors[0])
    ):
        return None
    product = f"torch.bmm({source.text_of(bases[0])}, {source.text_of(bases[1])})"
    return product if kept is None else f"{kept}.extend({product}.unbind())"


def _is_indexed(node: ast.AST, index: str) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name) and node.slice.id == index


def _covers(program: Program, loop: ast.For, tensor: Any) -> bool:
    """Whether a loop goes over ``range(len(tensor))``, as far as the values of now show."""
    call = loop.iter
    if not isinstance(call, ast.Call) or dotted(call.func) != "range" or len(call.args) != 1:
        return False
    bound = call.args[0]
    if isinstance(bound, ast.Constant):
        return bool(bound.value == tensor.shape[0])
    if isinstance(bound, ast.Call) and dotted(bound.func) == "len" and bound.args:
        over = program.names.value(bound.args[0])
        return hasattr(over, "__len__") and len(over) == tensor.shape[0]
    return bool(program.names.value(bound) == tensor.shape[0])


def _stacked(program: Program, source: Source, node: ast.ListComp) -> str | None:
    if len(node.generators) != 1 or node.generators[0].ifs or not isinstance(node.generators[0].target, ast.Name):
        return None
    call, over = node.elt, node.generators[0]
    is_move = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in ("to", "cuda")
    if not is_move:
        return None
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Attribute)
    assert isinstance(over.target, ast.Name)
    values = program.names.value(over.iter)
    if dotted(call.func.value) != over.target.id or not isinstance(values, list | tuple):
        return None
    if len({(getattr(one, "shape", None), getattr(one, "dtype", None)) for one in values}) != 1:
        return None
    move = source.text_of(call)[len(over.target.id) :]
    return f"list(torch.stack({source.text_of(over.iter)}){move})"


def _targets(edits: dict[Unit, list[Edit]]) -> frozenset[str]:
    names: set[str] = set()
    for unit, found in edits.items():
        starts = {edit.start for edit in found}
        for loop in unit.source.nodes(ast.For):
            if unit.source.start(loop) in starts:
                names |= {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
    return frozenset(names)
