"""Doing a log's tasks again in some order, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch

from cudalens.virtual.dispatch.dispatch_utils import unseen
from cudalens.virtual.explorer.image import UNWRITTEN, Image
from cudalens.virtual.explorer.logged import Draw, LoggedOp
from cudalens.virtual.explorer.places import Place, Span, at, tensors_in

Seen = int | str
"""What is looked at: the number of a task whose result the host saw, or the name of a variable."""


@dataclass
class Outcome:
    """What came of one schedule.

    Attributes:
        values: What the host saw of a task, as it saw it, and what variables held in the end.
        errors: What operators raised, by the number of their task.
    """

    values: dict[Seen, torch.Tensor] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)


def outcome_of(
    ops: Sequence[LoggedOp],
    order: Sequence[int],
    image: Image,
    variables: Mapping[str, Place],
    *,
    unwritten: int = UNWRITTEN,
    blank: Mapping[int, Sequence[Span]] = MappingProxyType({}),
) -> Outcome:
    """Do all tasks in an order.

    Args:
        ops: The tasks, by number.
        order: Their numbers.
        image: Where; it is as before the first task when they begin.
        variables: Places that are looked at in the end, by their names.
        unwritten: Every byte of memory that nobody has written.
        blank: Before a task of that number, or at the end by the number of all, memory that is to count as such again.
    """
    outcome = Outcome()
    with unseen():
        image.reset(unwritten)
        for number in order:
            image.blank(blank.get(number, ()), unwritten)
            _do(number, ops[number], image, outcome)
        image.blank(blank.get(len(order), ()), unwritten)
        for name, place in variables.items():
            outcome.values[name] = image.view(place).clone(memory_format=torch.contiguous_format)
    return outcome


def _do(number: int, op: LoggedOp, image: Image, outcome: Outcome) -> None:
    if op.func is None:
        for span, contents in op.contents:
            image.bytes_of(span).copy_(contents)
        return
    try:
        taken: dict[int, torch.Tensor] = {}
        moving = {id(place) for place, _ in op.moves}
        args = _taken(op.args, image, moving, taken)
        out = op.func(*args, **_taken(op.kwargs, image, moving, taken))
        _store(op, out, taken, image)
    except (RuntimeError, IndexError, ValueError, TypeError) as error:  # with other values it may fail
        outcome.errors[number] = f"{type(error).__name__}: {error}"
        return
    if op.is_observed:
        outcome.values[number] = _observed(op, out, image)


def _taken(value: Any, image: Image, moving: set[int], taken: dict[int, torch.Tensor]) -> Any:
    """The arguments; what is given other memory meanwhile is a copy that can be resized."""
    if isinstance(value, Place):
        tensor = image.view(value)
        if id(value) in moving:
            tensor = taken[id(value)] = tensor.clone()
        return tensor
    if isinstance(value, Draw):
        generator = torch._C.Generator()
        torch._C.Generator.set_state(generator, value.state)
        return generator
    if isinstance(value, dict):
        return {key: _taken(item, image, moving, taken) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_taken(item, image, moving, taken) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def _store(op: LoggedOp, out: Any, taken: Mapping[int, torch.Tensor], image: Image) -> None:
    for path, place in op.makes:
        result = at(out, path)
        if tuple(result.shape) != place.size:
            raise ValueError(f"its result is of shape {tuple(result.shape)}, in the program's order {place.size}")
        image.view(place).copy_(result)
    for before, after in op.moves:
        contents = torch.empty(0, dtype=torch.uint8).set_(taken[id(before)].untyped_storage())
        length = min(contents.numel(), after.size[0])
        image.view(after)[:length].copy_(contents[:length])


def _observed(op: LoggedOp, out: Any, image: Image) -> torch.Tensor:
    """What the host saw: tensors as they are in its memory then, or numbers."""
    landed = [place for place in (*op.writes, *(place for _, place in op.makes)) if place.storage.space]
    if landed:
        return image.view(landed[0]).clone(memory_format=torch.contiguous_format)
    for _, tensor in tensors_in(out):
        return tensor.clone(memory_format=torch.contiguous_format)
    numbers = out if isinstance(out, list | tuple) else [out]
    return torch.tensor(next(value for value in numbers if isinstance(value, bool | int | float | complex)))
