"""Replace attributes of modules and classes temporarily, and restore them."""

from __future__ import annotations

import importlib.util
import types
import typing
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

import torch

from cudalens.device import interpose
from cudalens.device.interpose import ABSENT, Change, put_back
from cudalens.errors import VirtualDeviceError


class Patches:
    """Replaces attributes and items, and restores all of them in reverse order.

    An attribute that an owner inherited or did not have is deleted, so that its ``__dict__`` is as before.
    """

    def __init__(self) -> None:
        self._attributes: list[tuple[Any, str, Any]] = []
        self._items: list[tuple[MutableMapping[Any, Any], Any, Any]] = []
        self._undo: list[Callable[[], object]] = []

    def on_restore(self, undo: Callable[[], object]) -> None:
        """Register a function to call on `restore`, before the attributes are restored; last registered first."""
        self._undo.append(undo)

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replace `owner`'s own attribute `name`; returns the previous value, None if there was none."""
        before = vars(owner).get(name, ABSENT)
        setattr(owner, name, value)
        self._attributes.append((owner, name, before))
        return None if before is ABSENT else before

    def set_item(self, mapping: MutableMapping[Any, Any], key: Any, value: Any) -> None:
        """Replace an item of a mapping."""
        self._items.append((mapping, key, mapping.get(key, ABSENT)))
        mapping[key] = value

    def restore(self) -> None:
        """Restore everything; the first error is raised after everything else is restored."""
        errors: list[Exception] = []
        while self._undo or self._attributes or self._items:
            try:
                if self._undo:
                    self._undo.pop()()
                elif self._items:
                    mapping, key, value = self._items.pop()
                    if value is ABSENT:
                        mapping.pop(key, None)
                    else:
                        mapping[key] = value
                else:
                    put_back(*self._attributes.pop())
            except Exception as error:  # everything else must still be restored
                errors.append(error)
        if errors:
            raise errors[0]


def is_dummy(kind: Any) -> bool:
    """Return whether a class is a dummy of a torch build without CUDA (`torch._utils._dummy_type`)."""
    return isinstance(kind, type) and kind.__module__ == "torch._utils"


def fill(patches: Patches, kind: type, methods: dict[str, Any]) -> None:
    """Add methods to a class."""
    for name, method in methods.items():
        patches.set(kind, name, method)


def refusal(why: str) -> Callable[..., Any]:
    """Return a function that raises VirtualDeviceError for any arguments."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise VirtualDeviceError(why)

    return refuse


def fill_function(patches: Patches, name: str, function: Callable[..., Any], users: Iterable[Any]) -> None:
    """Replace a C function of ``torch._C``.

    A build without CUDA has a dummy class of that name: calling it then calls `function`, also for names imported
    earlier. In other builds the name is replaced in ``torch._C`` and in `users`, the modules that imported it.
    """
    there = getattr(torch._C, name, None)
    if is_dummy(there):
        patches.set(there, "__new__", staticmethod(lambda cls, *args, **kwargs: function(*args, **kwargs)))
        return
    for owner in (torch._C, *users):
        if owner is torch._C or hasattr(owner, name):
            patches.set(owner, name, function)


def run_source(module: types.ModuleType) -> dict[str, Any]:
    """Run a module's source again; returns its new namespace. The module itself is unchanged.

    Raises:
        VirtualDeviceError: The source is not available.
    """
    spec = importlib.util.find_spec(module.__name__)
    loader = spec.loader if spec is not None else None
    code = getattr(loader, "get_code", lambda name: None)(module.__name__)
    if code is None:
        raise VirtualDeviceError(
            f"The source of {module.__name__} is not available. In a CUDA build of torch it is needed to create the "
            "classes of a virtual device. Install torch from a wheel, or use its CPU build."
        )
    again = types.ModuleType(module.__name__)
    again.__package__ = module.__package__
    overload = typing.overload
    typing.overload = lambda func: func  # it would register the new functions instead of torch's
    try:
        exec(code, again.__dict__)  # noqa: S102 - torch's source
    finally:
        typing.overload = overload
    return again.__dict__


# Patch modules when they are imported.


def when_imported(patches: Patches, name: str, change: Change) -> None:
    """Call `change` with a module: now if it is imported, otherwise after its import.

    Args:
        patches: Undone at the end; `change` uses the same.
        name: The module's full name.
        change: Applies the patches.
    """
    patches.on_restore(interpose.when_imported(name, change))


# The installed torch version; the model follows the behaviour of that version on a GPU.


def torch_version() -> tuple[int, int]:
    """Major and minor number of the release."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)
