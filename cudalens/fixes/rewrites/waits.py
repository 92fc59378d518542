"""Waits for the GPU in a loop: collect values on the device and read them once after the loop, or do not wait."""

from __future__ import annotations

import ast
import collections
from collections.abc import Iterator
from typing import Final

from cudalens.analysis import Finding
from cudalens.fixes.rewrites.fix import Fix, Program, Unit, edits_by_unit, sites_at
from cudalens.fixes.rewrites.use import between, in_brackets, is_rebound, is_unread, last_name
from cudalens.fixes.source import Edit, Source, dotted

#: What needs a wait: clocks, work on other streams, copies that are not waited for, work of other libraries.
_CLOCKS: Final = frozenset({"perf_counter", "perf_counter_ns", "time", "monotonic", "process_time", "elapsed_time"})
_BESIDE: Final = frozenset({"Stream", "stream", "Event", "record", "query", "numpy", "replay", "Thread", "submit"})
_WAITS: Final = frozenset({"torch.cuda.synchronize", "torch.cuda.streams.Stream.synchronize"})


def read_after_loop(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Rewrite ``total += loss.item()`` and ``losses.append(loss.item())`` in a loop."""
    sites = [(unit, node) for unit in program.units for node in unit.source.nodes(ast.Call) if is_item(node)]
    edits: dict[Unit, list[Edit]] = {}
    for unit, node in sites_at(finding, sites):
        found = _collected(program, unit.source, node)
        if found:
            edits.setdefault(unit, []).extend(found)
    if edits:
        yield Fix(
            "host_sync",
            "collect the values on the device and read them once after the loop",
            tuple((unit, tuple(dict.fromkeys(found))) for unit, found in edits.items()),
        )


def copy_after_loop(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Rewrite ``kept.append(x.cpu())`` in a loop: keep tensors on the device, and copy them after the loop."""
    sites = [(unit, node) for unit in program.units for node in unit.source.nodes(ast.Call) if _is_method(node, "cpu")]
    edits: dict[Unit, list[Edit]] = {}
    for unit, node in sites_at(finding, sites):
        source, loop = unit.source, unit.source.loop(node)
        statement = source.statement(node)
        target = _append_target(statement, node)
        if loop is None or target is None or not is_unread(program, source, loop, target):
            continue
        # Without gradients, or with settings of a block, the copy after the loop would be another one.
        if any(isinstance(one, ast.With) for one in between(source, node, loop)) or node.args or node.keywords:
            continue
        name = _new_name(source, f"_{target.replace('.', '_')}_tensors")
        kept = in_brackets(source, node.func.value)
        if not is_rebound(program, loop, node.func.value):
            kept += ".clone()"
        edits.setdefault(unit, []).extend(
            [
                source.before(loop, f"{name} = []"),
                source.replace(statement, f"{name}.append({kept})"),
                source.after(loop, f"{target}.extend([_value.cpu() for _value in {name}])"),
            ]
        )
    if edits:
        yield Fix(
            "host_sync",
            "keep the tensors on the device in the loop and copy them to the host after it",
            edits_by_unit(edits),
        )


def remove_waits(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Remove ``torch.cuda.synchronize()`` and unused ``x.item()`` in a loop."""
    edits: dict[Unit, list[Edit]] = {}
    can_go = not any(_needs_waits(unit.source) for unit in program.units)
    for unit in program.units:
        removed = []
        for statement in unit.source.nodes(ast.Expr):
            if unit.source.loop(statement) is None or not isinstance(statement.value, ast.Call):
                continue
            call = statement.value
            is_wait = can_go and program.names.path(call.func) in _WAITS | {f"torch.{one}" for one in _WAITS}
            is_unused = isinstance(call.func, ast.Attribute) and is_item(call) and _is_tensor(program, call.func.value)
            if is_wait or is_unused:
                removed.append(statement)
        if removed:
            edits[unit] = unit.source.remove_all(removed)
    if edits:
        yield Fix(
            "host_sync",
            "do not wait for the GPU in the loop",
            edits_by_unit(edits),
        )


def select_by_mask(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Rewrite ``x[mask].sum()``, which waits for the number of elements, with `torch.where`."""
    sites = [(unit, node) for unit in program.units for node in unit.source.nodes(ast.Call) if _is_method(node, "sum")]
    sites = [(unit, node) for unit, node in sites if not (node.args or node.keywords)]
    sites = [(unit, node) for unit, node in sites if _is_masked(program, node.func.value)]
    edits: dict[Unit, list[Edit]] = {}
    for unit, node in sites_at(finding, sites):
        base, mask = (unit.source.text_of(one) for one in (node.func.value.value, node.func.value.slice))
        edits.setdefault(unit, []).append(unit.source.replace(node, f"torch.where({mask}, {base}, 0).sum()"))
    if edits:
        yield Fix(
            "host_sync",
            "sum the masked elements without selecting them",
            edits_by_unit(edits),
            changes_numbers=True,
        )


def is_item(node: ast.AST) -> bool:
    """Return whether a node is ``x.item()``."""
    return _is_method(node, "item")


def _is_method(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name


def _is_tensor(program: Program, node: ast.AST) -> bool:
    """Whether an expression is the name of a tensor: a call that it only waits for can go."""
    return bool(dotted(node)) and hasattr(program.names.value(node), "untyped_storage")


def _needs_waits(source: Source) -> bool:
    """Whether code may rely on a wait: it measures time, or work goes on beside the current stream."""
    for node in source.nodes(ast.Call, ast.keyword):
        if isinstance(node, ast.keyword) and node.arg in ("non_blocking", "async_op"):
            return True
        if isinstance(node, ast.Call) and (last_name(node.func) in _CLOCKS | _BESIDE or _may_not_wait(node)):
            return True
    return False


def _may_not_wait(call: ast.Call) -> bool:
    """Whether a call may be a copy with ``non_blocking`` as a positional argument, or in ``**options``."""
    num_before = {"copy_": 1, "cuda": 1, "to": 1}.get(last_name(call.func))
    if num_before is None:
        return False
    later = call.args[num_before:]
    is_given = any(not isinstance(one, ast.Attribute) for one in later)  # ``torch.float16`` is a dtype
    return is_given or any(one.arg is None for one in call.keywords)


def _is_masked(program: Program, node: ast.AST) -> bool:
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Name):
        return False
    mask, base = program.names.value(node.slice), program.names.value(node.value)
    return str(getattr(mask, "dtype", "")) == "torch.bool" and getattr(base, "shape", 1) == getattr(mask, "shape", 2)


def _collected(program: Program, source: Source, node: ast.Call) -> list[Edit] | None:
    """The edits for one ``.item()`` in a loop; None where the statement is another one."""
    statement, loop = source.statement(node), source.loop(node)
    assert isinstance(node.func, ast.Attribute)
    value = node.func.value
    if loop is None or source.in_comprehension(node) or node.args or node.keywords:
        return None
    if any(isinstance(one, ast.Try | ast.TryStar) for one in between(source, node, loop)):
        return None
    methods = ".detach()" if _may_need_gradients(program, value) else ""
    if not is_rebound(program, loop, value):
        methods += ".clone()"
    kept = f"{in_brackets(source, value)}{methods}"
    target = _append_target(statement, node)
    if target is not None and is_unread(program, source, loop, target):
        if type(_known(program, statement)) not in (list, collections.deque, type(None)):
            return None
        name = _new_name(source, f"_{target.replace('.', '_')}_values")
        return [
            source.before(loop, f"{name} = []"),
            *_append_instead(source, statement, node, name, kept, methods),
            source.after(loop, f"{target}.extend({_read(program, value, name)})"),
        ]
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.op, ast.Add):
        return None
    if not _is_plain_variable(program, statement.target) or not is_unread(
        program, source, loop, dotted(statement.target)
    ):
        return None
    return _summed(program, source, loop, statement, node, kept)


def _append_instead(
    source: Source, statement: ast.stmt, node: ast.Call, name: str, kept: str, methods: str
) -> list[Edit]:
    """The edits of ``losses.append(x.item())`` to ``name.append(x.detach())``; over several lines, each line stays."""
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    assert isinstance(statement.value.func, ast.Attribute)
    if not methods or statement.lineno == statement.end_lineno:
        return [source.replace(statement, f"{name}.append({kept})")]
    line, column = source.end(node.func)
    item = Edit((line, column - len("item")), source.end(node), methods.removeprefix("."))
    return [source.replace(statement.value.func.value, name), item]


def _known(program: Program, statement: ast.stmt) -> object:
    """The list that a statement appends to, if it is known."""
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    assert isinstance(statement.value.func, ast.Attribute)
    return program.names.value(statement.value.func.value)


def _read(program: Program, value: ast.expr, name: str) -> str:
    """The numbers of the collected tensors."""
    known = program.names.value(value)
    flat = ".flatten()" if getattr(known, "ndim", 0) else ""
    return f"torch.stack({name}){flat}.tolist() if {name} else []"


def _new_name(source: Source, name: str) -> str:
    """A name that the source does not have."""
    used = {node.id for node in source.nodes(ast.Name)} | {node.arg for node in source.nodes(ast.arg)}
    while name in used:
        name += "_"
    return name


def _summed(
    program: Program, source: Source, loop: ast.stmt, statement: ast.AugAssign, node: ast.Call, kept: str
) -> list[Edit] | None:
    """The edits for ``total += loss.item()``, or a product or quotient with it."""
    assert isinstance(node.func, ast.Attribute)
    total = dotted(statement.target)
    plain = total.replace(".", "_")
    name, factors = _new_name(source, f"_{plain}_values"), _new_name(source, f"_{plain}_factors")
    values = _read(program, node.func.value, name)
    added = statement.value
    if added is node:
        return [
            source.before(loop, f"{name} = []"),
            source.replace(statement, f"{name}.append({kept})"),
            source.after(loop, f"for _value in {values}:", f"    {total} += _value"),
        ]
    if not isinstance(added, ast.BinOp) or not isinstance(added.op, ast.Mult | ast.Div):
        return None
    is_left = added.left is node
    other = added.right if is_left else added.left
    if added.right is not node and not is_left:
        return None
    sign = "*" if isinstance(added.op, ast.Mult) else "/"
    if isinstance(other, ast.Constant):
        term = f"_value {sign} {source.text_of(other)}" if is_left else f"{source.text_of(other)} {sign} _value"
        return [
            source.before(loop, f"{name} = []"),
            source.replace(statement, f"{name}.append({kept})"),
            source.after(loop, f"for _value in {values}:", f"    {total} += {term}"),
        ]
    if not _is_number(program, other):  # a tensor, which may be written into before it is used
        return None
    term = f"_value {sign} _factor" if is_left else f"_factor {sign} _value"
    return [
        source.before(loop, f"{name}, {factors} = [], []"),
        source.replace(statement, f"{name}.append({kept}); {factors}.append({source.text_of(other)})"),
        source.after(loop, f"for _value, _factor in zip({values}, {factors}, strict=True):", f"    {total} += {term}"),
    ]


def _is_plain_variable(program: Program, target: ast.expr) -> bool:
    """Whether an assignment to a variable, or to an attribute of a known object, runs no code of the user."""
    if not isinstance(target, ast.Attribute):
        return isinstance(target, ast.Name)
    owner = program.names.value(target.value)
    kind = type(owner)
    has_own_way = any("__setattr__" in vars(one) for one in kind.__mro__[:-1])
    is_property = hasattr(getattr(kind, target.attr, None), "__set__")
    return target.attr in getattr(owner, "__dict__", {}) and not has_own_way and not is_property


def _is_number(program: Program, node: ast.expr) -> bool:
    """Whether a factor is a number, as far as its text and the values of variables show."""
    if isinstance(node, ast.BinOp):
        return _is_number(program, node.left) and _is_number(program, node.right)
    if isinstance(node, ast.Call):
        return last_name(node.func) in ("len", "size", "numel", "item", "int", "float")
    if isinstance(node, ast.Subscript):
        return getattr(node.value, "attr", "") == "shape"
    if isinstance(node, ast.Constant):
        return True
    return isinstance(program.names.value(node), int | float) or _is_count(node)


def _is_count(node: ast.expr) -> bool:
    """Whether a variable is called as a number of examples is called."""
    return last_name(node).rstrip("s") in ("n", "bs", "b", "batch_size", "num", "count", "weight", "step", "number")


def _may_need_gradients(program: Program, value: ast.expr) -> bool:
    """Whether a kept tensor may keep what its backward pass needs, as far as the values of variables show."""
    if isinstance(value, ast.Name) and hasattr(known := program.names.value(value), "requires_grad"):
        return bool(known.requires_grad)
    return True


def _append_target(statement: ast.stmt, node: ast.Call) -> str | None:
    """The list of ``losses.append(<node>)``; None for another statement."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and statement.value.args == [node]:
        func = statement.value.func
        if isinstance(func, ast.Attribute) and func.attr == "append":
            return dotted(func.value) or None
    return None
