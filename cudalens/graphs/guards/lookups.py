"""Containers by which guards look up what is no item of a dict, a list or a tuple."""

from __future__ import annotations

import os
import weakref
from contextvars import ContextVar
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


class Environment:
    """Environment variables; None for one that is not set."""

    __slots__ = ()

    def __getitem__(self, key: str) -> str | None:
        return os.environ.get(key)


class ContextValue:
    """The value of a ContextVar in the current context; None where it has none."""

    __slots__ = ("_variable",)

    def __init__(self, variable: ContextVar[Any]) -> None:
        self._variable = variable

    def __getitem__(self, key: str) -> Any:
        try:
            return self._variable.get()
        except LookupError:
            return None


class CacheMisses:
    """How often a function under ``functools.lru_cache`` was computed: another number means other results."""

    __slots__ = ("_function",)

    def __init__(self, function: Any) -> None:
        self._function = function

    def __getitem__(self, key: str) -> int:
        return int(self._function.cache_info().misses)


class Contents:
    """The bytes of a buffer: a NumPy array, a bytearray, an ``array.array``."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def __getitem__(self, key: str) -> bytes:
        return bytes(memoryview(self._owner).tobytes())


class NumpyState:
    """The state of a NumPy random number generator, as text."""

    __slots__ = ("_bit_generator",)

    def __init__(self, bit_generator: Any) -> None:
        self._bit_generator = bit_generator

    def __getitem__(self, key: str) -> str:
        return repr(self._bit_generator.state)


class Referent:
    """What a weak reference refers to; None after it was freed."""

    __slots__ = ("_reference",)

    def __init__(self, reference: weakref.ref[Any]) -> None:
        self._reference = reference

    def __getitem__(self, key: str) -> Any:
        return self._reference()


class Written:
    """The contents of an ``io.StringIO`` or ``io.BytesIO``."""

    __slots__ = ("_file",)

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getitem__(self, key: str) -> Any:
        return self._file.getvalue()
