"""Work in a loop that can be done once before it, for all iterations at once, or not at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final

from cudalens.analysis import Finding
from cudalens.fixes.rewrites.fix import Fix, Program, Unit, edits_by_unit
from cudalens.fixes.rewrites.use import (
    FRESH,
    between,
    in_brackets,
    is_only_read,
    is_rebound,
    is_unread,
    may_change,
    new_name,
    shares_memory,
)
from cudalens.fixes.source import Edit, Source, argument, assigned_in, dotted, root_name
from cudalens.fixes.trying.state import names_in

#: Methods whose result depends on their arguments alone.
_PURE_METHODS: Final = frozenset(
    {"to", "half", "float", "double", "bfloat16", "int", "long", "bool", "cuda", "contiguous", "clone", "type_as"}
    | {"t", "transpose", "permute", "tril", "triu"}
)
_PURE_FUNCTIONS: Final = frozenset(
    {"tensor", "as_tensor", "zeros", "ones", "full", "arange", "eye", "linspace", "tril", "triu", "zeros_like"}
    | {"ones_like", "full_like"}
)
#: Functions whose result depends on the elements of their arguments.
_OF_VALUES: Final = frozenset({"tensor", "as_tensor", "tril", "triu"})
#: Options with which each call makes a tensor that is used as a variable, or that has given memory.
_KEPT: Final = frozenset({"requires_grad", "out", None})
_BLOCKS: Final = (
    *(ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)


def hoist(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Make tensors that are the same in each iteration before the loop: constants, casts, copies, layouts."""
    rule = finding.rule if finding is not None else "copies"
    edits: dict[Unit, list[Edit]] = {}
    for unit in program.units:
        source, taken, unused = unit.source, set[str](), list[ast.stmt]()
        for loop in source.nodes(ast.For, ast.While):
            if source.loop(loop) is not None or not source.is_alone(loop):
                continue
            for call in _invariant(program, source, loop):
                statement = source.statement(call)
                if isinstance(statement, ast.Expr) and statement.value is call:
                    unused.append(statement)
                    continue
                name = new_name(unit, f"_{_label(call)}", taken)
                text = source.text_of(call)
                value = f"({text})" if "\n" in text else text
                edits.setdefault(unit, []).append(source.before(loop, f"{name} = {value}"))
                edits[unit].append(source.replace(call, name))
        if unused:
            edits.setdefault(unit, []).extend(source.remove_all(unused))
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
            if call.args or call.keywords or not _is_read_at_once(program, unit.source, call):
                continue
            edits.setdefault(unit, []).append(unit.source.method_edit(call, ""))
    if edits:
        yield Fix(
            finding.rule if finding is not None else "copies",
            "do not copy what is only read",
            edits_by_unit(edits),
        )


