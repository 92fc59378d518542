"""What code does with a value: whether an expression only reads it, and whether a loop may change it."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Iterator, Sequence
from typing import Any, Final

from cudalens.fixes.rewrites.fix import Program, Unit, reached_functions
from cudalens.fixes.source import MUTATING, Source, assigned_in, dotted, names_read, root_name
from cudalens.fixes.trying.state import names_in

#: Functions and methods of torch that return a new tensor, and write into none of their arguments.
FRESH: Final = frozenset(
    {"sum", "mean", "prod", "max", "min", "amax", "amin", "std", "var", "norm", "median", "argmax", "argmin", "cumsum"}
    | {"softmax", "log_softmax", "relu", "gelu", "silu", "exp", "log", "sigmoid", "tanh", "abs", "sqrt", "rsqrt", "sin"}
    | {"cos", "square", "pow", "neg", "round", "floor", "ceil", "sign", "clamp", "matmul", "mm", "bmm", "dot", "mv"}
    | {"add", "sub", "mul", "div", "addmm", "baddbmm", "maximum", "minimum", "where", "masked_fill", "cat", "stack"}
    | {"eq", "ne", "lt", "le", "gt", "ge", "isnan", "isfinite", "any", "all", "logical_and", "logical_or", "lerp"}
    | {"linear", "conv1d", "conv2d", "embedding", "layer_norm", "scaled_dot_product_attention", "cross_entropy"}
    | {"nll_loss", "mse_loss", "l1_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "clone"}
    | {"half", "double", "count_nonzero", "logsumexp", "outer", "roll", "flip", "index_select", "gather"}
)
#: Of these, casts that return the tensor itself where it has the dtype already.
_CASTS: Final = frozenset({"half", "double"})
#: Calls of Python that leave their arguments as they are.
_HARMLESS: Final = frozenset(
    {"len", "range", "print", "float", "int", "bool", "str", "repr", "abs", "min", "max", "sum", "enumerate", "zip"}
    | {"isinstance", "round", "type", "id", "sorted", "tuple", "list", "set"}
)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_FIXED: Final = (int, float, complex, str, bytes, bool, type(None), types.ModuleType, type, tuple)


def has_effects(program: Program, name: str) -> bool:
    """Return whether a function or a module of the user does more in Python than compute tensors.

    A replay of a CUDA graph leaves out what it prints, appends and assigns.
    """
    units = _reached(program, [program.namespace.get(name)])
    return any(_is_effect(node) for unit in units for node in ast.walk(unit.source.tree))


def changes_state(program: Program, name: str) -> bool:
    """Return whether a call of a function or a module changes tensors or random generators that exist before it.

    Its arguments count: a module among them may be called.
    """
    calls_of = [one for one in program.cell.source.nodes(ast.Call) if getattr(one.func, "id", "") == name]
    parts = [part for call in calls_of for part in (*call.args, *(one.value for one in call.keywords))]
    values: list[Any] = [program.namespace.get(name), *(program.names.value(one) for one in parts)]
    modules = [one for value in values if hasattr(type(value), "named_modules") for one in value.modules()]
    if any(one.training and ("Norm" in type(one).__name__ or "Drop" in type(one).__name__) for one in modules):
        return True
    calls = [
        last_name(node.func)
        for unit in _reached(program, values)
        for node in ast.walk(unit.source.tree)
        if isinstance(node, ast.Call)
    ]
    return any(
        "rand" in one or "drop" in one or one in _DRAWS or (one.endswith("_") and not one.startswith("_"))
        for one in calls
    )


def _reached(program: Program, values: Sequence[Any]) -> list[Unit]:
    """The functions of the user that values reach."""
    reached = set(map(id, reached_functions(values)))
    return [unit for unit in program.functions if id(unit.function) in reached]


def _is_effect(node: ast.AST) -> bool:
    if isinstance(node, ast.Global | ast.Nonlocal):
        return True
    if isinstance(node, ast.Attribute | ast.Subscript):
        return isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
    if not isinstance(node, ast.Call):
        return False
    name = last_name(node.func)
    return name == "print" or name in MUTATING - {"add", "backward", "step", "zero_grad", "train", "eval"}


_DRAWS: Final = frozenset({"normal", "bernoulli", "multinomial", "poisson", "exponential_", "sample", "rsample"})


def is_fresh(program: Program, node: ast.AST) -> bool:
    """Return whether an expression makes a new tensor each time, whose memory nothing else has."""
    if isinstance(node, ast.BinOp):
        return True
    if not isinstance(node, ast.Call) or _writes(node):
        return False
    path, name = program.names.path(node.func), last_name(node.func)
    if path.startswith("torch."):
        return name in FRESH - _CASTS
    kind = type(program.names.value(node.func))
    if kind.__module__.startswith("torch.nn.modules.loss"):
        return True
    return isinstance(node.func, ast.Attribute) and not path and name in FRESH - _CASTS


def is_rebound(program: Program, loop: ast.For | ast.While, value: ast.AST) -> bool:
    """Return whether a tensor is another one in each iteration, in memory that nothing in the loop writes into."""
    if not isinstance(value, ast.Name):
        return is_fresh(program, value)
    name = value.id
    stores = [
        node
        for node in ast.walk(loop)
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load | ast.Del)
    ]
    assignments = [
        node
        for node in ast.walk(loop)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and node.value is not None
        and any(isinstance(one, ast.Name) and one.id == name for one in _targets(node))
    ]
    in_place = [node for node in ast.walk(loop) if isinstance(node, ast.Call) and name in _written_by(node)]
    is_fresh_each = all(node.value is not None and is_fresh(program, node.value) for node in assignments)
    return bool(assignments) and len(stores) == len(assignments) and is_fresh_each and not in_place


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _written_by(call: ast.Call) -> set[str]:
    found = assigned_in([ast.Expr(call)])
    is_backward = isinstance(call.func, ast.Attribute) and call.func.attr == "backward"
    return found - {root_name(call.func)} if is_backward else found


def is_only_read(program: Program, source: Source, node: ast.AST) -> bool:
    """Return whether the value at `node` is only an operand of an operator that returns a new tensor."""
    parent = source.parent(node)
    if isinstance(parent, ast.BinOp | ast.Compare):
        return True
    if isinstance(parent, ast.UnaryOp):
        return not isinstance(parent.op, ast.UAdd)
    if isinstance(parent, ast.Subscript):
        return parent.value is not node or (isinstance(parent.ctx, ast.Load) and is_only_read(program, source, parent))
    if isinstance(parent, ast.Attribute):
        around = source.parent(parent)
        if isinstance(around, ast.Call) and around.func is parent:
            return parent.attr in FRESH - _CASTS and not _writes(around)
        return parent.attr in ("shape", "dtype", "device", "ndim")
    call = source.parent(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call) or _writes(call) or call.func is node:
        return False
    name, path = last_name(call.func), program.names.path(call.func)
    is_method = isinstance(call.func, ast.Attribute) and not path
    return (path.startswith("torch.") or is_method) and name in FRESH - _CASTS


def may_change(program: Program, source: Source, loop: ast.AST, name: ast.Name) -> bool:
    """Return whether a loop may bind a name again, or write into the object that it has."""
    if name.id in assigned_in([loop]) or any(
        name.id in node.names for unit in program.units for node in unit.source.nodes(ast.Global, ast.Nonlocal)
    ):
        return True
    value = program.names.value(name)
    if value is None and hasattr(builtins, name.id):
        return False
    if isinstance(value, _FIXED) or (type(value).__module__ == "torch" and not _is_tensor(value)):
        return False
    changed = assigned_in([loop])
    if any(program.namespace.get(other) is value for other in changed if value is not None):
        return True
    calls = [node for node in ast.walk(loop) if isinstance(node, ast.Call)]
    if any(_may_write(program, call, name.id, value) for call in calls):
        return True
    return _is_tensor(value) and (_is_part(program, value) or _shares(program, changed, value))


def is_unread(program: Program, source: Source, loop: ast.For | ast.While, target: str, num_uses: int = 1) -> bool:
    """Return whether nothing sees what a loop appends or adds to a variable until the loop has ended.

    Args:
        program: The program.
        source: The source of the loop.
        loop: The loop.
        target: The variable, or an attribute of one.
        num_uses: How often the statement itself names it.
    """
    nodes = [node for node in ast.walk(loop) if isinstance(node, ast.Name | ast.Attribute)]
    return (
        source.is_alone(loop)
        and sum(dotted(node) == target for node in nodes) == num_uses
        and not leaves_early(loop)
        and not is_in_try(source, loop)
        and not is_seen_elsewhere(program, source, loop, target)
    )


def is_seen_elsewhere(program: Program, source: Source, loop: ast.AST, target: str) -> bool:
    """Return whether code that a loop may call sees a variable or an attribute, as ``losses`` or ``self.losses``.

    Functions and lambdas that name it count, whether they are called or not; for an attribute, each call of a method
    of its object, and each call that takes the object.
    """
    root, _, attribute = target.partition(".")
    name = attribute.rpartition(".")[2] or root
    functions = [unit.function for unit in program.functions if unit.function is not None]
    if attribute:  # a constructor writes into another object
        functions = [one for one in functions if one.__name__ != "__init__"]
    if any(name in names_in(one.__code__) for one in functions if not _is_around(source, loop, one)):
        return True
    around = list(source.around(loop))
    inner = [one for one in source.nodes(*_FUNCTIONS, ast.ClassDef) if one not in around]
    if any(name in names_read(one) or name in _attributes(one) for one in inner):
        return True
    if _has_other_name(program, source, target):
        return True
    if not attribute:
        return False
    for node in ast.walk(loop):
        if isinstance(node, ast.Name) and node.id == root:
            parent = source.parent(node)
            outer = source.parent(parent) if isinstance(parent, ast.Attribute) else None
            is_called = isinstance(outer, ast.Call) and outer.func is parent
            if not isinstance(parent, ast.Attribute) or is_called:
                return True
    return False


def _has_other_name(program: Program, source: Source, target: str) -> bool:
    """Whether the source has another name for the object of a variable, as ``log = losses``."""
    nodes = source.nodes(ast.Name, ast.Attribute)
    values = {dotted(node): program.names.value(node) for node in nodes}
    known = values.get(target)
    is_shared = isinstance(known, list | dict) and any(
        value is known for name, value in values.items() if name != target
    )
    assigned = [one.value for one in source.nodes(ast.Assign, ast.NamedExpr, ast.AnnAssign)]
    return is_shared or any(dotted(value) == target for value in assigned)


def _is_around(source: Source, loop: ast.AST, function: Any) -> bool:
    """Whether a loop is in the text of a function."""
    return any(
        isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name == function.__name__
        for one in source.around(loop)
    )


def _attributes(node: ast.AST) -> set[str]:
    return {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}


def leaves_early(loop: ast.AST) -> bool:
    """Return whether the lines after a loop may not run, or other code may run in the middle of it."""
    waiting = list(ast.iter_child_nodes(loop))
    while waiting:
        node = waiting.pop()
        if isinstance(
            node, ast.Return | ast.Yield | ast.YieldFrom | ast.Await | ast.Raise | ast.AsyncFor | ast.AsyncWith
        ):
            return True
        if not isinstance(node, _FUNCTIONS):
            waiting += ast.iter_child_nodes(node)
    return isinstance(loop, ast.AsyncFor)


def is_in_try(source: Source, node: ast.AST) -> bool:
    """Return whether a ``try`` of the same function goes on after an error in `node`."""
    for one in source.around(node):
        if isinstance(one, _FUNCTIONS):
            return False
        if isinstance(one, ast.Try | ast.TryStar):
            return True
    return False


def between(source: Source, node: ast.AST, loop: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes around `node` that are inside of `loop`, innermost first."""
    for one in source.around(node):
        if one is loop:
            return
        yield one


