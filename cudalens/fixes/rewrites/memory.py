"""Calls in a loop that give memory back or look for garbage: they wait, and the memory is requested again."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from cudalens.analysis import Finding
from cudalens.fixes.rewrites.fix import Fix, Program, Unit, edits_by_unit
from cudalens.fixes.source import Edit, dotted


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
