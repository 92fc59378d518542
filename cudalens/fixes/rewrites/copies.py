"""Copies between host and GPU: pinned memory, copies beside the computation, tensors made on the GPU, data loaders."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from typing import Any, Final

from cudalens.analysis import Finding
from cudalens.fixes.rewrites.fix import Fix, Program, Unit, edits_by_unit, sites_at
from cudalens.fixes.rewrites.use import leaves_early, may_change
from cudalens.fixes.source import Edit, Source, argument, assigned_in, dotted, keyword_edit

_FACTORIES: Final = ("zeros", "ones", "full", "empty", "arange", "eye", "linspace", "tensor")
#: Options of what makes a tensor with which it cannot be made on the GPU, or is another one there.
_PLACED: Final = frozenset({"device", "pin_memory", "requires_grad", "out", "generator", "layout", None})
_RANDOM: Final = ("rand", "randn", "randint", "randperm", "normal")

#: Copies the next batch on a side stream while the current one is used. Streams wait for each other on the GPU.
#: There is one side stream for all calls: each stream has memory of its own.
PREFETCH: Final = '''def prefetched(batches, device="cuda", side=torch.cuda.Stream()):
    """Yield batches on the GPU; the next one is copied on a side stream while the current one is used."""
    ready = None
    for batch in batches:
        with torch.cuda.stream(side):
            following = batch.to(device, non_blocking=True)
        if ready is not None:
            yield ready
        torch.cuda.current_stream().wait_stream(side)
        following.record_stream(torch.cuda.current_stream())
        ready = following
    if ready is not None:
        yield ready'''


def pin_memory(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Copy from pinned memory without waiting: tensors of a list, variables, and the batches of a DataLoader."""
    edits: dict[Unit, list[Edit]] = {}
    setup: list[str] = []
    sites = [(unit, call) for unit in program.units for call in unit.source.nodes(ast.Call) if _is_move(program, call)]
    for unit, call in sites_at(finding, sites):
        line = _pinning(program, unit.source, call)
        if line is None:
            continue
        if line and line not in setup:
            setup.append(line)
        edits.setdefault(unit, []).append(keyword_edit(unit.source, call, "non_blocking", "True"))
    for unit in program.units:
        for call in unit.source.nodes(ast.Call):
            if _is_loader(program, call) and not any(one.arg in ("pin_memory", None) for one in call.keywords):
                edits.setdefault(unit, []).append(keyword_edit(unit.source, call, "pin_memory", "True"))
    if edits:
        yield Fix(
            finding.rule if finding is not None else "pageable_copies",
            "copy from pinned memory, without waiting for the copy",
            tuple((unit, tuple(dict.fromkeys(found))) for unit, found in edits.items()),
            tuple(setup),
            needs="Do not write into the host's tensors while they are copied." if setup else "",
        )


