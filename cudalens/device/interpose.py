"""Temporarily wrap methods of a class, removable in any order; change a module now, or when it is imported."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

Change = Callable[[ModuleType], None]


def when_imported(name: str, change: Change) -> Callable[[], None]:
    """Call `change` with a module: now, or as soon as it has been imported.

    Args:
        name: The module's full name.
        change: Changes the module.

    Returns:
        A function that cancels the wait; without effect if the module was already imported.
    """
    module = sys.modules.get(name)
    if module is not None:
        change(module)
        return _nothing
    finder = _Finder(name, change)
    sys.meta_path.insert(0, finder)
    return finder.remove


def _nothing() -> None:
    """Nothing to cancel."""


class _Finder:
    """Finds one module by the other finders, and changes it after its code has run."""

    def __init__(self, name: str, change: Change) -> None:
        self._name, self._change = name, change
        self._is_wanted = True

    def remove(self) -> None:
        """Stop waiting; a module that is being imported is not changed."""
        self._is_wanted = False
        self._leave()

    def _leave(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder.find_spec`."""
        if name != self._name:
            return None
        self._leave()
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                self._change_after(spec.loader)
                return spec
        return None

    def _change_after(self, loader: Any) -> None:
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            if self._is_wanted:
                self._change(module)

        loader.exec_module = exec_module


#: Marks an attribute that a class does not define itself.
ABSENT: Final = object()


#: Attribute of our wrappers that holds the class's previous attribute.
_WRAPPED: Final = "cudalens_wrapped"


class Interposed:
    """A method of a class that calls listeners at each call.

    Args:
        owner: The class.
        name: The method.

    Attributes:
        before: Listeners called with the arguments before the method runs, in order.
        after: Listeners called with the result and the arguments after it has returned.
    """

    def __init__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name
        self._own: Any = ABSENT
        self._method: Any = None
        self._wrapper: Any = None
        self.before: tuple[Callable[..., None], ...] = ()
        self.after: tuple[Callable[..., None], ...] = ()

    @property
    def is_in_place(self) -> bool:
        """Whether the wrapper is installed."""
        return self._wrapper is not None

    @property
    def is_outermost(self) -> bool:
        """Whether the wrapper is the class's current attribute."""
        return self._wrapper is not None and vars(self._owner).get(self._name) is self._wrapper

    def add(self, *, before: Callable[..., None] | None = None, after: Callable[..., None] | None = None) -> None:
        """Add listeners."""
        self.before += () if before is None else (before,)
        self.after += () if after is None else (after,)
        if self._wrapper is None:
            self._put()

    def remove(self, *, before: Callable[..., None] | None = None, after: Callable[..., None] | None = None) -> None:
        """Remove listeners. Without listeners the class's attribute is restored, if the wrapper is the outermost."""
        self.before = tuple(f for f in self.before if f != before)
        self.after = tuple(f for f in self.after if f != after)
        if not self.before and not self.after:
            self._take_away()

    def rest_on(self, own: Any) -> None:
        """Wrap `own` from now on: the wrapper between it and this one was removed.

        Args:
            own: The class's own attribute below this wrapper, or `ABSENT`.
        """
        while hasattr(own, _WRAPPED):  # one of our wrappers, without listeners
            own = getattr(own, _WRAPPED)
        self._own = own
        self._method = _inherited(self._owner, self._name) if own is ABSENT else own

    def tidy(self) -> None:
        """Remove the wrapper if it has no listeners: a wrapper on top of it was removed."""
        if not self.before and not self.after:
            self._take_away()

    def _put(self) -> None:
        self._own = vars(self._owner).get(self._name, ABSENT)
        self._method = getattr(self._owner, self._name)
        wrapped = self._method

        @functools.wraps(wrapped)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if self._wrapper is not wrapper:  # a newer wrapper was installed above; this one only forwards
                return wrapped(*args, **kwargs)
            for listener in self.before:
                listener(*args, **kwargs)
            result = self._method(*args, **kwargs)
            for listener in self.after:
                listener(result, *args, **kwargs)
            return result

        setattr(wrapper, _WRAPPED, self._own)
        self._wrapper = wrapper
        setattr(self._owner, self._name, wrapper)

    def _take_away(self) -> None:
        if not self.is_outermost:
            return  # another wrapper calls this one: keep forwarding
        if self._own is ABSENT:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._own)
        self._wrapper, self._method, self._own = None, None, ABSENT


def _inherited(owner: type, name: str) -> Any:
    return next(vars(base)[name] for base in owner.__mro__[1:] if name in vars(base))


_all: dict[tuple[type, str], Interposed] = {}


def interposed(owner: type, name: str) -> Interposed:
    """Return the wrapper of this method; always the same object."""
    return _all.setdefault((owner, name), Interposed(owner, name))


def put_back(owner: Any, name: str, value: Any) -> None:
    """Restore an attribute, and keep wrappers that were installed on it since.

    Args:
        owner: A class, or anything else with attributes.
        name: The attribute.
        value: Its previous value, or `ABSENT`.
    """
    wrapper = _all.get((owner, name)) if isinstance(owner, type) else None
    if wrapper is not None and wrapper.is_outermost and (wrapper.before or wrapper.after):
        wrapper.rest_on(value)
        return
    if value is ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, value)
    if wrapper is not None:
        wrapper.tidy()
