"""Read the attributes of objects without running any of their code.

A property, a ``__getattr__`` or a ``__dict__`` of the program can do anything: allocate, print, never return. The
functions here use only the C slots of Python's own types.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Final

import torch

from cudalens.memory.snapshot import Address, storage_address

_MRO: Final = type.__dict__["__mro__"].__get__
_CLASS_DICT: Final = type.__dict__["__dict__"].__get__
_NOTHING: Final[dict[str, Any]] = {}


def mro_of(kind: type) -> tuple[type, ...]:
    """Return a class and its bases, without calling its metaclass."""
    return _MRO(kind)


def class_dict(kind: type) -> Any:
    """Return a class's own attributes, read-only, without calling its metaclass."""
    return _CLASS_DICT(kind)


def instance_dict(thing: Any) -> dict[str, Any]:
    """Return an object's own attributes by name; empty if it has none, or if its class shadows ``__dict__``."""
    for base in mro_of(type(thing)):
        found = class_dict(base).get("__dict__")
        if found is None:
            continue
        # Python's own is a getset descriptor of that class: it runs no Python code.
        if type(found) is not types.GetSetDescriptorType:
            return _NOTHING
        try:
            attributes = found.__get__(thing)
        except (AttributeError, TypeError):
            return _NOTHING
        return attributes if type(attributes) is dict else _NOTHING
    return _NOTHING


def slots_of(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values in the ``__slots__`` of an object's classes, by name; none for classes in C."""
    for base in mro_of(type(thing)):
        own = class_dict(base)
        if "__slots__" not in own:
            continue
        for name, slot in tuple(own.items()):
            if type(slot) is types.MemberDescriptorType:
                try:
                    value = slot.__get__(thing)
                except (AttributeError, TypeError):  # not set
                    continue
                yield name, value


# Tensors that autograd graphs saved for their backward pass.

_MAX_NODES: Final = 200_000
_PREFIX: Final = "_raw_saved_"


class SavedWalk:
    """Walks autograd graphs from the nodes that are added; each node is visited once.

    A saved tensor may have hooks of the program (``torch.autograd.graph.saved_tensors_hooks``, activation
    checkpointing, offloading to the host), which run when it is unpacked: they would compute and allocate. So it is
    never unpacked: torch returns the stored value itself. A torch that cannot do this (2.9) gives no information about
    saved tensors.

    Attributes:
        leaves: Storages of tensors that are not part of any graph, to distinguish inputs from activations.
        is_complete: Whether all nodes were visited, and torch exposes the tensors that they saved.
    """

    def __init__(self) -> None:
        self.leaves: set[Address] = set()
        self.is_complete = can_look()
        self._pending: list[Any] = []
        self._seen: dict[int, Any] = {}  # keeps the nodes alive, so that no id is reused
        self._names: dict[type, tuple[str, ...]] = {}
        self._attributes: list[tuple[str, Any]] = []

    def add(self, node: Any) -> None:
        """Add `node`, a tensor's ``grad_fn``, to the walk."""
        if id(node) not in self._seen:
            self._pending.append(node)

    def forget(self) -> None:
        """Release the graphs."""
        self._pending.clear()
        self._seen.clear()
        self._attributes.clear()

    def attributes(self) -> list[tuple[str, Any]]:
        """Attributes of the ``ctx`` of custom autograd functions, of the nodes visited since the last call."""
        found, self._attributes = self._attributes, []
        return found

    def addresses(self) -> Iterator[Address]:
        """Yield the saved storages in the graphs that were added since the last call."""
        while self._pending:
            node = self._pending.pop()
            if id(node) in self._seen:
                continue
            if len(self._seen) >= _MAX_NODES:
                self.is_complete = False
                self._pending.clear()
                return
            self._seen[id(node)] = node
            self._attributes += instance_dict(node).items()
            yield from self._saved_by(node)
            self._pending += [following for following, _ in node.next_functions if following is not None]

    def _saved_by(self, node: Any) -> Iterator[Address]:
        if not can_look():
            return
        for name in self._names_of(type(node)):
            try:
                saved = getattr(node, name)
            except (RuntimeError, TypeError):  # freed by a backward pass
                continue
            for one in saved if type(saved) in (list, tuple) else (saved,):
                tensor = raw_tensor(one)
                if tensor is not None and (address := storage_address(tensor)) is not None:
                    yield address

    def _names_of(self, kind: type) -> tuple[str, ...]:
        known = self._names.get(kind)
        if known is None:
            found = {name for base in mro_of(kind) for name in vars(base) if name.startswith(_PREFIX)}
            known = self._names[kind] = tuple(sorted(found))
        return known


def can_look() -> bool:
    """Return whether this torch returns saved values without unpacking them."""
    kind = getattr(getattr(torch._C, "_autograd", None), "SavedTensor", None)
    return kind is not None and hasattr(kind, "data")


def raw_tensor(saved: Any) -> torch.Tensor | None:
    """Return the stored value of a saved tensor: with hooks, the value that they packed; None if it is not a tensor."""
    try:
        data = saved.data
    except (AttributeError, RuntimeError):
        return None
    return data if torch.Tensor in mro_of(type(data)) else None
