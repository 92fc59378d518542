"""Products in full precision: TF32, autocast, float32 instead of float64; layouts of convolutions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final

from cudalens.analysis import Finding
from cudalens.fixes.rewrites.fix import Fix, Program, Unit, edits_by_unit
from cudalens.fixes.rewrites.use import read_values
from cudalens.fixes.source import Edit, assigned_in, dotted

_FLAGS: Final = (
    "torch.backends.cuda.matmul.allow_tf32",
    "torch.backends.cudnn.allow_tf32",
)


def tensor_cores(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Use TF32 in the cell, or autocast around it."""
    edits: dict[Unit, list[Edit]] = {}
    for unit in program.units:
        for node in unit.source.nodes(ast.Assign):
            is_flag = any(dotted(target) in _FLAGS for target in node.targets)
            if is_flag and isinstance(node.value, ast.Constant) and node.value.value is False:
                edits.setdefault(unit, []).append(unit.source.replace(node.value, "True"))
        for call in unit.source.nodes(ast.Call):
            if dotted(call.func) == "torch.set_float32_matmul_precision" and call.args:
                edits.setdefault(unit, []).append(unit.source.replace(call.args[0], '"high"'))
    title = "use TF32 for products of float32 tensors"
    if edits:
        all_edits = edits_by_unit(edits)
        yield Fix("fp32_math", title, all_edits, changes_numbers=True, hides_rounding=True)
    else:
        setup = ('torch.set_float32_matmul_precision("high")', "torch.backends.cudnn.allow_tf32 = True")
        yield Fix("fp32_math", title, (), setup, changes_numbers=True, hides_rounding=True)
    yield from _autocast(program)


def _autocast(program: Program) -> Iterator[Fix]:
    """Put the whole cell into ``with torch.autocast``, where it has no statement that must stay at its top level."""
    source = program.cell.source
    body = [one for one in source.tree.body if not isinstance(one, ast.Import | ast.ImportFrom)]
    is_plain = not any(isinstance(one, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) for one in body)
    has_text = any(
        isinstance(one, ast.Constant | ast.JoinedStr) and (one.end_lineno or one.lineno) > one.lineno
        for one in ast.walk(source.tree)
    )
    has_backward = any(isinstance(one, ast.Attribute) and one.attr == "backward" for one in ast.walk(source.tree))
    if not body or not is_plain or has_text or source.foreign_lines or has_backward:
        return
    import torch

    has_bfloat16 = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)
    dtype = "bfloat16" if has_bfloat16 else "float16"
    first, last = body[0].lineno, body[-1].end_lineno or body[-1].lineno
    if any(one.lineno <= first for one in source.tree.body if one not in body) and not source.is_alone(body[0]):
        return
    edits = [Edit((first, 0), (first, 0), f'with torch.autocast("cuda", dtype=torch.{dtype}):\n    ')]
    edits += [
        Edit((line, 0), (line, 0), "    ") for line in range(first + 1, last + 1) if source.lines[line - 1].strip()
    ]
    yield Fix(
        "fp32_math",
        f"run products in {dtype} (autocast)",
        ((program.cell, tuple(edits)),),
        changes_numbers=True,
        changes_behaviour=f"results of products and convolutions have dtype {dtype}.",
    )


def single_precision(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Make and compute float32 tensors instead of float64 ones."""
    edits: dict[Unit, list[Edit]] = {}
    for unit in program.units:
        for node in unit.source.nodes(ast.Attribute, ast.Name):
            if program.names.path(node) in ("torch.float64", "torch.double") or dotted(node) in _WIDE:
                edits.setdefault(unit, []).append(unit.source.replace(node, "torch.float32"))
        for call in unit.source.nodes(ast.Call):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "double" and not call.args:
                edits.setdefault(unit, []).append(unit.source.method_edit(call, ".float()"))
    wide = [name for name, value in _tensors(program) if str(value.dtype) == "torch.float64"]
    modules = [
        name
        for name, value in _modules(program)
        if any(str(one.dtype) == "torch.float64" for one in value.parameters())
    ]
    assigned = assigned_in(program.cell.source.tree.body)
    setup = tuple(f"{name} = {name}.float()" for name in wide if name not in assigned)
    setup += tuple(f"{name}.float()" for name in modules)
    if edits or setup:
        yield Fix(
            "float64_math",
            "compute in float32 instead of float64",
            edits_by_unit(edits),
            setup,
            changes_numbers=True,
            changes_behaviour="results have dtype float32.",
        )


_WIDE: Final = ("torch.float64", "torch.double")


def channels_last(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Give the modules with convolutions, and their images, the layout that tensor cores take."""
    import torch

    modules = [
        name
        for name, value in _modules(program)
        if any(type(one).__name__ in ("Conv2d", "ConvTranspose2d") for one in value.modules())
    ]
    images = [name for name, value in _tensors(program) if value.ndim == 4 and value.is_floating_point()]
    if not modules:
        return
    assigned = assigned_in(program.cell.source.tree.body)
    lines = [f"{name} = {name}.to(memory_format=torch.channels_last)" for name in (*modules, *images)]
    lines = [line for line in lines if line.partition(" ")[0] not in assigned or line.partition(" ")[0] in modules]
    assert torch.channels_last is not None
    yield Fix(
        "layout_conversions",
        "use the layout channels_last for convolutions",
        (),
        tuple(lines),
        changes_numbers=True,
    )


def _tensors(program: Program) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in read_values(program) if hasattr(value, "untyped_storage")]


def _modules(program: Program) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in read_values(program) if hasattr(type(value), "named_modules")]
