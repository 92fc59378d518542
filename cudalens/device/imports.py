"""Change a module now, or when it is imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

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
