"""Find the variable that holds a tensor which a function reads from outside, so that a change is noticed.

A graph keeps the address that the name had at the recording. If the program binds the name to another tensor, an eager
call would use that one; so a replay first looks the names up again.
"""

from __future__ import annotations

import functools
import inspect
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import torch

from cudalens.device.tensors import PLAIN_TYPES
from cudalens.graphs.guards.found import Read, Reads
from cudalens.graphs.guards.lookups import (
    AttributeItems,
    CellItems,
    ItemsAt,
    SlotItems,
    attributes_in,
    items_in,
    module_of,
    slots_of,
)
from cudalens.graphs.guards.reads import find_reads, key_text
from cudalens.graphs.liveness import storage_id

#: How far a search goes before it gives up; a function that uses a tensor without a name runs without a graph.
_MOST_OBJECTS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Name:
    """Where the program keeps a tensor.

    Attributes:
        container: What holds it: a namespace, a list, a module's parameters.
        key: By which it is found there.
        label: As a person would write it, such as ``self.cache`` or ``weights[0]``.
        is_static: Whether it is a parameter or buffer of a module.
    """

    container: Any
    key: Any
    label: str
    is_static: bool = False


@dataclass(frozen=True, slots=True)
class _Step:
    """Something that the search comes by, and where it is: container and key."""

    value: Any
    label: str
    at: tuple[Any, Any] | None = None


def find_names(
    roots: Iterable[tuple[str, Any]],
    wanted: set[int],
    executed: Sequence[tuple[str, FunctionType]] | None = None,
    *,
    is_observed: bool = True,
    outside: Sequence[Read] = (),
) -> dict[int, list[Name]]:
    """The names of tensors, by the identity of their storage.

    Args:
        roots: Where to look, by label: the function, the modules among its arguments.
        wanted: Identities of storages (``untyped_storage()._cdata``).
        executed: Functions that ran, by name, whose code has more names: those are all found. None: one name for each
            tensor is enough.
        is_observed: Whether nothing else ran.
        outside: ContextVars that were read.
    """
    roots = [*roots, *((read.label, read.value) for read in outside)]
    found: dict[int, list[Name]] = {}
    for name, value in _walk(roots):
        key = storage_id(value)
        if key in wanted:
            found.setdefault(key, []).append(name)
    if executed is None:
        more = find_reads(roots) if found.keys() < wanted else Reads()
        wanted = wanted - found.keys()
    else:
        codes = {function.__code__ for _, function in executed} if is_observed else None
        more = find_reads([*roots, *executed], codes) if wanted else Reads()
    known = {(id(name.container), name.key) for names in found.values() for name in names}
    for key, name in _names_by_reads([*more.tensors, *outside], wanted):
        if (id(name.container), name.key) not in known:  # another name, by which the program may replace the tensor
            found.setdefault(key, []).append(name)
    return found


def _names_by_reads(reads: Iterable[Read], wanted: set[int]) -> Iterator[tuple[int, Name]]:
    """What the code has names for: attributes of classes and modules, slots, other containers."""
    for read in reads:
        if issubclass(type(read.value), torch.Tensor) and (key := storage_id(read.value)) in wanted:
            yield key, Name(read.container, read.key, read.label)


def modules_of(roots: Iterable[tuple[str, Any]]) -> list[torch.nn.Module]:
    """All modules that can be reached, each once."""
    found: dict[int, torch.nn.Module] = {}
    for _, value in roots:
        for step in _steps(value):
            if issubclass(type(step.value), torch.nn.Module):
                found.setdefault(id(step.value), step.value)
    return list(found.values())


def _steps(root: Any) -> Iterator[_Step]:
    """Everything that can be reached from a function or an object, breadth first."""
    waiting, seen, count = deque([_Step(root, "")]), set[int](), 0
    while waiting and count < _MOST_OBJECTS:
        step = waiting.popleft()
        if id(step.value) in seen:
            continue
        seen.add(id(step.value))
        count += 1
        yield step
        waiting.extend(_Step(value, label) for _, _, value, label, _ in _items(step))


def _walk(roots: Iterable[tuple[str, Any]]) -> Iterator[tuple[Name, torch.Tensor]]:
    for label, root in roots:
        waiting, seen = deque([_Step(root, label)]), set[int]()
        while waiting and len(seen) < _MOST_OBJECTS:
            step = waiting.popleft()
            if id(step.value) in seen:
                continue
            seen.add(id(step.value))
            for container, key, value, name, is_static in _items(step):
                if issubclass(type(step.value), tuple) and step.at is not None:
                    container = ItemsAt(*step.at)  # another tuple can take its place
                if issubclass(type(value), torch.Tensor):
                    yield Name(container, key, name, is_static), value
                waiting.append(_Step(value, name, (container, key)))