def in_brackets(source: Source, value: ast.expr) -> str:
    """Return the text of an expression that a method is called on."""
    text = source.text_of(value)
    is_plain = isinstance(value, ast.Name | ast.Attribute | ast.Call | ast.Subscript) and "\n" not in text
    return text if is_plain else f"({text})"


def is_steady(
    source: Source, names: set[str], first: ast.stmt, last: ast.stmt, removed: Sequence[ast.stmt] = ()
) -> bool:
    """Return whether the statements from one after `first` up to before `last` change none of the names.

    Args:
        source: The source.
        names: The names.
        first: The first statement.
        last: The last one.
        removed: Statements that the fix removes.
    """
    found = [
        one
        for one in source.nodes(ast.stmt)
        if first.lineno < one.lineno < last.lineno and one not in (first, last, *removed)
    ]
    return not names & assigned_in(found)


def new_name(unit: Unit, name: str, taken: set[str]) -> str:
    """Return a name for a variable that neither the source nor `taken` has."""
    used = {node.id for node in unit.source.nodes(ast.Name)} | {node.arg for node in unit.source.nodes(ast.arg)}
    found, number = name, 0
    while found in taken or found in used:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found


def shares_memory(tensor: Any, other: Any) -> bool:
    """Return whether two values are tensors or arrays in the same memory."""
    first, second = _memory(tensor), _memory(other)
    return first is not None and second is not None and first[0] < second[1] and second[0] < first[1]


