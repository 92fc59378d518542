"""Streams, events, graphs and pools that outlive their virtual device: their methods raise an error with that reason.

In a CPU build of torch, their classes lose the methods of the device at its end. The objects that still exist then get
a subclass whose methods refuse.
"""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from typing import Any, NoReturn

from cudalens.errors import VirtualDeviceError


class Handles:
    """The live torch objects of one virtual device."""

    def __init__(self) -> None:
        self._objects: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._words: dict[type, str] = {}

    def add(self, made: Any, word: str) -> None:
        """Remember an object; `word` names it in messages."""
        self._words[type(made)] = word
        self._objects[id(made)] = made

    def end(self) -> None:
        """Make the methods of the objects refuse."""
        for made in list(self._objects.values()):
            kind: type = type(made)
            made.__class__ = _ended_kind(kind, self._words[kind])
        self._objects.clear()


def refuse(word: str) -> NoReturn:
    """Refuse the use of an object.

    Raises:
        VirtualDeviceError: Always.
    """
    raise VirtualDeviceError(
        f"This {word} belongs to a virtual CUDA device that has ended. Create a new one inside the block that uses it."
    )


@functools.cache
def _ended_kind(kind: type, word: str) -> type:
    """A subclass whose public methods and properties refuse; the attributes that describe the object remain."""

    def refuse_call(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(word)

    members: dict[str, Any] = {}
    for name in [name for name in dir(kind) if not name.startswith("_")]:
        found = inspect.getattr_static(kind, name)
        if isinstance(found, types.FunctionType):
            members[name] = refuse_call
        elif isinstance(found, property):
            members[name] = property(refuse_call)
    if word == "stream":
        members["stream_id"] = property(refuse_call)  # torch.cuda.set_stream would find a stream of another device
    made = types.new_class(kind.__name__, (kind,), exec_body=lambda space: space.update(members))
    made.__module__, made.__qualname__ = kind.__module__, kind.__qualname__
    return made
