"""Find the live tensors and their roles: parameters, gradients, saved by autograd, kept alive by cycles only."""

from __future__ import annotations

import gc
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from cudalens.memory.names import NameSearch
from cudalens.memory.objects import SavedWalk, instance_dict, mro_of
from cudalens.memory.snapshot import Address, storage_address

PoolId = tuple[int, int]

#: Values of an optimizer's state that are searched at most.
_MAX_STATE: Final = 1_000_000
#: The roles of a storage; of several, the first one applies.
_RANKS: Final = {
    name: rank
    for rank, name in enumerate(("parameter", "gradient", "optimizer state", "input", "activation", "workspace"))
}


@dataclass
class LiveTensors:
    """What is alive on CUDA devices, by the addresses of storages.

    Attributes:
        roles: Role of each, one of `cudalens.frames.catalog_frames.BLOCK_CATEGORIES`; absent if unknown.
        num_tensors: How many tensors share it: those with a Python object, or 1 if only autograd holds it.
        pools: CUDA graphs that use each private pool, as objects.
        is_complete: Whether all tensors that autograd saved were examined.
    """

    roles: dict[Address, str] = field(default_factory=dict)
    num_tensors: dict[Address, int] = field(default_factory=dict)
    pools: dict[PoolId, list[Any]] = field(default_factory=dict)
    is_complete: bool = True

    def add_role(self, address: Address | None, role: str) -> None:
        """Add a role of a storage; of several roles, the first in the order of `_RANKS` applies."""
        if address is not None and _RANKS[role] < _RANKS.get(self.roles.get(address, ""), len(_RANKS)):
            self.roles[address] = role


def live_tensors() -> LiveTensors:
    """Return the tensors that are alive now."""
    found = LiveTensors()
    kinds = _Kinds()
    tensors: list[torch.Tensor] = []
    walk = SavedWalk()
    for thing in gc.get_objects():
        kind = kinds.of(type(thing))
        if kind is None:
            continue
        if kind == "tensor":
            tensors.append(thing)
        elif kind == "module":
            # Count buffers as parameters: running means, masks, position tables.
            for value in _values(instance_dict(thing).get("_buffers")):
                if torch.Tensor in mro_of(type(value)):
                    found.add_role(storage_address(value), "parameter")
        elif kind == "optimizer":
            for tensor in _tensors_in(instance_dict(thing).get("state")):
                found.add_role(storage_address(tensor), "optimizer state")
        else:
            _add_pool(found, thing)
    _add_tensors(found, tensors, walk)
    # Add the tensors that backward passes need: inputs if they are leaves that the program holds, else activations.
    for address in walk.addresses():
        is_input = address in walk.leaves and found.roles.get(address) != "activation"
        found.add_role(address, "input" if is_input else "activation")
        found.num_tensors.setdefault(address, 1)
    found.is_complete = walk.is_complete
    walk.forget()
    return found


class _Kinds:
    """The kind of object that a type is, if it is one we search for; each type is examined once."""

    def __init__(self) -> None:
        self._known: dict[type, str | None] = {}
        self._bases = {
            torch.Tensor: "tensor",
            torch.nn.Module: "module",
            torch.optim.Optimizer: "optimizer",
            torch.cuda.CUDAGraph: "graph",
        }

    def of(self, kind: type) -> str | None:
        try:
            return self._known[kind]
        except KeyError:
            found = next((self._bases[base] for base in mro_of(kind) if base in self._bases), None)
            return self._known.setdefault(kind, found)


def _add_tensors(found: LiveTensors, tensors: Iterable[torch.Tensor], walk: SavedWalk) -> None:
    for tensor in tensors:
        address = storage_address(tensor)
        if address is not None:
            found.num_tensors[address] = found.num_tensors.get(address, 0) + 1
        with torch._C.DisableTorchFunctionSubclass():
            if torch.nn.Parameter in mro_of(type(tensor)) or (tensor.is_leaf and tensor.requires_grad):
                found.add_role(address, "parameter")
            if tensor.grad_fn is not None:
                found.add_role(address, "activation")
                walk.add(tensor.grad_fn)
            elif tensor.is_leaf and tensor.grad is not None:
                found.add_role(storage_address(tensor.grad), "gradient")
            elif address is not None and not tensor.requires_grad:
                walk.leaves.add(address)


