"""Training: gradients set to zero, optimizers without grouped kernels, checkpointing, memory given back in the loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from cudalens.analysis import Finding
from cudalens.fixes.rewrites.fix import Fix, Program, Unit, edits_by_unit
from cudalens.fixes.rewrites.use import read_values
from cudalens.fixes.source import Edit, Source, assigned_in, dotted, keyword_edit, names_read


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
            elif (
                call.func.attr == "zero_"
                and dotted(call.func.value).endswith(".grad")
                and not dotted(call.func).startswith(("self.grad.", "cls.grad."))
            ):
                statement = unit.source.statement(call)
                if isinstance(statement, ast.Expr):
                    edit = unit.source.replace(statement, f"{dotted(call.func.value)} = None")
                    edits.setdefault(unit, []).append(edit)
    if edits:
        yield Fix(
            "zero_grad",
            "release gradients instead of writing zeros",
            edits_by_unit(edits),
            needs="Until the next backward pass, gradients are None: an optimizer skips parameters without one.",
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
                if option == "foreach" and _is_set(call, "fused"):  # fused kernels are faster
                    continue
                other = "fused" if option == "foreach" else "foreach"
                edits.setdefault(unit, []).append(keyword_edit(unit.source, call, option, "True"))
                if any(one.arg == other for one in call.keywords):
                    edits[unit].append(keyword_edit(unit.source, call, other, "False"))
            if edits:
                yield Fix("optimizer_loop", title, edits_by_unit(edits), changes_numbers=numbers)
        elif (name := _optimizer_name(program)) is not None:
            optimizer = program.namespace[name]
            if option not in optimizer.defaults or optimizer.defaults.get("differentiable"):
                continue
            groups = optimizer.param_groups
            if all(one.get("fused") or one.get(option) for one in groups):  # fused kernels are faster
                continue
            values = f"foreach={option == 'foreach'}, fused={option == 'fused'}"
            if "fused" not in optimizer.defaults:
                values = "foreach=True"
            line = f"for _group in {name}.param_groups:\n    _group.update({values})"
            yield Fix("optimizer_loop", title, (), tuple(line.split("\n")), changes_numbers=numbers)


def group_clipping(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Clip the gradients of all parameters with grouped kernels: ``clip_grad_norm_(…, foreach=False)``."""
    edits: dict[Unit, list[Edit]] = {}
    for unit in program.units:
        for call in unit.source.nodes(ast.Call):
            is_clip = program.names.path(call.func).rpartition(".")[2] in ("clip_grad_norm_", "clip_grad_value_")
            if is_clip and any(one.arg == "foreach" for one in call.keywords):
                edits.setdefault(unit, []).append(keyword_edit(unit.source, call, "foreach", "True"))
    if edits:
        yield Fix(
            finding.rule if finding is not None else "launch_bound",
            "clip the gradients of all parameters at once (foreach=True)",
            edits_by_unit(edits),
            changes_numbers=True,
        )