def _memory(value: Any) -> tuple[int, int] | None:
    """The addresses of the first byte and of the one after the last byte."""
    if _is_tensor(value):
        if str(value.layout) != "torch.strided" or not value.untyped_storage().nbytes():
            return None
        start = value.untyped_storage().data_ptr()
        return start, start + value.untyped_storage().nbytes()
    if type(value).__module__ == "numpy" and hasattr(value, "__array_interface__") and value.nbytes:
        start = value.__array_interface__["data"][0]
        return start, start + value.nbytes
    return None


def _shares(program: Program, names: set[str], tensor: Any) -> bool:
    values = [program.namespace.get(name) for name in names]
    items = [item for value in values if isinstance(value, list | tuple) for item in value]
    return any(shares_memory(tensor, other) for other in (*values, *items))


def _is_part(program: Program, tensor: Any) -> bool:
    """Whether a tensor is a parameter or a buffer of a module, or one that an optimizer updates."""
    if tensor.requires_grad:
        return True
    parts: list[Any] = []
    for value in list(program.namespace.values()):
        if hasattr(type(value), "named_modules"):
            parts += [*value.parameters(), *value.buffers()]
        elif isinstance(getattr(value, "param_groups", None), list):
            parts += [one for group in value.param_groups for one in group.get("params", ())]
    return any(shares_memory(tensor, one) for one in parts)


