"""Find tensors that only reference cycles keep alive, which the program cannot use any more.

Python's own collector decides it in the same way: objects are garbage if nothing refers to them but each other. The
search runs no code of the program, collects nothing, and is bounded.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import torch

from cudalens.memory.names import NameSearch
from cudalens.memory.objects import mro_of
from cudalens.memory.saved import SavedWalk
from cudalens.memory.snapshot import Address, storage_address

#: Name of what only such cycles hold.
GARBAGE: Final = "<garbage>"

#: Objects that are examined at most; with more, nothing counts as garbage.
_MAX_OBJECTS: Final = 1_000_000


def name_garbage(search: NameSearch, addresses: Iterable[Address]) -> None:
    """Name those of some storages that only such cycles hold, if a complete search found no variable for them."""
    if search.is_complete:
        unnamed = {address for address in addresses if address not in search.names}
        search.names.update({address: [GARBAGE] for address in garbage_addresses(unnamed)})


def garbage_addresses(addresses: Collection[Address]) -> set[Address]:
    """Return those of some storages that only unreachable cycles keep alive, or autograd graphs of tensors in these.

    Args:
        addresses: Storages for which no variable was found.
    """
    objects, walk = gc.get_objects() if addresses else [], SavedWalk()
    try:
        return _found_in(objects, walk, addresses) & set(addresses)
    finally:  # the traceback of an interrupt would keep all objects of the process alive
        objects.clear()
        walk.forget()


def _found_in(objects: list[Any], walk: SavedWalk, addresses: Collection[Address]) -> set[Address]:
    if len(objects) > _MAX_OBJECTS:
        return set()
    tensors = _tensors(objects)
    wanted = [k for k in tensors if storage_address(objects[k]) in addresses]
    if not wanted:
        return set()
    alive = _reachable(objects, [k for k in tensors if _is_owned_elsewhere(objects[k])])
    found = set()
    for tensor in (objects[k] for k in wanted if not alive[k]):
        found.add(storage_address(tensor))
        with torch._C.DisableTorchFunctionSubclass():
            if tensor.grad_fn is not None:
                walk.add(tensor.grad_fn)
    found.update(walk.addresses())
    return {address for address in found if address is not None}


def _tensors(objects: list[Any]) -> list[int]:
    """Return the positions of the tensors among `objects`."""
    kinds = {kind: torch.Tensor in mro_of(kind) for kind in set(map(type, objects))}
    return [k for k, thing in enumerate(objects) if kinds[type(thing)]]


def _reachable(objects: list[Any], roots: list[int]) -> list[bool]:
    """Which objects are referred to from outside of `objects`, are in `roots`, or are referred to by such objects."""
    number = {id(thing): k for k, thing in enumerate(objects)}
    (own,) = _references([[]])
    counts = [count - own for count in _references(objects)]
    for thing in objects:
        for k in _referents(thing, number):
            counts[k] -= 1
    for k in roots:
        counts[k] += 1
    alive = [count > 0 for count in counts]
    pending = [k for k, is_alive in enumerate(alive) if is_alive]
    while pending:
        for k in _referents(objects[pending.pop()], number):
            if not alive[k]:
                alive[k] = True
                pending.append(k)
    return alive


def _references(objects: list[Any]) -> list[int]:
    """Return the number of references to each object, with those of this call."""
    return [sys.getrefcount(thing) for thing in objects]


def _referents(thing: Any, number: dict[int, int]) -> Iterator[int]:
    return (number[key] for one in gc.get_referents(thing) if (key := id(one)) in number)


def _is_owned_elsewhere(tensor: Any) -> bool:
    """Return whether C++ refers to a tensor as well, an autograd graph for example."""
    with torch._C.DisableTorchFunctionSubclass():
        return bool(tensor._use_count() > 1)