def count_steps_on_device(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Let an optimizer whose step counts are on the GPU use them there: it reads each of them on the host otherwise."""
    name = _optimizer_name(program)
    optimizer = None if name is None else program.namespace[name]
    groups = getattr(optimizer, "param_groups", ())
    if not groups or any("capturable" not in one or one["capturable"] or one.get("fused") for one in groups):
        return
    steps = [state.get("step") for state in list(optimizer.state.values())]  # type: ignore[union-attr]
    if any(getattr(one, "is_cuda", False) for one in steps):
        yield Fix(
            "host_sync",
            "do not read the optimizer's step counts on the host (capturable=True)",
            (),
            (f"for _group in {name}.param_groups:", '    _group["capturable"] = True'),
            changes_numbers=True,
        )


def skip_reductions(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Reduce gradients over the ranks only where the optimizer steps: ``no_sync`` with gradient accumulation."""
    for unit in program.units:
        source = unit.source
        for loop in source.nodes(ast.For):
            found = _accumulation(program, source, loop)
            if found is None:
                continue
            net, test, first, last = found
            lines = range(first.lineno, (last.end_lineno or last.lineno) + 1)
            is_plain = all(source.is_alone(one) for one in loop.body) and not _has_long_text(source, first, last)
            if not is_plain:
                continue
            indent = source.indent(first)
            head = f"{indent}with contextlib.nullcontext() if {test} else {net}.no_sync():\n"
            edits = [Edit((first.lineno, 0), (first.lineno, 0), f"{head}    ")]
            edits += [Edit((line, 0), (line, 0), "    ") for line in lines[1:] if source.lines[line - 1].strip()]
            yield Fix(
                "exposed_communication",
                "reduce gradients over the ranks only where the optimizer steps (no_sync)",
                ((unit, tuple(edits)),),
                ("import contextlib",),
                changes_numbers=True,
                needs="Gradients of iterations after the last step stay those of each rank.",
            )
            return


def _accumulation(program: Program, source: Source, loop: ast.For) -> tuple[str, str, ast.stmt, ast.stmt] | None:
    """The module, the condition of a step, and the first and last statement of the forward and the backward pass."""
    steps = [one for one in loop.body if isinstance(one, ast.If) and not one.orelse and _calls(one, "step")]
    passes = [one for one in loop.body if _calls(one, "backward") and not isinstance(one, ast.If)]
    nets = [
        (one, node.func.id)
        for one in loop.body
        for node in ast.walk(one)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and type(program.names.value(node.func)).__name__ == "DistributedDataParallel"
    ]
    if len(steps) != 1 or len(passes) != 1 or len(nets) != 1:
        return None
    order = [loop.body.index(one) for one in (nets[0][0], passes[0], steps[0])]
    names = names_read(steps[0].test)
    bound = {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
    is_known_before = not names & (assigned_in(loop.body) - bound) and not _has_calls(steps[0].test)
    if sorted(order) != order or order[1] == order[2] or not is_known_before:
        return None
    if any(_calls(one, "no_sync") for one in loop.body):
        return None
    return nets[0][1], source.text_of(steps[0].test), loop.body[order[0]], loop.body[order[1]]


def _calls(node: ast.AST, method: str) -> bool:
    return any(
        isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == method
        for one in ast.walk(node)
    )


def _has_calls(node: ast.AST) -> bool:
    names = [dotted(one.func) for one in ast.walk(node) if isinstance(one, ast.Call)]
    return any(name != "len" for name in names)


def _has_long_text(source: Source, first: ast.stmt, last: ast.stmt) -> bool:
    """Whether statements have a string over several lines, which more indentation would change."""
    return any(
        isinstance(one, ast.Constant | ast.JoinedStr) and (one.end_lineno or one.lineno) > one.lineno
        for one in source.nodes(ast.Constant, ast.JoinedStr)
        if first.lineno <= one.lineno <= (last.end_lineno or last.lineno)
    )


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
            given += [
                f"{one.arg}={unit.source.text_of(one.value)}" if one.arg else f"**{unit.source.text_of(one.value)}"
                for one in call.keywords
                if one.arg not in options
            ]
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
        for name, value in read_values(program)
        if isinstance(value, torch.nn.Embedding | torch.nn.EmbeddingBag) and not value.sparse
    ]
    takes_sparse = (torch.optim.SGD, torch.optim.Adagrad, torch.optim.SparseAdam)
    optimizers = [value for _, value in read_values(program) if isinstance(value, torch.optim.Optimizer)]
    if names and all(isinstance(one, takes_sparse) for one in optimizers):
        yield Fix(
            "dense_embedding",
            "use sparse gradients for the embedding",
            (),
            tuple(f"{name}.sparse = True" for name in names),
            changes_numbers=True,
            needs="The optimizer must take sparse gradients: SGD without momentum, Adagrad and SparseAdam do.",
        )


def _is_optimizer(value: Any) -> bool:
    return isinstance(value, type) and any(base.__qualname__ == "Optimizer" for base in value.__mro__)


def _is_set(call: ast.Call, option: str) -> bool:
    return any(one.arg == option and getattr(one.value, "value", None) is True for one in call.keywords)


def _optimizer_name(program: Program) -> str | None:
    """The variable of the one optimizer that the cell reaches."""
    found = [
        name
        for name, value in read_values(program)
        if _is_optimizer(type(value)) and type(value).__module__.startswith("torch.optim")
    ]
    return found[0] if len(found) == 1 else None


def keep_cache(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Remove ``torch.cuda.empty_cache()`` in a loop, or in a function that a loop calls."""
    yield from _without(
        program, "driver_memory", "keep the allocator's memory", ("torch.cuda.empty_cache", "torch.cuda.ipc_collect")
    )


def collect_later(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Remove ``gc.collect()`` in a loop."""
    yield from _without(program, "garbage_collection", "do not collect garbage in the loop", ("gc.collect",))


def _without(program: Program, rule: str, title: str, names: tuple[str, ...]) -> Iterator[Fix]:
    edits: dict[Unit, list[Edit]] = {}
    for unit in program.units:
        removed = []
        for statement in unit.source.nodes(ast.Expr):
            if not isinstance(statement.value, ast.Call):
                continue
            # After an error, memory may be missing.
            if any(isinstance(one, ast.ExceptHandler) for one in unit.source.around(statement)):
                continue
            called = {dotted(statement.value.func), program.names.path(statement.value.func)}
            called |= {name.replace("torch.cuda.memory.", "torch.cuda.") for name in called}
            is_repeated = unit.function is not None or unit.source.loop(statement) is not None
            if called & set(names) and is_repeated:
                removed.append(statement)
        if removed:
            edits[unit] = unit.source.remove_all(removed)
    if edits:
        all_edits = edits_by_unit(edits)
        yield Fix(rule, title, all_edits)
