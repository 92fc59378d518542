"""Find the tensors in a nested result of an operator, and read an item of it by its path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def tensors_in(value: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], torch.Tensor]]:
    """Yield the tensors in a nested result, with their paths."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from tensors_in(item, (*path, index))


def item_at(value: Any, path: tuple[int, ...]) -> Any:
    """Return the item at a path of a nested result."""
    for index in path:
        value = value[index]
    return value
