"""Waits for the GPU in a loop: collect values on the device and read them once after the loop, or do not wait."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from cudalens.analysis import Finding
from cudalens.fixes.rewrites.fix import Fix, Program, Unit, edits_by_unit, sites_at
from cudalens.fixes.source import Edit, Source, assigned_in, dotted, root_name

_READS: Final = ("item", "tolist", "cpu", "numpy")
_CLOCKS: Final = frozenset({"perf_counter", "perf_counter_ns", "time", "monotonic", "process_time", "elapsed_time"})


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
        if loop is None or target is None or _count(loop, target) != 1 or not source.is_alone(loop):
            continue
        name = f"_{target.replace('.', '_')}_tensors"
        value = source.text_of(node.func.value)
        kept = value if _is_rebound(loop, node.func.value) else f"{value}.clone()"
        edits.setdefault(unit, []).extend(
            [
                source.before(loop, f"{name} = []"),
                source.replace(statement, f"{name}.append({kept}.detach())"),
                source.after(loop, f"{target}.extend(_value.cpu() for _value in {name})"),
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
    for unit in program.units:
        for statement in unit.source.nodes(ast.Expr):
            loop = unit.source.loop(statement)
            if loop is None or not isinstance(statement.value, ast.Call):
                continue
            call = statement.value
            is_wait = dotted(call.func).endswith(("cuda.synchronize", "current_stream().synchronize"))
            is_wait = is_wait and not any(
                _CLOCKS & {_last_name(one.func)} for one in ast.walk(loop) if isinstance(one, ast.Call)
            )
            is_unused = isinstance(call.func, ast.Attribute) and is_item(call) and _is_pure(call.func.value)
            if is_wait or is_unused:
                edits.setdefault(unit, []).append(unit.source.remove(statement))
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


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_pure(node: ast.AST) -> bool:
    """Whether an expression is a name, or an attribute of one: removing it changes nothing."""
    return bool(dotted(node))


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
    if loop is None or not source.is_alone(loop) or source.in_comprehension(node):
        return None
    kept = source.text_of(value)
    if not isinstance(value, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        kept = f"({kept})"
    if _may_need_gradients(program, value):
        kept += ".detach()"
    if not _is_rebound(loop, value):
        kept += ".clone()"
    target = _append_target(statement, node)
    if target is not None and _count(loop, target) == 1:
        name = f"_{target.replace('.', '_')}_values"
        return [
            source.before(loop, f"{name} = []"),
            source.replace(statement, f"{name}.append({kept})"),
            source.after(loop, f"{target}.extend(torch.stack({name}).tolist() if {name} else [])"),
        ]
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.op, ast.Add):
        return None
    if not isinstance(statement.target, ast.Name) or _count(loop, statement.target.id) != 1:
        return None
    return _summed(source, loop, statement, node, kept)


def _summed(source: Source, loop: ast.stmt, statement: ast.AugAssign, node: ast.Call, kept: str) -> list[Edit] | None:
    """The edits for ``total += loss.item()``, or a product or quotient with it."""
    assert isinstance(statement.target, ast.Name)
    total = statement.target.id
    name, factors = f"_{total}_values", f"_{total}_factors"
    values = f"torch.stack({name}).tolist() if {name} else []"
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
    term = f"_value {sign} _factor" if is_left else f"_factor {sign} _value"
    indent = source.indent(statement)
    return [
        source.before(loop, f"{name}, {factors} = [], []"),
        source.replace(statement, f"{name}.append({kept})\n{indent}{factors}.append({source.text_of(other)})"),
        source.after(loop, f"for _value, _factor in zip({values}, {factors}, strict=True):", f"    {total} += {term}"),
    ]


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


def _count(loop: ast.For | ast.While, name: str) -> int:
    """How often a dotted name occurs in a loop, its head included."""
    return sum(dotted(node) == name for node in ast.walk(loop) if isinstance(node, ast.Name | ast.Attribute))


def _is_rebound(loop: ast.For | ast.While, value: ast.AST) -> bool:
    """Whether the tensor is another object in each iteration, which nothing in the loop writes into."""
    name = root_name(value)
    if not isinstance(value, ast.Name):
        return isinstance(value, ast.Call | ast.BinOp)
    is_assigned = any(
        isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id == name for one in node.targets)
        for node in ast.walk(loop)
    )
    in_place = [node for node in ast.walk(loop) if isinstance(node, ast.AugAssign) and root_name(node.target) == name]
    methods = [node for node in ast.walk(loop) if isinstance(node, ast.Call) and name in _written_by(node)]
    return is_assigned and not in_place and not methods


def _written_by(call: ast.Call) -> set[str]:
    found = assigned_in([ast.Expr(call)])
    is_backward = isinstance(call.func, ast.Attribute) and call.func.attr == "backward"
    return found - {root_name(call.func)} if is_backward else found
