"""The tensors in the user's variables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree


def tensors_in(things: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors among `things`: also those in lists, tuples and dictionaries, and those of modules."""
    for thing in things:
        for leaf in pytree.tree_leaves(thing):
            if isinstance(leaf, torch.Tensor):
                yield leaf
            elif isinstance(leaf, torch.nn.Module):
                yield from leaf.parameters()
                yield from leaf.buffers()


def names_on_device(namespace: Mapping[str, Any]) -> list[str]:
    """Names of the variables with CUDA tensors, in order of assignment; names with an underscore are left out."""
    return [
        name
        for name, thing in namespace.items()
        if not name.startswith("_") and any(tensor.is_cuda for tensor in tensors_in([thing]))
    ]
