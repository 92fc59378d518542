"""Patches of modules that may not be imported yet: done at once where they are, else when they come."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from cudalens.virtual.patching import Patches

Change = Callable[[ModuleType], None]


def when_imported(patches: Patches, name: str, change: Change) -> None:
    """Call `change` with a module: now, or as soon as it has been imported.

    Args:
        patches: Undone at the end; `change` uses the same.
        name: The module's full name.
        change: Replaces what has to be replaced.
    """
    module = sys.modules.get(name)
    if module is not None:
        change(module)
        return
    finder = _Finder(name, change)
    sys.meta_path.insert(0, finder)
    patches.on_restore(finder.remove)


class _Finder:
    """Finds one module as everybody else would, and sees to it that it is changed after it ran."""

    def __init__(self, name: str, change: Change) -> None:
        self._name, self._change = name, change

    def remove(self) -> None:
        """Look no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """As `importlib.abc.MetaPathFinder` has it."""
        if name != self._name:
            return None
        self.remove()
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                self._change_after(spec.loader)
                return spec
        return None

    def _change_after(self, loader: Any) -> None:
        run, change = loader.exec_module, self._change

        def exec_module(module: ModuleType) -> None:
            run(module)
            change(module)

        loader.exec_module = exec_module