def prefetch(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Copy the next batch of a loop on a side stream while the current one is used."""
    for unit in program.units:
        if unit.function is not None:
            continue
        for loop in unit.source.nodes(ast.For):
            if not isinstance(loop.target, ast.Name) or not unit.source.is_alone(loop):
                continue
            if not _can_be_ahead(program, loop) or loop.target.id in assigned_in(loop.body):
                continue
            moves = [
                node
                for node in ast.walk(loop)
                if isinstance(node, ast.Call) and _is_move(program, node) and _owner(node) == loop.target.id
            ]
            moves = [move for move in moves if isinstance(unit.source.statement(move), ast.Assign)]
            uses = [one for one in unit.source.nodes(ast.Name) if one.id == loop.target.id]
            if len(moves) == 1 and len(uses) == 2:  # only the copy reads it
                over, name = unit.source.text_of(loop.iter), "prefetched"
                while name in program.namespace:  # a variable of the user
                    name = f"{name}_"
                edits = [unit.source.replace(loop.iter, f"{name}({over})")]
                yield Fix(
                    "exposed_copies",
                    "copy the next batch on a side stream while the current one is used",
                    ((unit, tuple(edits)),),
                    tuple(PREFETCH.replace("def prefetched", f"def {name}").split("\n")),
                    dropped=frozenset({loop.target.id}),
                    needs=f"Batches must be in pinned memory. {loop.target.id} is on the GPU.",
                )
                return


def make_on_device(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Make tensors on the GPU instead of on the CPU: ``torch.zeros(n).to("cuda")``."""
    same: dict[Unit, list[Edit]] = {}
    other: dict[Unit, list[Edit]] = {}
    is_rounded = False
    for unit in program.units:
        for call in unit.source.nodes(ast.Call):
            if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("to", "cuda"):
                continue
            made, device = call.func.value, _device_of(program, unit.source, call)
            if device is None or not isinstance(made, ast.Call) or any(one.arg in _PLACED for one in made.keywords):
                continue
            chosen = same if program.names.is_call_of(made, *_FACTORIES) else other
            if chosen is other and not program.names.is_call_of(made, *_RANDOM):
                continue
            insert = keyword_edit(unit.source, made, "device", device)
            is_rounded = is_rounded or _is_rounded(program, made)
            chosen.setdefault(unit, []).extend([insert, unit.source.method_edit(call, "")])
    rule = finding.rule if finding is not None else "small_copies"
    title = "make tensors on the GPU instead of copying them to it"
    if same:
        yield Fix(rule, title, edits_by_unit(same), changes_numbers=is_rounded)
    if other:
        yield Fix(
            rule,
            title,
            edits_by_unit(other),
            changes_behaviour="the GPU's random generator gives other numbers than the CPU's.",
            changes_random=True,
        )


def load_in_workers(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Load batches in worker processes that stay, into pinned memory."""
    number = max(2, min(8, (os.cpu_count() or 2)))
    edits: dict[Unit, list[Edit]] = {}
    for unit in program.units:
        for call in unit.source.nodes(ast.Call):
            if not _is_loader(program, call):
                continue
            given = {one.arg: one.value for one in call.keywords}
            workers = given.get("num_workers")
            if None in given or len(call.args) > 5:
                continue
            if workers is None or (isinstance(workers, ast.Constant) and workers.value == 0):
                found = edits.setdefault(unit, [])
                found.append(keyword_edit(unit.source, call, "num_workers", str(number)))
                wanted = [name for name in ("persistent_workers", "pin_memory") if name not in given]
                if workers is None:
                    text = "".join(f", {name}=True" for name in wanted)
                    last = found.pop()
                    found.append(Edit(last.start, last.end, last.text + text))
                elif wanted:
                    place = max(unit.source.end(one.value) for one in call.keywords)
                    found.append(Edit(place, place, "".join(f", {name}=True" for name in wanted)))
    if edits:
        yield Fix(
            "data_loader",
            f"load batches in {number} worker processes",
            edits_by_unit(edits),
            changes_behaviour="random numbers of the dataset are drawn in the workers.",
            changes_random=True,
        )


def _can_be_ahead(program: Program, loop: ast.For) -> bool:
    """Whether the next batch of a loop can be taken before the current one is used, without any other effect."""
    value = program.names.value(loop.iter)
    if any(isinstance(one, ast.Break) for one in ast.walk(loop)) or leaves_early(loop):
        return isinstance(value, list | tuple)
    is_loader = type(value).__module__.startswith("torch.utils.data") and type(value).__name__ == "DataLoader"
    if is_loader:
        return True
    if not isinstance(value, list | tuple) or not all(hasattr(one, "untyped_storage") for one in value):
        return False
    memory = [one.untyped_storage().data_ptr() for one in value]
    return bool(memory) and len(set(memory)) == len(memory)


def _is_move(program: Program, call: ast.AST) -> bool:
    """Whether a call is ``x.to("cuda")`` or ``x.cuda()`` of a tensor, as far as its text shows."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    if hasattr(type(program.names.value(call.func.value)), "named_modules"):
        return False
    if call.func.attr == "cuda":
        return True
    target = call.args[0] if call.args else next((one.value for one in call.keywords if one.arg == "device"), None)
    return call.func.attr == "to" and _is_cuda(program, target)


def _is_cuda(program: Program, node: ast.AST | None) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value.startswith("cuda")
    value = program.names.value(node)
    return str(value).startswith("cuda") and type(value).__name__ in ("str", "device")


def _owner(call: ast.Call) -> str:
    return dotted(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _pinning(program: Program, source: Source, call: ast.Call) -> str | None:
    """The line that pins the memory that a call copies; "" where it is pinned; None where it cannot be."""
    owner = _owner(call)
    loop = source.loop(call)
    if _may_be_refilled(program, source, call):
        return None
    if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) and loop.target.id == owner:
        values, over = program.names.value(loop.iter), dotted(loop.iter)
        is_given = over.isidentifier() and over not in assigned_in(program.cell.source.tree.body)
        if is_given and isinstance(values, list) and all(_is_pageable(one) for one in values) and values:
            return f"{over} = [one.pin_memory() for one in {over}]"
        return None
    value = program.names.value(call.func.value) if isinstance(call.func, ast.Attribute) else None
    made = assigned_in(program.cell.source.tree.body) | assigned_in(source.tree.body)
    if not _is_pageable(value) or not owner.isidentifier() or owner in made:
        return None
    return f"{owner} = {owner}.pin_memory()"


def _may_be_refilled(program: Program, source: Source, call: ast.Call) -> bool:
    """Whether the program may write into the host's memory while a copy that nothing waits for goes on."""
    assert isinstance(call.func, ast.Attribute)
    owner = call.func.value
    roots = [one for one in ast.walk(owner) if isinstance(one, ast.Name)]
    loop = source.loop(call)
    if isinstance(loop, ast.For):
        roots += [one for one in ast.walk(loop.iter) if isinstance(one, ast.Name)]
    scope = loop or source.tree
    targets: set[str] = set()
    if isinstance(loop, ast.For):
        targets = {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
        if targets & assigned_in(loop.body):  # as ``host.add_(1)``
            return True
    return any(may_change(program, source, scope, root) for root in roots if root.id not in targets)


def _is_pageable(value: Any) -> bool:
    return (
        hasattr(value, "is_pinned") and str(value.device) == "cpu" and not value.is_pinned() and not value.requires_grad
    )


def _device_of(program: Program, source: Source, call: ast.Call) -> str | None:
    """The text of the device that a call moves to; None where it converts as well."""
    others = [one for one in call.keywords if one.arg not in ("device", "non_blocking")]
    if isinstance(call.func, ast.Attribute) and call.func.attr == "cuda":
        return '"cuda"' if not call.args and not others else None
    target = argument(call, 0, "device")
    if others or len(call.args) > 1 or target is None or not _is_cuda(program, target):
        return None
    return source.text_of(target)


def _is_rounded(program: Program, call: ast.Call) -> bool:
    """Whether the GPU may round the elements of a range of floats in another way."""
    if program.names.is_call_of(call, "linspace"):
        return True
    values = [one.value if isinstance(one, ast.Constant) else program.names.value(one) for one in call.args]
    return program.names.is_call_of(call, "arange") and any(isinstance(one, float) for one in values)


def _is_loader(program: Program, call: ast.Call) -> bool:
    value = program.names.value(call.func)
    return (
        isinstance(value, type) and value.__module__.startswith("torch.utils.data") and value.__name__ == "DataLoader"
    )
