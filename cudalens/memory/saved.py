"""What autograd graphs saved for their backward pass, without unpacking it.

A saved tensor may have hooks of the program's own (``torch.autograd.graph.saved_tensors_hooks``, activation
checkpointing, offloading to the host), which run when it is unpacked: they would compute and allocate. So it is never
unpacked: torch hands out what lies there as it is. Where it cannot (torch 2.9), nothing is told of saved tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch

from cudalens.memory.objects import mro_of
from cudalens.memory.snapshot import Address, storage_address

_MAX_NODES: Final = 200_000
_PREFIX: Final = "_raw_saved_"


class SavedWalk:
    """Walks autograd graphs from the nodes that are added; each node is visited once.

    Attributes:
        leaves: Storages of tensors that are no part of any graph, for whoever tells inputs from activations.
        is_complete: All nodes were visited, and torch hands out what they saved.
    """

    def __init__(self) -> None:
        self.leaves: set[Address] = set()
        self.is_complete = can_look()
        self._pending: list[Any] = []
        self._seen: dict[int, Any] = {}  # kept alive meanwhile, so that no number is used twice
        self._names: dict[type, tuple[str, ...]] = {}

    def add(self, node: Any) -> None:
        """Walk from `node`, a tensor's ``grad_fn``, too."""
        if id(node) not in self._seen:
            self._pending.append(node)

    def forget(self) -> None:
        """Let go of the graphs."""
        self._pending.clear()
        self._seen.clear()

    def addresses(self) -> Iterator[Address]:
        """The storages that the graphs reached since the last call saved."""
        while self._pending:
            node = self._pending.pop()
            if id(node) in self._seen:
                continue
            if len(self._seen) >= _MAX_NODES:
                self.is_complete = False
                self._pending.clear()
                return
            self._seen[id(node)] = node
            yield from self._saved_by(node)
            self._pending += [after for after, _ in node.next_functions if after is not None]

    def _saved_by(self, node: Any) -> Iterator[Address]:
        if not can_look():
            return
        for name in self._names_of(type(node)):
            try:
                saved = getattr(node, name)
            except (RuntimeError, TypeError):  # freed by a backward that is over
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
    """Whether this torch hands out what was saved without unpacking it."""
    kind = getattr(getattr(torch._C, "_autograd", None), "SavedTensor", None)
    return kind is not None and hasattr(kind, "data")


def raw_tensor(saved: Any) -> torch.Tensor | None:
    """What a saved tensor holds as it lies there: of one with hooks what they made of it, where that is a tensor."""
    try:
        data = saved.data
    except (AttributeError, RuntimeError):
        return None
    return data if torch.Tensor in mro_of(type(data)) else None
