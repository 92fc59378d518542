"""Patches of modules that may not be imported yet: done at once where they are, else when they come."""

from __future__ import annotations

from cudalens.device import imports
from cudalens.device.imports import Change
from cudalens.virtual.patching import Patches


def when_imported(patches: Patches, name: str, change: Change) -> None:
    """Call `change` with a module: now, or as soon as it has been imported.

    Args:
        patches: Undone at the end; `change` uses the same.
        name: The module's full name.
        change: Replaces what has to be replaced.
    """
    patches.on_restore(imports.when_imported(name, change))
