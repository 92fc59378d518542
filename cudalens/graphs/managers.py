"""The graph managers of each thread, one for each device."""

from __future__ import annotations

import threading
import weakref
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
    found = known_manager(index)
    if found is None:
        found = _managers.__dict__.setdefault("by_device", {})[index] = GraphManager(index)
    return found


def known_manager(index: int) -> GraphManager | None:
    """This thread's manager of a device; None if there is none in use.

    Args:
        index: Of the device.
    """
    known: dict[int, GraphManager] = _managers.__dict__.get("by_device", {})
    found = known.get(index)
    is_in_use = found is not None and not found.is_closed and found.backend is backend_for(index)
    return found if is_in_use else None


def limited_manager(device: int | str | torch.device | None, max_bytes: int) -> GraphManager:
    """A new manager of this thread for one function, whose pool is limited.

    Args:
        device: As for `GraphManager`.
        max_bytes: The same.

    Raises:
        GraphError: There is no such device.
    """
    found = GraphManager(device, max_bytes=max_bytes)
    limited = [ref for ref in _managers.__dict__.get("limited", ()) if ref() is not None]
    _managers.limited = [*limited, weakref.ref(found)]
    return found


def is_in_use(found: GraphManager) -> bool:
    """Whether a manager can run calls of this thread."""
    limited = (ref() for ref in _managers.__dict__.get("limited", ()))
    is_known = found is known_manager(found.device) or any(found is one for one in limited)
    return is_known and not found.is_closed and found.is_present


def managers() -> Iterator[GraphManager]:
    """This thread's managers: those that functions share, by device, then those of functions with a limit."""
    known: dict[int, GraphManager] = _managers.__dict__.get("by_device", {})
    limited = [one for ref in _managers.__dict__.get("limited", ()) if (one := ref()) is not None]
    for found in (*(known[index] for index in sorted(known)), *limited):
        if not found.is_closed and found.is_present:
            yield found


def reset() -> None:
    """Free all recordings of this thread's managers; decorated functions start with a warm-up again."""
    for found in list(managers()):
        found.reset()
    limited = (ref() for ref in _managers.__dict__.pop("limited", ()))
    for ended in (*_managers.__dict__.pop("by_device", {}).values(), *limited):
        if ended is not None:
            ended.tree.steps.end()
