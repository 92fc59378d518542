"""Restore Python values after a recording that failed in the middle of a function, which then runs without a graph."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from contextlib import suppress
from operator import is_
from typing import Any

from cudalens.graphs.guards.found import Read
from cudalens.graphs.guards.lookups import BaseItems

_MUTABLE = (OrderedDict, dict, list, deque, set)


class ContainerCopies:
    """What containers hold now, so that it can be restored.

    Args:
        containers: Dicts, lists, sets and deques, or the items of their subclasses; others are left out.
    """

    def __init__(self, containers: Iterable[Any]) -> None:
        parts = {id(owner): (owner, base) for owner, base in map(_owner_and_base, containers) if base in _MUTABLE}
        self._copies = [(owner, base, _entries(owner, base)) for owner, base in parts.values()]

    def restore(self) -> None:
        """Fill every container that holds something else with what it held."""
        for owner, base, before in self._copies:
            now = _entries(owner, base)
            if len(now) == len(before) and all(map(is_, _objects(now, base), _objects(before, base))):
                continue
            base.clear(owner)
            fill = base.update if issubclass(base, dict | set) else base.extend
            fill(owner, before)


def _owner_and_base(held: Any) -> tuple[Any, Any]:
    return (held.owner, held.base) if isinstance(held, BaseItems) else (held, type(held))


def _entries(owner: Any, base: Any) -> list[Any]:
    """The items of a dict, the elements of anything else."""
    return list(base.items(owner)) if issubclass(base, dict) else list(base.__iter__(owner))


def _objects(entries: list[Any], base: Any) -> list[Any]:
    """The elements; of a dict the keys and values, because each look-up makes another pair."""
    return [part for pair in entries for part in pair] if issubclass(base, dict) else entries


def restore_values(reads: Iterable[Read]) -> None:
    """Store values again where the program has others now: in variables, attributes and slots."""
    for read in reads:
        with suppress(LookupError, AttributeError, TypeError, ValueError, RuntimeError):
            if _now(read) is not read.value:
                read.container[read.key] = read.value


def _now(read: Read) -> Any:
    """The value now; None if there is none."""
    with suppress(LookupError, AttributeError, ValueError):
        return read.container[read.key]
    return None
