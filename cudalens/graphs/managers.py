"""The graph managers of each thread, one for each device."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import torch

from cudalens.graphs.backend import backend_for
from cudalens.graphs.manager import GraphManager
from cudalens.graphs.variants import device_index

_managers = threading.local()


def manager(device: int | str | torch.device | None = None) -> GraphManager:
    """This thread's manager of a device, created at the first call.

    Args:
        device: As for `GraphManager`.

    Raises:
        GraphError: There is no such device.
    """
    index = device_index(device)
    known: dict[int, GraphManager] = _managers.__dict__.setdefault("by_device", {})
    found = known.get(index)
    if found is None or found.is_closed or found.backend is not backend_for(index):
        found = known[index] = GraphManager(index)
    return found


def managers() -> Iterator[GraphManager]:
    """This thread's managers, by device."""
    known: dict[int, GraphManager] = _managers.__dict__.get("by_device", {})
    for _, found in sorted(known.items()):
        if not found.is_closed and found.is_present:
            yield found


def reset() -> None:
    """Free all recordings of this thread's managers; decorated functions start with a warm-up again."""
    for found in list(managers()):
        found.reset()
    for ended in _managers.__dict__.pop("by_device", {}).values():
        ended.tree.steps.end()
