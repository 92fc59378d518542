"""Relations of outputs to other tensors (gradients, shared memory, identity), compared with a call without a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cudalens.graphs.liveness import storage_id


@dataclass(frozen=True, slots=True)
class Relations:
    """Of one output.

    Attributes:
        requires_grad: Whether it requires a gradient.
        is_leaf: Whether autograd has no history of it.
        shares_memory: The first of the other tensors that it shares memory with; None for memory of its own.
        is_same: The first of the other tensors that it is; None for an object of its own.
    """

    requires_grad: bool
    is_leaf: bool
    shares_memory: int | None
    is_same: int | None


def relations_of(outputs: Sequence[Any], others: Sequence[torch.Tensor]) -> list[Relations | None]:
    """Of each output, to `others` and to the outputs before it; None for what is no tensor."""
    found: list[Relations | None] = []
    known: list[torch.Tensor] = list(others)
    for output in outputs:
        if not isinstance(output, torch.Tensor):
            found.append(None)
            continue
        key = storage_id(output)
        shared = next((n for n, other in enumerate(known) if storage_id(other) == key), None)
        same = next((n for n, other in enumerate(known) if other is output), None)
        found.append(Relations(output.requires_grad, output.is_leaf, shared, same))
        known.append(output)
    return found


def first_difference(replayed: Sequence[Relations | None], eager: Sequence[Relations | None]) -> str | None:
    """The first output whose relations differ, in words; None if all are equal."""
    for number, (one, other) in enumerate(zip(replayed, eager, strict=True)):
        if one != other:
            return f"output {number}: {_words(one)} replayed, {_words(other)} without a graph"
    return None


def _words(relations: Relations | None) -> str:
    if relations is None:
        return "no tensor"
    parts = ["requires a gradient" if relations.requires_grad else "requires no gradient"]
    parts += ["has no history" if relations.is_leaf else "has a history"]
    parts += ["has its own memory" if relations.shares_memory is None else "shares memory"]
    parts += [] if relations.is_same is None else ["is another tensor itself"]
    return ", ".join(parts)