def _may_write(program: Program, call: ast.Call, name: str, value: Any) -> bool:
    """Whether a call may write into the object of a name, as far as its text and the values of variables show."""
    parts = [*call.args, *(one.value for one in call.keywords)]
    is_given = any(isinstance(one, ast.Name | ast.Starred) and root_name(one) == name for one in parts)
    path, last = program.names.path(call.func), last_name(call.func)
    is_torch = path.startswith("torch.") and not path.startswith("torch.nn.modules") and not last.endswith("_")
    is_method = isinstance(call.func, ast.Attribute) and not path and not last.endswith("_")
    is_known = is_torch or (isinstance(call.func, ast.Name) and last in _HARMLESS)
    if is_given and not is_known and not (is_method and last in FRESH):
        return True
    if isinstance(call.func, ast.Attribute) and root_name(call.func.value) == name and not _is_tensor(value):
        return True
    named = [unit for unit in program.functions if unit.function and name in names_in(unit.function.__code__)]
    return bool(named) and not is_known and not (is_method and last in FRESH)


def _writes(call: ast.Call) -> bool:
    options = {one.arg for one in call.keywords}
    return bool(options & {"out", "inplace", None})


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "untyped_storage")


def read_values(program: Program) -> list[tuple[str, Any]]:
    """Return the variables that the cell and its functions read, with their values."""
    names = {name for unit in program.units for name in names_read(unit.source.tree)}
    return [(name, program.namespace[name]) for name in sorted(names) if name in program.namespace]


def last_name(node: ast.AST) -> str:
    """Return the last part of a dotted name, "" for another expression."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
