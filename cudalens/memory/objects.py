"""Read the attributes of objects without running any of their code.

A property, a ``__getattr__`` or a ``__dict__`` of the program can do anything: allocate, print, never return. The
functions here use only the C slots of Python's own types.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Final

_MRO: Final = type.__dict__["__mro__"].__get__
_CLASS_DICT: Final = type.__dict__["__dict__"].__get__
_NOTHING: Final[dict[str, Any]] = {}


def mro_of(kind: type) -> tuple[type, ...]:
    """Return a class and its bases, without calling its metaclass."""
    return _MRO(kind)


def class_dict(kind: type) -> Any:
    """Return a class's own attributes, read-only, without calling its metaclass."""
    return _CLASS_DICT(kind)


def instance_dict(thing: Any) -> dict[str, Any]:
    """Return an object's own attributes by name; empty if it has none, or if its class shadows ``__dict__``."""
    for base in mro_of(type(thing)):
        found = class_dict(base).get("__dict__")
        if found is None:
            continue
        # Python's own is a getset descriptor of that class: it runs no Python code.
        if type(found) is not types.GetSetDescriptorType:
            return _NOTHING
        try:
            attributes = found.__get__(thing)
        except (AttributeError, TypeError):
            return _NOTHING
        return attributes if type(attributes) is dict else _NOTHING
    return _NOTHING


def slots_of(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values in the ``__slots__`` of an object's classes, by name; none for classes in C."""
    for base in mro_of(type(thing)):
        own = class_dict(base)
        if "__slots__" not in own:
            continue
        for name, slot in tuple(own.items()):
            if type(slot) is types.MemberDescriptorType:
                try:
                    value = slot.__get__(thing)
                except (AttributeError, TypeError):  # not set
                    continue
                yield name, value