def join_once(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Rewrite ``out = torch.cat([out, part])`` in a loop, which copies all parts each time, as one `torch.cat`."""
    edits: dict[Unit, list[Edit]] = {}
    for unit in program.units:
        for loop in unit.source.nodes(ast.For, ast.While):
            for statement in loop.body:
                edits.setdefault(unit, []).extend(_joined(program, unit, loop, statement))
    edits = {unit: found for unit, found in edits.items() if found}
    if edits:
        yield Fix(
            finding.rule if finding is not None else "copies",
            "join the parts once after the loop",
            edits_by_unit(edits),
        )


def _joined(program: Program, unit: Unit, loop: ast.For | ast.While, statement: ast.stmt) -> list[Edit]:
    """The edits for one ``out = torch.cat([out, part], …)``; none for another statement."""
    source, call = unit.source, getattr(statement, "value", None)
    if not isinstance(statement, ast.Assign) or not program.names.is_call_of(call, "cat", "concat", "hstack", "vstack"):
        return []
    assert isinstance(call, ast.Call)
    parts = call.args[0] if call.args else None
    if not isinstance(parts, ast.List | ast.Tuple) or len(parts.elts) != 2 or len(statement.targets) != 1:
        return []
    out, part = dotted(parts.elts[0]), parts.elts[1]
    if not out.isidentifier() or dotted(statement.targets[0]) != out or not is_unread(program, source, loop, out, 2):
        return []
    name = new_name(unit, f"_{out}_parts", set())
    text = source.text_of(part)
    kept = text if is_rebound(program, loop, part) else f"{in_brackets(source, part)}.clone()"
    options = [source.text_of(one) for one in call.args[1:]]
    options += [f"{one.arg}={source.text_of(one.value)}" for one in call.keywords]
    joined = ", ".join([name, *options])
    return [
        source.before(loop, f"{name} = [{out}]"),
        source.replace(statement, f"{name}.append({kept})"),
        source.after(loop, f"{out} = {source.text_of(call.func)}({joined}) if len({name}) > 1 else {out}"),
    ]


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
            parts = [*call.args, *(one.value for one in call.keywords)]
            if all(_is_scalar(program, part, tensor) for part in parts):
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
    done: list[ast.Call] = []
    for node in sorted(
        (one for statement in loop.body for one in ast.walk(statement) if isinstance(one, ast.Call)),
        key=lambda one: (one.lineno, one.col_offset, -(one.end_col_offset or 0)),
    ):
        if any(node in ast.walk(other) for other in done) or not _is_pure_call(program, node):
            continue
        # The value is another one in a block with its own settings or streams, and an error would be another one.
        if any(isinstance(one, _BLOCKS) for one in between(source, node, loop)):
            continue
        names = [one for one in ast.walk(node) if isinstance(one, ast.Name)]
        if any(may_change(program, source, loop, name) for name in names) or _is_written(program, source, loop, node):
            continue
        done.append(node)
        yield node


def _is_pure_call(program: Program, call: ast.AST) -> bool:
    if not isinstance(call, ast.Call):
        return False
    parts = [*call.args, *(one.value for one in call.keywords)]
    if not all(_is_plain(program, part) for part in parts) or any(one.arg in _KEPT for one in call.keywords):
        return False
    path = program.names.path(call.func)
    if path.startswith("torch."):
        name = path.rpartition(".")[2]
        named = [one for part in parts for one in ast.walk(part) if isinstance(one, ast.Name)]
        # An argument with a name whose value is not known: another name may have the same object.
        has_values = name in _OF_VALUES and any(program.names.value(one) is None for one in named)
        return name in _PURE_FUNCTIONS and not has_values
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


def _is_written(program: Program, source: Source, loop: ast.AST, call: ast.Call) -> bool:
    """Whether the loop may write into the tensor that a call made, or keep it: each iteration needs one of its own."""
    parent = source.parent(call)
    if isinstance(parent, ast.Expr):
        return False
    if not isinstance(parent, ast.Assign):
        return not is_only_read(program, source, call)
    target = parent.targets[0]
    if len(parent.targets) != 1 or not isinstance(target, ast.Name) or target.id in _named_elsewhere(program, source):
        return True
    uses = [one for one in source.nodes(ast.Name) if one.id == target.id and one is not target]
    return not all(isinstance(one.ctx, ast.Load) and is_only_read(program, source, one) for one in uses)


def _named_elsewhere(program: Program, source: Source) -> set[str]:
    """The variables that functions name, and those that a function of `source` shares with an inner one."""
    found = {name for unit in program.functions if unit.function for name in names_in(unit.function.__code__)}
    return found | {name for node in source.nodes(ast.Global, ast.Nonlocal) for name in node.names}


def _label(call: ast.Call) -> str:
    name = dotted(call.func).rpartition(".")[2] or getattr(call.func, "attr", "value")
    root = root_name(call.func)
    return f"{root}_{name}" if root and root not in ("torch", "F") else f"{name}_once"


def _is_read_at_once(program: Program, source: Source, call: ast.Call) -> bool:
    """Whether a copy is only an operand of an expression whose operator returns another tensor.

    A result of elements has the layout of its operands: without ``.contiguous()`` it would be another one.
    """
    assert isinstance(call.func, ast.Attribute)
    parent = source.parent(call)
    if isinstance(parent, ast.BinOp | ast.Compare):
        return call.func.attr == "clone" or isinstance(getattr(parent, "op", None), ast.MatMult)
    if not isinstance(parent, ast.Attribute):
        return False
    around = source.parent(parent)
    is_call = isinstance(around, ast.Call) and around.func is parent
    return is_call and parent.attr in (_REDUCERS if call.func.attr == "contiguous" else FRESH)


_REDUCERS: Final = frozenset(
    {"sum", "mean", "max", "min", "amax", "amin", "std", "var", "norm", "argmax", "matmul", "mm", "bmm"}
)


def _is_scalar(program: Program, node: ast.expr, tensor: Any) -> bool:
    """Whether an argument is one number that is not a part of `tensor`, as far as the values of now show."""
    if isinstance(node, ast.UnaryOp):
        return _is_scalar(program, node.operand, tensor)
    if isinstance(node, ast.Constant):
        return True
    value = program.names.value(node)
    if hasattr(value, "untyped_storage"):
        return bool(value.numel() == 1 and not shares_memory(value, tensor))
    return isinstance(value, int | float)


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
    bases = [
        one.value
        for one in operands
        if isinstance(one, ast.Subscript) and isinstance(one.slice, ast.Name) and one.slice.id == index
    ]
    tensors = [program.names.value(one) for one in bases]
    if (
        len(bases) != 2
        or not all(getattr(one, "ndim", 0) == 3 for one in tensors)
        or not _covers(program, loop, bases[0], tensors[0])
    ):
        return None
    product = f"torch.bmm({source.text_of(bases[0])}, {source.text_of(bases[1])})"
    return product if kept is None else f"{kept}.extend({product}.unbind())"


def _covers(program: Program, loop: ast.For, base: ast.AST, tensor: Any) -> bool:
    """Whether a loop goes over ``range(len(tensor))``, as far as the values of now show."""
    call = loop.iter
    if not isinstance(call, ast.Call) or dotted(call.func) != "range" or len(call.args) != 1:
        return False
    bound, name = ast.unparse(call.args[0]), ast.unparse(base)
    if bound in (f"len({name})", f"{name}.shape[0]", f"{name}.size(0)"):
        return True
    names = {one.id for one in ast.walk(loop.iter) if isinstance(one, ast.Name)} | {root_name(base)}
    if names & assigned_in(program.cell.source.tree.body):  # they may have had other values
        return False
    number = call.args[0].value if isinstance(call.args[0], ast.Constant) else program.names.value(call.args[0])
    if isinstance(number, int):
        return bool(number == tensor.shape[0])
    inner = call.args[0]
    is_length = isinstance(inner, ast.Call) and dotted(inner.func) == "len"
    over: Any = program.names.value(inner.args[0]) if isinstance(inner, ast.Call) and is_length else None
    return hasattr(over, "__len__") and len(over) == tensor.shape[0]


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
    # What is on the GPU already would not have been copied.
    if any(str(getattr(one, "device", "")) != "cpu" for one in values) or not _is_cuda(program, call):
        return None
    move = source.text_of(call)[len(over.target.id) :]
    return f"list(torch.stack({source.text_of(over.iter)}){move})"


def _is_cuda(program: Program, call: ast.Call) -> bool:
    target = argument(call, 0, "device")
    if isinstance(call.func, ast.Attribute) and call.func.attr == "cuda":
        return True
    known = target.value if isinstance(target, ast.Constant) else program.names.value(target)
    return str(known).startswith("cuda")


def _targets(edits: dict[Unit, list[Edit]]) -> frozenset[str]:
    names: set[str] = set()
    for unit, found in edits.items():
        starts = {edit.start for edit in found}
        for loop in unit.source.nodes(ast.For):
            if unit.source.start(loop) in starts:
                names |= {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
    return frozenset(names)
