"""Attributes that are replaced for a while, and put back."""

from __future__ import annotations

import importlib.util
import types
import typing
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

import torch

from cudalens.device.interpose import ABSENT, put_back
from cudalens.errors import VirtualDeviceError


class Patches:
    """Replaces attributes and items, and puts all of them back in reverse order.

    What an owner merely inherited, or did not have, is deleted again, so that its own ``__dict__`` is as it was.
    """

    def __init__(self) -> None:
        self._attributes: list[tuple[Any, str, Any]] = []
        self._items: list[tuple[MutableMapping[Any, Any], Any, Any]] = []
        self._undo: list[Callable[[], object]] = []

    def on_restore(self, undo: Callable[[], object]) -> None:
        """Have something else undone with the rest: before the attributes, the last first."""
        self._undo.append(undo)

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replace `owner`'s own attribute `name`; returns what stood there before, None where nothing did."""
        before = vars(owner).get(name, ABSENT)
        setattr(owner, name, value)
        self._attributes.append((owner, name, before))
        return None if before is ABSENT else before

    def set_item(self, mapping: MutableMapping[Any, Any], key: Any, value: Any) -> None:
        """Replace an item of a mapping."""
        self._items.append((mapping, key, mapping.get(key, ABSENT)))
        mapping[key] = value

    def restore(self) -> None:
        """Put everything back; the first error is raised after the rest has been put back."""
        errors: list[Exception] = []
        while self._undo or self._attributes or self._items:
            try:
                self._restore_last()
            except Exception as error:  # everything else still has to go back
                errors.append(error)
        if errors:
            raise errors[0]

    def _restore_last(self) -> None:
        if self._undo:
            self._undo.pop()()
            return
        if self._items:
            mapping, key, value = self._items.pop()
            if value is ABSENT:
                mapping.pop(key, None)
            else:
                mapping[key] = value
            return
        put_back(*self._attributes.pop())


def is_dummy(kind: Any) -> bool:
    """Whether a class is one that torch made for a build without CUDA (`torch._utils._dummy_type`)."""
    return isinstance(kind, type) and kind.__module__ == "torch._utils"


def fill(patches: Patches, kind: type, methods: dict[str, Any]) -> None:
    """Give a class that can be changed methods for a while."""
    for name, method in methods.items():
        patches.set(kind, name, method)


def refusal(why: str) -> Callable[..., Any]:
    """A function that raises VirtualDeviceError, whatever it is called with."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise VirtualDeviceError(why)

    return refuse


def fill_function(patches: Patches, name: str, function: Callable[..., Any], users: Iterable[Any]) -> None:
    """Put `function` in the place of a C function of ``torch._C``.

    A build without CUDA has a dummy class of that name: it is made to call `function`, which also reaches those who
    imported it. Elsewhere the name is replaced, in ``torch._C`` and in `users`, modules that imported it.
    """
    there = getattr(torch._C, name, None)
    if is_dummy(there):
        patches.set(there, "__new__", staticmethod(lambda cls, *args, **kwargs: function(*args, **kwargs)))
        return
    for owner in (torch._C, *users):
        if owner is torch._C or hasattr(owner, name):
            patches.set(owner, name, function)


def run_source(module: types.ModuleType) -> dict[str, Any]:
    """Run a module's source once more; returns what it defined. The module itself stays as it is.

    Raises:
        VirtualDeviceError: There is no source.
    """
    spec = importlib.util.find_spec(module.__name__)
    loader = spec.loader if spec is not None else None
    code = getattr(loader, "get_code", lambda name: None)(module.__name__)
    if code is None:
        raise VirtualDeviceError(
            f"The source of {module.__name__} is not at hand, which is needed to make its classes for a virtual device "
            "in a CUDA build of torch. Install torch from a wheel, or use its CPU build."
        )
    again = types.ModuleType(module.__name__)
    again.__package__ = module.__package__
    overload = typing.overload
    typing.overload = lambda func: func  # it would keep what is made here, in the place of torch's own
    try:
        exec(code, again.__dict__)  # noqa: S102 - torch's own source
    finally:
        typing.overload = overload
    return again.__dict__