_Item = tuple[Any, Any, Any, str, bool]


def _items(step: _Step) -> Iterator[_Item]:
    """What something holds: container, key, value, label, and whether it is a parameter or buffer."""
    value, label = step.value, step.label
    for kind, items in _KINDS:
        if issubclass(type(value), kind):
            yield from items(value, label)
            return
    if _is_users(value):
        yield from _of_object(value, label)


def _of_function(function: FunctionType, label: str) -> Iterator[_Item]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield CellItems(cell), name, cell.cell_contents, name, False
        except ValueError:  # the variable has no value yet
            continue
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield function.__globals__, name, function.__globals__[name], name, False
    for number, value in enumerate(function.__defaults__ or ()):
        yield function.__defaults__, number, value, f"{label}'s default", False
    for name, value in (function.__kwdefaults__ or {}).items():
        yield function.__kwdefaults__, name, value, f"{label}'s default of {name}", False
    if (wrapped := getattr(function, "__wrapped__", None)) is not None:
        yield function.__dict__, "__wrapped__", wrapped, label, False


def _global_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def _of_module(module: torch.nn.Module, label: str) -> Iterator[_Item]:
    dot = f"{label}." if label else ""
    for held, is_static in ((module._parameters, True), (module._buffers, True), (module._modules, False)):
        for name, value in held.items():
            if value is not None:
                yield held, name, value, f"{dot}{name}", is_static
    skipped = {"_parameters", "_buffers", "_modules"}
    for name, value in vars(module).items():
        if name not in skipped and not name.endswith("_hooks"):
            yield vars(module), name, value, f"{dot}{name}", False
    forward = inspect.getattr_static(type(module), "forward")  # that of a ScriptModule belongs to its objects
    yield {"forward": forward}, "forward", forward, label, False


def _of_partial(partial: functools.partial[Any], label: str) -> Iterator[_Item]:
    yield AttributeItems(partial), "func", partial.func, label, False
    yield AttributeItems(partial), "args", partial.args, label, False
    yield AttributeItems(partial), "keywords", partial.keywords, label, False


def _of_method(method: MethodType, label: str) -> Iterator[_Item]:
    yield AttributeItems(method), "__self__", method.__self__, "self", False
    yield AttributeItems(method), "__func__", method.__func__, label, False


def _of_dict(held: dict[Any, Any], label: str) -> Iterator[_Item]:
    inside = items_in(held)
    for key, value in list(inside.items()):
        yield inside, key, value, f"{label}[{key_text(key)}]" if label else str(key), False


def _of_sequence(held: Any, label: str) -> Iterator[_Item]:
    inside = items_in(held)
    for number, value in inside.items() if inside is not held else enumerate(held):
        yield inside, number, value, f"{label}[{number}]", False


def _of_tensor(tensor: torch.Tensor, label: str) -> Iterator[_Item]:
    if tensor.is_leaf and tensor.grad is not None:
        yield AttributeItems(tensor), "grad", tensor.grad, f"{label}.grad", False
    for name, value in list((attributes_in(tensor) or {}).items()):  # the parts of a quantised weight, say
        yield attributes_in(tensor), name, value, f"{label}.{name}", False
    for base in type(tensor).__mro__ if type(tensor) not in PLAIN_TYPES else ():
        for name in slots_of(base):
            with suppress(LookupError, AttributeError):  # a slot without a value
                yield SlotItems(tensor, base), name, SlotItems(tensor, base)[name], f"{label}.{name}", False


def _of_object(owner: Any, label: str) -> Iterator[_Item]:
    held = attributes_in(owner) or {}
    for name, value in list(held.items()):
        yield held, name, value, f"{label}.{name}" if label else name, False
    call = vars(type(owner)).get("__call__")
    if isinstance(call, FunctionType):
        yield {"__call__": call}, "__call__", call, label, False


def _is_users(value: Any) -> bool:
    """Whether something is an object that a user's program made: looked into, as it may hold tensors."""
    kind = type(value)
    if issubclass(kind, ModuleType | type | BuiltinFunctionType) or attributes_in(value) is None:
        return False
    return not module_of(kind).startswith(("torch.cuda", "torch._", "builtins", "cudalens", "IPython"))


_KINDS: Final[tuple[tuple[Any, Callable[[Any, str], Iterator[_Item]]], ...]] = (
    (torch.Tensor, _of_tensor),
    (torch.nn.Module, _of_module),
    (FunctionType, _of_function),
    (MethodType, _of_method),
    (functools.partial, _of_partial),
    (dict, _of_dict),
    ((list, tuple), _of_sequence),
    ((str, bytes, int, float, complex, bool, type(None), CodeType), lambda value, label: iter(())),
)