def _tensors_in(state: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested dicts, lists and tuples; keys are parameters and are left out."""
    stack, left = [state], _MAX_STATE
    while stack and left:
        left -= 1
        thing = stack.pop()
        if torch.Tensor in mro_of(type(thing)):
            yield thing
        else:
            stack += _values(thing)


def _values(thing: Any) -> list[Any]:
    if dict in mro_of(type(thing)):
        return list(dict.values(thing))
    return list(thing) if type(thing) in (list, tuple) else []


def _add_pool(found: LiveTensors, graph: Any) -> None:
    try:
        first, second = graph.pool()
    except RuntimeError:  # nothing was captured
        return
    found.pools.setdefault((int(first), int(second)), []).append(graph)


# Memory that only unreachable cycles keep alive.

#: Name of such memory.
GARBAGE: Final = "<garbage>"

#: Objects that are examined at most; with more, nothing counts as garbage.
_MAX_OBJECTS: Final = 1_000_000


def name_garbage(search: NameSearch, addresses: Iterable[Address]) -> None:
    """Name those of some storages that only unreachable cycles keep alive, if a complete search found no variable."""
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
        return _unreachable_addresses(objects, walk, addresses) & set(addresses)
    finally:  # the traceback of an interrupt would keep all objects of the process alive
        objects.clear()
        walk.forget()


def _unreachable_addresses(objects: list[Any], walk: SavedWalk, addresses: Collection[Address]) -> set[Address]:
    if len(objects) > _MAX_OBJECTS:
        return set()
    tensors = _tensor_positions(objects)
    asked = [k for k in tensors if storage_address(objects[k]) in addresses]
    if not asked:
        return set()
    is_reachable = _reachable(objects, [k for k in tensors if _is_owned_elsewhere(objects[k])])
    found = set()
    for tensor in (objects[k] for k in asked if not is_reachable[k]):
        found.add(storage_address(tensor))
        with torch._C.DisableTorchFunctionSubclass():
            if tensor.grad_fn is not None:
                walk.add(tensor.grad_fn)
    found.update(walk.addresses())
    return {address for address in found if address is not None}


def _tensor_positions(objects: list[Any]) -> list[int]:
    """Return the positions of the tensors among `objects`."""
    is_tensor = {kind: torch.Tensor in mro_of(kind) for kind in set(map(type, objects))}
    return [k for k, thing in enumerate(objects) if is_tensor[type(thing)]]


def _reachable(objects: list[Any], roots: list[int]) -> list[bool]:
    """Return which objects are referred to from outside of `objects`, are in `roots`, or are referred to by such ones.

    As Python's collector does it: an object with more references than those from other objects of the list is referred
    to from outside, by a call or by C++.
    """
    position = {id(thing): k for k, thing in enumerate(objects)}
    (num_of_counting,) = _reference_counts([[]])  # an object to which only the counting itself refers
    num_outside = [count - num_of_counting for count in _reference_counts(objects)]
    for thing in objects:
        for k in _referents(thing, position):
            num_outside[k] -= 1
    for k in roots:
        num_outside[k] += 1

    is_reachable = [count > 0 for count in num_outside]
    pending = [k for k, is_root in enumerate(is_reachable) if is_root]
    while pending:
        for k in _referents(objects[pending.pop()], position):
            if not is_reachable[k]:
                is_reachable[k] = True
                pending.append(k)
    return is_reachable


def _reference_counts(objects: list[Any]) -> list[int]:
    """Return the number of references to each object, with those of this call."""
    return [sys.getrefcount(thing) for thing in objects]


def _referents(thing: Any, position: dict[int, int]) -> Iterator[int]:
    """Yield the positions of the objects that `thing` refers to, among those in `position`."""
    for one in gc.get_referents(thing):
        if id(one) in position:
            yield position[id(one)]


def _is_owned_elsewhere(tensor: Any) -> bool:
    """Return whether C++ refers to a tensor as well, an autograd graph for example."""
    with torch._C.DisableTorchFunctionSubclass():
        return bool(tensor._use_count() > 1)
