"""Training: gradients that are set to zero, optimizers without grouped kernels, checkpointing, sparse embeddings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from cudalens.analysis import Finding
from cudalens.fixes.rewrites.fix import Fix, Program, Unit, edits_by_unit
from cudalens.fixes.source import Edit, dotted, keyword_edit, names_read


def release_gradients(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Rewrite ``zero_grad(set_to_none=False)`` and ``p.grad.zero_()``."""
    edits: dict[Unit, list[Edit]] = {}
    for unit in program.units:
        for call in unit.source.nodes(ast.Call):
            if not isinstance(call.func, ast.Attribute):
                continue
            if call.func.attr == "zero_grad" and any(one.arg == "set_to_none" for one in call.keywords):
                edits.setdefault(unit, []).append(keyword_edit(unit.source, call, "set_to_none", "True"))
            elif call.func.attr == "zero_grad" and len(call.args) == 1:
                edits.setdefault(unit, []).append(unit.source.replace(call.args[0], "True"))
            elif call.func.attr == "zero_" and dotted(call.func.value).endswith(".grad"):
                statement = unit.source.statement(call)
                if isinstance(statement, ast.Expr):
                    edit = unit.source.replace(statement, f"{dotted(call.func.value)} = None")
                    edits.setdefault(unit, []).append(edit)
    if edits:
        yield Fix(
            "zero_grad",
            "release gradients instead of writing zeros",
            edits_by_unit(edits),
            needs="Until the next backward pass, gradients are None.",
        )


def group_optimizer(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Turn on the grouped and the fused kernels of an optimizer, where it is made or before the cell."""
    made = [
        (unit, call)
        for unit in program.units
        for call in unit.source.nodes(ast.Call)
        if program.names.path(call.func).startswith("torch.optim.") and _is_optimizer(program.names.value(call.func))
    ]
    for option, numbers in (("foreach", False), ("fused", True)):
        title = f"run the optimizer's kernels for all parameters at once ({option}=True)"
        if made:
            edits: dict[Unit, list[Edit]] = {}
            for unit, call in made:
                other = "fused" if option == "foreach" else "foreach"
                edits.setdefault(unit, []).append(keyword_edit(unit.source, call, option, "True"))
                if any(one.arg == other for one in call.keywords):
                    edits[unit].append(keyword_edit(unit.source, call, other, "False"))
            all_edits = edits_by_unit(edits)
            yield Fix("optimizer_loop", title, all_edits, changes_numbers=numbers)
        elif (name := _optimizer_name(program)) is not None:
            optimizer = program.namespace[name]
            if option not in optimizer.defaults or optimizer.defaults.get("differentiable"):
                continue
            values = f"foreach={option == 'foreach'}, fused={option == 'fused'}"
            if "fused" not in optimizer.defaults:
                values = "foreach=True"
            line = f"for group in {name}.param_groups:\n    group.update({values})"
            yield Fix("optimizer_loop", title, (), tuple(line.split("\n")), changes_numbers=numbers)


def keep_activations(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Rewrite ``checkpoint(f, x)`` as ``f(x)``."""
    edits: dict[Unit, list[Edit]] = {}
    for unit in program.units:
        for call in unit.source.nodes(ast.Call):
            if program.names.path(call.func) != "torch.utils.checkpoint.checkpoint" or not call.args:
                continue
            function = unit.source.text_of(call.args[0])
            if not isinstance(call.args[0], ast.Name | ast.Attribute | ast.Call | ast.Subscript):
                function = f"({function})"
            options = ("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop")
            given = [unit.source.text_of(one) for one in call.args[1:]]
            given += [f"{one.arg}={unit.source.text_of(one.value)}" for one in call.keywords if one.arg not in options]
            edits.setdefault(unit, []).append(unit.source.replace(call, f"{function}({', '.join(given)})"))
    if edits:
        yield Fix(
            "needless_checkpointing",
            "keep the activations instead of computing them again",
            edits_by_unit(edits),
        )


def sparse_embedding(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Use sparse gradients for the embeddings that the program has."""
    import torch

    names = [
        name
        for name, value in _reached(program)
        if isinstance(value, torch.nn.Embedding | torch.nn.EmbeddingBag) and not value.sparse
    ]
    takes_sparse = (torch.optim.SGD, torch.optim.Adagrad, torch.optim.SparseAdam)
    optimizers = [value for _, value in _reached(program) if isinstance(value, torch.optim.Optimizer)]
    if names and all(isinstance(one, takes_sparse) for one in optimizers):
        yield Fix(
            "dense_embedding",
            "use sparse gradients for the embedding",
            (),
            tuple(f"{name}.sparse = True" for name in names),
            changes_numbers=True,
            needs="The optimizer must take sparse gradients: SGD without momentum, Adagrad and SparseAdam do.",
        )


def _reached(program: Program) -> list[tuple[str, Any]]:
    """The variables that the cell and its functions name."""
    names = {name for unit in program.units for name in names_read(unit.source.tree)}
    return [(name, program.namespace[name]) for name in sorted(names) if name in program.namespace]


def _is_optimizer(value: Any) -> bool:
    return isinstance(value, type) and any(base.__qualname__ == "Optimizer" for base in value.__mro__)


def _optimizer_name(program: Program) -> str | None:
    """The variable of the one optimizer that the cell reaches."""
    found = [
        name
        for name, value in _reached(program)
        if _is_optimizer(type(value)) and type(value).__module__.startswith("torch.optim")
    ]
    return found[0] if len(found) == 1 else None
