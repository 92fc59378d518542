"""Containers by which guards look up what is no item of a dict, a list or a tuple."""

from __future__ import annotations

from types import CellType
from typing import Any


class CellItems:
    """A closure's variable, looked up like an item."""

    __slots__ = ("_cell",)

    def __init__(self, cell: CellType) -> None:
        self._cell = cell

    def __getitem__(self, key: str) -> Any:
        return self._cell.cell_contents


class AttributeItems:
    """An object's attributes where it has no ``__dict__`` that holds them."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def __getitem__(self, key: str) -> Any:
        return getattr(self._owner, key)


class Elements:
    """The elements of a set, looked up as one value."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def __getitem__(self, key: str) -> Any:
        return frozenset(self._owner)
