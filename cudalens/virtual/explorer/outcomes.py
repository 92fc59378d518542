"""Rerun the tasks of a log in a given order, and collect the observed values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch

from cudalens.frames.exploration import Difference
from cudalens.kernels.differing import difference_of
from cudalens.virtual.dispatch.dispatch_utils import below_modes
from cudalens.virtual.explorer.logged import UNWRITTEN, Draw, Image, LoggedOp, Place, Span, merged
from cudalens.virtual.tensors.nested import item_at, tensors_in

if TYPE_CHECKING:
    from cudalens.virtual.explorer.op_log import OpLog


def differences(expected: Outcome, found: Outcome, names: Mapping[Seen, str]) -> list[Difference]:
    """Return all differences between two outcomes, values seen by the host first.

    Args:
        expected: The outcome of the program order.
        found: The outcome of another order.
        names: The names of the values.
    """
    differing: list[Difference] = []
    for number, error in found.errors.items():
        if expected.errors.get(number) != error:
            differing.append(Difference(names.get(number, ""), 0, 0, (), None, None, None, (), "", error=error))
    for seen, before in expected.values.items():
        now = found.values.get(seen)
        if now is not None and (difference := compared(names.get(seen, str(seen)), before, now)) is not None:
            differing.append(difference)
    return differing


def compared(name: str, before: torch.Tensor, now: torch.Tensor) -> Difference | None:
    """Return the difference between two tensors of one dtype, or None if every bit is equal.

    Reads both once, and again if they differ.
    """
    difference = difference_of(name, before, now)
    if difference is None or difference.error is not None:
        return difference
    first = now[difference.first_index].reshape(1).contiguous()
    return replace(difference, is_unwritten=bool((first.view(torch.uint8) == UNWRITTEN).all()))


@dataclass(frozen=True, slots=True)
class Output:
    """A variable at the end of the logged block.

    Attributes:
        place: The place of its tensor.
        digest: A hash of its value after the original run.
    """

    place: Place
    digest: bytes


def outputs_of(log: OpLog, variables: Mapping[str, torch.Tensor]) -> dict[str, Output]:
    """Return the variables that a task wrote, with one name per tensor.

    Args:
        log: The log of the run that has just ended.
        variables: Tensors by name.
    """
    written = merged(span for op in log.ops for span in op.written())
    found: dict[str, Output] = {}
    places = set()
    with below_modes():
        for name, tensor in variables.items():
            place = _known(log, tensor)
            if place is None or not any(extent.overlaps(place.span) for extent in written):
                continue
            key = place.storage, place.dtype, place.size, place.stride, place.offset
            if key not in places:
                places.add(key)
                found[name] = Output(place, digest(tensor))
    return found


def _known(log: OpLog, tensor: torch.Tensor) -> Place | None:
    try:
        span = log.memory.span_of(tensor.untyped_storage())
    except (RuntimeError, NotImplementedError):
        return None
    return None if span is None else Place.of(tensor, span)


def digest(tensor: torch.Tensor) -> bytes:
    """Return a hash of a tensor's elements."""
    flat = tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
    flat = flat.resolve_conj().resolve_neg().view(torch.uint8) if flat.numel() else flat.new_empty(0, dtype=torch.uint8)
    return hashlib.blake2b(flat.numpy().tobytes(), digest_size=16).digest()


#: What is compared: the number of a task whose result the host read, or the name of a variable.
Seen = int | str


@dataclass
class Outcome:
    """The result of one schedule.

    Attributes:
        values: The values that the host read, and the final values of variables.
        errors: The errors that operators raised, by task number.
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
    """Run all tasks in an order.

    Args:
        ops: The tasks by number.
        order: The task numbers in order.
        image: The memory; it is reset first.
        variables: The places whose final values are compared, by name.
        unwritten: The value of every unwritten byte.
        blank: Memory to mark as unwritten before the task of that number, or at the end for the number of tasks.
    """
    outcome = Outcome()
    with below_modes():
        image.reset(unwritten)
        for number in order:
            image.blank(blank.get(number, ()), unwritten)
            _run(number, ops[number], image, outcome)
        image.blank(blank.get(len(order), ()), unwritten)
        for name, place in variables.items():
            outcome.values[name] = image.view(place).clone(memory_format=torch.contiguous_format)
    return outcome


def _run(number: int, op: LoggedOp, image: Image, outcome: Outcome) -> None:
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
    except (RuntimeError, IndexError, ValueError, TypeError) as error:  # an operator may fail with other values
        outcome.errors[number] = f"{type(error).__name__}: {error}"
        return
    if op.is_observed:
        outcome.values[number] = _observed(op, out, image)


def _taken(value: Any, image: Image, moving: set[int], taken: dict[int, torch.Tensor]) -> Any:
    """Return the arguments; an argument that is resized is passed as a copy."""
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
        result = item_at(out, path)
        if tuple(result.shape) != place.size:
            raise ValueError(f"its result has shape {tuple(result.shape)}; in program order it has {place.size}")
        image.view(place).copy_(result)
    for before, after in op.moves:
        contents = torch.empty(0, dtype=torch.uint8).set_(taken[id(before)].untyped_storage())
        length = min(contents.numel(), after.size[0])
        image.view(after)[:length].copy_(contents[:length])


def _observed(op: LoggedOp, out: Any, image: Image) -> torch.Tensor:
    """Return the value that the host read: a tensor in host memory, or numbers."""
    on_host = [place for place in (*op.writes, *(place for _, place in op.makes)) if place.storage.space]
    if on_host:
        return image.view(on_host[0]).clone(memory_format=torch.contiguous_format)
    for _, tensor in tensors_in(out):
        return tensor.clone(memory_format=torch.contiguous_format)
    numbers = out if isinstance(out, list | tuple) else [out]
    return torch.tensor(next(value for value in numbers if isinstance(value, bool | int | float | complex)))
