"""Find the live tensors and their roles: parameters, gradients, optimizer state, saved by autograd.

The tensors are found through Python's garbage collector, which tracks every tensor with a Python object, and through
the autograd graphs that these hold. No code of the program runs: no property, no hook, no ``__getattr__``.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from cudalens.memory.objects import instance_dict, mro_of
from cudalens.memory.saved import SavedWalk
from cudalens.memory.snapshot import Address, storage_address

PoolId = tuple[int, int]

_MAX_STATE: Final = 1_000_000
_RANKS: Final = {
    name: rank
    for rank, name in enumerate(("parameter", "gradient", "optimizer state", "input", "activation", "workspace"))
}


@dataclass
class LiveTensors:
    """What is alive on CUDA devices, by the addresses of storages.

    Attributes:
        roles: Role of each, one of `cudalens.frames.column_catalog.BLOCK_CATEGORIES`; absent if unknown.
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
            _add_buffers(found, thing)
        elif kind == "optimizer":
            _add_state(found, thing)
        else:
            _add_pool(found, thing)
    _add_tensors(found, tensors, walk)
    _add_saved(found, walk)
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


def _add_saved(found: LiveTensors, walk: SavedWalk) -> None:
    """Add the tensors that backward passes need: inputs if they are leaves that the program holds, else activations."""
    for address in walk.addresses():
        is_input = address in walk.leaves and found.roles.get(address) != "activation"
        found.add_role(address, "input" if is_input else "activation")
        found.num_tensors.setdefault(address, 1)
    found.is_complete = walk.is_complete
    walk.forget()


def _add_buffers(found: LiveTensors, module: Any) -> None:
    """Count buffers as parameters: running means, masks, position tables."""
    for value in _values(instance_dict(module).get("_buffers")):
        if torch.Tensor in mro_of(type(value)):
            found.add_role(storage_address(value), "parameter")


def _add_state(found: LiveTensors, optimizer: Any) -> None:
    for tensor in _tensors_in(instance_dict(optimizer).get("state")):
        found.add_role(storage_address(tensor), "optimizer state")


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
